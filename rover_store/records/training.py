"""What training reads and pins: demonstrations with their pilot counts, and the split of a revision's packages."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from rover_store.ids import ComponentName, Digest, Name, ObjectId
from rover_store.records.base import Part, Record
from rover_store.records.evidence import Trajectory, Verdict


class Demonstration(Record):
    """demonstrations/ID.json, ID the first 16 digits of the rollout's id: one rollout that passed, with its verdict."""

    kind: ClassVar[str] = "demonstration"

    package: Name
    components: Annotated[dict[ComponentName, ObjectId], Field(description="the versions it ran on and was graded by")]
    policy: Annotated[str, Field(description="content id of the policy")]
    seed: int
    rollout: Annotated[Digest, Field(description="id of the rollout in the evidence")]
    trajectory: Trajectory
    verdict: Verdict


class PilotCount(Part):
    """How often one policy passed. Rollouts that ended in an infra_error or verifier_error are not counted."""

    policy: Annotated[str, Field(description="content id of the policy")]
    seed: Annotated[int, Field(description="seed of the command that ran them")]
    attempts: Annotated[int, Field(ge=0)]
    passed: Annotated[int, Field(ge=0)]


class Pilot(Record):
    """demonstrations/pilot.json: completion counts of the policies that were asked for demonstrations."""

    kind: ClassVar[str] = "pilot"

    components: Annotated[dict[ComponentName, ObjectId], Field(description="the versions that the counts hold for")]
    counts: tuple[PilotCount, ...] = ()


class SplitPart(Part):
    """One part of a split. Both lists are sorted."""

    workspaces: tuple[str, ...] = ()
    packages: tuple[Name, ...] = ()


class Split(Record):
    """Packages of one commit in three parts, so that no workspace and no shared resource lies in two of them."""

    kind: ClassVar[str] = "split"

    revision: Annotated[ObjectId, Field(description="full id of the commit")]
    pattern: Annotated[str, Field(description="glob on names that selected the packages")] = "*"
    tags: Annotated[tuple[str, ...], Field(description="tags that selected the packages")] = ()
    seed: int = 0
    shares: Annotated[
        tuple[float, float, float] | None,
        Field(description="of train, validation and held-out; absent where the parts were named by globs"),
    ] = None
    train: SplitPart
    validation: SplitPart
    held_out: SplitPart
    merged: Annotated[
        tuple[tuple[str, ...], ...],
        Field(description="groups of workspaces that share a resource, and so went to one part together"),
    ] = ()

    def part(self, name: str) -> SplitPart:
        """`train`, `validation` or `held_out` (also `held-out`)."""
        parts = {"train": self.train, "validation": self.validation, "held_out": self.held_out}
        return parts[name.replace("-", "_")]


class PilotedTask(Part):
    """What pilot rollouts of one package came to, and whether RL can learn from it."""

    package: Name
    components: dict[ComponentName, ObjectId]
    rollouts: Annotated[int, Field(ge=0, description="counted ones: neither infra_error nor verifier_error")]
    passed: Annotated[int, Field(ge=0)]
    errors: Annotated[int, Field(ge=0, description="rollouts that ended in infra_error or verifier_error")]
    mean: Annotated[float | None, Field(description="mean reward of the counted rollouts")] = None
    spread: Annotated[float | None, Field(description="standard deviation of their rewards, with n")] = None
    regraded: Annotated[int, Field(ge=0, description="distinct end states that were graded again")] = 0
    kept: bool
    reason: Annotated[str, Field(description="why it was left out; empty where it was kept")] = ""


class Consistency(Record):
    """Pilot rollouts of a policy before RL: which tasks are graded consistently and have a reward that varies."""

    kind: ClassVar[str] = "consistency"

    revision: ObjectId
    policy: Annotated[str, Field(description="the policy as it was asked for")]
    attempts: Annotated[int, Field(ge=1, description="pilot rollouts of each task")]
    seed: int
    tasks: tuple[PilotedTask, ...] = ()

    @property
    def kept(self) -> tuple[str, ...]:
        """Names of the packages that were kept."""
        return tuple(task.package for task in self.tasks if task.kept)
