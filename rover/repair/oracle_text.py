"""Figures and sources in written text, as the oracle reads them. Runs inside the sandbox."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rover.repair.oracle_values import equal, number, text

Json = Mapping[str, Any]

#: a full stop ends a sentence where a blank or the end follows; `1.5` and `a.csv` do not end one
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n\s*\n")
_FIGURE = re.compile(r"(?<![\w.,])[-+−]?[$€£¥]?\d(?:[\d, ']*\d)?(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w])")


def figure(content: str, label: str, want: Any, spec: Json, same: Json) -> tuple[bool, str]:
    """Whether a line or a sentence that holds the label also holds the value."""
    wanted = text(label, {})
    places = [p for p in _places(content) if wanted in text(p, {})]
    if not places:
        return False, f"says nothing of {label!r}"
    for place in places:
        if any(equal(found, want, spec, same) for found in _values(place, wanted, spec, want)):
            return True, ""
    return False, f"does not state {label!r} as it is"


def names(content: str, path: str) -> bool:
    """Whether the text names a file: its path, or its name where no longer name ends in it."""
    short = path.rsplit("/", 1)[-1]
    return re.search(rf"(?<![\w-]){re.escape(short)}(?![\w-])", content, re.IGNORECASE) is not None


def _places(content: str) -> list[str]:
    lines = content.splitlines()
    flat = [" ".join(part.split()) for part in _SENTENCE.split(content)]
    return [*lines, *flat]


def _values(place: str, label: str, spec: Json, want: Any) -> list[Any]:
    """What the place states apart from the label's own words."""
    rest = _without(place, label)
    if spec["type"] == "number":
        found = [m.group().replace(" ", "") for m in _FIGURE.finditer(rest)]
        return [f for f in found if number(f) is not None]
    if spec["type"] == "date":
        return re.findall(r"\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}[./]\d{4}|\d{1,2} \w+ \d{4}|\w+ \d{1,2}, \d{4}", rest)
    folded, wanted = text(rest, {}), text(want, {})
    bounded = rf"(?<!\w){re.escape(wanted)}(?!\w)"
    return [want] if re.search(bounded, folded) else []


def _without(place: str, label: str) -> str:
    pattern = r"\s+".join(re.escape(word) for word in label.split())
    return re.sub(pattern, " ", place, flags=re.IGNORECASE)
