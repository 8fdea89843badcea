"""What was done to the packages of a suite. Only benches read it: it lies beside the store, never inside.

A suite is a folder: `manifest.json`, the store `.rover/` with one root commit a case on a branch of its own, and for
some cases frozen proposals below `proposals/CASE/COMPONENT/`. A case's tree holds the broken package and a few sound
siblings that share its resources. Nothing in the store says what was broken, or whether anything was.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from rover.bench.suites.work import keep
from rover_store.errors import NotFound, PackageError
from rover_store.ids import ComponentName, ObjectId, digest
from rover_store.records.base import Part, Record

FILE = "manifest.json"

Split = Literal["development", "held-out"]
Label = Literal["defect", "decoy", "unfixable"]


class Expected(Part):
    """A finding that a right diagnosis comes to."""

    kind: str
    component: ComponentName


class AgentRun(Part):
    """A rollout of an agent that goes with a case as its trigger: policy name as `rover run --policy` takes it."""

    policy: str
    seed: int = 0


class Case(Part):
    """One case. `kinds` are the injected ones, in order; a decoy has none."""

    # results and proposals are kept under it: a plain file name
    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    branch: str
    commit: ObjectId
    package: str
    workspace: str
    family: str = ""
    label: Label = "defect"
    kinds: tuple[str, ...] = ()
    components: Annotated[tuple[ComponentName, ...], Field(description="at fault, in the order of kinds")] = ()
    right: Annotated[
        tuple[Annotated[int, Field(ge=1, le=15)], ...],
        Field(description="masks that repair it rightly; C=1 T=2 H=4 V=8"),
    ] = ()
    expects: tuple[Expected, ...] = ()
    note: Annotated[str, Field(description="what was done, in words")] = ""
    witness: dict[str, Any] = Field(default={}, description="what ran before and after: sound, then broken")
    runs: Annotated[tuple[AgentRun, ...], Field(description="failing agents that trigger the case")] = ()
    source: Annotated[str, Field(description="where a natural case is described")] = ""


class Manifest(Record):
    """manifest.json of a suite."""

    kind: ClassVar[str] = "suite"

    suite: str
    split: Split = "held-out"
    seed: int = 0
    history: Annotated[bool, Field(description="the sound version is the parent of each case")] = False
    spec: dict[str, Any] = Field(default={}, description="the suite's specification")
    cases: tuple[Case, ...] = ()
    digest: Annotated[str, Field(description="over everything else here: an edit by hand is refused")] = ""

    def sealed(self) -> Manifest:
        """The same with its digest."""
        return self.model_copy(update={"digest": self._digest()})

    def case(self, name: str) -> Case:
        """NotFound where the suite has no case of this id."""
        for one in self.cases:
            if one.id == name:
                return one
        raise NotFound("case", name)

    def _digest(self) -> str:
        return digest(self.model_dump(mode="json", exclude={"digest"}))


def write(folder: Path, manifest: Manifest) -> None:
    """Write the manifest with its digest, the whole of it or nothing."""
    keep(folder / FILE, manifest.sealed().dump())


def read(folder: Path) -> Manifest:
    """The manifest of a suite. PackageError names the field where it is malformed or was edited."""
    path = folder / FILE
    if not path.is_file():
        raise NotFound("suite", str(folder), hint="`rover inject --suite SPEC` makes one")
    found = Manifest.load(path.read_bytes(), str(path))
    if found.digest != found._digest():
        raise PackageError(str(path), "digest", "the manifest was edited after it was written")
    for number, case in enumerate(found.cases):
        reason = _odd(case, found.cases[:number])
        if reason:
            raise PackageError(str(path), f"cases.{case.id}", reason)
    return found


def _odd(case: Case, before: tuple[Case, ...]) -> str:
    """What makes a case one that nobody writes; empty for a plain one."""
    if any(one.id == case.id for one in before):
        return "two cases have this id"
    if any(one.branch == case.branch for one in before):
        return f"another case is on {case.branch} too"
    if case.label == "decoy" and (case.kinds or case.components):
        return "a decoy has no kinds and no components at fault"
    if case.label != "decoy" and not (case.kinds and case.components):
        return f"kinds: {case.label} without kinds or components at fault"
    return ""
