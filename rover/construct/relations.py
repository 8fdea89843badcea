"""Relations between tables: a column whose values are found in a key of another table.

Found by name (the same words in both headers) and by inclusion of values. Integers that merely fall into the
same range prove nothing, so without a common name only text, codes and dates that really overlap count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from rover.construct.columns import Column, words
from rover.construct.query.duck_tables import Loaded
from rover_store.records import Source

LEAST_BY_NAME = 0.5
LEAST_BY_VALUES = 0.9
FEWEST = 3  # distinct values that a match without a common name needs


@dataclass(frozen=True, slots=True)
class Relation:
    """Each row of `many` finds at most one row of `one` where `many_column` equals `one_column`."""

    many: Source
    many_column: str
    one: Source
    one_column: str
    #: share of the distinct values of the many side that the key holds
    inclusion: float
    #: 1:1 where the column is a key on both sides
    cardinality: Literal["1:1", "1:n"]
    by_name: bool

    @property
    def full(self) -> bool:
        """No row of the many side is without a partner, unless its cell is empty."""
        return self.inclusion == 1.0


@dataclass(frozen=True, slots=True)
class Keyed:
    """A table with the values of its columns."""

    source: Source
    columns: tuple[tuple[Column, Loaded], ...]


def relate(tables: Iterable[Keyed]) -> tuple[Relation, ...]:
    """All relations, the best first: by name before by values, then by inclusion, then by path."""
    every = [(t.source, c, _values(v)) for t in tables for c, v in t.columns]
    ones = [(s, c, v) for s, c, v in every if c.unique and c.type in ("text", "integer", "date")]
    found = []
    for many, column, values in every:
        for one, key, keys in ones:
            if many != one and values:
                relation = _match(many, column, values, one, key, keys)
                if relation:
                    found.append(relation)
    return tuple(sorted(found, key=_rank))


def _values(column: Loaded) -> frozenset[str]:
    return frozenset(v for v in column.values if v is not None)


def _match(
    many: Source, column: Column, values: frozenset[str], one: Source, key: Column, keys: frozenset[str]
) -> Relation | None:
    if column.type != key.type or column.meaning in ("amount", "coordinate", "flag", "text"):
        return None
    by_name = _same_name(column.name, key.name, one)
    inclusion = len(values & keys) / len(values)
    if inclusion < (LEAST_BY_NAME if by_name else LEAST_BY_VALUES):
        return None
    if not by_name and (key.type != "text" or len(values) < FEWEST):
        return None
    both = column.unique
    if both and inclusion == 1.0 and len(keys) == len(values) and _after(many, column, one, key):
        return None  # a 1:1 of equal sets is listed once
    return Relation(many, column.name, one, key.name, round(inclusion, 6), "1:1" if both else "1:n", by_name)


def _same_name(left: str, right: str, one: Source) -> bool:
    """Equal words, or the right one with its table's name before it: customer_id and customers.id."""
    a, b = words(left), words(right)
    table = words(one.sheet or one.path.rsplit("/", 1)[-1].rsplit(".", 1)[0])
    singular = [w[:-1] if w.endswith("s") else w for w in table]
    return a == b or (bool(b) and a in ([*table, *b], [*singular, *b]))


def _after(many: Source, column: Column, one: Source, key: Column) -> bool:
    return (many.path, many.sheet or "", column.name) > (one.path, one.sheet or "", key.name)


def _rank(r: Relation) -> tuple[object, ...]:
    place = (r.many.path, r.many.sheet or "", r.one.path, r.one.sheet or "", r.many_column, r.one_column)
    return (not r.by_name, -r.inclusion, *place)
