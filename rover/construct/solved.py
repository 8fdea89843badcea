"""What a package's own solution makes of it: the reference of a verifier that is a program.

The end state is not stored: the run is evidence like any other, so it costs once. What a solution leaves behind is
more than what is asked for; of its files, those that the request names are the demanded ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from rover.policy.named import named_paths
from rover.policy.solution import SCRIPT, WHERE, SolutionPolicy, variables_of
from rover.rollout.env import Env, below
from rover.rollout.records import RolloutRequest, RolloutResult, changed, seed_for
from rover.sandbox.protocol import Files
from rover_store.records import Verdict

if TYPE_CHECKING:
    from rover.rollout.engine import Engine

#: demanded files that negatives are made of
MOST_NEGATIVES = 8
_JUNK = ("__pycache__", ".pytest_cache", ".git", ".cache", "node_modules", ".venv")


@dataclass(frozen=True, slots=True)
class Solved:
    """A run of the solution, graded by the package's own verifier."""

    result: RolloutResult
    verdict: Verdict

    @property
    def problem(self) -> str:
        """Why the run is no reference; empty where it is one, whatever the verifier says."""
        return trouble(self.result)


def trouble(result: RolloutResult) -> str:
    """What went wrong in a run of a solution; empty where it came to its end."""
    trajectory = result.trajectory
    if trajectory.end != "completed":
        return trajectory.error or trajectory.end
    failed = next((c for turn in trajectory.turns for c in turn.calls if c.status == "error"), None)
    return f"{SCRIPT} fails: {failed.output[:300]}" if failed is not None else ""


def solution_of(env: Env, slip: str = "") -> SolutionPolicy | None:
    """The policy that runs the package's solution, with care or with a slip; None where it brings none."""
    files = below(env.files, WHERE)
    return SolutionPolicy(files, variables_of(env.files), slip=slip) if SCRIPT in files else None


def solved(engine: Engine, env: Env, seed: int = 0, purpose: str = "calibrate") -> Solved | None:
    """The solution's run on this version of the package, from the evidence where it is there."""
    policy = solution_of(env)
    if policy is None:
        return None
    request = RolloutRequest(env, policy, seed_for("solution", policy.id, seed), None, purpose)
    result = engine.rollouts([request])[0]
    return Solved(result, engine.grade([(result, env)])[0])


def written(start: Files, end: Files) -> tuple[str, ...]:
    """Files that a run made or changed, without caches."""
    changed = (path for path in end if start.get(path) != end[path] and not path.endswith(".pyc"))
    return tuple(sorted(path for path in changed if not any(part in _JUNK for part in path.split("/"))))


def demanded(env: Env, end: Files) -> tuple[str, ...]:
    """Of the files that a solution leaves behind those that the request names; all of them where it names none."""
    made = written(env.start, end)
    named = set(named_paths(env.instruction, env.workdir))
    exact = tuple(path for path in made if path in named)
    if exact:
        return exact
    names = {PurePosixPath(name).name for name in named}
    return tuple(path for path in made if PurePosixPath(path).name in names) or made


def broken_states(env: Env, end: Files) -> Iterator[tuple[str, Files]]:
    """End states that lack what the request names, each with a name: one file of the solution's gone, empty, or as
    it was. Of files that only the solution knows nothing can be said."""
    named = set(named_paths(env.instruction, env.workdir))
    for path in [p for p in demanded(env, end) if p in named][:MOST_NEGATIVES]:
        if path in env.start:
            yield f"revert-{path}", changed(end, {path: env.start[path]})
            continue
        yield f"delete-{path}", changed(end, {path: None})
        if end[path].strip():
            yield f"empty-{path}", changed(end, {path: b""})
