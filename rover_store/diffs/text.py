"""Text by lines: what it is encoded in, how its lines end, and the hunks that differ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from rover_store.diffs.bounds import CHARACTERS, LINES, LISTED, TEXT_BYTES
from rover_store.diffs.content import Hunk, Status, TextPart
from rover_store.diffs.sequence import Block, blocks, first_difference

_WORDS = re.compile("[^\\W\u2e80-\uffff\U00020000-\U0003ffff]+|\\s+|.", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f-\x9f]")


class Text:
    """A decoded side: its `encoding` (utf-8, utf-16-le, utf-16-be, latin-1), and whether it has a byte order `mark`."""

    def __init__(self, text: str, encoding: str, mark: bool) -> None:
        self.text = text
        self.encoding = encoding
        self.mark = mark

    @cached_property
    def lines(self) -> list[str]:
        """Lines without their ends, LF or CRLF."""
        found = self.text.split("\n")
        if found[-1] == "":
            found.pop()
        return [line[:-1] if line.endswith("\r") else line for line in found]

    @cached_property
    def returns(self) -> int:
        """How many lines end in CRLF."""
        return self.text.count("\r\n")

    @property
    def ended(self) -> bool:
        """Whether the last line has an end. An empty text counts as ended."""
        return not self.text or self.text.endswith("\n")

    @property
    def line_ends(self) -> str:
        total = self.text.count("\n")
        if not total:
            return "none"
        if self.returns in (0, total):
            return "CRLF" if self.returns else "LF"
        return f"{self.returns} CRLF, {total - self.returns} LF"


def decode(data: bytes) -> Text | None:
    """The text of some bytes; None where they are none, or too many."""
    if len(data) > TEXT_BYTES:
        return None
    for start, name in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        if data.startswith(start):
            return _as(data[2:], name, True)
    if b"\0" in data:
        return None
    mark = data.startswith(b"\xef\xbb\xbf")
    return _as(data[3:] if mark else data, "utf-8", mark) or _latin(data)


def _as(data: bytes, encoding: str, mark: bool) -> Text | None:
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else Text(text, encoding, mark)


def _latin(data: bytes) -> Text | None:
    """Any bytes are Latin-1: those with many control characters are no text."""
    text = data.decode("latin-1")
    return None if len(_CONTROL.findall(text[:65536])) * 20 > min(len(text), 65536) else Text(text, "latin-1", False)


def notes(old: Text, new: Text) -> list[str]:
    """What differs that no line shows."""
    out = []
    if old.encoding != new.encoding:
        out.append(f"encoding: {old.encoding} -> {new.encoding}")
    elif old.encoding == "latin-1":
        out.append("read as latin-1: not UTF-8")
    if old.mark != new.mark:
        out.append(f"byte order mark {'added' if new.mark else 'removed'}")
    if old.line_ends != new.line_ends and "none" not in (old.line_ends, new.line_ends):
        out.append(f"line ends: {old.line_ends} -> {new.line_ends}")
    if old.ended != new.ended:
        out.append(f"newline at the end {'added' if new.ended else 'removed'}")
    return out


class Compared(NamedTuple):
    part: TextPart | None
    notes: tuple[str, ...]


def compare_text(old: Text, new: Text, context: int = 3, name: str = "") -> Compared:
    """Lines that differ, and what else does."""
    said = notes(old, new)
    if max(len(old.lines), len(new.lines)) > LINES:
        said.append(f"more than {LINES} lines: {len(old.lines)} -> {len(new.lines)}, not compared by line")
        return Compared(None, tuple(said))
    part = compare_lines(old.lines, new.lines, context, name)
    if part is None and not [n for n in said if not n.startswith("read as")]:
        said.append(f"the same lines, other line ends: {old.line_ends} -> {new.line_ends}")
    return Compared(part, tuple(said))


def compare_lines(old: Sequence[str], new: Sequence[str], context: int = 3, name: str = "") -> TextPart | None:
    """The hunks between two lists of lines; None where they are equal."""
    found = blocks(old, new)
    if not found:
        return None
    added, removed = sum(b.j2 - b.j1 for b in found), sum(b.i2 - b.i1 for b in found)
    hunks: list[Hunk] = []
    room = LISTED
    shown = 0
    for group in _groups(found, context):
        if room <= 0:
            break
        hunk = _hunk(old, new, group, context, room)
        shown += sum(mark != " " for mark, _ in hunk.lines)
        room -= len(hunk.lines)
        hunks.append(hunk)
    return TextPart(name, "changed", tuple(hunks), added, removed, added + removed - shown)


def one_sided(lines: Sequence[str], status: Status, name: str = "") -> TextPart:
    """A text that only one side has."""
    mark = "+" if status == "added" else "-"
    shown = tuple((mark, _cut(line)) for line in lines[:LISTED])
    n = len(lines)
    span = (0, 0, 1 if n else 0, n) if status == "added" else (1 if n else 0, n, 0, 0)
    hunks = (Hunk(*span, shown),) if shown else ()
    counts = (n, 0) if status == "added" else (0, n)
    return TextPart(name, status, hunks, *counts, omitted=n - len(shown))


def _groups(found: Sequence[Block], context: int) -> list[list[Block]]:
    out: list[list[Block]] = []
    for block in found:
        if out and block.i1 - out[-1][-1].i2 <= 2 * context:
            out[-1].append(block)
        else:
            out.append([block])
    return out


def _hunk(old: Sequence[str], new: Sequence[str], group: list[Block], context: int, room: int) -> Hunk:
    i1, j1 = max(0, group[0].i1 - context), max(0, group[0].j1 - context)
    lead = min(group[0].i1 - i1, group[0].j1 - j1)
    i1, j1 = group[0].i1 - lead, group[0].j1 - lead
    tail = min(context, len(old) - group[-1].i2, len(new) - group[-1].j2)
    i2, j2 = group[-1].i2 + tail, group[-1].j2 + tail
    lines: list[tuple[str, str]] = []
    at = i1
    for block in group:
        lines += [(" ", _cut(line)) for line in old[at : block.i1]]
        half = max(room // 2, 1)  # of a block that is too long both sides show their beginning
        gone, came = old[block.i1 : block.i2][:half], new[block.j1 : block.j2][:half]
        pairs = list(zip(gone, came, strict=False)) if len(gone) == len(came) else []
        starts = [_window(a, b) for a, b in pairs] or [0] * max(len(gone), len(came))
        lines += [("-", _cut(line, start)) for line, start in zip(gone, starts, strict=False)]
        lines += [("+", _cut(line, start)) for line, start in zip(came, starts, strict=False)]
        at = block.i2
        if len(lines) > room:
            break
    else:
        lines += [(" ", _cut(line)) for line in old[at:i2]]
    # a side without a line is named by the line before, as git does
    return Hunk(i1 + (i2 > i1), i2 - i1, j1 + (j2 > j1), j2 - j1, tuple(lines[: room + 2 * context]))


def _window(old: str, new: str) -> int:
    """Where to begin showing two long lines, so that their first difference is seen."""
    if max(len(old), len(new)) <= CHARACTERS:
        return 0
    return max(0, first_difference(old, new) - 40)


def _cut(line: str, start: int = 0) -> str:
    if len(line) <= CHARACTERS:
        return line
    shown = line[start : start + CHARACTERS]
    left, right = start, len(line) - start - len(shown)
    return (f"…({left} more)" if left else "") + shown + (f"…({right} more)" if right else "")


def words(text: str) -> list[str]:
    """A line as words, runs of space and single marks, for a difference inside it. East Asian letters stand alone."""
    return _WORDS.findall(text)
