"""One case of a suite, run blindly: what FCR and the other methods make of a package at a commit.

Nothing here knows what was done to the package: a job names a store, a commit, a package and the rollouts of agents
that go with it. The manifest stays with the bench, which compares afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rover.bench.counting import Counting
from rover.bench.suites.decoys import play
from rover.bench.suites.manifest import AgentRun
from rover.construct.rebuild import rebuild_verifier
from rover.diagnose.protocol import Recorded
from rover.repair import baselines, fcr
from rover.repair.case import Lattice, run_case
from rover.repair.drafts import by_hand
from rover.repair.history import view
from rover.repair.proposals.protocol import Draft
from rover.repair.regenerate import regenerate
from rover.repair.session import CaseRequest, Considered, Measured, consider, measure
from rover.rollout.engine import Engine
from rover.rollout.env import load_env
from rover_store.ids import BIT
from rover_store.records import Diagnosis

if TYPE_CHECKING:
    from rover_store.store import Store

#: first word of what `consider` tells when another of its steps begins -> the phase under which rollouts are counted
STEPS = {
    "diagnose": "diagnosis", "propose": "proposals", "behind": "proposals", "build": "selection",
    "confirm": "confirmation",
}  # fmt: skip
#: what every method on the same proposals needs before it can begin, and what FCR needs beside
BEFORE = ("diagnosis", "proposals")
OWN = (*BEFORE, "selection", "confirmation")
GATES = ("resolved", "intent", "boundary", "verifier", "siblings", "audit")


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker is told of a case. `runs` are (policy, seed) of agents; `given` is component -> folder.

    Jobs with one `share` that follow each other use one engine: cases of one package in which agents failed.
    """

    case: str
    store: str
    commit: str
    package: str
    runs: tuple[tuple[str, int], ...] = ()
    given: Mapping[str, str] | None = None
    without: tuple[str, ...] = ()
    seed: int = 0
    seeds: int = 1
    styles: int = 1
    exhaustive: bool = False
    baselines: bool = True
    share: str = ""


def run(store: Store, engine: Engine, count: Counting, job: Job, tell: Callable[[str], None]) -> dict[str, Any]:
    """The case as JSON. `engine` must keep its evidence in `count`."""
    return _Case(store, engine, count, job, tell).run()


