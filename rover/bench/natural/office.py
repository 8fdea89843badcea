"""Made-up office files: tables as text, with values drawn from a seed that is the name of the table."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence

Cell = str | int | float
Row = Sequence[Cell]


def stream(name: str) -> random.Random:
    """The chance of one table: equal names give equal values on any machine."""
    return random.Random(f"office:{name}")


def csv(header: Sequence[str], rows: Iterable[Row]) -> bytes:
    """A plain table; no cell here needs quotes."""
    return "".join(",".join(map(str, row)) + "\n" for row in [header, *rows]).encode()


def rows_of(data: bytes) -> list[dict[str, str]]:
    """The rows of a plain table."""
    head, *lines = data.decode().splitlines()
    names = head.split(",")
    return [dict(zip(names, line.split(","), strict=True)) for line in lines]


def with_rows(data: bytes, rows: Iterable[Mapping[str, Cell]]) -> bytes:
    """The same table with other rows."""
    names = data.decode().splitlines()[0].split(",")
    return csv(names, [[row[n] for n in names] for row in rows])


def money(rng: random.Random, low: int, high: int) -> str:
    """An amount with cents."""
    return f"{rng.randint(low * 100, high * 100) / 100:.2f}"


def day(rng: random.Random, year: int = 2025) -> str:
    return f"{year}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"


def total(amounts: Iterable[str]) -> str:
    """The sum of amounts with cents, exactly."""
    cents = sum(round(float(a) * 100) for a in amounts)
    return f"{cents / 100:.2f}"
