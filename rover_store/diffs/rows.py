"""Rows of two tables matched with each other: by a key that is found, or in their order."""

from __future__ import annotations

from itertools import combinations
from operator import itemgetter
from typing import NamedTuple

from rover_store.diffs.sequence import blocks

Row = tuple[str, ...]


class Match(NamedTuple):
    """Which rows of two tables are the same row, by their positions."""

    pairs: list[tuple[int, int]]
    removed: list[int]
    added: list[int]
    reordered: bool


def find_key(rows: tuple[list[Row], list[Row]], width: int) -> tuple[int, ...]:
    """Positions of the columns that identify a row on both sides: the ones with most in common, the leftmost first."""
    if not rows[0] or not rows[1]:
        return ()
    best: tuple[float, tuple[int, ...]] = (0.0, ())
    most = max(map(len, rows))
    for choice in [*((i,) for i in range(min(width, 50))), *combinations(range(min(width, 5)), 2)]:
        if len(choice) > 1 and best[1]:
            break
        keys = [_unique(side, choice) for side in rows]
        if keys[0] is None or keys[1] is None:
            continue
        share = len(keys[0] & keys[1]) / most
        if share > best[0] + 1e-9:
            best = (share, choice)
    return best[1] if best[0] >= 0.5 or (best[0] * most >= 1 and most <= 3) else ()


def _unique(rows: list[Row], choice: tuple[int, ...]) -> set[object] | None:
    """The keys of all rows; None where one is empty or stands twice."""
    get = itemgetter(*choice)
    seen: set[object] = set(map(get, rows))
    if len(seen) != len(rows):
        return None
    return None if any(not row[choice[0]] for row in rows) else seen


def by_key(rows: tuple[list[Row], list[Row]], key: tuple[int, ...]) -> Match:
    get = itemgetter(*key)
    left, right = (dict(zip(map(get, side), range(len(side)), strict=True)) for side in rows)
    pairs = [(i, right[k]) for k, i in left.items() if k in right]
    order = [j for _, j in pairs]
    return Match(
        pairs,
        [i for k, i in left.items() if k not in right],
        [j for k, j in right.items() if k not in left],
        order != sorted(order),
    )


def in_order(rows: tuple[list[Row], list[Row]]) -> Match:
    """Rows matched as lines are; a row that is half equal to the one in its place is that row, changed."""
    old, new = rows
    pairs: list[tuple[int, int]] = []
    removed: list[int] = []
    added: list[int] = []
    i = j = 0
    for b in [*blocks(old, new), None]:
        ends = (b.i1, b.j1) if b is not None else (len(old), len(new))
        pairs += zip(range(i, ends[0]), range(j, ends[1]), strict=True)
        if b is None:
            break
        i, j = b.i2, b.j2
        _align(old, new, (b.i1, b.i2, b.j1, b.j2), pairs, removed, added)
    return Match(pairs, removed, added, False)


def _align(
    old: list[Row], new: list[Row], block: tuple[int, int, int, int], pairs: list[tuple[int, int]],
    removed: list[int], added: list[int],
) -> None:  # fmt: skip
    i1, i2, j1, j2 = block
    even = i2 - i1 == j2 - j1
    j = j1
    for i in range(i1, i2):
        window = range(j, j + 1) if even else range(j, min(j2, j + 20))
        hit = next((y for y in window if y < j2 and (_alike(old[i], new[y]) or (even and len(old[i]) == 1))), None)
        if hit is None:
            removed.append(i)
            if even:
                added.append(j)
                j += 1
            continue
        added += range(j, hit)
        pairs.append((i, hit))
        j = hit + 1
    added += range(j, j2)


def _alike(a: Row, b: Row) -> bool:
    return 2 * sum(x == y for x, y in zip(a, b, strict=True)) >= len(a)
