"""What a column is: type, emptiness, keys, range, and a guess at its meaning and unit from header and values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from rover.construct.query.duck_tables import Loaded

Type = Literal["text", "integer", "number", "date", "datetime", "boolean"]
Meaning = Literal["id", "code", "name", "category", "amount", "coordinate", "year", "date", "flag", "text"]
MOST = 40  # values listed with their counts
SAMPLES = 5

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_ID = {"id", "key", "no", "nr", "number", "index", "uuid", "ref"}
_CODE = {"code", "iata", "iso", "sku", "symbol", "zip", "postcode", "fips", "abbr", "abbreviation"}
_NAME = {"name", "title", "label"}
_PLACE = {"lat", "latitude", "lon", "lng", "long", "longitude"}
_AMOUNT = {
    "amount", "price", "cost", "total", "qty", "quantity", "count", "sum", "value", "sales", "revenue", "hours",
    "weight", "mass", "length", "depth", "height", "width", "area", "population", "generation", "rate",
}  # fmt: skip
_UNITS = {
    "mm": "mm", "cm": "cm", "m": "m", "km": "km", "g": "g", "kg": "kg", "lbs": "lb", "lb": "lb", "usd": "USD",
    "eur": "EUR", "gbp": "GBP", "dollars": "USD", "euros": "EUR", "pct": "%", "percent": "%", "hours": "h",
    "minutes": "min", "seconds": "s", "days": "d", "c": "°C", "celsius": "°C", "f": "°F", "mph": "mph",
    "mw": "MW", "mwh": "MWh", "kwh": "kWh", "cc": "cm³", "inches": "in", "miles": "mi", "years": "a",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table, seen through the rows that were read."""

    name: str
    type: Type
    rows: int
    nulls: int
    distinct: int
    #: no cell empty, no value twice: it could be a key
    unique: bool
    #: digits after the point, at most; zero for what is no number
    decimals: int
    samples: tuple[str, ...]
    #: the most common values with their counts, most common first; all of them where there are at most 40
    common: tuple[tuple[str, int], ...]
    #: smallest and largest value: numbers as plain decimal text, dates in ISO form; empty where all cells are
    minimum: str
    maximum: str
    #: lower quartile, median and upper quartile of a number or date column, each a value that occurs
    quartiles: tuple[str, ...]
    meaning: Meaning
    unit: str

    @property
    def numeric(self) -> bool:
        return self.type in ("integer", "number")

    @property
    def measure(self) -> bool:
        """Whether sums and means of it make sense."""
        return self.meaning == "amount"

    @property
    def grouping(self) -> bool:
        """Whether rows can sensibly be grouped by it."""
        return self.meaning in ("category", "code", "flag", "year") and 2 <= self.distinct <= max(2, self.rows // 2)


def describe(column: Loaded) -> Column:
    """The column as loaded, described."""
    cells = shown(column)
    present = [v for v in cells if v is not None]
    counts = Counter(present)
    ordered = sorted(counts, key=_sort_key(column.kind))
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    kind: Type = column.kind  # type: ignore[assignment]
    unique = bool(present) and len(counts) == len(column.values)
    every = sorted(present, key=_sort_key(column.kind)) if column.kind in ("integer", "number", "date") else []
    return Column(
        name=column.name,
        type=kind,
        rows=len(column.values),
        nulls=len(cells) - len(present),
        distinct=len(counts),
        unique=unique,
        decimals=column.scale,
        samples=tuple(dict.fromkeys(present[:200]))[:SAMPLES],
        common=tuple(ranked[:MOST]),
        minimum=ordered[0] if ordered else "",
        maximum=ordered[-1] if ordered else "",
        quartiles=tuple(every[len(every) * q // 4] for q in (1, 2, 3)) if every else (),
        meaning=_meaning(column.name, kind, len(present), counts, unique),
        unit=_unit(column.name) if kind in ("integer", "number") else "",
    )


def shown(column: Loaded) -> tuple[str | None, ...]:
    """The values of a column as a person writes them; None where empty."""
    return tuple(_shown(v, column.scale) for v in column.values)


def _shown(value: str | None, scale: int) -> str | None:
    # numbers come scaled to integers
    if value is None or not scale:
        return value
    text = f"{Decimal(value).scaleb(-scale):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _sort_key(kind: str) -> Callable[[str], Any]:
    return Decimal if kind in ("integer", "number") else str


def words(name: str) -> list[str]:
    """The words of a header: `unitPrice (USD)` -> unit, price, usd."""
    return [w.lower() for w in _WORDS.findall(name)]


def _meaning(name: str, kind: Type, filled: int, counts: Counter[str], unique: bool) -> Meaning:
    said = words(name)
    last = said[-1] if said else ""
    few = len(counts) <= 60 and len(counts) * 3 <= filled
    if kind in ("date", "datetime"):
        return "date"
    if kind == "boolean":
        return "flag"
    if kind in ("integer", "number"):
        return _numeric_meaning(said, kind, few, counts, unique)
    if last in _CODE or _looks_coded(counts):
        return "category" if few and last not in _CODE else "code"
    if last in _ID or name.lower().endswith("id"):
        return "id" if not few else "code"
    if few:
        return "category"
    long = sum(len(v) for v in counts) > 60 * max(1, len(counts))
    return "name" if set(said) & _NAME or (unique and not long and _wordy(counts)) else "text"


def _wordy(counts: Counter[str]) -> bool:
    """More letters than digits, over all values."""
    text = "".join(counts)
    return sum(map(str.isalpha, text)) > 2 * sum(map(str.isdigit, text))


def _numeric_meaning(said: list[str], kind: Type, few: bool, counts: Counter[str], unique: bool) -> Meaning:
    last = said[-1] if said else ""
    if set(said) & _PLACE:
        return "coordinate"
    if kind == "integer" and "year" in said and all(len(v) == 4 for v in counts):
        return "year"
    if kind == "integer" and (last in _ID or (unique and _consecutive(counts))) and not set(said) & _AMOUNT:
        return "id"
    if kind == "integer" and last in _CODE:
        return "code"
    if kind == "integer" and few and len(counts) <= 12 and not set(said) & _AMOUNT and not _unit_word(said):
        return "category"
    return "amount"


def _consecutive(counts: Counter[str]) -> bool:
    numbers = sorted(map(int, counts))
    return len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1


def _looks_coded(counts: Counter[str]) -> bool:
    """Short upper-case or digit strings, all of one width: LHR, 0042."""
    some = list(counts)[:200]
    return bool(some) and len({len(v) for v in some}) == 1 and all(
        v.isascii() and v.isalnum() and v == v.upper() and len(v) <= 8 for v in some
    )  # fmt: skip


def _unit_word(said: list[str]) -> str:
    return next((_UNITS[w] for w in reversed(said[1:]) if w in _UNITS), "")


def _unit(name: str) -> str:
    bracket = re.search(r"[\[(]([^\])]{1,12})[\])]\s*$", name)
    if bracket:
        return _UNITS.get(bracket[1].strip().lower(), bracket[1].strip())
    return _unit_word(words(name))
