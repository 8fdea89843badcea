"""Lines beside each other, and what differs inside a line."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from rover.cli.columns import display_width, pad, shown, wrap
from rover_store.diffs.content import Hunk
from rover_store.diffs.sequence import blocks
from rover_store.diffs.text import words

if TYPE_CHECKING:
    from rover.cli.diff_look import Look


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
    if mark == "|" and old is not None and new is not None:
        sides = pieces(old, new)
    else:
        sides = [(shown(old or ""), False)], [(shown(new or ""), False)]
    styles = ("", "") if mark == " " else ("old", "new")
    left, right = (_column(row, style, half, look) for row, style in zip(sides, styles, strict=True))
    for i in range(max(len(left), len(right))):
        (a, a_width), (b, _) = (side[i] if i < len(side) else ("", 0) for side in (left, right))
        sign = look.paint(mark, "note") if not i and mark != " " else " "
        yield f"{a}{' ' * (half - a_width)} {sign} {b}".rstrip()


def _column(row: Pieces, style: str, half: int, look: Look) -> list[tuple[str, int]]:
    """A line in one column: what to print, and how wide it shows. Right-to-left text stays inside."""
    out = []
    for plain, painted_line in painted(row, style, look, half):
        framed = pad(plain, 0)
        out.append((framed.replace(plain, painted_line, 1) if plain else "", display_width(plain)))
    return out


#: pieces of a line, and whether each differs from the other side
Pieces = list[tuple[str, bool]]


def pieces(old: str, new: str) -> tuple[Pieces, Pieces]:
    """Two lines in pieces: what differs in them and what does not. With little in common, each is one piece."""
    sides = words(shown(old)), words(shown(new))
    found = blocks(*sides)
    if 2 * sum(b.i2 - b.i1 + b.j2 - b.j1 for b in found) > len(sides[0]) + len(sides[1]):
        return [(shown(old), False)], [(shown(new), False)]
    out: tuple[Pieces, Pieces] = ([], [])
    for side, row in enumerate(out):
        at = 0
        for b in found:
            start, end = (b.i1, b.i2) if side == 0 else (b.j1, b.j2)
            row += [("".join(sides[side][at:start]), False), ("".join(sides[side][start:end]), True)]
            at = end
        row.append(("".join(sides[side][at:]), False))
    return out


def painted(row: Pieces, style: str, look: Look, width: int | None) -> Iterator[tuple[str, str]]:
    """A line in lines no wider than `width` (None: as one): plain, and in colour with what differs set off."""
    text = "".join(piece for piece, _ in row)
    differs = [flag for piece, flag in row for _ in piece]
    at = 0
    for line in wrap(text, width) if width is not None else [text]:
        out = ""
        for flag, group in groupby(range(at, at + len(line)), key=differs.__getitem__):
            run = list(group)
            part = text[run[0] : run[-1] + 1]
            out += look.paint(part, f"{style}-part" if flag else style) if style else part
        yield line, out
        at += len(line)


def one_line(old: str, new: str, look: Look) -> str:
    """Two lines as one: what went and what came in colour, else as `[-old-]{+new+}`."""
    sides = words(shown(old)), words(shown(new))
    text, at = " ", 0
    for b in blocks(*sides):
        gone, came = "".join(sides[0][b.i1 : b.i2]), "".join(sides[1][b.j1 : b.j2])
        text += "".join(sides[0][at : b.i1])
        if look.colours.on:
            text += look.paint(gone, "old") + look.paint(came, "new")
        else:
            text += (f"[-{gone}-]" if gone else "") + (f"{{+{came}+}}" if came else "")
        at = b.i2
    return text + "".join(sides[0][at:])
