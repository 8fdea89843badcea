"""Fields of the plain dialect: one value, written so that it can be copied as it stands and read without loss.

A text stands bare where nothing can mistake it: no white space, no quote or `#` at its start, no keyword. Every
other text is a JSON string. Numbers, booleans and null are `#` and their JSON: a bare `12` is the text "12", which
is what a csv cell holds, so that values read from one file are written to another character by character.
"""

from __future__ import annotations

import json
import re
from typing import Any

#: words that structure a call; as values they stand in quotes
KEYWORDS = frozenset({"sheet", "columns", "where", "set", "from", "take"})

_FIELD = re.compile(r'"(?:[^"\\]|\\.)*"|#\S*|[^\s"#]\S*')


class BadField(ValueError):
    """Text that is no list of fields."""


def written(value: Any) -> str:
    """A scalar as a field, without the space before it."""
    if not isinstance(value, str):
        return "#" + json.dumps(value)
    if value and value not in KEYWORDS and _FIELD.fullmatch(value) and value[0] not in '"#' and value.isprintable():
        return value
    return json.dumps(value, ensure_ascii=not value.replace("\n", "").isprintable())


def line(values: list[Any]) -> str:
    """Fields on one line, a space before each."""
    return "".join(" " + written(value) for value in values)


def words(text: str) -> list[str]:
    """The fields of a line, as they are written. BadField where something is left between them."""
    found, at = [], 0
    for match in _FIELD.finditer(text):
        if text[at : match.start()].strip():
            break
        found.append(match.group())
        at = match.end()
    if text[at:].strip():
        raise BadField(f"not a list of fields: {text[:80]!r}")
    return found


def value(word: str) -> Any:
    """The value of one field. BadField where a quoted text or a number is broken."""
    if word[0] not in '"#':
        return word
    try:
        return json.loads(word if word[0] == '"' else word[1:])
    except (ValueError, RecursionError):
        raise BadField(f"not a value: {word[:80]!r}") from None
