"""Trackers: the numbers of the log, told on through a tracker's own library, into the run's folder."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rover_store.errors import UsageError
from rover_train.config import Config
from rover_train.train.log import Told

#: tracker -> the module that must be there
_MODULES = {"tensorboard": "tensorboard", "trackio": "trackio"}


def check(config: Config) -> None:
    """UsageError where a wanted tracker is not installed."""
    for name in config.log.trackers:
        if find_spec(_MODULES[name]) is None:
            raise UsageError(f"log.trackers names {name}, which is not installed", hint=f"pip install {_MODULES[name]}")


def trackers(config: Config, out: Path, *, step: int = 0) -> list[Told]:
    """One listener for each tracker of the config. `step`: where a resumed run goes on."""
    check(config)
    made = {"tensorboard": _tensorboard, "trackio": _trackio}
    return [made[name](config, out, step) for name in config.log.trackers]


def numbers(row: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """The numbers of a row by name, nested ones with their path; `step` is not among them."""
    for key, value in row.items():
        if isinstance(value, Mapping):
            yield from numbers(value, f"{prefix}{key}/")
        elif isinstance(value, int | float) and not isinstance(value, bool) and (prefix or key != "step"):
            yield f"{prefix}{key}", float(value)


def _tensorboard(config: Config, out: Path, step: int) -> Told:
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(out / "tensorboard"), purge_step=step + 1 if step else None)

    def told(row: Mapping[str, Any]) -> None:
        for name, value in numbers(row):
            writer.add_scalar(f"{row['kind']}/{name}", value, row["step"])
        writer.flush()

    return told


def _trackio(config: Config, out: Path, step: int) -> Told:
    os.environ.setdefault("TRACKIO_DIR", str((out / "trackio").absolute()))
    import trackio

    def finish() -> None:
        with redirect_stdout(sys.stderr):
            trackio.finish()

    with redirect_stdout(sys.stderr):  # it greets on stdout, which is for data
        trackio.init(
            project=out.absolute().name, name=config.digest()[:12], config=config.model_dump(mode="json"),
            resume="allow" if step else "never",
        )  # fmt: skip
    atexit.register(finish)

    def told(row: Mapping[str, Any]) -> None:
        trackio.log({f"{row['kind']}/{name}": value for name, value in numbers(row)}, step=row["step"])

    return told
