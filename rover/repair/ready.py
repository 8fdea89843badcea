"""The last look at a choice before a branch moves: no attacker passes, and every package it touches is admitted anew.

Both are apart from the gates: they run on seeds of their own, grade every attacker's end state afresh, and say no by
themselves. A package that has neither a family nor a solution has no admission test of its own; it is promoted without
a record of one, and that is said. Where the verifier is a program, rover.repair.unseen holds the test.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rover.repair import unseen
from rover.repair.candidates import Built, Parent
from rover.repair.intent import is_admitted
from rover.repair.unseen import Unadmitted
from rover.rollout.env import Env, env_from_files
from rover.rollout.records import RolloutRequest, seed_for
from rover.verify.grade import passes
from rover_store.errors import PackageError
from rover_store.ids import digest
from rover_store.records import Admission

if TYPE_CHECKING:
    from rover.rollout.engine import Engine


@dataclass(frozen=True, slots=True)
class Ready:
    """The choice with fresh admission records, or as it was and why it must not be promoted (`refused`). `notes`: which
    packages it promotes without a record, and why."""

    built: Built
    refused: str = ""
    notes: tuple[str, ...] = ()


def ready(engine: Engine, built: Built, parent: Parent, case: str) -> Ready:
    """Try to break the choice, and admit every package that it touches.

    A sibling that was not admitted before is left as it is: what is wrong with it is another case.
    """
    packages, notes = dict(built.packages), []
    held = {name: env for name, env in built.siblings.items() if is_admitted(parent.envs[name])}
    for name, env in sorted({built.env.package: built.env, **held}.items()):
        reason = attacked(engine, env, case)
        if reason:
            return Ready(built, f"{name}: {reason}")
        found = admission(engine, env, case)
        if isinstance(found, Unadmitted):
            if found.failed:
                return Ready(built, f"{name}: {found.reason}")
            notes.append(f"{name} is not admitted: {found.reason}")
        elif name in packages:
            record = env.record.model_copy(update={"admission": found})
            packages[name] = {**packages[name], "package.json": record.dump()}
    envs = {n: env_from_files(f, _env(built, n).resources) for n, f in packages.items()}
    env = envs.pop(built.env.package, built.env)
    return Ready(replace(built, packages=packages, env=env, siblings={**built.siblings, **envs}), notes=tuple(notes))


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


def admission(engine: Engine, env: Env, case: str) -> Admission | Unadmitted:
    """A fresh record of the admission test, or why there is none."""
    from rover.construct.admission import admit
    from rover.construct.families.protocol import Dropped
    from rover.construct.families.registry import installed

    if env.verifier.program is not None:
        return unseen.admit(engine, env, case)
    family = installed(env.record.family)
    if family is None:
        return Unadmitted("it has neither a family nor a solution to hold an admission test with")

    def streams(name: str) -> random.Random:
        return random.Random(int(digest([case, "admission", env.package, name])[:15], 16))

    try:
        found = admit(engine, family, env, streams)
    except PackageError as error:
        return Unadmitted(error.message, failed=True)
    if isinstance(found, Dropped):
        return Unadmitted(f"the admission test fails: {found.reason}", failed=True)
    return found


def _env(built: Built, name: str) -> Env:
    return built.env if name == built.env.package else built.siblings[name]
