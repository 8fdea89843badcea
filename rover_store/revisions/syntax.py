"""The grammar of a revision, apart from any store: which name it begins with, which steps follow, which path.

Everything is read from the right, as git does: `main^{tree}` is the step `^{tree}` on `main`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

#: kinds of object that `^{KIND}` may ask for; `object` is any, the empty one the first that is no tag
KINDS = frozenset({"commit", "tree", "blob", "tag", "object", ""})
_DIGITS = frozenset("0123456789")
#: more generations than a history can have
_FAR = 9


class Step(NamedTuple):
    """One thing behind a name. `sign`: `~` and `^` with `n`, `{` with a kind, `/` with a text to look for."""

    sign: str
    n: int = 0
    text: str = ""


class Name(NamedTuple):
    """What a revision begins with. `at` is the text of `NAME@{at}`; None where there is none."""

    name: str
    at: str | None = None


def split_path(text: str) -> tuple[str, str | None]:
    """REV and PATH of REV:PATH; a colon within braces does not count. PATH is None where there is no colon."""
    for i, letter in _outside_braces(text):
        if letter == ":":
            return text[:i], text[i + 1 :]
    return text, None


def _outside_braces(text: str) -> Iterator[tuple[int, str]]:
    depth = 0
    for i, letter in enumerate(text):
        if letter == "{":
            depth += 1
        elif letter == "}" and depth:
            depth -= 1
        elif not depth:
            yield i, letter


def split_steps(text: str) -> tuple[str, list[Step]]:
    """The name that a revision begins with, and its steps in the order in which they are taken."""
    steps: list[Step] = []
    end = len(text)
    while end:
        at = end
        while at and text[at - 1] in _DIGITS:
            at -= 1
        if at and text[at - 1] in "~^":
            digits = text[at:end].lstrip("0") if at < end else "1"
            n = int(digits or "0") if len(digits) <= _FAR else 10**_FAR
            steps.append(Step(text[at - 1], n))
            end = at - 1
            continue
        if text[end - 1] != "}":
            break
        at = text.rfind("^{", 0, end)
        inner = text[at + 2 : end - 1]
        if at < 0 or not (inner in KINDS or inner.startswith("/")):
            break
        steps.append(Step("/", text=inner[1:]) if inner.startswith("/") else Step("{", text=inner))
        end = at
    return text[:end], steps[::-1]


def split_at(text: str) -> Name:
    """`NAME@{WHEN}` as name and when."""
    at = text.rfind("@{") if text.endswith("}") else -1
    return Name(text) if at < 0 else Name(text[:at], text[at + 2 : -1])


def split_words(text: str) -> list[str]:
    """Words of a range. White space within braces belongs to the word, as does all that follows `:/`."""
    if text.startswith(":/"):
        return [text]
    return [m[0] for m in re.finditer(r"(?:\{[^{}]*\}|\S)+", text)]


def split_dots(word: str) -> tuple[str, str, str]:
    """A, dots and B of `A..B` or `A...B`; no dots where it is neither. Dots in braces or in a path do not count."""
    for i, letter in _outside_braces(word):
        if letter == ":":
            break
        if letter == "." and word.startswith("..", i):
            dots = "..." if word.startswith("...", i) else ".."
            return word[:i], dots, word[i + len(dots) :]
    return word, "", ""
