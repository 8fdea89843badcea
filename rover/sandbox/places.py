"""What may be asked of a place: paths that a box can really have beside its workspace, checked before it starts."""

from __future__ import annotations

import os
from pathlib import Path

from rover.sandbox.protocol import Place
from rover_store.errors import SandboxError

WORK = "/w"


def links_of(place: Place, reserved: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Each link of a place as (absolute path, folder below /w). SandboxError for one that cannot be."""
    found: list[tuple[str, str]] = []
    for path, folder in place.links:
        if path == WORK and not folder:
            continue  # it stands there already
        _check(path, reserved, [p for p, _ in found])
        parts = folder.split("/") if folder else []
        if any(part in ("", ".", "..") or "\0" in part for part in parts):
            raise SandboxError(f"the place {path}: {folder!r} is no folder of the workspace")
        found.append((path, "/".join([WORK, *parts])))
    return tuple(found)


def shows_of(place: Place, reserved: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Each folder to show as (real path on the host, path in the box). What /usr holds is seen already."""
    found: list[tuple[str, str]] = []
    for source, target in place.shows:
        real = os.path.realpath(source)
        if not Path(real).is_dir():
            raise SandboxError(f"{source} is no folder of this machine")
        if target == source and (real == "/usr" or real.startswith("/usr/")):
            continue
        _check(target, reserved, [])
        found.append((real, target))
    return tuple(found)


def _check(path: str, reserved: tuple[str, ...], others: list[str]) -> None:
    plain = path.startswith("/") and not path.startswith("//") and path == os.path.normpath(path) and "\0" not in path
    if not plain or path == "/":
        raise SandboxError(f"{path!r} is no absolute path that a box could have")
    for taken in (*reserved, *others):
        if path == taken or path.startswith(f"{taken}/") or taken.startswith(f"{path}/"):
            raise SandboxError(f"a box cannot have its own {path}: {taken} is taken")
