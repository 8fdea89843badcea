"""A verdict for an end state: what can be known without running a check, and the call of the verifier."""

from __future__ import annotations

from collections.abc import Mapping

from rover.rollout.env import Env, without_reference
from rover.rollout.records import RolloutResult
from rover.sandbox.protocol import Files, Sandbox
from rover_store.ids import digest
from rover_store.records import Verdict

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


def state_id(env: Env, tree: str, message: str, with_reference: bool) -> str:
    """What a bare end state is called in place of a rollout: equal states of equal tasks are graded once."""
    parts = [env.context_id, env.task_id, env.start_tree, tree, message, with_reference]
    return digest({"state": parts})


def judge(
    box: Sandbox,
    env: Env,
    *,
    rollout: str,
    end: Files,
    message: str,
    rollout_end: str,
    runtime: str,
    with_reference: bool = False,
    links: Mapping[str, str] | None = None,
) -> Verdict:
    """Grade one end state in a box. SandboxError passes through."""
    files = env.verifier_files if with_reference else without_reference(env.verifier_files)
    from rover.verify.grade import grade

    raise NotImplementedError((box, rollout, end, message, rollout_end, runtime, links, files, grade))
