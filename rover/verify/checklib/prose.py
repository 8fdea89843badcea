"""Comparers of written text: a figure beside its label, and sources that are named.

A statement about a label is the sentence, within one line, that holds the label's words in a row (case, spaces
and emphasis do not matter); where that sentence holds no figure, the rest of the sentence over the next lines
of the same paragraph. Dates, digits of the label and digits inside words (Q3, INV-001) are no figures.
A figure counts where it is among at most MAX_FIGURES different ones: a list of guesses states nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rover.verify.checklib.objects import scalar
from rover.verify.checklib.tables import RIGHT, share, shown
from rover.verify.checklib.values import Result, date, folded, is_empty, number, plain, same_number

MAX_FIGURES = 6

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'(\[])")
_DATE = re.compile(
    r"\b\d{4}[-/.]\d{1,2}[-/.]\d{1,2}\b|\b\d{1,2}[./-]\d{1,2}[./-]\d{4}\b|\b\d{4}-\d\d\b"
    r"|\b\d{1,2}\.?\s+(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?,?\s+\d{4}\b"
    r"|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?\s+\d{1,2},?\s+\d{4}\b",
    re.I,
)
_FIGURE = re.compile(
    r"(?<![\w])(?<![\w][\-./:,'])"
    r"[-+\u2212]?\s?[€$£¥₹]?\s?[-+\u2212]?"
    r"(?:[1-9]\d{0,2}(?:[,'’\u00a0\u202f\u2009]\d{3})+(?:[.]\d+)?|[1-9]\d{0,2}(?:\.\d{3})+,\d+|\d+[.,]\d+|\d+)"
    r"(?!\w|[-./:]\d)",
    re.I,
)


def _clean(text: str) -> str:
    return re.sub(r"\*+|`|__", "", text)


def figures(text: str) -> list[float]:
    """The numbers that a piece of text states, in order."""
    text = _DATE.sub(" ", _clean(text))
    out = []
    for m in _FIGURE.finditer(text):
        value = number(m.group(0))
        if value is not None:
            out.append(value)
    return out


def _label_at(text: str, label: str) -> re.Match[str] | None:
    words = [re.escape(w) for w in _clean(label).split()]
    return re.search(r"(?<!\w)" + r"\s+".join(words) + r"(?!\w)", text, re.I) if words else None


def figures_near(text: str, label: str) -> list[float]:
    """The different figures of all statements about a label."""
    out: list[float] = []
    for statement in _statements(_clean(text), label):
        out += [v for v in figures(statement) if v not in out]
    return out


def _statements(text: str, label: str) -> list[str]:
    """What is said about a label, without the label itself."""
    lines = text.split("\n")
    out = []
    for i, line in enumerate(lines):
        for sentence in _SENTENCE.split(line):
            if m := _label_at(sentence, label):
                rest = sentence[: m.start()] + " " + sentence[m.end() :]
                out.append(rest if figures(rest) else rest + " " + _next_lines(lines, i))
    if not out:  # the label itself may be broken over two lines
        for paragraph in re.split(r"\n\s*\n", text):
            for sentence in _SENTENCE.split(" ".join(paragraph.split())):
                if m := _label_at(sentence, label):
                    out.append(sentence[: m.start()] + " " + sentence[m.end() :])
    return out


def _next_lines(lines: Sequence[str], i: int) -> str:
    """The rest of a sentence that began on line `i`; a list item, table row or heading ends it."""
    taken: list[str] = []
    if re.search(r"[.!?|]\s*$", lines[i]):
        return ""
    for line in lines[i + 1 : i + 4]:
        if not line.strip() or re.match(r"\s*(?:[-+#|]|\d+[.)]\s)", line):
            break
        first, *more = _SENTENCE.split(line)
        taken.append(first)
        if more or re.search(r"[.!?]\s*$", first):
            break
    return " ".join(taken)


def figure_near(text: str, label: str, expected: Any, *, tolerance: float = 0.0) -> Result:
    """The text states the expected value near its label. A value that is no number is looked for as words."""
    value = scalar(expected)
    statements = _statements(_clean(text), label)
    if not statements:
        return 0.0, f"nothing is said about {label!r}"
    if number(value) is None or date(value) is not None:
        return _words_near(statements, label, value)
    found = figures_near(text, label)
    if len(found) > MAX_FIGURES:
        return 0.0, f"{len(found)} different figures stand beside {label!r}; one is asked for"
    if any(same_number(f, value, tolerance) for f in found):
        return RIGHT
    return 0.0, f"the figure beside {label!r} is {shown(found) if found else 'missing'}, which is not right"


def _words_near(statements: Sequence[str], label: str, value: Any) -> Result:
    if is_empty(value):
        return 0.0, f"{label!r} has no expected value"
    day = date(value)
    for statement in statements:
        if _label_at(statement, plain(value)):
            return RIGHT
        if day and any(date(m.group(0)) == day for m in _DATE.finditer(statement)):
            return RIGHT
    return 0.0, f"what is said about {label!r} is not right"


def cites(text: str, paths: Sequence[str]) -> Result:
    """The text names each file, by its path or its file name."""
    have = folded(text)
    missing = [p for p in paths if not re.search(rf"(?<![\w-]){re.escape(folded(p.split('/')[-1]))}(?![\w-])", have)]
    return share(len(paths) - len(missing), len(paths), f"does not name {shown(missing)}")
