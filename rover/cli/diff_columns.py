"""Lines beside each other, and what differs inside a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rover.cli.columns import pad, shown, wrap
from rover_store.diffs.content import Hunk
from rover_store.diffs.sequence import Block, blocks
from rover_store.diffs.text import words

if TYPE_CHECKING:
    from rover.cli.diff_text import Look


def runs(hunk: Hunk) -> Iterator[tuple[list[str], list[str], list[str]]]:
    """(removed, added, equal) lines that stand together."""
    gone: list[str] = []
    came: list[str] = []
    same: list[str] = []
    for mark, line in hunk.lines:
        if mark == " ":
            same.append(line)
            continue
        if same or (mark == "-" and came):
            yield gone, came, same
            gone, came, same = [], [], []
        (gone if mark == "-" else came).append(line)
    yield gone, came, same


def side_by_side(hunk: Hunk, look: Look, width: int) -> Iterator[str]:
    """Old lines on the left, new ones on the right; long ones go on below. `|` changed, `<` removed, `>` added."""
    half = (width - 3) // 2
    for gone, came, same in runs(hunk):
        for i in range(max(len(gone), len(came))):
            old = gone[i] if i < len(gone) else None
            new = came[i] if i < len(came) else None
            mark = ">" if old is None else "<" if new is None else "|"
            yield from _beside(old, new, mark, half, look)
        for line in same:
            yield from _beside(line, line, " ", half, look)


def _beside(old: str | None, new: str | None, mark: str, half: int, look: Look) -> Iterator[str]:
    left = wrap(shown(old), half) if old is not None else [""]
    right = wrap(shown(new), half) if new is not None else [""]
    for i in range(max(len(left), len(right))):
        a, b = (side[i] if i < len(side) else "" for side in (left, right))
        sign = mark if not i else " "
        a, b = pad(a, half), pad(b, 0)
        if mark != " ":
            a, sign, b = look.paint(a, "old"), look.paint(sign, "note"), look.paint(b, "new")
        yield f"{a} {sign} {b}".rstrip()


def emphasised(old: str, new: str, look: Look, *, together: bool = False) -> tuple[str, str]:
    """Two lines with what differs in them set off; `together`: as one, `[-old-]{+new+}` where there is no colour."""
    sides = words(shown(old)), words(shown(new))
    found = blocks(*sides)
    changed = sum(b.i2 - b.i1 + b.j2 - b.j1 for b in found)
    if not together and changed * 2 > len(sides[0]) + len(sides[1]):  # little in common: the lines as a whole
        found = []
    if together:
        return _one_line(*sides, found, look), ""
    out = []
    for side, mark, style in ((0, "-", "old"), (1, "+", "new")):
        at, text = 0, look.paint(mark, style)
        for b in found:
            start, end = (b.i1, b.i2) if side == 0 else (b.j1, b.j2)
            text += look.paint("".join(sides[side][at:start]), style)
            text += look.paint("".join(sides[side][start:end]), f"{style}-part")
            at = end
        out.append(text + look.paint("".join(sides[side][at:]), style))
    return out[0], out[1]


def _one_line(old: list[str], new: list[str], found: list[Block], look: Look) -> str:
    text, at = " ", 0
    for b in found:
        gone, came = "".join(old[b.i1 : b.i2]), "".join(new[b.j1 : b.j2])
        text += "".join(old[at : b.i1])
        if look.colours.on:
            text += look.paint(gone, "old") + look.paint(came, "new")
        else:
            text += (f"[-{gone}-]" if gone else "") + (f"{{+{came}+}}" if came else "")
        at = b.i2
    return text + "".join(old[at:])
