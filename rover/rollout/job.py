"""A request as the tool loop takes it, and the record of one whose box did not even start."""

from __future__ import annotations

from collections.abc import Iterable

from rover.harness import mcp
from rover.harness.loop import Job, Played
from rover.harness.mcp import records
from rover.harness.tools.specs import offered
from rover.rollout.env import Env
from rover.rollout.records import RolloutRequest
from rover_store.errors import PackageError, SandboxError
from rover_store.records import Harness, Trajectory


def checked(env: Env) -> None:
    """PackageError, which names the package, where its harness offers what nobody has: bad input, before anything
    runs."""
    try:
        check_harness(env.harness, env.files)
    except PackageError as error:
        raise PackageError(f"{env.package}/{error.file}", error.field, error.reason, hint=error.hint) from None


def check_harness(harness: Harness, paths: Iterable[str]) -> None:
    """PackageError where a harness offers what nobody has. `paths` are those of the package's files."""
    offered(harness.tools)
    if harness.mcp_servers:
        carried = {path.removeprefix(mcp.CARRIED) for path in paths if path.startswith(mcp.CARRIED)}
        for field, reason in records.problems(harness, carried):
            raise PackageError("harness/harness.json", field, reason)


def job_of(request: RolloutRequest, runtime_id: str) -> Job:
    """What the rollout of a request runs on."""
    env = request.env
    return Job(
        key=request.key(runtime_id),
        package=env.package,
        instruction=env.instruction,
        harness=env.harness,
        start=env.start_manifest,
        start_tree=env.start_tree,
        targets=env.targets(),
        carried=mcp.carried(env.files) if env.harness.mcp_servers else {},
    )


def unplayed(job: Job, error: SandboxError) -> Played:
    """The rollout of a box that did not even start."""
    trajectory = Trajectory(
        key=job.key,
        package=job.package,
        start=job.start_tree,
        end="infra_error",
        error=f"SandboxError: {error.message}",
    )
    return Played(trajectory, {job.start_tree: job.start}, {}, job.start)
