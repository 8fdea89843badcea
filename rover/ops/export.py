"""Write packages of a revision in another tool's format: a folder that appears whole or not at all."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rover.port.protocol import Export, Exported
from rover.port.registry import exporter
from rover_store.errors import StoreError, UsageError
from rover_store.files.outputs import check_outside
from rover_store.scratch import scratch

if TYPE_CHECKING:
    from rover_store.layout import PackageEntry
    from rover_store.store import Store

Told = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """What to export, and where to. The folder must be new or empty, unless it is to be replaced."""

    kind: str
    out: Path
    pattern: str = "*"
    rev: str = "HEAD"
    limit: int = 0
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExportReport:
    """Rows in the order of writing; a row without a path was left out, for the reasons in its notes."""

    kind: str
    revision: str
    out: str
    rows: tuple[Exported, ...]
    #: what a row is
    noun: str = "package"

    @property
    def written(self) -> tuple[Exported, ...]:
        return tuple(row for row in self.rows if row.path)


def export(store: Store, request: ExportRequest, *, told: Told = lambda name, done, total: None) -> ExportReport:
    """Export what a glob matches. UsageError where it matches nothing, or the folder holds anything."""
    way = exporter(request.kind)
    revision = store.resolve(request.rev)
    entries = chosen(store, revision, request, by_rollout=getattr(way, "by_rollout", False))
    out = request.out.expanduser()
    check_outside(out, store.folder)
    if out.is_symlink() or (out.exists() and (not out.is_dir() or any(out.iterdir()))):
        raise UsageError(f"{request.out}: exists and is not empty", hint="name another folder")
    rows: list[Exported] = []
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        made_in = scratch(out.parent, ".rover-export-")
        made_in.mkdir(mode=0o700)
    except OSError as error:
        raise StoreError(f"cannot write {request.out}: {error.strerror}") from None
    try:
        inner = made_in / "new"
        inner.mkdir()
        for row in way.write(Export(store, revision, entries, request.options, request.pattern), inner):
            rows.append(row)
            told(row.name, len(rows), len(entries))
        if out.exists():
            out.rmdir()
        inner.rename(out)
    except OSError as error:
        raise StoreError(f"cannot write {request.out}: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            shutil.rmtree(made_in)
    return ExportReport(request.kind, revision, str(request.out), tuple(rows), getattr(way, "noun", "package"))


def chosen(store: Store, revision: str, request: ExportRequest, *, by_rollout: bool = False) -> list[PackageEntry]:
    """The packages that a request names. UsageError where there is none, unless it can name a rollout instead."""
    entries = store.packages(revision, request.pattern)
    if not entries and not (by_rollout and re.fullmatch(r"[0-9a-f]{4,64}", request.pattern)):
        raise UsageError(f"no package of {request.rev} matches {request.pattern!r}", hint="`rover list` shows all")
    return entries[: request.limit] if request.limit else entries
