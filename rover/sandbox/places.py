"""What may be asked of a place: paths that a box can really have beside its workspace, checked before it starts."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from rover.sandbox.protocol import Place
from rover_store.errors import SandboxError

WORK = "/w"
#: What a box without an image shows of this machine, or has of its own: nothing of a package can stand there.
RESERVED = (
    "/w", "/v", "/r", "/.rover", "/tmp", "/dev", "/proc", "/sys", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc",
    "/lib32", "/libx32", "/nix/store",
)  # fmt: skip
#: In an image: what rover itself has there, and what no command starts without. A package may replace the rest.
RESERVED_OF_IMAGES = (
    "/w", "/r", "/.rover", "/tmp", "/dev", "/proc", "/sys", "/bin", "/sbin", "/lib", "/lib64", "/usr/bin", "/usr/lib",
    "/etc/ld.so.preload",
)  # fmt: skip
#: Taken in every box in which a program grades, or beside which a solution lies.
RESERVED_OF_TASKS = ("/v", "/tests", "/logs", "/solution")


def where_not(workdir: str) -> str:
    """Which sandboxes cannot have their workspace at this path, on any machine: `no sandbox can`, `the bubblewrap
    sandbox cannot`; empty where all can that have a workspace elsewhere than at /w."""
    if clash(workdir, (*RESERVED_OF_IMAGES, *RESERVED_OF_TASKS)):
        return "no sandbox can"
    return "the bubblewrap sandbox cannot" if clash(workdir, RESERVED) else ""


def clash(path: str, taken: Iterable[str]) -> str:
    """Why a box cannot have a path of its own where these are taken, itself, above or below; empty where it can."""
    plain = path.startswith("/") and not path.startswith("//") and path == os.path.normpath(path) and "\0" not in path
    if not plain or path == "/":
        return f"{path!r} is no absolute path that a box could have"
    for other in taken:
        if path == other or path.startswith(f"{other}/") or other.startswith(f"{path}/"):
            return f"a box cannot have its own {path}: {other} is taken"
    return ""


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


def shows_of(
    place: Place, reserved: tuple[str, ...], shown: tuple[tuple[str, str], ...] = ()
) -> tuple[tuple[str, str], ...]:
    """Each folder to show as (real path on the host, path in the box). What /usr holds is seen already, and so is what
    the box has `shown` there: the Python of an agent may be rover's own."""
    found: list[tuple[str, str]] = []
    for source, target in place.shows:
        real = os.path.realpath(source)
        if not Path(real).is_dir():
            raise SandboxError(f"{source} is no folder of this machine")
        if target == source and (real == "/usr" or real.startswith("/usr/")):
            continue
        _check(target, reserved, [])
        if not any(_sees(one, real, target) for one in (*shown, *found)):
            found.append((real, target))
    return tuple(found)


def _sees(shown: tuple[str, str], real: str, target: str) -> bool:
    """Whether a folder that is shown already has this one at that path."""
    source, at = (path.rstrip("/") for path in shown)
    return f"{target}/".startswith(f"{at}/") and real == source + target.removeprefix(at)


def _check(path: str, reserved: tuple[str, ...], others: list[str]) -> None:
    if why := clash(path, (*reserved, *others)):
        raise SandboxError(why)
