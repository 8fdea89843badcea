"""Full regeneration: throw the package away and build one again from its workspace and config, under a new seed.

No proposal is shared with anybody: this stands beside the methods that repair. What comes out is a package of the
same family over the same files, whose task is whatever the new seed draws.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rover.construct.build import Built, Workspace, attempt
from rover.construct.config import BuildConfig
from rover.construct.families.registry import installed
from rover.construct.profile import profile_folder, read_source
from rover.diagnose.diagnosis import diagnose
from rover.diagnose.protocol import ProbeContext
from rover.repair.intent import Intent, differences
from rover.rollout.engine import Engine
from rover.rollout.env import Env, env_from_files
from rover_store.errors import PackageError
from rover_store.ids import digest

#: attempts, each under a seed of its own, before regeneration gives up
TRIES = 3


@dataclass(frozen=True, slots=True)
class Regenerated:
    """What came of it. `changes` are the demands of the frozen intent that the new package does not keep."""

    package: str = ""
    resolved: bool = False
    changes: tuple[str, ...] = ()
    reason: str = ""
    attempts: int = 0


def regenerate(engine: Engine, env: Env, intent: Intent | None, seed: int) -> Regenerated:
    """Build again and look: was one admitted, is nothing found in it, and does it still ask the same?"""
    family = installed(env.record.family)
    provenance = env.record.provenance
    if family is None or provenance is None:
        return Regenerated(reason="nothing is recorded of how it was built")
    known = {f.name for f in fields(BuildConfig)}
    stated: Mapping[str, Any] = {k: v for k, v in provenance.config.items() if k in known}
    try:
        workspace = _workspace(env)
    except PackageError as error:
        return Regenerated(reason=f"its workspace cannot be read: {error.message}")
    reason = ""
    for number in range(TRIES):
        fresh = int(digest(["regenerate", provenance.seed, seed])[:12], 16)
        found = attempt(engine, workspace, family, number, fresh, config=BuildConfig(**stated)).outcome
        if isinstance(found, Built):
            return _judged(engine, found, intent, seed, number + 1)
        reason = f"{found.stage}: {found.reason}"
    return Regenerated(reason=f"no attempt was admitted; {reason}", attempts=TRIES)


def _workspace(env: Env) -> Workspace:
    """The files that the package is bound to, as they are now. Files of its own were drawn with the task."""
    files = {path: data for path, data in env.start.items() if f"context/files/{path}" not in env.files}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, data in sorted(files.items()):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
        profile = profile_folder(folder)
        sources = {f.path: read_source(folder, f) for f in profile.files if f.sha256}
    return Workspace("regenerated", profile, sources)


def _judged(engine: Engine, built: Built, intent: Intent | None, seed: int, attempts: int) -> Regenerated:
    env = env_from_files(built.files, built.resources)
    found = diagnose(ProbeContext(env, engine, seed))
    changes = tuple(differences(intent, env)) if intent is not None else ()
    sound = found.verdict in ("sound", "agent")
    reason = "admitted, and nothing is found in it" if sound else found.summary
    return Regenerated(built.name, sound, changes, reason, attempts)
