"""Whether a folder is a package: the files it must and may hold, and the records in them."""

from __future__ import annotations

from typing import Protocol

from rover_store.errors import PackageError
from rover_store.names import check_name
from rover_store.records import (
    Anchors,
    Cases,
    Context,
    Contract,
    Harness,
    Package,
    Record,
    Reference,
    Task,
    Verifier,
)

#: files that every package has, and the record in them (None: plain text)
REQUIRED: dict[str, type[Record] | None] = {
    "package.json": Package,
    "context/context.json": Context,
    "task/task.json": Task,
    "task/instruction.md": None,
    "task/contract.json": Contract,
    "harness/harness.json": Harness,
    "verifier/verifier.json": Verifier,
}
OPTIONAL: dict[str, type[Record] | None] = {
    "README.md": None,
    "LICENSE": None,
    "verifier/anchors.json": Anchors,
    "verifier/cases/cases.json": Cases,
    "verifier/reference/reference.json": Reference,
    # of a package that comes from Harbor: what no record has a field for
    "context/harbor.json": None,
    "task/harbor.json": None,
    "task/trajectory.json": None,
    "harness/harbor.json": None,
    "verifier/harbor.json": None,
}
#: folders in which any file may lie
FREE = (
    "context/files/", "verifier/checks/", "verifier/reference/files/", "verifier/cases/", "demonstrations/",
    "context/environment/", "context/steps/", "task/steps/", "harness/mcp/", "verifier/tests/", "verifier/steps/",
)  # fmt: skip


class Files(Protocol):
    """Where the files come from."""

    def has(self, path: str) -> bool: ...

    def data(self, path: str) -> bytes: ...


def check_paths(paths: list[str]) -> None:
    """PackageError for a file that has no place in a package, and for one that is missing."""
    for path in paths:
        if path not in REQUIRED and path not in OPTIONAL and not path.startswith(FREE):
            raise PackageError(path, "", "has no place in a package", hint="rover help package")
    present = set(paths)
    for path in REQUIRED:
        if path not in present:
            raise PackageError(path, "", "missing", hint="rover help package")


def check_records(files: Files, paths: list[str]) -> Package:
    """Parse every record of a package and check the ties that need no store. Returns package.json."""
    check_paths(paths)
    found: dict[str, Record] = {}
    for path, kind in {**REQUIRED, **OPTIONAL}.items():
        if kind is not None and files.has(path):
            found[path] = kind.load(files.data(path), path)
    text = files.data("task/instruction.md")
    try:
        if not text.decode().strip():
            raise PackageError("task/instruction.md", "", "is empty")
    except UnicodeDecodeError:
        raise PackageError("task/instruction.md", "", "is not UTF-8") from None
    package = found["package.json"]
    assert isinstance(package, Package)
    check_name(package.name)
    return package
