"""A package folder to begin with: a small sound package and a page that says what goes where."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from rover_store.errors import UsageError
from rover_store.ids import check_name


@dataclass(frozen=True, slots=True)
class NewPackage:
    """What was written."""

    folder: Path
    name: str
    files: tuple[str, ...]


def new(folder: Path, name: str = "") -> NewPackage:
    """Write the folder. Its name is the package's unless one is given. UsageError where it holds anything."""
    name = check_name(name or folder.resolve().name, str(folder), "name")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder}: exists and is not empty")
    written = []
    for path, data in _template(files("rover") / "ops" / "template", ""):
        if path == "package.json":
            data = data.replace(b'"my-package"', f'"{name}"'.encode())
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        written.append(path)
    return NewPackage(folder, name, tuple(sorted(written)))


def _template(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for item in sorted(folder.iterdir(), key=lambda i: i.name):
        if item.name == "__pycache__":
            continue
        path = f"{prefix}{item.name}"
        found += _template(item, f"{path}/") if item.is_dir() else [(path, item.read_bytes())]
    return found
