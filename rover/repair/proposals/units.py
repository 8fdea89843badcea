"""A table written back as the contract says: headers by their names, dates as ISO dates, numbers bare, in their unit.

Where the recorded content is known, every way back is tried until one gives it. Where it is not, only what can be
told without a guess is converted: every cell of a column in one other form, and one way to read it.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from difflib import SequenceMatcher

from rover.diagnose.demands import asked, parts, sources
from rover_store.records import Contract
from rover_store.records.contract import CellsRule, EditRule
from rover_store.records.query import Derived, Filter, Measure, Query, Source

_DAYS = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})")
_PACKED = re.compile(r"(\d{4})(\d{2})(\d{2})")
_PLAIN = re.compile(r"-?\d+(?:\.\d+)?")
_DRESSED = re.compile(r"[~≈$€£]?\s?(?:EUR|USD|GBP)?\s?(-?\d+(?:\.\d+)?)\s?[A-Za-z%$€£]{0,12}\d?")
_COMMA = re.compile(r"-?\d{1,3}(?:\.\d{3})*,\d+")
_THOUSANDS = re.compile(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_FACTORS = ("1000", "100", "10", "0.001", "0.01", "0.1")
#: so alike are the old and the new name of a column
ALIKE = 0.5
LARGEST = 4 << 20

Way = Callable[[str], str]


@dataclass
class Sheet:
    """A csv or tsv file as rows of text."""

    rows: list[list[str]]
    mark: str
    end: str
    closed: bool

    def render(self) -> bytes:
        out = io.StringIO(newline="")
        csv.writer(out, delimiter=self.mark, lineterminator=self.end).writerows(self.rows)
        text = out.getvalue()
        return (text if self.closed else text.removesuffix(self.end)).encode()

    def with_column(self, at: int, way: Way) -> Sheet | None:
        """The table with one column written in another way; None where the way does not fit each cell."""
        try:
            cells = [way(r[at].strip()) if at < len(r) and r[at].strip() else None for r in self.rows[1:]]
        except (ValueError, ArithmeticError):
            return None
        rows = [self.rows[0]]
        for row, cell in zip(self.rows[1:], cells, strict=True):
            rows.append(row if cell is None else [*row[:at], cell, *row[at + 1 :]])
        return Sheet(rows, self.mark, self.end, self.closed)

    def with_header(self, at: int, name: str) -> Sheet:
        head = [*self.rows[0][:at], name, *self.rows[0][at + 1 :]]
        return Sheet([head, *self.rows[1:]], self.mark, self.end, self.closed)

    def filled(self, at: int) -> list[str]:
        return [r[at].strip() for r in self.rows[1:] if at < len(r) and r[at].strip()]


def as_the_contract_says(contract: Contract, path: str, data: bytes, column: str | None = None) -> bytes | None:
    """The table in plain form: a header that the contract misses, and columns that it uses (or the named one)."""
    sheet = read(path, data)
    if sheet is None:
        return None
    before = sheet.render()
    needed = columns_used(contract, path)
    sheet = _headed(sheet, needed)
    for at, name in enumerate(sheet.rows[0]):
        if name == column or (column is None and name in needed):
            sheet = _plain(sheet, at) or sheet
    return sheet.render() if sheet.render() != before else None


def respelled(contract: Contract, path: str, data: bytes, is_it: Callable[[bytes], bool]) -> bytes | None:
    """The recorded content, where one of the ways to spell this table otherwise gives it."""
    sheet = read(path, data)
    if sheet is None:
        return None
    needed = columns_used(contract, path)
    for one in _spellings(sheet, needed):
        made = one.render()
        if is_it(made):
            return made
    return None


def read(path: str, data: bytes) -> Sheet | None:
    if not path.lower().endswith((".csv", ".tsv")) or len(data) > LARGEST:
        return None
    try:
        text = data.decode("utf-8")
        mark = "\t" if path.lower().endswith(".tsv") else ","
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=mark))
    except (UnicodeDecodeError, csv.Error):
        return None
    end = "\r\n" if "\r\n" in text else "\n"
    return Sheet(rows, mark, end, text.endswith(end)) if len(rows) > 1 and rows[0] else None


def columns_used(contract: Contract, path: str) -> set[str]:
    """Columns of a file that some answer names, as far as the query says in which table they are."""
    found: set[str] = set()
    for one in asked(contract):
        if any(s.path == path for s in sources(one.query)):
            found |= _named(one.query)
    for need in contract.requirements:
        target = next((d for d in contract.deliverables if d.id == need.deliverable), None)
        if isinstance(need.rule, CellsRule | EditRule) and target is not None and target.path == path:
            found |= {need.rule.column, *target.key, *(c.name for c in target.columns)}
    return found


def _named(query: Query) -> set[str]:
    found = {*query.group_by, *(q for q in query.select)}
    made = set()
    for part in parts(query):
        if isinstance(part, Filter):
            found.add(part.column)
        elif isinstance(part, Derived):
            made.add(part.name)
            found |= {part.left} | ({part.right} if isinstance(part.right, str) else set())
        elif isinstance(part, Measure):
            made.add(part.name)
            found |= {part.column} if part.column else set()
    for join in query.joins:
        found |= {name for pair in join.on for name in pair}
        found |= set() if isinstance(join.right, Source) else _named(join.right)
    return found - made


# --- headers ---------------------------------------------------------------------------------------------
def _headed(sheet: Sheet, needed: set[str]) -> Sheet:
    """The one column that nobody asks for under the one name that is missing."""
    return next(iter(_headers(sheet, needed)), sheet)


def _headers(sheet: Sheet, needed: set[str]) -> Iterator[Sheet]:
    header = sheet.rows[0]
    strange = [i for i, name in enumerate(header) if name not in needed]
    pairs = [
        (_alike(header[i], name), -i, name) for name in sorted(needed - set(header)) for i in strange
        if _alike(header[i], name) >= ALIKE
    ]  # fmt: skip
    for _, at, name in sorted(pairs, reverse=True):
        yield sheet.with_header(-at, name)


def _alike(one: str, other: str) -> float:
    a, b = (re.sub(r"[\W_]+", "", name).lower() for name in (one, other))
    if a and b and (a.startswith(b) or b.startswith(a)):
        return 1.0
    first = re.split(r"[\W_]+", one.lower())[0] == re.split(r"[\W_]+", other.lower())[0]
    return max(SequenceMatcher(None, a, b).ratio(), 0.6 if first else 0.0)


# --- cells -----------------------------------------------------------------------------------------------
def _spellings(sheet: Sheet, needed: set[str]) -> Iterator[Sheet]:
    """Every other spelling that is tried, the likeliest first."""
    yield from _headers(sheet, needed)
    order = sorted(range(len(sheet.rows[0])), key=lambda i: (sheet.rows[0][i] not in needed, i))
    for at in order:
        filled = sheet.filled(at)
        for way in (*_dates(filled, every=True), *_numbers(filled)):
            other = sheet.with_column(at, way)
            if other is not None:
                yield other
        if filled and all(_PLAIN.fullmatch(c) for c in filled):
            for factor in _FACTORS:
                for places in (None, 0, 1, 2, 3, 4):
                    other = sheet.with_column(at, _times(factor, places))
                    if other is not None:
                        yield other


def _plain(sheet: Sheet, at: int) -> Sheet | None:
    """The column in plain form, where there is one way to read it."""
    filled = sheet.filled(at)
    ways = [*_dates(filled), *_numbers(filled)]
    return sheet.with_column(at, ways[0]) if ways else None


def _dates(filled: Sequence[str], *, every: bool = False) -> list[Way]:
    """Ways to read a column of dates. Day first or month first: both only where `every` way is wanted."""
    if not filled:
        return []
    if all(_PACKED.fullmatch(c) and "0101" <= c[4:] <= "1231" and c[:2] in ("19", "20") for c in filled):
        return [lambda c: f"{c[:4]}-{c[4:6]}-{c[6:]}"]
    found = [_DAYS.fullmatch(c) for c in filled]
    if not all(found):
        return []
    pairs = [(int(m[1]), int(m[3])) for m in found if m]
    first = all(b <= 12 for _, b in pairs)
    last = all(a <= 12 for a, _ in pairs)
    dotted = all(m[2] == "." for m in found if m)
    if first and last and not every:
        return [_iso(day_first=True)] if dotted else []
    return [_iso(day_first=day) for day, fits in ((True, first), (False, last)) if fits]


def _iso(*, day_first: bool) -> Way:
    def way(cell: str) -> str:
        m = _DAYS.fullmatch(cell)
        if m is None:
            raise ValueError(cell)
        day, month = (int(m[1]), int(m[3])) if day_first else (int(m[3]), int(m[1]))
        return f"{m[4]}-{month:02d}-{day:02d}"

    return way


def _numbers(filled: Sequence[str]) -> list[Way]:
    """Ways to read a column of numbers that are not written bare."""
    if not filled or all(_PLAIN.fullmatch(c) for c in filled):
        return []
    if all(_COMMA.fullmatch(c) for c in filled):
        bare: Way = lambda c: c.replace(".", "").replace(",", ".")  # noqa: E731
        whole: Way = lambda c: _whole(bare(c))  # noqa: E731
        return [whole, bare] if all(bare(c).endswith(".0") for c in filled) else [bare]
    if all(_THOUSANDS.fullmatch(c) or _PLAIN.fullmatch(c) for c in filled):
        return [lambda c: c.replace(",", "")]
    if all(_DRESSED.fullmatch(c) for c in filled):
        return [_undressed]
    return []


def _undressed(cell: str) -> str:
    m = _DRESSED.fullmatch(cell)
    if m is None:
        raise ValueError(cell)
    return m[1]


def _whole(text: str) -> str:
    return text[:-2] if text.endswith(".0") else text


def _times(factor: str, places: int | None) -> Way:
    """The number times a factor, with so many places; None: as few as it needs."""

    def way(cell: str) -> str:
        try:
            value = Decimal(cell) * Decimal(factor)
        except InvalidOperation:
            raise ValueError(cell) from None
        if places is not None:
            return f"{value:.{places}f}"
        return f"{value.normalize():f}"

    return way
