"""What an evolution has done so far: generations, packages, measures; and the file that keeps it over an interrupt.

The file lies in the store's folder, evolve/RUN.json, beside the repositories: it holds nothing that could not be
made again. The name of a run is the digest of where it began and what it runs.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rover_store.errors import StoreError, UsageError

if TYPE_CHECKING:
    from rover_store.store import Store

VERSION = 1


@dataclass(frozen=True, slots=True)
class Score:
    """What the policy did on one package: attempts that say something of it, and how many of them passed."""

    passed: int
    attempts: int


@dataclass(frozen=True, slots=True)
class Treated:
    """What became of one package in one generation. `tree`: as it was examined.

    `audited`: True where a sealed audit held, False where it vetoed, None where none was asked. `admitted`: whether a
    repaired package passed the admission test again; None where it has no family to hold one. One that fails it is
    not repaired.
    `carried`: nothing of it had changed since the generation before, so it was not looked at again.
    """

    package: str
    tree: str
    verdict: str
    outcome: str
    reason: str = ""
    case: str = ""
    edits: str = ""  # CT
    joint: bool | None = None
    changed: tuple[str, ...] = ()
    audited: bool | None = None
    admitted: bool | None = None
    carried: bool = False

    @property
    def triggered(self) -> bool:
        """An environment defect that the package did not pass every gate with."""
        return self.verdict == "environment" and self.outcome != "abstained"

    @property
    def repaired(self) -> bool:
        return self.outcome == "promoted"

    @property
    def resolved(self) -> bool:
        """Repaired, and held by the sealed audit."""
        return self.repaired and self.audited is True


@dataclass(slots=True)
class Generation:
    """One generation. `base` and `head`: where its branch began and ended; `head` is empty until it is whole.

    `made`: its branch was made.
    """

    number: int
    branch: str
    base: str
    head: str = ""
    made: bool = False
    before: dict[str, Score] = field(default_factory=dict)
    after: dict[str, Score] = field(default_factory=dict)
    treated: dict[str, Treated] = field(default_factory=dict)
    rollouts_run: int = 0
    rollouts_reused: int = 0
    tokens: int = 0

    @property
    def triggered(self) -> int:
        return sum(t.triggered for t in self.treated.values())

    @property
    def repaired(self) -> int:
        return sum(t.repaired for t in self.treated.values())

    @property
    def resolved(self) -> int:
        return sum(t.resolved for t in self.treated.values())

    @property
    def changed(self) -> tuple[str, ...]:
        """Packages with a changed version: those repaired, and siblings that a repair changed with them."""
        nodes = (n for t in self.treated.values() if t.repaired for n in t.changed)
        return tuple(sorted({n.partition("/")[0] for n in nodes if not n.startswith("resources/")}))

    @property
    def srr(self) -> float | None:
        """Safe Resolution Rate: resolved, of those triggered. None where nothing was."""
        return self.resolved / self.triggered if self.triggered else None

    @property
    def audit_pass(self) -> float | None:
        """Sealed audits that held, of those that were asked."""
        asked = [t.audited for t in self.treated.values() if t.audited is not None]
        return sum(asked) / len(asked) if asked else None

    @property
    def success_before(self) -> float | None:
        return success(self.before)

    @property
    def success(self) -> float | None:
        """Task success at its end."""
        return success(self.after)

    def measures(self) -> dict[str, Any]:
        """All of it as JSON, with what the command's table shows."""
        packages = [{**asdict(t), "resolved": t.resolved} for t in self.treated.values()]
        return {
            "generation": self.number,
            "branch": self.branch,
            "base": self.base,
            "head": self.head,
            "packages": len(self.treated),
            "triggered": self.triggered,
            "repaired": self.repaired,
            "resolved": self.resolved,
            "srr": self.srr,
            "audit_pass": self.audit_pass,
            "success_before": self.success_before,
            "success": self.success,
            "changed": list(self.changed),
            "rollouts_run": self.rollouts_run,
            "rollouts_reused": self.rollouts_reused,
            "tokens": self.tokens,
            "treated": packages,
        }


def success(scores: dict[str, Score]) -> float | None:
    """The mean over packages of how often the policy passed; packages without a countable attempt are left out."""
    rates = [s.passed / s.attempts for s in scores.values() if s.attempts]
    return sum(rates) / len(rates) if rates else None


@dataclass(slots=True)
class Run:
    """An evolution. `branch`: the one it began on; `stopped` says by which rule it ended, empty while it may go on."""

    id: str
    branch: str
    start: str
    generations: list[Generation] = field(default_factory=list)
    stopped: str = ""
    unfit: dict[str, str] = field(default_factory=dict)  # package -> why the policy cannot run on it

    @property
    def head(self) -> str:
        """Where the last whole generation ended."""
        whole = [g.head for g in self.generations if g.head]
        return whole[-1] if whole else self.start

    def srr_so_far(self, number: int) -> float | None:
        """Of all packages that were triggered up to a generation, those resolved and not triggered again."""
        state: dict[str, bool] = {}
        for generation in self.generations[:number]:
            state.update({n: t.resolved for n, t in generation.treated.items() if t.triggered})
        return sum(state.values()) / len(state) if state else None

    @property
    def rollouts_run(self) -> int:
        return sum(g.rollouts_run for g in self.generations)

    @property
    def tokens(self) -> int:
        return sum(g.tokens for g in self.generations)


class Journal:
    """The file of one run."""

    def __init__(self, store: Store, run: str) -> None:
        self.path = store.folder / "evolve" / f"{run}.json"

    @contextmanager
    def held(self) -> Iterator[None]:
        """One process at a time. UsageError where another one is at it."""
        self.path.parent.mkdir(exist_ok=True)
        with open(self.path.with_suffix(".lock"), "w", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise UsageError("this evolution runs already, in another process") from None
            yield

    def read(self) -> Run | None:
        """What was kept, None where nothing was. StoreError where the file is none of ours."""
        try:
            value = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise self._broken(str(error)) from None
        try:
            if value.pop("schema_version") != VERSION:
                raise self._broken("written by another version of rover")
            return _run(value)
        except (KeyError, TypeError, AttributeError) as error:
            raise self._broken(f"{type(error).__name__}: {error}") from None

    def write(self, run: Run) -> None:
        """Keep it, whole or not at all."""
        text = json.dumps({"schema_version": VERSION, **asdict(run)}, indent=1, ensure_ascii=False)
        beside = self.path.with_suffix(f".{os.getpid()}.new")
        with open(beside, "w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, self.path)

    def _broken(self, why: str) -> StoreError:
        hint = f"remove {Path('.rover') / 'evolve' / self.path.name}; the rollouts are kept, and it begins again"
        return StoreError(f"{self.path}: {why}", hint=hint)


def _run(value: dict[str, Any]) -> Run:
    return Run(**{**value, "generations": [_generation(g) for g in value["generations"]]})


def _generation(value: dict[str, Any]) -> Generation:
    scores = {key: {n: Score(**s) for n, s in value[key].items()} for key in ("before", "after")}
    treated = {n: _treated(t) for n, t in value["treated"].items()}
    return Generation(**{**value, **scores, "treated": treated})


def _treated(value: dict[str, Any]) -> Treated:
    known = {f.name for f in fields(Treated)}
    if set(value) - known:
        raise KeyError(f"unknown field {min(set(value) - known)}")
    return Treated(**{**value, "changed": tuple(value.get("changed", ()))})
