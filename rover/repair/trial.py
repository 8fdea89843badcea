"""One candidate on trial: its replayed runs, and what the oracle holds of each. Made when a gate asks for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rover.diagnose.protocol import ProbeContext, Recorded
from rover.repair.candidates import Built
from rover.repair.intent import Intent
from rover.repair.oracle import ContractUnanswerable, Opinion, Oracle, oracle_of, state_after
from rover.repair.replay import Actor, Replay, Run
from rover.rollout.env import Env
from rover_store.records import Verdict

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Judged:
    """A run, the verifier's scores requirement by requirement, and the oracle's opinion."""

    run: Run
    opinion: Opinion

    @property
    def accepted(self) -> bool:
        """Accepted by both: by the verifier with every criterion, and by the oracle."""
        return verifier_accepts(self.run.verdict) and self.opinion.accepts

    @property
    def solved(self) -> bool:
        """The contract is satisfied, whatever the verifier says."""
        return self.run.result.trajectory.end == "completed" and self.opinion.accepts


@dataclass
class Trial:
    """A candidate before the gates. `cast` are its replay policies. Candidates may be looked at by several threads."""

    built: Built
    intent: Intent
    replay: Replay
    cast: Sequence[Actor] = ()
    seed: int = 0  # of the probes
    recorded: tuple[Recorded, ...] = ()  # rollouts on which the parent's verifier crashed
    context: ProbeContext | None = None  # where the probes have looked at this version already
    ran: int = 0
    reused: int = 0
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _made: dict[str, Any] = field(default_factory=dict)

    @property
    def env(self) -> Env:
        return self.built.env

    @property
    def probing(self) -> ProbeContext:
        """What the probes look at when they ask this candidate."""
        return self._once("probing", self._probing)

    def _probing(self) -> ProbeContext:
        if self.context is not None:
            return self.context
        resources = {f"{r.kind}/{r.name}": r.tree for r in self.env.context.resources}
        return ProbeContext(self.env, self.replay.engine, self.seed, resources, self.recorded)

    def rollouts(self) -> tuple[int, int]:
        """Rollouts run and reused for this candidate, the probes' own included."""
        runs = self.probing.runs
        if self.context is not None:
            return self.ran, self.reused
        return self.ran + runs.ran, self.reused + runs.reused

    def count(self, runs: Sequence[Run]) -> None:
        """Add rollouts that were played for this candidate."""
        with self._lock:
            self.reused += sum(r.result.reused for r in runs)
            self.ran += sum(not r.result.reused for r in runs)

    @property
    def oracle(self) -> Oracle:
        """The frozen contract on this candidate's context."""
        return self._once("oracle", lambda: oracle_of(self.replay.engine, self.env, self.intent.contract))

    @property
    def runs(self) -> tuple[Run, ...]:
        return self._once("runs", self._runs)

    def _runs(self) -> tuple[Run, ...]:
        found = self.replay.play(self.env, self.cast)
        self.count(found)
        return found

    @property
    def judged(self) -> tuple[Judged, ...]:
        """Every run that the infrastructure left whole. ContractUnanswerable where the contract has no answer."""
        return self._once("judged", self._judged)

    def _judged(self) -> tuple[Judged, ...]:
        whole = [r for r in self.runs if r.result.trajectory.end != "infra_error"]
        opinions = self.oracle.judge([state_after(self.env.start, r.result) for r in whole])
        return tuple(Judged(r, o) for r, o in zip(whole, opinions, strict=True))

    def solved_by(self) -> frozenset[tuple[str, int]]:
        """(policy, k) of the runs that satisfied the contract; none where the contract has no answer."""
        try:
            return frozenset((j.run.actor.policy.id, j.run.k) for j in self.judged if j.solved)
        except ContractUnanswerable:
            return frozenset()

    def shortest(self) -> int | None:
        """Calls of the shortest known solution that is no weak policy's."""
        try:
            return min((j.run.calls for j in self.judged if j.solved and not j.run.weak), default=None)
        except ContractUnanswerable:
            return None

    def _once(self, name: str, make: Callable[[], T]) -> T:
        """Make it at the first use; whoever asks meanwhile waits."""
        with self._lock:
            if name not in self._made:
                self._made[name] = make()
            found: T = self._made[name]
            return found


def verifier_accepts(verdict: Verdict) -> bool:
    counted = (s for s in verdict.scores if s.weight > 0 or s.critical)
    return verdict.outcome == "passed" and all(s.score == 1.0 for s in counted)
