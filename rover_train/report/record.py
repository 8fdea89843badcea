"""What a page of a run is made from: the files of the run's folder, read as they are, whatever wrote them.

    RUN/config.toml, run.json, split.json, log.jsonl    see rover_train.train.run
    RUN/samples/step-000012.json                        rollouts of a step with their credit: a list of Sample
    RUN/evaluations/NAME.json                           what `rover eval` found of the run

A file that is missing or broken off is left out of the page, and said so; a folder without config.toml is no run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from rover_store.errors import NotFound, PackageError
from rover_train.evaluation import FOLDER, Evaluation, kept_in

#: rollouts that a page shows; of more, the first and last and evenly between
MOST_SAMPLES = 24


class Lenient(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class SampleCall(Lenient):
    """A tool call and the beginning of its output."""

    tool: str
    arguments: dict[str, Any] = {}
    status: str = "ok"
    output: str = ""


class SampleTurn(Lenient):
    """One turn and what it was worth. `progress` p and `credit` delta are absent under a scheme that has none."""

    message: str = ""
    calls: tuple[SampleCall, ...] = ()
    advantage: float
    progress: float | None = None
    credit: float | None = None
    uses: tuple[int, ...] = ()
    cost: float = 0.0


class Sample(Lenient):
    """One rollout of training with its credit. `gate` is G, `intact` H."""

    step: int
    package: str
    rollout: str = ""
    method: str = ""
    outcome: str
    reward: float
    advantage: float
    gate: int = 1
    intact: int = 1
    instruction: str = ""
    final_message: str = ""
    turns: tuple[SampleTurn, ...] = ()


@dataclass(frozen=True, slots=True)
class RunFiles:
    """A run's folder, read. `config` is the text of config.toml; `missing` says in words what could not be read."""

    name: str
    config: str
    settings: dict[str, Any]
    facts: dict[str, Any] = field(default_factory=dict)
    split: dict[str, Any] = field(default_factory=dict)
    log: tuple[dict[str, Any], ...] = ()
    samples: tuple[Sample, ...] = ()
    samples_left: int = 0
    evaluations: tuple[tuple[str, Evaluation], ...] = ()
    missing: tuple[str, ...] = ()

    def rows(self, kind: str) -> list[dict[str, Any]]:
        """The rows of the log of one kind: train, eval, warning."""
        return [row for row in self.log if row.get("kind") == kind]


def read(folder: Path) -> RunFiles:
    """Read a run. NotFound where there is none, PackageError where its config.toml is no TOML."""
    import tomllib

    file = folder / "config.toml"
    if not file.is_file():
        raise NotFound("run", str(folder), hint="a run's folder holds config.toml; `rover train --out RUN` makes one")
    try:
        text = file.read_text(encoding="utf-8")
        settings = tomllib.loads(text)
    except ValueError as error:  # TOMLDecodeError and UnicodeDecodeError
        raise PackageError(str(file), "", f"cannot be read: {error}") from None
    missing: list[str] = []
    samples, left = _samples(folder / "samples", missing)
    evaluations, unread = kept_in(folder)
    missing += [f"{FOLDER}/{name} cannot be read" for name in unread]
    return RunFiles(
        name=folder.absolute().name, config=text, settings=settings,
        facts=_object(folder / "run.json", missing), split=_object(folder / "split.json", missing),
        log=tuple(_log(folder / "log.jsonl", missing)), samples=samples, samples_left=left,
        evaluations=tuple(evaluations), missing=tuple(missing),
    )  # fmt: skip


def _object(file: Path, missing: list[str]) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(found, dict):
            return found
        missing.append(f"{file.name} is no JSON object")
    except (OSError, ValueError, RecursionError):
        missing.append(f"{file.name} cannot be read")
    return {}


def _log(file: Path, missing: list[str]) -> Iterator[dict[str, Any]]:
    """Rows with a kind and a step. A last line that broke off is passed over in silence: the run goes on."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    except OSError:
        missing.append("log.jsonl cannot be read")
        return
    broken = 0
    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            broken += line.endswith("\n")
            continue
        step = row.get("step") if isinstance(row, dict) else None
        if isinstance(step, int) and 0 <= step < 1 << 53 and isinstance(row.get("kind"), str):
            yield row
        else:
            broken += 1
    if broken:
        missing.append(f"{broken} lines of log.jsonl cannot be read")


def _samples(folder: Path, missing: list[str]) -> tuple[tuple[Sample, ...], int]:
    """Samples by step, at most so many as a page shows, and how many there are beside."""
    files = sorted(folder.glob("*.json"))
    chosen = spread(files, MOST_SAMPLES)
    found: list[Sample] = []
    left = 0
    for file in chosen:
        try:
            listed = json.loads(file.read_text(encoding="utf-8"))
            found += [Sample.model_validate(one) for one in listed]
        except (OSError, ValueError, TypeError, RecursionError, ValidationError):
            missing.append(f"samples/{file.name} cannot be read")
    found.sort(key=lambda s: s.step)
    shown = spread(found, MOST_SAMPLES)
    left = len(found) - len(shown) + (len(files) - len(chosen)) * (len(found) // max(1, len(chosen)))
    return tuple(shown), left


def spread(items: list[Any], most: int) -> list[Any]:
    """At most so many of them, evenly, the first and the last among them."""
    if len(items) <= most:
        return items
    return [items[round(n * (len(items) - 1) / (most - 1))] for n in range(most)]
