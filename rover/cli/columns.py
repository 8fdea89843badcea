"""Text in columns of a terminal: how wide it shows, cut, padded and wrapped; and colour where it is wanted.

Wide East Asian characters take two columns, combining marks none. Right-to-left text is kept inside its column by
isolates, so that what stands beside it keeps its place.
"""

from __future__ import annotations

import os
import sys
import unicodedata

from rover.cli.output import plain

_ISOLATE, _END = "\u2068", "\u2069"


def shown(text: str, tab: int = 4) -> str:
    """One line as it can be printed: tabs become spaces, control characters escapes."""
    if text.isascii() and text.isprintable():
        return text
    return plain(text.expandtabs(tab))


def display_width(text: str) -> int:
    """Columns that a text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_width, text))


def _width(letter: str) -> int:
    if letter.isascii():
        return 1
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def cut(text: str, columns: int) -> str:
    """The text, ending in `…` where it is wider."""
    if display_width(text) <= columns:
        return text
    return split(text, columns - 1)[0] + "…"


def split(text: str, columns: int) -> tuple[str, str]:
    """What fits, and the rest."""
    if text.isascii():
        return text[:columns], text[columns:]
    used = 0
    for i, letter in enumerate(text):
        used += _width(letter)
        if used > columns:
            return text[:i], text[i:]
    return text, ""


def wrap(text: str, columns: int) -> list[str]:
    """Lines no wider than so many columns: at a space near the end, else anywhere. No character is lost."""
    columns = max(columns, 2)
    out = []
    while True:
        line, text = split(text, columns)
        space = line.rfind(" ") + 1
        if text and space > 2 * len(line) // 3:
            line, text = line[:space], line[space:] + text
        out.append(line)
        if not text:
            return out


def pad(text: str, columns: int) -> str:
    """The text, filled up with spaces; right-to-left text isolated."""
    gap = " " * max(0, columns - display_width(text))
    if not text.isascii() and any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in text):
        return f"{_ISOLATE}{text}{_END}{gap}"
    return text + gap


class Colours:
    """Colour on a terminal, none elsewhere. NO_COLOR and TERM=dumb switch it off (no-color.org)."""

    def __init__(self, on: bool | None = None) -> None:
        if on is None:
            on = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self.on = on

    def paint(self, text: str, style: str) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self.on and text else text


_STYLES = {
    "old": "31", "new": "32", "head": "1", "hunk": "36", "note": "33", "dim": "2",
    "old-part": "7;31", "new-part": "7;32",
}  # fmt: skip
