"""Gate (d): the verifier rejects start state, negatives and attackers, and accepts reference and alternatives.

A repaired verifier may have more calibration cases, and none less whose requirement stands.
"""

from __future__ import annotations

from collections.abc import Iterator

from rover.construct.calibrate import calibrate
from rover.repair.intent import Intent
from rover.repair.trial import Trial
from rover.rollout.engine import Engine
from rover.rollout.env import Env
from rover_store.errors import PackageError
from rover_store.records import GateResult


def verifier_sound(trial: Trial, parent: Env) -> GateResult:
    """Calibration of the candidate's verifier, and its cases held against the parent's."""
    lost = list(dropped_cases(parent, trial.env, trial.intent))
    if lost:
        return GateResult(gate="verifier", passed=False, reason=lost[0])
    problems = list(unsound(trial.replay.engine, trial.env, trial.seed))
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return GateResult(gate="verifier", passed=False, reason=problems[0] + more)
    cases = trial.env.cases
    count = f"{len(cases.negatives)} negatives, {len(cases.alternatives) + len(cases.states)} alternatives"
    return GateResult(gate="verifier", passed=True, reason=f"right on start, reference, attackers, {count}")


def unsound(engine: Engine, env: Env, seed: int) -> Iterator[str]:
    """What the verifier of `env` gets wrong."""
    try:
        found = calibrate(engine, env, seed)
    except PackageError as error:
        yield error.message
        return
    for row in found.wrong:
        verb = {"accepted": "accepts", "rejected": "rejects", "error": "decides nothing on"}[row.observed]
        yield f"{verb} the {row.kind} {row.case}: {row.reason}"
    if not found.wrong and not found.ok:
        yield "there is no reference to calibrate on"


def dropped_cases(parent: Env, now: Env, intent: Intent) -> Iterator[str]:
    """Negatives and alternatives of the parent that are gone although their requirement stands."""
    stands = {r.id for r in intent.contract.requirements}
    present = (*now.cases.negatives, *now.cases.alternatives)
    kept = {(m.requirement, m.op, m.path, repr(m.arguments)) for m in present}
    for rule in (*parent.cases.negatives, *parent.cases.alternatives):
        if rule.requirement is not None and rule.requirement not in stands:
            continue
        if (rule.requirement, rule.op, rule.path, repr(rule.arguments)) not in kept:
            moved = (rule.id, rule.requirement, rule.op)  # the same rule on another path, or with other arguments
            if moved not in {(m.id, m.requirement, m.op) for m in present}:
                yield f"the case {rule.id} was dropped"
    for name in parent.cases.states:
        if name not in now.cases.states:
            yield f"the alternative {name} was dropped"
