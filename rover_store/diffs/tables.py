"""Tables by cell, row and column.

Columns are matched by their names. Rows are matched by a key, a column (or two) whose cells are unique on both sides
and mostly the same, and where there is none in their order. A column that went is the same as one that came if
nearly all its cells are.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from rover_store.diffs.bounds import CELLS, CHARACTERS, COLUMNS, LISTED
from rover_store.diffs.content import CellChange, Columns, RowChange, TableChange
from rover_store.diffs.rows import Match, Row, by_key, find_key, in_order


class Grid(NamedTuple):
    """A table as text. `formulas`: (row, column), from 0 -> formula."""

    rows: Sequence[Row]
    formulas: dict[tuple[int, int], str] = {}  # noqa: RUF012


def read_delimited(text: str, ending: str) -> tuple[Grid, str] | str:
    """A csv or tsv with its delimiter, or the reason why it is none that can be compared by cell."""
    mark = "\t" if ending == "tsv" else delimiter(text)
    if sum(map(text.count, (mark, "\n", "\r"))) > CELLS:
        return f"more than {CELLS} cells, compared by line"
    try:
        rows: list[Row] = list(map(tuple, filter(None, csv.reader(io.StringIO(text, newline=""), delimiter=mark))))
    except csv.Error as error:
        return f"not readable as {ending} ({error}), compared by line"
    if max(map(len, rows), default=0) > COLUMNS:
        return f"more than {COLUMNS} columns, compared by line"
    return Grid(rows), mark


def delimiter(text: str) -> str:
    """The one of , ; tab | that stands most often in the first line outside quotes."""
    first = text[:10_000].lstrip("\r\n").split("\n", 1)[0]
    bare = "".join(first.split('"')[::2])
    return max(",;\t|", key=bare.count)


class _Side:
    """One side: its column names and the rows below them, all of one width."""

    def __init__(self, grid: Grid, header: list[str] | None) -> None:
        width = max((len(row) for row in grid.rows), default=0)
        self.first = 1 if header is not None else 0
        self.names = [*(header or []), *(letters(i) for i in range(len(header or []), width))]
        if len(set(self.names)) != len(self.names):  # a letter that is also a name
            self.names = [n if self.names.index(n) == i else f"{n} ({i + 1})" for i, n in enumerate(self.names)]
        gap = ("",) * width
        self.rows = [row + gap[len(row) :] for row in islice(grid.rows, self.first, None)]
        self.formulas = grid.formulas

    def at(self, names: Sequence[str]) -> list[int]:
        index = {n: i for i, n in enumerate(self.names)}
        return [index[n] for n in names]

    def picked(self, names: Sequence[str]) -> list[Row]:
        at = self.at(names)
        if at == list(range(len(self.names))):
            return self.rows
        return [tuple(row[i] for i in at) for row in self.rows]


def compare_tables(name: str, old: Grid, new: Grid) -> TableChange:
    """Everything that differs between two tables; `differs` is false where all cells are equal."""
    headers = [_header(g) for g in (old, new)]
    if None in headers:
        headers = [None, None]
    a, b = _Side(old, headers[0]), _Side(new, headers[1])
    known = set(a.names) & set(b.names)
    common = [n for n in a.names if n in known]
    renamed: tuple[tuple[str, str], ...] = ()
    if not common and len(a.names) == len(b.names):  # another header over the same columns
        renamed = tuple(zip(a.names, b.names, strict=True))
    pairs = [(n, n) for n in common] or list(renamed)
    rows = (a.picked([o for o, _ in pairs]), b.picked([n for _, n in pairs]))
    key = find_key(rows, len(pairs)) if pairs else ()
    match = by_key(rows, key) if key else in_order(rows)
    gone, came = [n for n in a.names if n not in known], [n for n in b.names if n not in known]
    if not renamed:
        renamed = _renamed(a, b, gone, came, match.pairs)
        pairs += renamed
    columns = Columns(
        tuple(n for n in came if n not in {y for _, y in renamed}),
        tuple(n for n in gone if n not in {x for x, _ in renamed}),
        renamed,
        [n for n in b.names if n in known] != common,
    )
    return _Result(name, a, b, pairs, tuple(pairs[i][1] for i in key), match).change(columns, old, new)


def one_table(name: str, grid: Grid, *, added: bool) -> TableChange:
    """A table that only one side has: its columns and how many rows."""
    side = _Side(grid, _header(grid))
    columns = tuple(_cut(n) for n in side.names)
    n = len(side.rows)
    counts = (0, n, 0) if added else (0, 0, n)
    sizes = (0, n) if added else (n, 0)
    return TableChange(
        name, "added" if added else "removed", header=columns, counts=counts, old_rows=sizes[0], new_rows=sizes[1]
    )


class _Result:
    """Puts the differences of matched rows together, up to a bound."""

    def __init__(
        self, name: str, a: _Side, b: _Side, pairs: list[tuple[str, str]], key: tuple[str, ...], match: Match
    ) -> None:
        self.name, self.a, self.b, self.key, self.match = name, a, b, key, match
        self.left, self.right = a.at([o for o, _ in pairs]), b.at([n for _, n in pairs])
        self.labels = [n for _, n in pairs]
        self.key_at = b.at(key), a.at([o for k in key for o, n in pairs if n == k])

    def change(self, columns: Columns, old: Grid, new: Grid) -> TableChange:
        cells, count = self._cells()
        added = [self._row(self.b, j, self.key_at[0]) for j in self.match.added[:LISTED]]
        removed = [self._row(self.a, i, self.key_at[1]) for i in self.match.removed[:LISTED]]
        counts = (count, len(self.match.added), len(self.match.removed))
        return TableChange(
            self.name, "changed", tuple(map(_cut, self.key)), "", columns, tuple(cells), tuple(added), tuple(removed),
            self.match.reordered, len(self.a.rows), len(self.b.rows), counts,
            sum(counts) - len(cells) - len(added) - len(removed), tuple(_cut(n) for n in self.b.names),
        )  # fmt: skip

    def _cells(self) -> tuple[list[CellChange], int]:
        out: list[CellChange] = []
        count = 0
        formulas = self.a.formulas or self.b.formulas
        straight = self.left == self.right and len(self.left) == len(self.a.names) == len(self.b.names)
        left, right = self.a.rows, self.b.rows
        pairs = self.match.pairs
        if straight and not formulas:
            pairs = [(i, j) for i, j in pairs if left[i] != right[j]]
        for i, j in pairs:
            before, after = left[i], right[j]
            for x, y, label in zip(self.left, self.right, self.labels, strict=True):
                f = self.a.formulas.get((i + self.a.first, x), "") if formulas else ""
                g = self.b.formulas.get((j + self.b.first, y), "") if formulas else ""
                if before[x] != after[y] or f != g:
                    count += 1
                    if len(out) < LISTED:
                        numbers = i + self.a.first + 1, j + self.b.first + 1
                        texts = _cut(before[x]), _cut(after[y])
                        row = self._label(self.b, j, self.key_at[0])
                        out.append(CellChange(row, _cut(label), *texts, *numbers, _cut(f), _cut(g)))
        return out, count

    def _label(self, side: _Side, i: int, at: list[int]) -> str:
        return _cut(" / ".join(side.rows[i][k] for k in at)) if at else str(i + side.first + 1)

    def _row(self, side: _Side, i: int, at: list[int]) -> RowChange:
        number = i + side.first
        cells = [c or side.formulas.get((number, x), "") for x, c in enumerate(side.rows[i])]
        return RowChange(self._label(side, i, at), number + 1, tuple(map(_cut, cells)))


def _header(grid: Grid) -> list[str] | None:
    """Names of the columns if the first row is a header: no empty cell before its end, none twice, few numbers."""
    if not grid.rows:
        return None
    row = list(grid.rows[0])
    while row and not row[-1].strip():
        row.pop()
    if not row or not all(c.strip() for c in row) or len(set(row)) != len(row):
        return None
    return row if 2 * sum(_number(c) for c in row) < len(row) else None


def _number(text: str) -> bool:
    try:
        float(text.replace(",", ""))
    except ValueError:
        return False
    return True


def letters(index: int) -> str:
    """A, B, ... Z, AA: the name of a column in a spreadsheet, from 0."""
    out = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        out = chr(65 + rest) + out
    return out


def _renamed(
    a: _Side, b: _Side, gone: list[str], came: list[str], pairs: list[tuple[int, int]]
) -> tuple[tuple[str, str], ...]:
    out: list[tuple[str, str]] = []
    free = list(came[:20])
    sample = pairs[:5_000]
    for name in gone[:20]:
        x = a.at([name])[0]
        for other in free:
            y = b.at([other])[0]
            equal = sum(a.rows[i][x] == b.rows[j][y] for i, j in sample)
            varied = len({a.rows[i][x] for i, _ in sample[:200]}) > 1 or x == y
            if sample and varied and equal >= 0.8 * len(sample):
                out.append((name, other))
                free.remove(other)
                break
    return tuple(out)


def _cut(text: str) -> str:
    return text if len(text) <= CHARACTERS else f"{text[:CHARACTERS]}…({len(text) - CHARACTERS} more)"
