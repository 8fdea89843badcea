"""Values in arguments, outputs and texts: what can be told to have come from one place to another.

A value is a text of at least four characters or a number of at least three digits, in one written form: 1,234.50 and
1234.5 are one number. Running text is taken word by word; a word keeps its points, dashes and slashes (paths, dates).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

from rover_store.records import Call

SHORTEST_TEXT = 4
FEWEST_DIGITS = 3

_WORD = re.compile(r"[\w.\-/@:+]+")
_THOUSANDS = re.compile(r"(?<![\w.,])[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w,])")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?")
#: what a tool's structured answer says of the workspace; its keys and counters do not
_LISTS = ("columns", "rows", "files", "sheets")


def words(text: str) -> Iterator[str]:
    """The values in running text."""
    for word in _WORD.findall(text):
        yield from _values(word)
    if "," in text:
        for number in _THOUSANDS.findall(text):
            yield from _values(number.replace(",", ""))


def cells(value: Any) -> Iterator[str]:
    """The scalars in an argument or an answer, as text. Keys of objects count: they name columns and cells."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from cells(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from cells(inner)
    elif isinstance(value, str):
        yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield repr(value)


def is_phrase(cell: str) -> bool:
    """Whether a cell is a value that is no single word."""
    return len(cell) >= SHORTEST_TEXT and not _WORD.fullmatch(cell) and not _THOUSANDS.fullmatch(cell)


def of_output(call: Call) -> Iterator[str]:
    """The values in what a tool answered."""
    answer = _answer(call)
    if answer is None:
        yield from words(call.output)
    elif call.tool == "shell":
        yield from words(f"{answer.get('stdout', '')}\n{answer.get('stderr', '')}")
    else:
        yield from words("\n".join(cell for name in _LISTS for cell in _contents(answer.get(name))))


def _answer(call: Call) -> dict[str, Any] | None:
    """The answer's structure; None where it is text."""
    if call.tool == "read_file" or (call.status == "error" and call.tool != "shell"):
        return None
    try:
        found = json.loads(call.output)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _contents(value: Any) -> Iterator[str]:
    """Like `cells`, without keys: those of an answer are the tool's own."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _contents(inner)
    else:
        yield from cells(value)


@lru_cache(maxsize=1 << 16)
def _values(word: str) -> tuple[str, ...]:
    """What a word is worth: itself without the points and dashes around it, and as a signed number where it is one."""
    bare = word.strip(".:-/+")
    found = (_value(bare), _value(word.rstrip(".:-/+")) if word[0] in "+-." else None)
    return tuple(value for value in found if value is not None)


def _value(text: str) -> str | None:
    number = _number(text)
    if number is not None:
        return number if sum(c.isdigit() for c in number.lstrip("-0.")) >= FEWEST_DIGITS else None
    return text if len(text) >= SHORTEST_TEXT else None


def _number(text: str) -> str | None:
    """The one written form of a number; None for what is none."""
    if len(text) > 40 or not _NUMBER.fullmatch(text):
        return None
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    if abs(value.adjusted()) > 30:
        return None
    return format(value.normalize() + 0, "f")
