"""The profile of a folder of real files: what each holds, how they relate, and what cannot be used and why.

The same bytes give the same profile, wherever the folder lies. Nothing is written, no link is followed, and
every file is read within limits (readers.Limits). A table that was read in part says so (`complete` is false)
and is no basis for a task.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rover.construct import readers
from rover.construct.columns import Column, describe, shown
from rover.construct.query.duck_tables import Loaded, columns
from rover.construct.readers import FORMATS, Blob, Grid, Limits, read_blob
from rover.construct.relations import Keyed, Relation, relate
from rover_store.errors import PackageError
from rover_store.records import Source


@dataclass(frozen=True, slots=True)
class TableProfile:
    """One table: a csv, tsv, json or jsonl file, or a sheet of a workbook."""

    path: str
    sheet: str | None
    columns: tuple[Column, ...]
    rows: int
    #: every row was read; the engines will see the same types
    complete: bool
    #: the cells of each column as text, None where empty, for a family that makes a file out of real values
    values: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def source(self) -> Source:
        return Source(path=self.path, sheet=self.sheet)

    def column(self, name: str) -> Column:
        """KeyError where there is none."""
        return {c.name: c for c in self.columns}[name]

    @property
    def keys(self) -> tuple[str, ...]:
        """Columns that could identify a row."""
        return tuple(c.name for c in self.columns if c.unique)


@dataclass(frozen=True, slots=True)
class FileProfile:
    """One usable file."""

    path: str
    format: str
    size: int
    sha256: str
    encoding: str = ""
    delimiter: str = ""
    tables: tuple[TableProfile, ...] = ()
    #: sheets of a workbook that hold no usable table, with the reason
    notes: tuple[str, ...] = ()
    #: of a text: lines and words
    lines: int = 0
    words: int = 0


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that is left out."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Profile:
    """A folder of files, ready for the families."""

    files: tuple[FileProfile, ...]
    relations: tuple[Relation, ...]
    skipped: tuple[Skipped, ...]

    @property
    def tables(self) -> tuple[TableProfile, ...]:
        """All tables that were read completely, in the order of their files."""
        return tuple(t for f in self.files for t in f.tables if t.complete)

    def file(self, path: str) -> FileProfile:
        """KeyError where there is none."""
        return {f.path: f for f in self.files}[path]

    def table(self, source: Source) -> TableProfile:
        """KeyError where there is none."""
        return {t.source: t for f in self.files for t in f.tables}[source]

    def relations_of(self, source: Source) -> tuple[Relation, ...]:
        """The relations in which the table is the many side, the best first."""
        return tuple(r for r in self.relations if r.many == source)

    def neighbours(self, path: str) -> tuple[str, ...]:
        """Other files that really relate to this one, the closest first."""
        found: dict[str, None] = {}
        for r in self.relations:
            pair = (r.many.path, r.one.path)
            if path in pair and pair[0] != pair[1]:
                found[pair[1] if pair[0] == path else pair[0]] = None
        return tuple(found)


def profile_folder(folder: Path, limits: Limits | None = None) -> Profile:
    """Profile every file below `folder`. PackageError where there is no folder, no file or none that is usable."""
    limits = limits or Limits()
    if not folder.is_dir():
        raise PackageError(str(folder), "", "not a folder")
    paths, skipped = _walk(folder, limits)
    if not paths and not skipped:
        raise PackageError(str(folder), "", "the folder is empty")
    files: list[FileProfile] = []
    keyed: list[Keyed] = []
    total = 0
    for path in paths:
        try:
            blob = read_blob(folder, path, limits)
            total += len(blob.data)
            if total > limits.total_bytes:
                raise PackageError(path, "", f"the folder holds more than {limits.total_bytes} bytes")
            file, loaded = profile_file(blob, limits)
        except PackageError as error:
            skipped.append(Skipped(path, f"{error.field}: {error.reason}" if error.field else error.reason))
        except OSError as error:
            skipped.append(Skipped(path, f"cannot be read ({error.strerror})"))
        else:
            files.append(file)
            keyed += loaded
    if not any(t.complete and t.rows for f in files for t in f.tables):
        parts = [Skipped(t.path, "too long to be read whole") for f in files for t in f.tables if not t.complete]
        reasons = "; ".join(f"{s.path}: {s.reason}" for s in sorted(skipped + parts, key=lambda s: s.path)[:3])
        raise PackageError(str(folder), "", f"no usable table in the folder{f' ({reasons})' if reasons else ''}")
    return Profile(tuple(files), relate(keyed), tuple(sorted(skipped, key=lambda s: s.path)))


def read_source(folder: Path, file: FileProfile) -> bytes:
    """The bytes of a profiled file, again. PackageError where they are no longer those that were profiled."""
    try:
        blob = read_blob(folder, file.path, Limits())
    except OSError as error:
        raise PackageError(file.path, "", f"cannot be read ({error.strerror})") from None
    if blob.sha256 != file.sha256:
        raise PackageError(file.path, "", "changed since it was profiled")
    return blob.data


def profile_file(blob: Blob, limits: Limits) -> tuple[FileProfile, list[Keyed]]:
    """One file's profile, and its complete tables with their values for the search for relations."""
    form = blob.path.rsplit(".", 1)[-1].lower()
    if not blob.data.strip():
        raise PackageError(blob.path, "", "the file is empty")
    if form == "xlsx":
        return _build(blob, form, readers.workbook(blob, limits))
    text, encoding = readers.decode(blob)
    if form in ("md", "txt"):
        if not blob.whole:
            raise PackageError(blob.path, "", f"{blob.size} bytes of text, more than {limits.file_bytes}")
        lines = text.splitlines()
        counted = sum(len(line.split()) for line in lines)
        return FileProfile(blob.path, form, blob.size, blob.sha256, encoding, lines=len(lines), words=counted), []
    if form in ("json", "jsonl"):
        return _build(blob, form, [readers.objects(blob, text, limits, lines=form == "jsonl")], encoding)
    mark = readers.delimiter(blob.path, text)
    return _build(blob, form, [readers.delimited(blob, text, mark, limits)], encoding, mark)


