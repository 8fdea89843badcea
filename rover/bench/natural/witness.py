"""What ran before and after: each case is seen sound first and broken then, by the observations that it names.

    reference      the reference state, graded          start   the untouched start, graded
    demonstrator   the family's solver, run and graded   alternative   the second one
    null:NAME      an attacker, run and graded           state:NAME    a state that the case describes, graded
    marks:NAME     such a state: `full` marks, or `partial`
"""

from __future__ import annotations

from typing import Any

from rover.bench.natural.case import Natural
from rover.bench.natural.pack import Pack
from rover.rollout.engine import Engine
from rover.rollout.env import Env, reference_state
from rover_store.errors import PackageError


def seen(engine: Engine, case: Natural, sound: Pack, broken: Pack) -> dict[str, Any]:
    """The outcomes on both. PackageError where one is not what the case says."""
    out: dict[str, Any] = {"symptom": case.symptom, "sound": {}, "case": {}}
    before, after = sound.env(), broken.env()
    for what, expected in case.shows.items():
        for name, env, outcome in (("sound", before, expected[0]), ("case", after, expected[1])):
            found, reason = _observe(engine, case, what, env, before)
            if found != outcome:
                raise PackageError(case.key, f"{name}.{what}", f"is {found}, not {outcome}: {reason}")
            out[name][what] = found
    return out


def _observe(engine: Engine, case: Natural, what: str, env: Env, sound: Env) -> tuple[str, str]:
    if what == "start":
        verdict = engine.grade_state(env, env.start)
    elif what == "reference":
        verdict = engine.grade_state(env, reference_state(env), env.reference.final_message)
    elif what.startswith(("state:", "marks:")):
        made = (case.states or {})[what.partition(":")[2]]
        verdict = engine.grade_state(env, made(env.start, reference_state(sound)), sound.reference.final_message)
        if what.startswith("marks:"):
            full = bool(verdict.scores) and all(s.score == 1 for s in verdict.scores)
            return "full" if full else "partial", verdict.reason
    else:
        return _run(engine, what, env)
    return verdict.outcome, verdict.reason


def _run(engine: Engine, what: str, env: Env) -> tuple[str, str]:
    from rover.construct.families.registry import family
    from rover.construct.reference import SEED, solver
    from rover.policy.registry import get_policy
    from rover.rollout.records import RolloutRequest

    if what.startswith("null:"):
        policy = get_policy(what)
    else:
        policy = solver(family(str(env.record.family)), "demonstrator" if what == "demonstrator" else "alternative")
    result, verdict = engine.run([RolloutRequest(env, policy, SEED)])[0]
    return verdict.outcome, result.trajectory.error or verdict.reason
