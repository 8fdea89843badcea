"""Base packages of a suite: built once for a spec, split and seed, proved sound, and kept in the work folder."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rover.bench.suites.battery import Battery, Unsound, battery, sown
from rover.bench.suites.parallel import Pool
from rover.bench.suites.spec import Folder, Spec
from rover.bench.suites.work import keep
from rover.construct.build import Attempt, Workspace, attempt
from rover.construct.families.protocol import Dropped
from rover.construct.families.registry import families
from rover.construct.profile import profile_folder, read_source
from rover.rollout.engine import Engine
from rover.rollout.env import Env, env_from_files
from rover.sandbox.protocol import Files
from rover_store.errors import UsageError
from rover_store.records import SealedAudit

#: attempts that a workspace gets for each package that is wanted
ATTEMPTS = 3


@dataclass(frozen=True)
class Base:
    """A sound package, with its battery and its sealed audit."""

    name: str
    workspace: str
    family: str
    env: Env = field(repr=False)
    audit: SealedAudit = field(repr=False)
    battery: Battery = field(repr=False)

    def shares(self, other: Base) -> bool:
        """Whether the two are bound to the same version of a resource."""
        mine = {(r.kind, r.name, r.tree) for r in self.env.context.resources}
        return any((r.kind, r.name, r.tree) in mine for r in other.env.context.resources)


@dataclass(frozen=True, slots=True)
class Lost:
    """An attempt that gave no base, and why."""

    workspace: str
    family: str
    reason: str


def workspace(folder: Folder) -> Workspace:
    """The profiled folder and the bytes of its files."""
    profile = profile_folder(folder.path)
    sources = {f.path: read_source(folder.path, f) for f in profile.files if f.sha256}
    return Workspace(folder.name, profile, sources, folder.license)


def bases(
    pool: Pool, spec: Spec, folders: Sequence[Folder], seed: int, work: Path
) -> tuple[tuple[Base, ...], tuple[Lost, ...]]:
    """The bases of all workspaces, in their order, and what gave none. Finished attempts in `work` are read."""
    total = spec.packages * len(folders)

    def one(engine: Engine, folder: Folder) -> tuple[list[Base], list[Lost]]:
        return _of_workspace(engine, pool, spec, folder, seed, work / folder.name, total)

    found = pool.map(one, folders)
    made = tuple(base for some, _ in found for base in some)
    if not made:
        reasons = "; ".join(sorted({lost.reason for _, some in found for lost in some})[:3])
        raise UsageError(f"no base package could be built: {reasons}")
    return made, tuple(lost for _, some in found for lost in some)


def _of_workspace(
    engine: Engine, pool: Pool, spec: Spec, folder: Folder, seed: int, work: Path, total: int
) -> tuple[list[Base], list[Lost]]:
    """The bases of one workspace: the first attempts that give a sound package; families take turns."""
    source: Workspace | None = None
    made: dict[str, Base] = {}
    lost: list[Lost] = []
    chosen = families(*spec.families)
    for number in range(ATTEMPTS * spec.packages):
        kind = chosen[number % len(chosen)]
        path = work / f"{number:03}.json"
        if not path.is_file():
            source = source or workspace(folder)
            value = _attempted(engine, attempt(engine, source, kind, number, seed), seed)
            keep(path, json.dumps(value).encode())
        found = _read(json.loads(path.read_bytes()), folder.name)
        if isinstance(found, Lost) or found.name in made:
            lost.append(found if isinstance(found, Lost) else Lost(folder.name, found.family, "the same task again"))
            continue
        made[found.name] = found
        pool.told("base", total, found.name)
        if len(made) == spec.packages:
            break
    return list(made.values()), lost


def _attempted(engine: Engine, found: Attempt, seed: int) -> dict[str, Any]:
    """An attempt as it is kept, with the battery of the package."""
    outcome = found.outcome
    if isinstance(outcome, Dropped):
        return {"family": found.family, "lost": f"{outcome.stage}: {outcome.reason}"}
    env = env_from_files(outcome.files, outcome.resources)
    try:
        made = battery(engine, env, sown("battery", seed, outcome.name))
    except Unsound as error:
        return {"family": found.family, "lost": f"not sound: {error}"}
    return {
        "family": found.family,
        "name": outcome.name,
        "files": _packed(outcome.files),
        "resources": {name: _packed(files) for name, files in sorted(outcome.resources.items())},
        "audit": outcome.audit.dump().decode(),
        "battery": made.dump(),
    }


def _read(value: Mapping[str, Any], workspace: str) -> Base | Lost:
    if "lost" in value:
        return Lost(workspace, value["family"], value["lost"])
    files = _unpacked(value["files"])
    resources = {name: _unpacked(packed) for name, packed in value["resources"].items()}
    return Base(
        value["name"],
        workspace,
        value["family"],
        env_from_files(files, resources),
        SealedAudit.load(value["audit"].encode(), "sealed audit"),
        Battery.load(value["battery"]),
    )


def _packed(files: Files) -> dict[str, str]:
    return {path: base64.b64encode(data).decode() for path, data in sorted(files.items())}


def _unpacked(packed: Mapping[str, str]) -> dict[str, bytes]:
    return {path: base64.b64decode(data) for path, data in packed.items()}
