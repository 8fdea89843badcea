"""Gate (e): packages that share a changed resource still hold, and no matched rollout of theirs got worse."""

from __future__ import annotations

from collections.abc import Iterator

from rover.repair.candidates import Parent
from rover.repair.gates.sound import unsound
from rover.repair.replay import actors, attacked
from rover.repair.trial import Trial
from rover.rollout.env import Env
from rover_store.records import GateResult

WORSE = frozenset({"failed", "policy_error"})


def siblings_hold(trial: Trial, parent: Parent) -> GateResult:
    """Every sibling with a changed or rebuilt node: calibration, then the same rollouts before and after."""
    if not trial.built.siblings:
        return GateResult(gate="siblings", passed=True, reason="no other package is touched")
    for name, env in sorted(trial.built.siblings.items()):
        for problem, evidence in _regressions(trial, parent.envs[name], env):
            return GateResult(gate="siblings", passed=False, reason=f"{name}: {problem}", evidence=evidence)
    return GateResult(gate="siblings", passed=True, reason=f"{len(trial.built.siblings)} other packages hold")


def _regressions(trial: Trial, before: Env, after: Env) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What got worse, and the rollouts that show it."""
    models = [actor.policy for actor in trial.cast if actor.kind == "model"]
    now = trial.replay.play(after, actors(after, before, models))
    trial.count(now)
    yield from unsound(trial.replay.engine, after, trial.seed, attacked(now))
    then = trial.replay.play(before, actors(before, before, models))
    trial.count(then)
    found = {(r.actor.policy.id, r.k): r for r in now}
    for run in then:
        match = found.get((run.actor.policy.id, run.k))
        if match is not None and run.verdict.outcome == "passed" and match.verdict.outcome in WORSE:
            policy, verdict = run.actor.policy.id, match.verdict
            yield f"{policy} goes from passed to {verdict.outcome}: {verdict.reason}", (run.id, match.id)
