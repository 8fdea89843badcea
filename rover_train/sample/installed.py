"""The installed policy `hf:MODEL`: `rover run --policy hf:FOLDER`. Nothing heavy is imported before it is asked for."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from rover.policy.protocol import Policy
from rover_store.errors import UsageError
from rover_train.sample.settings import TURN_TOKENS


def hf(model: str, *, temperature: float = 1.0, tokens: bool = False) -> Policy:
    """The policy of a model: a folder that transformers loads, a run or checkpoint of ours (which also brings its
    rendering), FILE.gguf, `smollm2` or `small:FOLDER`. `tokens`: its turns tell what was read and sampled. UsageError
    where there is none, or torch is not installed."""
    if not model:
        raise UsageError("hf: needs a model, hf:FOLDER")
    if find_spec("torch") is None or find_spec("transformers") is None:
        raise UsageError(f"hf:{model}: torch is not installed", hint="pip install 'workrover[train]'")
    return _policy(model, temperature, tokens)


@lru_cache(maxsize=1)  # asked for once a package
def _policy(model: str, temperature: float, tokens: bool) -> Policy:
    from rover_train.config import Config, load, made
    from rover_train.models import load as load_model
    from rover_train.rl.players import OwnPlayer
    from rover_train.sample.policy import ModelPolicy
    from rover_train.train.checkpoint import run_of

    run = run_of(Path(model))
    config: Config = made({"rl": {"max_turn_tokens": TURN_TOKENS}}) if run is None else load(run / "config.toml")
    loaded = load_model(model, dtype=config.model.dtype, device=config.model.device)
    turn = config.rl.max_turn_tokens
    renderer = loaded.renderer(config.render, turn_tokens=turn)
    player = OwnPlayer(loaded, renderer, temperature=temperature, max_turn_tokens=turn)
    policy, actor = player.ready(0)
    return ModelPolicy(actor, policy.id, tokens=tokens)
