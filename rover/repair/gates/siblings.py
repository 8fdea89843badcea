"""Gate (e): packages that share a changed resource still hold, and no matched rollout of theirs got worse."""

from __future__ import annotations

from collections.abc import Iterator

from rover.repair.candidates import Parent
from rover.repair.gates.sound import unsound
from rover.repair.replay import actors
from rover.repair.trial import Trial
from rover.rollout.env import Env
from rover_store.records import GateResult

WORSE = frozenset({"failed", "policy_error"})


def siblings_hold(trial: Trial, parent: Parent) -> GateResult:
    """Every sibling with a changed or rebuilt node: calibration, then the same rollouts before and after."""
    if not trial.built.siblings:
        return GateResult(gate="siblings", passed=True, reason="no other package is touched")
    for name, env in sorted(trial.built.siblings.items()):
        for problem in _regressions(trial, parent.envs[name], env):
            return GateResult(gate="siblings", passed=False, reason=f"{name}: {problem}")
    return GateResult(gate="siblings", passed=True, reason=f"{len(trial.built.siblings)} other packages hold")


def _regressions(trial: Trial, before: Env, after: Env) -> Iterator[str]:
    yield from unsound(trial.replay.engine, after, trial.seed)
    ran, reused = trial.replay.ran, trial.replay.reused
    models = [actor.policy for actor in trial.cast if actor.kind == "model"]
    cast = actors(after, before, models)
    old = trial.replay.play(before, actors(before, before, models))
    new = {(r.actor.policy.id, r.k): r for r in trial.replay.play(after, cast)}
    trial.ran += trial.replay.ran - ran
    trial.reused += trial.replay.reused - reused
    for run in old:
        now = new.get((run.actor.policy.id, run.k))
        if run.verdict.outcome == "passed" and now is not None and now.verdict.outcome in WORSE:
            yield f"{run.actor.policy.id} goes from passed to {now.verdict.outcome}: {now.verdict.reason}"
