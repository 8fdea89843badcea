"""What of a rollout is handed to the verifier, and verdicts that need none."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from rover.rollout.env import Env, tree_of
from rover.rollout.records import EndState, RolloutResult
from rover.sandbox.protocol import Files
from rover.verify.grade import EPSILON, Graded, passes, weigh
from rover_store.ids import digest
from rover_store.records import Verdict, Verifier
from rover_store.trees import EXECUTABLE, tree_id

#: A verifier that crashed, or a sandbox that failed under it, gets a second try.
TRIES = 2


def verdict_without_grading(result: RolloutResult, env: Env, runtime: str) -> Verdict | None:
    """The verdict of a rollout that the infrastructure spoilt: there is nothing to grade."""
    if result.trajectory.end != "infra_error":
        return None
    return Verdict(
        rollout=result.id,
        verifier=env.verifier_id,
        outcome="infra_error",
        reason=result.trajectory.error,
        runtime=runtime,
    )


def holds(known: Verdict, rollout: str, env: Env) -> bool:
    """Whether a verdict that was found is this verifier's on this rollout, and says what its own scores say."""
    return (known.rollout, known.verifier) == (rollout, env.verifier_id) and says(known, env.verifier)


def says(known: Verdict, verifier: Verifier) -> bool:
    """Whether a verdict scores the criteria of a verifier, and says what its own scores say."""
    if known.outcome in ("verifier_error", "infra_error"):
        return True
    weights = {c.id: (c.requirement, c.weight, c.critical) for c in verifier.criteria}
    if {s.criterion: (s.requirement, s.weight, s.critical) for s in known.scores} != weights:
        return False
    share, gate = weigh(known.scores)
    passed = known.outcome != "passed" or passes(verifier, share, gate)
    return passed and known.gate == gate and known.score is not None and abs(known.score - share) < EPSILON


def of_rollout(result: RolloutResult, env: Env) -> Graded:
    """The evidence of a rollout: its end state, with what is no plain file apart."""
    links = dict.fromkeys(result.end.links, "is a link, not a file")
    found = Graded(
        start=env.start,
        end=result.end,
        message=result.trajectory.final_message,
        irregular={**(result.trajectory.irregular or {}), **links},
        rollout_end=result.trajectory.end,
        error=result.trajectory.error,
    )
    return found if env.verifier.program is None else with_modes(found, result.end)


def with_modes(graded: Graded, end: EndState) -> Graded:
    """The same with what a program needs to know of an end state, since it runs on it."""
    run = frozenset(path for path, item in end.manifest.items() if item.mode == EXECUTABLE)
    links = {path: end.read(end.manifest[path].id) for path in end.links}
    return replace(graded, executable=run, links=links)


def of_state(env: Env, end: Files, message: str) -> Graded:
    """The evidence of a bare end state. Of a rollout's own a program sees links and modes as well."""
    found = Graded(env.start, end, message)
    return with_modes(found, end) if _whole(end, env) else found


def state_tree(env: Env, end: Files) -> str:
    """The tree that stands for a bare end state, with links and modes where they are seen."""
    return tree_id(end.manifest) if _whole(end, env) else tree_of(end)


def _whole(end: Files, env: Env) -> TypeGuard[EndState]:
    return env.verifier.program is not None and isinstance(end, EndState)


def state_id(env: Env, tree: str, message: str) -> str:
    """What a bare end state is called in place of a rollout: equal states of equal tasks are graded once.

    A program is graded where the agent worked, within the limits of the harness, so there the harness counts too.
    """
    own = [env.harness_id] if env.verifier.program is not None else []
    return digest({"state": [env.context_id, env.task_id, env.start_tree, tree, message, *own]})
