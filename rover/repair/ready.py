"""The last look at a choice before a branch moves: no attacker passes, and every package it touches is admitted anew.

Both are apart from the gates: they run on seeds of their own, grade every attacker's end state afresh, and say no by
themselves. A package that has neither a family nor a solution has no admission test of its own; it is promoted without
a record of one.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from rover.repair.candidates import Built, Parent
from rover.repair.intent import is_admitted
from rover.rollout.env import Env, env_from_files
from rover.rollout.records import RolloutRequest, seed_for
from rover.verify.grade import passes
from rover_store.errors import PackageError
from rover_store.ids import COMPONENTS, digest
from rover_store.records import Admission

if TYPE_CHECKING:
    from rover.rollout.engine import Engine


def ready(engine: Engine, built: Built, parent: Parent, case: str) -> tuple[Built, str]:
    """The choice with fresh admission records in package.json, or it unchanged and why it must not be promoted.

    A sibling that was not admitted before is left as it is: what is wrong with it is another case.
    """
    packages = dict(built.packages)
    held = {name: env for name, env in built.siblings.items() if is_admitted(parent.envs[name])}
    for name, env in sorted({built.env.package: built.env, **held}.items()):
        reason = attacked(engine, env, case)
        if reason:
            return built, f"{name}: {reason}"
        found = admission(engine, env, case)
        if isinstance(found, str):
            return built, f"{name}: {found}"
        if found is not None and name in packages:
            record = env.record.model_copy(update={"admission": found})
            packages[name] = {**packages[name], "package.json": record.dump()}
    envs = {n: env_from_files(f, _env(built, n).resources) for n, f in packages.items()}
    env = envs.pop(built.env.package, built.env)
    return replace(built, packages=packages, env=env, siblings={**built.siblings, **envs}), ""


def attacked(engine: Engine, env: Env, case: str) -> str:
    """Which null attacker passes; empty where none does. Each is run, and its end state graded, once more."""
    from rover.policy.null import attackers
    from rover.policy.registry import get_policy

    policies = [get_policy(f"null:{name}") for name in attackers(env.verifier.program is not None)]
    requests = [RolloutRequest(env, p, seed_for(f"{case} promote", p.id, 0), None, "replay") for p in policies]
    for policy, result in zip(policies, engine.rollouts(requests), strict=True):
        if result.trajectory.end == "infra_error":
            return f"{policy.id} could not be run: {result.trajectory.error}"
        if env.verifier.program is not None:  # it looks at links and modes as well
            verdict = engine.grade([(result, env)])[0]
        elif result.end.links:
            continue  # what is no plain file fails before any check
        else:
            verdict = engine.grade_state(env, result.end, result.trajectory.final_message, fresh=True)
        if verdict.outcome in ("infra_error", "verifier_error"):
            return f"{policy.id} cannot be graded: {verdict.reason}"
        if passes(env.verifier, verdict.score, verdict.gate):
            return f"{policy.id} passes (rollout {result.id[:12]}); such a package is never promoted"
    return ""


def admission(engine: Engine, env: Env, case: str) -> Admission | str | None:
    """A fresh record of the admission test, why the package fails it, or None where it has no family."""
    from rover.construct.admission import admit
    from rover.construct.families.protocol import Dropped
    from rover.construct.families.registry import installed

    if env.verifier.program is not None:
        return _of_program(engine, env, case)
    family = installed(env.record.family)
    if family is None:
        return None

    def streams(name: str) -> random.Random:
        return random.Random(int(digest([case, "admission", env.package, name])[:15], 16))

    try:
        found = admit(engine, family, env, streams)
    except PackageError as error:
        return error.message
    return f"the admission test fails: {found.reason}" if isinstance(found, Dropped) else found


def _of_program(engine: Engine, env: Env, case: str) -> Admission | str | None:
    """The same where the verifier is a program: its own solution, what is broken of it, attackers on other seeds."""
    from rover.construct.calibrate import calibrate

    found = calibrate(engine, env, int(digest([case, "admission", env.package])[:12], 16))
    if not any(row.kind == "reference" for row in found.rows):
        return None
    for row in found.wrong:
        return f"the admission test fails: {row.case}: {row.observed}, not {row.expected}: {row.reason}"
    ids = {component: env.component_id(component) for component in COMPONENTS}
    seen = [[row.case, row.expected, row.observed] for row in found.rows]
    return Admission(components=ids, cases=len(found.rows), digest=digest(seen))


def _env(built: Built, name: str) -> Env:
    return built.env if name == built.env.package else built.siblings[name]
