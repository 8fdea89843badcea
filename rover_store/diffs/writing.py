"""Equal values, different bytes: which part of the writing differs, in words."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

_SPACE = re.compile(r"\s+")


def json_writing(old: str, new: str) -> str:
    """How two JSON texts of equal values differ."""
    sides = [found for t in (old, new) if (found := _pairs(t)) is not None]
    if len(sides) < 2:
        return "the same values, written differently"
    doubled = [any(len({k for k, _ in o}) != len(o) for o in objects) for objects in sides]
    reasons = []
    if any(doubled):
        reasons.append("keys that stand twice")
    orders = [[[k for k, _ in o] for o in objects] for objects in sides]
    if orders[0] != orders[1]:
        reasons.append("order of keys")
    numbers = [sorted(_numbers(t)) for t in (old, new)]
    if numbers[0] != numbers[1]:
        reasons.append("writing of numbers")
    if not reasons and _SPACE.sub("", old) != _SPACE.sub("", new):
        reasons.append("escapes in texts")
    if not reasons or sorted(_SPACE.findall(old)) != sorted(_SPACE.findall(new)):
        reasons.append("white space")
    return f"the same values; only the writing differs ({', '.join(reasons)})"


def _pairs(text: str) -> list[list[tuple[str, Any]]] | None:
    """All objects of a JSON text with their keys as they stand."""
    objects: list[list[tuple[str, Any]]] = []

    def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        objects.append(pairs)
        return dict(pairs)

    try:
        json.loads(text, object_pairs_hook=keep)
    except (ValueError, RecursionError):
        return None
    return objects


def _numbers(text: str) -> list[str]:
    found: list[str] = []

    def keep(number: str) -> float:
        found.append(number)
        return 0.0

    json.loads(text, parse_float=keep)
    return found


def table_writing(old: str, new: str, marks: tuple[str, str], notes: Sequence[str]) -> str:
    """How two delimited texts of equal cells differ. `notes` tell already what differs between the texts."""
    reasons = []
    if marks[0] != marks[1]:
        reasons.append(f"delimiter {named(marks[0])} -> {named(marks[1])}")
    if old.count('"') != new.count('"'):
        reasons.append("quoting")
    blank = [sum(not line.strip() for line in side.splitlines()) for side in (old, new)]
    if blank[0] != blank[1]:
        reasons.append(f"{blank[0]} -> {blank[1]} blank lines")
    ragged = [sorted(line.count(m) for line in side.splitlines()) for side, m in zip((old, new), marks, strict=True)]
    if not reasons and ragged[0] != ragged[1]:
        reasons.append("empty cells at the ends of rows")
    reasons += notes
    return f"the same cells; only the writing differs ({', '.join(reasons) or 'line ends inside cells or spaces'})"


def named(mark: str) -> str:
    return {"\t": "tab", ",": "comma", ";": "semicolon", "|": "bar"}.get(mark, mark)
