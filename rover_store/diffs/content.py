"""The values that a comparison of two files gives. All are plain and frozen; `None` stands for a side that is absent.

Lists are bounded (see `bounds`); `Counts` counts everything, and `omitted` says how much a list leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

Status = Literal["added", "removed", "changed"]
Kind = Literal["text", "record", "json", "table", "workbook", "document", "image", "archive", "bytes"]

#: Reads a format that is dangerous to parse: (format, bytes of each side) -> what each side holds, as plain JSON, or
#: `{"error": reason}`. Called with one side or two. None instead of a list: it cannot work here at all.
Extract = Callable[[str, Sequence[bytes]], "list[dict[str, Any]] | None"]


class Hunk(NamedTuple):
    """Neighbouring lines with their context. A line is its mark (` `, `-`, `+`) and its text without the line end."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: tuple[tuple[str, str], ...]


class TextPart(NamedTuple):
    """Lines that differ: of the whole file, or of a named part of a document (`page 2`, `slide 3`, `header`)."""

    name: str
    status: Status
    hunks: tuple[Hunk, ...]
    added: int = 0
    removed: int = 0
    omitted: int = 0


class FieldChange(NamedTuple):
    """A field with its old and new value. `path` leads to it; a member of a list is named by its key.

    `item` and `id` name the part of a record it belongs to (requirement `total`), `field` the place inside that part;
    an empty `field` is the part as a whole. `reordered` has the order of a list's members as its values.
    """

    path: str
    status: Literal["added", "removed", "changed", "reordered"]
    old: Any = None
    new: Any = None
    item: str = ""
    id: str = ""
    field: str = ""


class Columns(NamedTuple):
    """What became of the columns of a table."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    reordered: bool = False


class CellChange(NamedTuple):
    """A cell of a row that both sides have. `row` is the row's key, or its number where no column is a key.

    The numbers count from 1 as a spreadsheet does, the header included. Formulas stand beside the values they gave.
    """

    row: str
    column: str
    old: str
    new: str
    old_number: int
    new_number: int
    old_formula: str = ""
    new_formula: str = ""


class RowChange(NamedTuple):
    """A row that only one side has."""

    row: str
    number: int
    cells: tuple[str, ...]


class TableChange(NamedTuple):
    """A table (`name` is the sheet, empty for a file that is one table) and all that differs in it."""

    name: str
    status: Status
    key: tuple[str, ...] = ()
    old_name: str = ""
    columns: Columns = Columns()
    cells: tuple[CellChange, ...] = ()
    rows_added: tuple[RowChange, ...] = ()
    rows_removed: tuple[RowChange, ...] = ()
    rows_reordered: bool = False
    old_rows: int = 0
    new_rows: int = 0
    counts: tuple[int, int, int] = (0, 0, 0)  # cells, rows added, rows removed: all of them
    omitted: int = 0
    header: tuple[str, ...] = ()

    @property
    def differs(self) -> bool:
        return bool(
            any(self.counts) or self.columns != Columns() or self.rows_reordered or self.old_name
            or self.status != "changed"
        )  # fmt: skip


class Image(NamedTuple):
    format: str
    width: int
    height: int
    size: int
    sha256: str
    mode: str = ""


class Member(NamedTuple):
    """A member of an archive; sizes unpacked."""

    name: str
    status: Status
    old_size: int | None
    new_size: int | None


class Counts(NamedTuple):
    """How much differs, for a summary."""

    lines_added: int = 0
    lines_removed: int = 0
    cells: int = 0
    rows_added: int = 0
    rows_removed: int = 0
    columns: int = 0
    fields: int = 0
    members: int = 0
    files: int = 0

    def plus(self, other: Counts) -> Counts:
        return Counts(*(a + b for a, b in zip(self, other, strict=True)))


class Content(NamedTuple):
    """What differs between two versions of a file. `notes` are in words: what no list can show.

    Where the bytes differ, at least one of the lists or a note is there.
    """

    kind: Kind
    old_size: int | None
    new_size: int | None
    notes: tuple[str, ...] = ()
    parts: tuple[TextPart, ...] = ()
    fields: tuple[FieldChange, ...] = ()
    tables: tuple[TableChange, ...] = ()
    members: tuple[Member, ...] = ()
    old_image: Image | None = None
    new_image: Image | None = None
    counts: Counts = Counts()

    @property
    def says(self) -> bool:
        """Whether anything is named that differs."""
        return bool(
            self.notes or self.parts or self.fields or self.tables or self.members
            or (self.old_image or self.new_image)
        )  # fmt: skip