def _build(
    blob: Blob, form: str, grids: list[Grid], encoding: str = "", mark: str = ""
) -> tuple[FileProfile, list[Keyed]]:
    tables: list[TableProfile] = []
    keyed: list[Keyed] = []
    notes: list[str] = []
    for grid in grids:
        try:
            loaded = _loaded(grid, blob.path)
        except PackageError as error:
            if len(grids) == 1:
                raise
            notes.append(f"{grid.sheet}: {error.field}: {error.reason}")
            continue
        described = tuple(describe(column) for column in loaded)
        values = {column.name: shown(column) for column in loaded} if grid.whole else {}
        table = TableProfile(blob.path, grid.sheet, described, len(grid.rows) - 1, grid.whole, values)
        tables.append(table)
        if grid.whole:
            keyed.append(Keyed(table.source, tuple(zip(described, loaded, strict=True))))
    if not tables:
        raise PackageError(blob.path, "", "no usable table" + (f" ({notes[0]})" if notes else ""))
    file = FileProfile(blob.path, form, blob.size, blob.sha256, encoding, mark, tuple(tables), tuple(notes))
    return file, keyed


def _loaded(grid: Grid, path: str) -> list[Loaded]:
    found = columns(grid.rows, path)
    if not found:
        raise PackageError(path, "header", "no column has a name")
    if len(grid.rows) < 2:
        raise PackageError(path, "", "no rows below the header")
    return found


def _walk(folder: Path, limits: Limits) -> tuple[list[str], list[Skipped]]:
    """Paths of plain files with a known ending, sorted; what else lies there, with the reason it is left out."""
    paths: list[str] = []
    skipped: list[Skipped] = []
    taken: dict[str, str] = {}
    stack = [("", 0)]
    while stack:
        inner, depth = stack.pop()
        for entry in sorted(os.scandir(folder / inner), key=lambda e: e.name):
            path = f"{inner}{entry.name}"
            reason = _unfit(entry, path, depth, limits)
            if reason is None and entry.is_dir(follow_symlinks=False):
                stack.append((f"{path}/", depth + 1))
            elif reason is None and path.casefold() in taken:
                reason = f"differs from {taken[path.casefold()]} by case alone"
            elif reason is None and len(paths) >= limits.files:
                reason = f"more than {limits.files} files"
            elif reason is None:
                taken[path.casefold()] = path
                paths.append(path)
            if reason:
                skipped.append(Skipped(os.fsencode(path).decode("utf-8", "backslashreplace"), reason))
            if len(skipped) > 4 * limits.files:
                raise PackageError(str(folder), "", f"more than {len(skipped)} files that are of no use")
    return sorted(paths), skipped


def _unfit(entry: os.DirEntry[str], path: str, depth: int, limits: Limits) -> str | None:
    mode = entry.stat(follow_symlinks=False).st_mode
    try:
        path.encode()
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    if not path.isprintable() or "\\" in path:
        return "its name holds a control character or a backslash"
    if entry.name.startswith("."):
        return "hidden"
    if stat.S_ISLNK(mode):
        return "a link"
    if stat.S_ISDIR(mode):
        return "too deep" if depth >= limits.depth else None
    if not stat.S_ISREG(mode):
        return "not a plain file"
    ending = path.rsplit(".", 1)[-1].lower() if "." in entry.name else ""
    return None if ending in FORMATS else f"no reader for {'.' + ending if ending else 'a file without an ending'}"