class _Case:
    def __init__(
        self, store: Store, engine: Engine, count: Counting, job: Job, tell: Callable[[str], None]
    ) -> None:
        self.store, self.engine, self.count, self.job, self.tell = store, engine, count, job, tell
        self.measured: dict[int, Measured] = {}
        self.spent: dict[str, float] = {}
        self.considered = False

    def run(self) -> dict[str, Any]:
        found = self._timed("fcr", self._consider)
        self.considered = True
        self.count.phase = ""
        out = self._told(found)
        lattice = found.lattice
        if lattice is not None:
            out["lattice"] = [self._combination(c.model_dump(mode="json")) for c in found.record.candidates]
            out["joint"] = self._timed("joint", partial(self._joint, lattice))
            out["evaluated"] = list(lattice.selection.evaluated)
        out["methods"] = self._methods(found)
        if self.job.exhaustive and lattice is not None:
            out["exhaustive"] = self._timed("exhaustive", partial(self._exhaustive, found))
        phases = {p: self.count.rollouts(p) for p in OWN}
        out["rollouts"] = {**phases, "all": self.count.rollouts(*phases)}
        out["seconds"] = {name: round(value, 3) for name, value in self.spent.items()}
        return out

    # --- FCR ---------------------------------------------------------------------------------------------
    def _consider(self) -> Considered:
        job = self.job
        request = CaseRequest(
            package=job.package,
            commit=job.commit,
            seed=job.seed,
            seeds=job.seeds,
            given=self._given(),
            recorded=self._recorded(),
            without=frozenset(job.without),
            styles=job.styles,
        )
        return consider(self.store, self.engine, request, self._step)

    def _step(self, text: str) -> None:
        if not self.considered:  # measuring confirms as well, at nobody's cost
            self.count.phase = STEPS.get(text.partition(" ")[0], self.count.phase)
        self.tell(text)

    def _given(self) -> tuple[Draft, ...]:
        if not self.job.given:
            return ()
        env = load_env(self.store, self.store.package(self.job.package, self.job.commit).tree)
        seen = view(self.store, env, self.job.commit, self.engine)
        return tuple(by_hand(self.store, seen, c, Path(folder)) for c, folder in sorted(self.job.given.items()))

    def _recorded(self) -> tuple[Recorded, ...]:
        """The rollouts of agents that go with the case, run here: a suite holds packages alone."""
        if not self.job.runs:
            return ()
        env = load_env(self.store, self.store.package(self.job.package, self.job.commit).tree)
        with self.count.during("agents"):
            made = play(self.engine, env, [AgentRun(policy=policy, seed=seed) for policy, seed in self.job.runs])
        return tuple(Recorded(result.id, result.trajectory, verdict) for result, verdict in made)

    def _told(self, found: Considered) -> dict[str, Any]:
        record = found.record
        selected = found.lattice.selection.selected if found.lattice else None
        return {
            "case": self.job.case,
            "package": self.job.package,
            "diagnosis": diagnosed(found.diagnosis),
            "outcome": record.outcome,
            "reason": record.reason,
            "intent": found.intent.origin if found.intent else "",
            "proposals": [p.record.model_dump(mode="json") for p in found.proposals],
            "selected": selected.mask if selected else None,
            "control_passed": bool(found.lattice and found.lattice.selection.control_passed),
            "confirmation": [g.model_dump(mode="json") for g in record.confirmation],
        }

    @staticmethod
    def _combination(row: dict[str, Any]) -> dict[str, Any]:
        kept = ("mask", "status", "gates", "cost", "changed", "rebuilt", "rollouts_run", "rollouts_reused")
        return {name: row[name] for name in kept}

    # --- the methods on the same proposals ---------------------------------------------------------------
    def _methods(self, found: Considered) -> dict[str, Any]:
        lattice = found.lattice
        kept = lattice is not None and lattice.confirmed
        mask = lattice.selection.selected.mask if lattice is not None and kept and lattice.selection.selected else 0
        pick = baselines.Pick(mask, (found.record.reason,))
        out = {"fcr": self._method(found, pick, OWN)}
        if not self.job.baselines:
            return out
        board = baselines.Lattices(found)
        blamed = baselines.blamed_bits(found.diagnosis)
        for name, method in baselines.METHODS.items():
            with self.count.during(name):
                pick = self._timed(name, partial(method, board, blamed))
            out[name] = self._method(found, pick, (*BEFORE, name))
        out["regenerate"] = self._timed("regenerate", partial(self._regenerated, found))
        return out

    def _method(self, found: Considered, pick: baselines.Pick, phases: tuple[str, ...]) -> dict[str, Any]:
        out: dict[str, Any] = {
            "mask": pick.mask,
            "trace": list(pick.trace),
            "changed": bool(pick.mask),
            "safe": False,
            "rollouts": self.count.rollouts(*phases),
            "tokens": self.count.tokens(*phases),
        }
        if pick.mask:
            worth = self._worth(found, pick.mask)
            out["touched"] = _touched(found, pick.mask)
            out["safe"] = worth.safe
            out |= {gate: getattr(worth, gate) for gate in GATES}
            out["gates"] = [g.model_dump(mode="json") for g in (*worth.gates, *worth.confirmation)]
        return out

    def _worth(self, found: Considered, mask: int) -> Measured:
        if mask not in self.measured:
            self.tell(f"measure {fcr.letters(mask)}")
            with self.count.during("measuring"):
                self.measured[mask] = self._timed("measuring", lambda: measure(self.store, found, mask))
        return self.measured[mask]

    def _regenerated(self, found: Considered) -> dict[str, Any]:
        if found.diagnosis.verdict != "environment":
            return {"changed": False, "safe": False, "reason": "not diagnosed", "rollouts": 0, "tokens": 0}
        self.tell("regenerate")
        with self.count.during("regenerate"):
            made = regenerate(self.engine, found.env, found.intent, self.job.seed)
        phases = ("diagnosis", "regenerate")
        return {
            "changed": bool(made.package),
            "resolved": made.resolved,
            "intent": bool(made.package) and not made.changes,
            "safe": made.resolved and not made.changes,
            "reason": made.changes[0] if made.changes else made.reason,
            "rollouts": self.count.rollouts(*phases),
            "tokens": self.count.tokens(*phases),
        }

    # --- joint necessity, and the exhaustive run ---------------------------------------------------------
    def _joint(self, lattice: Lattice) -> bool | None:
        """Whether no part of the choice passes; parts that the lazy run did not come to are tried now."""
        chosen = lattice.selection.selected
        if chosen is None:
            return None
        evaluated, passed = set(lattice.selection.evaluated), set(lattice.selection.passed)
        parts = [m for m in lattice.built if m and m != chosen.mask and m & chosen.mask == m]
        with self.count.during("joint"):
            for part in parts if chosen.mask.bit_count() > 1 else ():
                if part not in evaluated:
                    evaluated.add(part)
                    passed |= {part} if lattice.trials.evaluate(lattice.built[part].option) else set()
        return fcr.needs_joint(chosen.mask, frozenset(lattice.built), frozenset(evaluated), frozenset(passed))

    def _exhaustive(self, found: Considered) -> dict[str, Any]:
        """The same case with every combination replayed, through the code of an exhaustive repair."""
        assert found.intent is not None
        assert found.settings is not None
        self.tell("exhaustive")
        settings = replace(found.settings, lazy=False, progress=None)
        rebuild = partial(rebuild_verifier, self.engine)
        with self.count.during("exhaustive"):
            full = run_case(
                self.engine, found.parent, found.diagnosis, found.intent, found.proposals, rebuild, settings
            )
        selected = full.selection.selected
        return {
            "selected": selected.mask if selected else None,
            "passed": list(full.selection.passed),
            "joint": full.selection.joint,
            "combinations": len(full.built) - 1,
            "rollouts": self.count.rollouts("exhaustive"),
            "lattice": [self._combination(c.model_dump(mode="json")) for c in full.candidates()],
        }

    def _timed(self, name: str, work: Callable[[], Any]) -> Any:
        began = time.monotonic()
        try:
            return work()
        finally:
            self.spent[name] = self.spent.get(name, 0.0) + time.monotonic() - began


def _touched(found: Considered, mask: int) -> int:
    """The components of the package that are other ones afterwards, edited or made again, as a mask."""
    built = found.lattice.built.get(mask) if found.lattice else None
    changed = built.expansion.changed if built else frozenset()
    return sum(bit for c, bit in BIT.items() if f"{found.env.package}/{c}" in changed)


def diagnosed(found: Diagnosis) -> dict[str, Any]:
    """What the measures need of a diagnosis, and what a person wants to read."""
    kept = ("probe", "kind", "message", "components", "status", "confidence", "evidence", "excludes")
    findings = [{name: getattr(f, name) for name in kept} for f in found.findings]
    blamed = baselines.blamed_bits(found)
    return {
        "verdict": found.verdict,
        "summary": found.summary,
        "findings": findings,
        "blame": dict(found.blame or {}),
        "blamed": [c for bit in blamed for c, b in BIT.items() if b == bit],
        "confidence": found.confidence,
        "rollouts_run": found.rollouts_run,
    }
