"""Figures and sources in written text, as the oracle reads them. Runs inside the sandbox."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rover.diagnose.oracle.values import equal, number, text

Json = Mapping[str, Any]

#: a full stop ends a sentence where a blank or the end follows; `1.5` and `a.csv` do not end one
_SENTENCE = re.compile(r"(?<=[.!?;])\s+")
_ITEM = re.compile(r"\s*(?:[-*+#|>]|\d+[.)]\s)")
_EMPHASIS = re.compile(r"\*+|`|__")
_DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b")
#: beside more different figures than this a label states nothing: that is a list of guesses
MAX_STATED = 6
_FIGURE = re.compile(r"(?<![\w.,])[-+−]?[$€£¥]?\d(?:[\d, ']*\d)?(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w])")


def figure(content: str, label: str, want: Any, spec: Json, same: Json) -> tuple[bool, str]:
    """Whether a line or a sentence that holds the label also holds the value."""
    pattern = _label(label)
    places = [rest for p in _places(content) if (rest := pattern.sub(" ", p)) != p]
    if not places:
        return False, f"says nothing of {label!r}"
    for place in places:
        stated = _values(place, spec, want)
        if len(set(stated)) <= MAX_STATED and any(equal(found, want, spec, same) for found in stated):
            return True, ""
    return False, f"does not state {label!r} as it is"


def names(content: str, path: str) -> bool:
    """Whether the text names a file: its path, or its name where no longer name ends in it."""
    short = path.rsplit("/", 1)[-1]
    return re.search(rf"(?<![\w-]){re.escape(short)}(?![\w-])", content, re.IGNORECASE) is not None


def _places(content: str) -> list[str]:
    """Lines, and sentences that run over lines. A list item, table row, heading or blank line ends a sentence."""
    lines = content.splitlines()
    blocks: list[list[str]] = [[]]
    for line in lines:
        if not line.strip() or _ITEM.match(line):
            blocks.append([])
        blocks[-1].append(line)
        if line.lstrip().startswith(("#", "|")):
            blocks.append([])
    whole = [" ".join(" ".join(block).split()) for block in blocks if len(block) > 1]
    sentences = [part for text_ in whole for part in _SENTENCE.split(text_)]
    return [_EMPHASIS.sub("", place) for place in (*lines, *sentences)]


def _values(rest: str, spec: Json, want: Any) -> list[Any]:
    """What a place states apart from the label's own words."""
    if spec["type"] == "number":
        found = [m.group().replace(" ", "") for m in _FIGURE.finditer(_DATE.sub(" ", rest))]
        return [f for f in found if number(f) is not None]
    if spec["type"] == "date":
        return re.findall(r"\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}[./]\d{4}|\d{1,2} \w+ \d{4}|\w+ \d{1,2}, \d{4}", rest)
    folded, wanted = text(rest, {}), text(want, {})
    bounded = rf"(?<!\w){re.escape(wanted)}(?!\w)"
    return [want] if re.search(bounded, folded) else []


def _label(label: str) -> re.Pattern[str]:
    words = r"\s+".join(re.escape(word) for word in _EMPHASIS.sub("", label).split())
    return re.compile(rf"(?<!\w){words}(?!\w)", re.IGNORECASE)
