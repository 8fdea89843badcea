"""Comparers of written text: a figure near its label, and sources that are named.

Near means in the same line or in the same sentence. A sentence may run over lines; a blank line, a list item, a
table row, a heading, or a new line in upper case after a line with a figure ends it. The label is its words in
a row; case, spaces and emphasis do not matter. Dates, digits of the label and digits inside words (Q3, INV-001)
are no figures. A place with more than MAX_FIGURES different ones states none: a list of guesses is no answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rover.verify.checklib.objects import scalar
from rover.verify.checklib.tables import RIGHT, share, shown
from rover.verify.checklib.values import CODES, Result, date, folded, is_empty, number, plain, same_number

MAX_FIGURES = 6

_SENTENCE = re.compile(r"(?<=[.!?;])\s+(?=[A-Z\"'(\[])")
_BREAK = re.compile(r"\s*(?:[-+*•#|>]|\d+[.)]\s|$)")
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
DATE = re.compile(
    r"\b\d{4}[-/.]\d{1,2}[-/.]\d{1,2}\b|\b\d{1,2}[./-]\d{1,2}[./-]\d{4}\b|\b\d{4}-\d\d\b"
    rf"|\b\d{{1,2}}\.?\s+{_MONTH},?\s+\d{{4}}\b|\b{_MONTH}\s+\d{{1,2}},?\s+\d{{4}}\b",
    re.I,
)
FIGURE = re.compile(
    r"(?<!\w)(?<!\w[\-./:,'])[-+\u2212]?(?:[€$£¥₹]\s?)?[-+\u2212]?"
    r"(?:[1-9]\d{0,2}(?:[,'’\u00a0\u202f\u2009]\d{3})+(?:\.\d+)?|[1-9]\d{0,2}(?:\.\d{3})+,\d+|\d+[.,]\d+|\d+)"
    rf"(?=(?:{CODES})\b|(?!\w|[-./:]\d))",
    re.I,
)


def figures(text: str) -> list[float]:
    """The numbers that a piece of text states, in order."""
    text = re.sub(r"(?m)^\s*(?:[-+*•]|\d+[.)])\s+", " ", DATE.sub(" ", clean(text)))
    return [v for m in FIGURE.finditer(text) if (v := number(m.group(0))) is not None]


def clean(text: str) -> str:
    """Text without Markdown's emphasis."""
    return re.sub(r"(?<!^)\*+|^\*\*+|`|__", "", text, flags=re.M)


def _at(text: str, label: str) -> re.Match[str] | None:
    words = [re.escape(w) for w in clean(label).split()]
    return re.search(r"(?<!\w)" + r"\s+".join(words) + r"(?!\w)", text, re.I) if words else None


def places(text: str, label: str) -> list[str]:
    """Lines and sentences that hold the label, without it."""
    lines = clean(text).split("\n")
    out = []
    for place in [*lines, *_sentences(lines)]:
        if m := _at(place, label):
            out.append(place[: m.start()] + " ; " + place[m.end() :])
    return list(dict.fromkeys(out))


def _sentences(lines: Sequence[str]) -> list[str]:
    blocks: list[list[str]] = [[]]
    for line in lines:
        last = blocks[-1][-1] if blocks[-1] else ""
        new_item = _BREAK.match(line) or (figures(last) and re.match(r"\s*[A-Z]", line))
        if new_item or re.match(r"\s*[#|]", last):
            blocks.append([])
        blocks[-1].append(line)
    return [s for block in blocks if len(block) > 1 for s in _SENTENCE.split(" ".join(" ".join(block).split()))]


def figures_near(text: str, label: str) -> list[float]:
    """The different figures near a label, of all places that do not hold too many."""
    found = [dict.fromkeys(figures(place)) for place in places(text, label)]
    return list(dict.fromkeys(v for values in found if len(values) <= MAX_FIGURES for v in values))


def figure_near(text: str, label: str, expected: Any, *, tolerance: float = 0.0) -> Result:
    """The text states the expected value near its label. A date is looked for as a date, text as words."""
    value = scalar(expected)
    near = places(text, label)
    if not near:
        return 0.0, f"nothing is said about {label!r}"
    if is_empty(value) or isinstance(value, bool) or date(value) or number(value) is None:
        return _words_near(near, label, value)
    found = figures_near(text, label)
    if any(same_number(f, value, tolerance) for f in found):
        return RIGHT
    if not found and any(figures(place) for place in near):
        return 0.0, f"more than {MAX_FIGURES} figures stand beside {label!r}; one is asked for"
    return 0.0, f"the figure beside {label!r} is {shown(found) if found else 'missing'}, which is not right"


def _words_near(near: Sequence[str], label: str, value: Any) -> Result:
    day = date(value)
    for place in near:
        if day and any(date(m.group(0)) == day for m in DATE.finditer(place)):
            return RIGHT
        if not is_empty(value) and _at(place, plain(value)):
            return RIGHT
    return 0.0, f"what is said about {label!r} is not right"


def cites(text: str, paths: Sequence[str]) -> Result:
    """The text names each file, by its path or its file name."""
    have = folded(text)
    missing = [p for p in paths if not re.search(rf"(?<![\w-]){re.escape(folded(p.split('/')[-1]))}(?![\w-])", have)]
    return share(len(paths) - len(missing), len(paths), f"does not name {shown(missing)}")
