"""Gate (d): the verifier rejects start state, negatives and attackers, and accepts reference and alternatives.

A repaired verifier may have more calibration cases, and none less whose requirement stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rover.construct.calibrate import calibrate
from rover.repair.gates.near import near_misses
from rover.repair.intent import Intent
from rover.repair.replay import attacked
from rover.repair.trial import Trial
from rover.rollout.engine import Engine
from rover.rollout.env import Env
from rover_store.errors import PackageError
from rover_store.records import GateResult, Verdict


def verifier_sound(trial: Trial, parent: Env, *, near: bool = True) -> GateResult:
    """Calibration of the candidate's verifier, its cases held against the parent's, and `near` misses."""
    lost = list(dropped_cases(parent, trial.env, trial.intent))
    if lost:
        return GateResult(gate="verifier", passed=False, reason=lost[0], evidence=(parent.verifier_id,))
    problems = list(unsound(trial.replay.engine, trial.env, trial.seed, attacked(trial.runs)))
    if near and not problems:
        problems = list(near_misses(trial, parent))
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        evidence = tuple(dict.fromkeys(e for _, ids in problems for e in ids))[:8]
        return GateResult(gate="verifier", passed=False, reason=problems[0][0] + more, evidence=evidence)
    cases = trial.env.cases
    count = f"{len(cases.negatives)} negatives, {len(cases.alternatives) + len(cases.states)} alternatives"
    return GateResult(gate="verifier", passed=True, reason=f"right on start, reference, attackers, {count}")


def unsound(
    engine: Engine, env: Env, seed: int, attacks: Mapping[str, tuple[str, Verdict]] | None = None
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What the verifier of `env` gets wrong, and what shows it: a rollout, or the case and the verifier that ran it."""
    try:
        found = calibrate(engine, env, seed, attacked=attacks)
    except PackageError as error:
        yield error.message, (env.verifier_id,)
        return
    for row in found.wrong:
        verb = {"accepted": "accepts", "rejected": "rejects", "error": "decides nothing on"}[row.observed]
        evidence = (row.rollout,) if row.rollout else (f"case:{row.case}", env.verifier_id)
        yield f"{verb} the {row.kind} {row.case}: {row.reason}", evidence
    if not found.wrong and not found.ok:
        yield "there is no reference to calibrate on", (env.verifier_id,)


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
