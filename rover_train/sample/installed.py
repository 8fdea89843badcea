"""The installed policy `hf:MODEL`: `rover run --policy hf:FOLDER`. Nothing heavy is imported before it is asked for."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rover.policy.protocol import Policy
from rover_store.errors import UsageError
from rover_train.render.settings import RenderSettings

if TYPE_CHECKING:
    from rover_train.config import Config

#: a turn of a model that no run of ours made
TURN_TOKENS = 512


def hf(model: str, *, temperature: float = 1.0) -> Policy:
    """The policy of a model: a folder that transformers loads, a run or checkpoint of ours (which also brings its
    rendering), FILE.gguf, `smollm2` or `small:FOLDER`. UsageError where there is none, or torch is not installed."""
    if not model:
        raise UsageError("hf: needs a model, hf:FOLDER")
    if find_spec("torch") is None or find_spec("transformers") is None:
        raise UsageError(f"hf:{model}: torch is not installed", hint="pip install 'workrover[train]'")
    return _policy(model, temperature)


@lru_cache(maxsize=1)  # asked for once a package
def _policy(model: str, temperature: float) -> Policy:
    from rover_train.models import load, weights_id
    from rover_train.sample.policy import ModelPolicy
    from rover_train.sample.sampler import Sampler

    config = _config_of(Path(model))
    turn = TURN_TOKENS if config is None else config.rl.max_turn_tokens
    loaded = load(model)
    renderer = loaded.renderer(RenderSettings() if config is None else config.render)
    sampler = Sampler(loaded.model, renderer, temperature=temperature, max_turn_tokens=turn)
    parts = ("hf", loaded.name, weights_id(loaded.model)[:16], sampler.sampling.name, renderer.id)
    return ModelPolicy(sampler, ":".join(parts))


def _config_of(path: Path) -> Config | None:
    """The config of the run that the path is, or is a checkpoint of."""
    from rover_train.config import load

    if not path.exists():
        return None
    for folder in (path, *path.resolve().parents[:2]):
        if (folder / "config.toml").is_file() and (folder / "checkpoints").is_dir():
            return load(folder / "config.toml")
    return None
