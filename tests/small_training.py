"""A model that trains in milliseconds, rows for it, and a run of fine-tuning on them.

`python tests/small_training.py FOLDER` is the kill drill: it loads torch once, and forks a process for each training
that kills itself, or is killed, with SIGKILL. It prints one JSON line a run.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.utils.logging import disable_progress_bar

from rover_train.config import Config
from rover_train.rows import Row
from rover_train.train import run as runs
from rover_train.train.checkpoint import State, latest
from rover_train.train.disk import Disk, Filler
from rover_train.train.settings import CheckpointSettings, EvalSettings, ModelSettings, OptimSettings, SftSettings
from rover_train.train.sft import Data, Sft

disable_progress_bar()
REVISION = "5" * 40
VOCABULARY = 64


def model(seed: int = 0) -> LlamaForCausalLM:
    """One layer, width 32."""
    torch.manual_seed(seed)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2,
            num_key_value_heads=1, max_position_embeddings=128, tie_word_embeddings=True, attention_dropout=0.1,
        )
    )  # fmt: skip


def rows(count: int, seed: int = 0) -> list[Row]:
    """Rows in which every written token is its predecessor plus one: learnable in a few steps."""
    draw = random.Random(seed)
    out = []
    for n in range(count):
        prompt = [draw.randrange(VOCABULARY) for _ in range(draw.randrange(2, 6))]
        written = [(prompt[-1] + 1 + k) % VOCABULARY for k in range(draw.randrange(3, 12))]
        mask = [0] * len(prompt) + [1] * len(written)
        turn = [-1] * len(prompt) + [0] * len(written)
        ids = prompt + written
        out.append(Row(ids, mask, turn, [0.0] * len(ids), rollout=f"r{n}", package=f"p{n}"))
    return out


DATA = Data(tuple(rows(24)), tuple(rows(6, 1)), evidence=("e1", "e2"))


def config(**sections: Mapping[str, Any]) -> Config:
    """Five steps, a checkpoint every two, an evaluation every three."""
    made = Config(
        revision=REVISION, seed=7, model=ModelSettings(device="cpu"), optim=OptimSettings(name="muon", lr=1e-2),
        sft=SftSettings(steps=5, batch_size=4, pass_tokens=40), eval=EvalSettings(every=3, select="loss"),
        checkpoint=CheckpointSettings(every=2, keep_last=1),
    )  # fmt: skip
    return Config.model_validate(made.model_dump(by_alias=True) | {
        name: {**getattr(made, name).model_dump(by_alias=True), **dict(values)} for name, values in sections.items()
    })  # fmt: skip


def train(
    folder: Path, settings: Config | None = None, *, disk: Disk | None = None, data: Data = DATA,
    stop: Callable[[], bool] = lambda: False, make: Callable[[], Any] = model, **options: Any,
) -> State:  # fmt: skip
    """Begin the run of this folder, or go on with it, to its end."""
    settings = settings or config()
    again = (folder / "config.toml").exists()
    run = (
        runs.resume(folder, expect=settings, disk=disk)
        if again
        else runs.begin(folder, settings, split={"train": []}, facts={"versions": {}}, disk=disk)
    )
    own = make()
    with run:
        run.open_log()
        return Sft(run, own, data, write_model=own.save_pretrained, **options).train(stop)




def left(folder: Path) -> dict[str, Any]:
    """All that a run learnt and said: sha256 of every file of its newest checkpoint, and its log without times."""
    newest = latest(folder)
    assert newest is not None
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return {
        "files": json.loads((newest / "state.json").read_bytes())["files"],
        "log": [{k: v for k, v in row.items() if k != "time"} for row in log],
        "steps": sorted(p.name for p in newest.parent.iterdir()),
    }


class Counting(Disk):
    """Does something at one of the disk's steps: `act` is called before the step of number `at`, from 0."""

    def __init__(self, at: int = -1, act: Callable[[], object] = lambda: None) -> None:
        self.count = 0
        self.at, self.act = at, act

    def _step(self) -> None:
        self.count += 1
        if self.count - 1 == self.at:
            self.act()

    def write(self, path: Path, content: bytes | Filler) -> None:
        self._step()
        super().write(path, content)

    def sync(self, path: Path) -> None:
        self._step()
        super().sync(path)

    def rename(self, source: Path, target: Path) -> None:
        self._step()
        super().rename(source, target)

    def remove(self, folder: Path) -> None:
        self._step()
        super().remove(folder)


# --- the drill -----------------------------------------------------------------------------------------------


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def forked(work: Callable[[], object], after: float = 0.0) -> bool:
    """Run in a process of its own, killed after some seconds where given. Whether it came to its end."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    if after:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    assert not (os.WIFEXITED(status) and os.WEXITSTATUS(status)), status
    return os.WIFEXITED(status)


def drill(folder: Path) -> None:
    """Kill at steps of the disk, each run three times before it may end; then at moments that nobody chose."""
    began = time.monotonic()
    forked(lambda: _whole(folder / "whole"))
    spent = time.monotonic() - began
    whole = left(folder / "whole")
    count = int((folder / "whole" / "count").read_text())
    for at in range(0, count, 6):
        place = folder / f"killed-{at}"
        ends = [forked(lambda n=n, p=place: train(p, disk=Counting(n, killed))) for n in (at, (at * 7) % 29, at % 13)]
        _went_on("at a step", place, ends, whole)
    draw = random.Random(3)
    for number in range(4):
        place = folder / f"struck-{number}"
        ends = [forked(lambda p=place: train(p), draw.uniform(0.02, spent)) for _ in range(3)]
        _went_on("at a moment", place, ends, whole)


def _whole(folder: Path) -> None:
    counting = Counting()
    train(folder, disk=counting)
    (folder / "count").write_text(str(counting.count))


def _went_on(kind: str, place: Path, ends: list[bool], whole: dict[str, Any]) -> None:
    ends.append(forked(lambda: train(place)))
    print(json.dumps({"kind": kind, "ends": ends, "same": left(place) == whole}), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    drill(Path(sys.argv[1]))
