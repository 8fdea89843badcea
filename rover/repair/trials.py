"""The evaluation that selection asks for: one candidate after the other through all gates, cheapest first.

A lazy run stops at a candidate's first failing gate; a thorough one evaluates every gate of every candidate.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from rover.diagnose.protocol import ProbeContext, Recorded
from rover.policy.protocol import Policy
from rover.repair import fcr
from rover.repair.budget import Meter
from rover.repair.candidates import Built, Parent
from rover.repair.gates.boundary import boundary_kept
from rover.repair.gates.intent import intent_kept
from rover.repair.gates.resolved import resolved
from rover.repair.gates.siblings import siblings_hold
from rover.repair.gates.sound import verifier_sound
from rover.repair.intent import Intent
from rover.repair.replay import Replay, actors
from rover.repair.trial import Trial
from rover_store.errors import PackageError
from rover_store.records import Finding, GateResult, Trajectory

Progress = Callable[[str], None]


class NobodyToAsk(Exception):
    """No solver, no model, no recorded rollout that still fits: whether the task can be done stays undecided."""


@dataclass
class Trials:
    """All candidates of one case under the same policies, budgets and seeds."""

    parent: Parent
    intent: Intent
    findings: Sequence[Finding]
    replay: Replay
    built: dict[int, Built]
    models: Sequence[Policy] = ()
    recorded: Sequence[Trajectory] = ()
    crashed: tuple[Recorded, ...] = ()
    diagnosed: ProbeContext | None = None  # what the probes looked at in diagnosis: the control is that very version
    meter: Meter | None = None
    seed: int = 0
    thorough: bool = False
    near: bool = True  # near misses of a changed verifier are tried; confirmation has no need to do it again
    progress: Progress | None = None
    gates: dict[int, tuple[GateResult, ...]] = field(default_factory=dict)
    trials: dict[int, Trial] = field(default_factory=dict)
    undecided: list[int] = field(default_factory=list)  # masks of candidates that nobody could be asked about
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def trial(self, mask: int) -> Trial:
        with self._lock:
            if mask not in self.trials:
                built = self.built[mask]
                cast = actors(built.env, self.parent.env, self.models, self.recorded)
                known = self.diagnosed if mask == 0 else None
                self.trials[mask] = Trial(
                    built, self.intent, self.replay, cast, self.seed, recorded=self.crashed, context=known
                )
            return self.trials[mask]

    def evaluate(self, option: fcr.Option) -> bool:
        """Whether the candidate passes every gate; what each said is kept in `gates`."""
        trial = self.trial(option.mask)
        if all(actor.kind == "attacker" for actor in trial.cast):
            return self._unasked(option.mask)
        results: list[GateResult] = []
        for step in self._steps(trial):
            if self.meter is not None:
                self.meter.check()
            if self.progress is not None:
                self.progress(f"{fcr.letters(option.mask)} {len(results) + 1}")
            results.append(_guarded(step))
            self.gates[option.mask] = tuple(_merged(results))
            if not results[-1].passed and not self.thorough:
                return False
        return all(r.passed for r in results)

    def look(self, option: fcr.Option) -> None:
        """Work ahead for a candidate whose turn may come: what its files alone say. Costs no rollout."""
        trial = self.trial(option.mask)
        if trial.built.failure or self.thorough:
            return
        first = [lambda: intent_kept(trial, self.trial(0), self.findings, replayed=False)]
        for step in [*first, lambda: boundary_kept(trial)]:
            if not _guarded(step).passed:
                return

    def thoroughly(self, mask: int) -> tuple[GateResult, ...]:
        """What every gate says of a candidate, also behind the first that fails."""
        whole = replace(self, thorough=True, gates={}, undecided=[])  # shares the trials, and so the rollouts
        whole.evaluate(self.built[mask].option)
        return whole.gates[mask]

    def _unasked(self, mask: int) -> bool:
        """Nobody can show that this candidate's task can be done: it does not pass. Not even the parent's: no case."""
        if mask == 0:
            raise NobodyToAsk(f"{self.parent.name} has no solver; name models with --policy")
        reason = "no solver, and what was recorded ran on another task or harness; name models with --policy"
        self.gates[mask] = (GateResult(gate="resolved", passed=False, reason=reason),)
        self.undecided.append(mask)
        return False

    def _steps(self, trial: Trial) -> Iterator[Callable[[], GateResult]]:
        parent = self.trial(0)
        built = trial.built
        if built.failure:
            yield lambda: GateResult(gate="rebuild", passed=False, reason=built.failure)
        yield lambda: intent_kept(trial, parent, self.findings, replayed=False)
        yield lambda: boundary_kept(trial)
        yield lambda: resolved(trial, self.findings)
        yield lambda: intent_kept(trial, parent, self.findings, replayed=True)
        yield lambda: verifier_sound(trial, self.parent.env, near=self.near)
        yield lambda: siblings_hold(trial, self.parent)


def _guarded(step: Callable[[], GateResult]) -> GateResult:
    """A candidate whose files cannot be used fails the gate that came upon it; it is no error of the run."""
    try:
        return step()
    except PackageError as error:
        return GateResult(gate="rebuild", passed=False, reason=error.message)


def _merged(results: Sequence[GateResult]) -> Iterator[GateResult]:
    """One result for each gate: a failure before a pass, else the last word."""
    by_gate: dict[str, GateResult] = {}
    for result in results:
        known = by_gate.get(result.gate)
        if known is None or known.passed:
            by_gate[result.gate] = result
    yield from by_gate.values()
