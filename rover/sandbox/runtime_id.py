"""The id of a runtime: what a rollout's or a verdict's result may depend on besides its inputs."""

from __future__ import annotations

import hashlib
import platform
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rover_store.ids import digest

#: Libraries whose version may change what runs inside.
LIBRARIES = ("duckdb", "numpy", "openpyxl", "pandas")
#: Folders and files below rover/ whose code makes a rollout or a verdict; a change of theirs is a new runtime.
INSIDE = (
    "sandbox/inside",
    "harness/inside.py",
    "harness/inside_books.py",
    "harness/live.py",
    "harness/loop.py",
    "harness/manifest.py",
    "harness/mcp",
    "harness/program.py",
    "harness/relay",
    "harness/tools",
    "harness/transcript.py",
    "policy/solution.py",
    "rollout/attempt.py",
    "rollout/place.py",
    "verify/checklib",
    "verify/inside.py",
    "verify/inside_layout.py",
    "verify/links.py",
    "verify/process.py",
    "verify/program.py",
    "verify/reward.py",
)


def runtime_id(
    kind: str, tier: int, unmet: tuple[str, ...], beside: tuple[str, ...] = (), image: str = ""
) -> str:
    """Hash of sandbox kind, tier, unmet guarantees, interpreter, libraries and rover's own inside code.

    `beside` names code of this kind alone, as in INSIDE. `image` is what every box runs in, by id.
    """
    own = {"beside": code_digest(beside)} if beside else {}
    own |= {"image": image} if image else {}
    return digest(
        {
            **own,
            "kind": kind,
            "tier": tier,
            "unmet": sorted(unmet),
            "python": platform.python_version(),
            "machine": platform.machine(),
            "libraries": library_versions(),
            "inside": inside_digest(),
        }
    )


def library_versions() -> dict[str, str]:
    """Version of each library that inside code uses; `absent` where it is not installed."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found


def inside_digest() -> str:
    """Digest of the sources that run inside. Read once a process."""
    return code_digest(INSIDE)


@lru_cache(maxsize=8)
def code_digest(names: tuple[str, ...]) -> str:
    """Digest of these files and folders below rover/. Read once a process."""
    root = Path(__file__).resolve().parent.parent
    h = hashlib.sha256()
    for name in names:
        path = root / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            data = file.read_bytes()
            h.update(f"{file.relative_to(root).as_posix()}\0{len(data)}\0".encode() + data)
    return h.hexdigest()
