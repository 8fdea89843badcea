"""The client against a real vLLM server; `.ci/vllm` runs it, the test suite does not.

    python tests/vllm_live.py prepare FOLDER      a small model in FOLDER/model, adapters in FOLDER/step-1 and step-2
    python tests/vllm_live.py check FOLDER URL    rollouts by the server that serves it as `small`
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import small_lanes as lanes
import tiny_rl
import torch

from rover_train import models
from rover_train.render.settings import RenderSettings
from rover_train.sample.sampler import Sampler
from rover_train.sample.vllm import VllmSampler
from rover_train.train.settings import LoraSettings

ASKS = ["one", "two", "a longer request than the others", "four", "five", "six"]
SETTINGS = RenderSettings(window=400, observation_tokens=40)


def adapted(folder: Path, step: int) -> models.Loaded:
    loaded = models.load(str(folder / "model"), lora=LoraSettings(rank=8, scaling=16))
    torch.manual_seed(step)
    with torch.no_grad():
        for name, weight in loaded.model.named_parameters():
            if "lora_B" in name:
                weight.normal_(0.0, 0.2)
    return loaded


def prepare(folder: Path) -> None:
    tiny_rl.model_folder(folder / "model", width=64)
    for step in (1, 2):
        models.save_adapter(adapted(folder, step), folder / f"step-{step}")


def check(folder: Path, url: str) -> None:
    loaded = models.load(str(folder / "model"))
    for temperature, top_p in ((1.0, 1.0), (0.7, 1.0), (0.0, 1.0)):
        actor = _actor(loaded, url, temperature=temperature, top_p=top_p)
        actor.check()
        sessions = _played(actor)
        if temperature == 1.0:
            _say("log-probabilities differ by at most", lanes.worst_difference(loaded.model, sessions), 1e-3)
        if temperature == 0.0:
            here = Sampler(loaded.model, actor.renderer, temperature=0.0, max_turn_tokens=16)
            assert [lanes.written(s) for s in lanes.play(here, ASKS, turns=4)] == [lanes.written(s) for s in sessions]
        actor.close()
    actor = _actor(loaded, url)
    for step in (1, 2):
        actor.load_adapter(folder / f"step-{step}")
        _say(f"with adapter {step}", lanes.worst_difference(adapted(folder, step).model, _played(actor)), 1e-3)
    actor.close()


def _actor(loaded: models.Loaded, url: str, **settings: Any) -> VllmSampler:
    return VllmSampler(url, "small", loaded.renderer(SETTINGS), max_turn_tokens=16, **settings)


def _played(actor: VllmSampler) -> list[Any]:
    sessions: list[Any] = lanes.play(actor, ASKS, turns=4)
    failed = [s.error for s in sessions if s.error is not None and "cut" not in str(s.error)]
    assert not failed, failed
    assert actor.sampled > 50
    return sessions


def _say(what: str, found: float, most: float) -> None:
    print(f"{what}: {found:.1e}")
    assert found <= most


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "prepare":
        prepare(Path(sys.argv[2]))
    else:
        check(Path(sys.argv[2]), sys.argv[3])
