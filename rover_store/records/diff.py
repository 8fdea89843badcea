"""What `rover diff --json` prints, for its schema. It is never stored; rover_store.diffs.plain makes it."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from rover_store.records.base import Part, Record

Status = Literal["added", "removed", "changed"]
Id = Annotated[str | None, Field(description="git object id; absent (null) where this side does not exist")]


class HunkPart(Part):
    """Neighbouring lines that differ, with their context. Lines count from 1."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: Annotated[tuple[str, ...], Field(description="each begins with its mark: space, - or +")]


class TextPartChange(Part):
    """Lines of a text, or of a named part of a document (a page, a slide)."""

    name: str
    status: Status
    hunks: tuple[HunkPart, ...]
    added: Annotated[int, Field(description="lines added, all of them")]
    removed: int
    omitted: Annotated[int, Field(description="changed lines that the hunks leave out")] = 0


class FieldPart(Part):
    """A field of a JSON file. A long value is cut; `reordered` has the order of a list's members as its values."""

    path: str
    status: Literal["added", "removed", "changed", "reordered"]
    old: Any = None
    new: Any = None
    item: Annotated[str, Field(description="part of a record: requirement, criterion, anchor, edge, ...")] = ""
    id: Annotated[str, Field(description="which one of them")] = ""
    field: Annotated[str, Field(description="place inside that part; absent for the part as a whole")] = ""


class ColumnsPart(Part):
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    renamed: Annotated[tuple[tuple[str, str], ...], Field(description="pairs of old and new name")] = ()
    reordered: bool = False


class CellPart(Part):
    """A cell of a row that both sides have. Row numbers count from 1, the header included."""

    row: Annotated[str, Field(description="the row's key, or its number")]
    column: str
    old: str
    new: str
    old_number: int
    new_number: int
    old_formula: str = ""
    new_formula: str = ""


class RowPart(Part):
    row: str
    number: int
    cells: tuple[str, ...]


class TablePart(Part):
    """A csv, tsv or sheet. The lists are bounded; the numbers count everything."""

    name: Annotated[str, Field(description="sheet of a workbook, else empty")]
    status: Status
    old_rows: int
    new_rows: int
    changed_cells: int
    added_rows: int
    removed_rows: int
    old_name: str = ""
    header: tuple[str, ...] = ()
    key: Annotated[tuple[str, ...], Field(description="columns by which rows were matched; absent: by order")] = ()
    columns: ColumnsPart = ColumnsPart()
    rows_reordered: bool = False
    cells: tuple[CellPart, ...] = ()
    rows_added: tuple[RowPart, ...] = ()
    rows_removed: tuple[RowPart, ...] = ()
    omitted: int = 0


class MemberPart(Part):
    """A member of an archive, sizes unpacked."""

    name: str
    status: Status
    old_size: int | None = None
    new_size: int | None = None


class ImagePart(Part):
    format: str
    width: int
    height: int
    size: int
    sha256: str
    mode: str = ""


class CountsPart(Part):
    lines_added: int = 0
    lines_removed: int = 0
    cells: int = 0
    rows_added: int = 0
    rows_removed: int = 0
    columns: int = 0
    fields: int = 0
    members: int = 0
    files: int = 0


class ContentPart(Part):
    """What differs inside a file. Where its bytes differ, a list or a note says how."""

    kind: Literal["text", "record", "json", "table", "workbook", "document", "image", "archive", "bytes"]
    old_size: int | None = None
    new_size: int | None = None
    notes: Annotated[tuple[str, ...], Field(description="in words: what no list can show")] = ()
    parts: tuple[TextPartChange, ...] = ()
    fields: tuple[FieldPart, ...] = ()
    tables: tuple[TablePart, ...] = ()
    members: tuple[MemberPart, ...] = ()
    old_image: ImagePart | None = None
    new_image: ImagePart | None = None
    counts: CountsPart = CountsPart()


class FilePart(Part):
    """A file that differs."""

    path: Annotated[
        str, Field(description="below the component's folder, or below the resource; a folder without files ends in /")
    ]
    status: Status
    old: Id = None
    new: Id = None
    mode: Annotated[str, Field(description="git's modes, where they differ")] = ""
    moved: Annotated[str, Field(description="place in the package it came from or went to, byte for byte")] = ""
    content: ContentPart | None = None


class ItemPart(Part):
    """A part of a record with an id of its own."""

    kind: str
    id: str
    status: Status


class ComponentPart(Part):
    """context, task, harness, verifier, or `package` for what lies beside them."""

    name: str
    status: Status
    old: Id = None
    new: Id = None
    files: tuple[FilePart, ...] = ()
    items: tuple[ItemPart, ...] = ()


class PackagePart(Part):
    name: str
    status: Status
    old: Id = None
    new: Id = None
    components: tuple[ComponentPart, ...] = ()


class ResourcePart(Part):
    name: Annotated[str, Field(description="KIND/NAME")]
    status: Status
    old: Id = None
    new: Id = None
    files: tuple[FilePart, ...] = ()


class DiffDocument(Record):
    """What `rover diff --json` prints: everything that differs between two revisions, packages, files or folders."""

    kind: ClassVar[str] = "diff"

    old: Annotated[str, Field(description="id of the commit, tree or blob that was compared from")]
    new: Annotated[str, Field(description="id that was compared with; of a folder: the tree it would become")]
    packages: tuple[PackagePart, ...] = ()
    resources: tuple[ResourcePart, ...] = ()
    other: Annotated[tuple[FilePart, ...], Field(description="files outside packages and resources")] = ()
    totals: CountsPart = CountsPart()
