"""What a way in and a way out are, and what they hand over. Nothing here knows a store's commands or prints.

An `Importer` reads a path of another tool's files and yields what it found: packages, recorded rollouts, or what it
refuses. The operation takes all of it in with one commit. An `Exporter` writes packages of a revision into an empty
folder; the operation moves that folder to where it belongs when all of it is written.

Errors: PackageError (one line: file, field, reason) where the input as a whole is wrong. What is wrong with one of many
is a `Refused`, and the operation decides whether that ends the import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from rover.sandbox.protocol import Files
from rover_store.records import Trajectory

if TYPE_CHECKING:
    from rover.rollout.engine import Engine
    from rover_store.evidence import Manifest
    from rover_store.layout import PackageEntry
    from rover_store.store import Store

#: what the command line hands on as KEY=VALUE
Options = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Imported:
    """One package that was read. `files` is the package folder, path -> bytes, with its package.json."""

    name: str
    files: Files
    #: where it was found, relative to the path that was named
    source: str = ""
    #: resources that it is bound to, `files/NAME` -> the files of the resource
    resources: Mapping[str, Files] = field(default_factory=dict)
    #: keys that no known schema has; they are kept
    unknown: tuple[str, ...] = ()
    #: why no sandbox, or not every one, can run it: one line each, first the feature that it needs
    needs: tuple[str, ...] = ()
    #: anything else that a person should know
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recorded:
    """A rollout that was read: new blobs by id, and the manifest of every workspace tree that it names."""

    trajectory: Trajectory
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    trees: Mapping[str, Manifest] = field(default_factory=dict)
    source: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of a rollout that was played again here. `outcome`: recorded, held (it was here), differs (what
    happened here is recorded, under a policy of its own), refused (nothing is recorded)."""

    outcome: str
    package: str = ""
    rollout: str = ""
    #: the outcome of its verdict
    verdict: str = ""
    reason: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Replayable:
    """A rollout that was read without its workspaces: `replay` makes its calls again, compares, and records."""

    source: str
    replay: Callable[[Store, Engine], Replayed]


@dataclass(frozen=True, slots=True)
class Refused:
    """What cannot be taken in, and why."""

    source: str
    file: str
    field: str
    reason: str

    def line(self) -> str:
        """One line: file, field, reason."""
        where = "/".join(p for p in (self.source, self.file) if p and p != ".")
        return ": ".join(p for p in (where, self.field, self.reason) if p)


Found = Imported | Recorded | Replayable | Refused


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which of many: a glob on the names found there, at most so many (0: all), and options of the format."""

    pattern: str = "*"
    limit: int = 0
    options: Options = field(default_factory=dict)


@runtime_checkable
class Importer(Protocol):
    """A way in."""

    #: the name on the command line
    kind: str

    def read(self, path: Path, wanted: Wanted) -> Iterable[Found]:
        """What lies at `path`, in a fixed order. Reads nothing outside of it, and runs nothing of it."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What became of one package (or rollout): the folder or file below the export, empty where it is left out."""

    name: str
    path: str = ""
    #: why it is left out, or what the other format cannot say
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Export:
    """What is to be exported: entries of one full revision, with options of the format. `pattern` is what named them;
    there are none where it named a rollout."""

    store: Store
    revision: str
    entries: Sequence[PackageEntry]
    options: Options = field(default_factory=dict)
    pattern: str = "*"


@runtime_checkable
class Exporter(Protocol):
    """A way out."""

    kind: str

    def write(self, job: Export, folder: Path) -> Iterable[Exported]:
        """Write into `folder`, which is empty; the same revision gives the same bytes. Rows as they come."""
