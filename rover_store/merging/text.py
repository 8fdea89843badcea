"""Three-way merge of texts by line: what one side changed is taken, what both changed differently is a conflict.

The difference is that of `diffs.sequence`, the merge that of diff3 (Khanna, Kunal, Pierce 2007).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rover_store.diffs.sequence import Block, blocks

#: size of a file that is still merged by line
LIMIT = 8 << 20

OURS, BASE, SPLIT, THEIRS = "<<<<<<<", "|||||||", "=======", ">>>>>>>"


class Chunk(NamedTuple):
    """A run of lines: agreed on (`base` and `theirs` are None), or in conflict."""

    ours: list[str]
    base: list[str] | None = None
    theirs: list[str] | None = None

    @property
    def conflict(self) -> bool:
        """Whether both sides changed these lines."""
        return self.theirs is not None


def text_of(data: bytes) -> str | None:
    """A file as text, None where it is none: not UTF-8, with a zero byte, or too large."""
    if len(data) > LIMIT or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def merge_text(base: str, ours: str, theirs: str) -> list[Chunk]:
    """Runs of lines that make the merged text."""
    a, o, b = (lines(text) for text in (ours, base, theirs))
    return _joined(_chunks(o, a, b, _matches(o, a), _matches(o, b)))


def clean(chunks: Sequence[Chunk]) -> str | None:
    """The merged text, None where a conflict is among the chunks."""
    return None if any(c.conflict for c in chunks) else "".join(line for c in chunks for line in c.ours)


def marked(chunks: Sequence[Chunk], ours: str = "ours", theirs: str = "theirs") -> str:
    """The text with conflict markers as git writes them (diff3 style: the base stands between)."""
    out: list[str] = []
    for chunk in chunks:
        if chunk.theirs is None:
            out += chunk.ours
            continue
        parts = ((f"{OURS} {ours}", chunk.ours), (f"{BASE} base", chunk.base or []), (SPLIT, chunk.theirs))
        for marker, part in parts:
            out += [f"{marker}\n", *_ended(part)]
        out.append(f"{THEIRS} {theirs}\n")
    return "".join(out)


def markers(text: str) -> list[int]:
    """Numbers of the lines that are conflict markers."""
    found = []
    for number, line in enumerate(lines(text), 1):
        bare = line.rstrip("\r\n")
        if bare == SPLIT or bare.startswith((f"{OURS} ", f"{BASE} ", f"{THEIRS} ")):
            found.append(number)
    return found


def lines(text: str) -> list[str]:
    """Lines with their ends. Only a line feed ends one, as in git."""
    rows = text.split("\n")
    out = [f"{row}\n" for row in rows[:-1]]
    return [*out, rows[-1]] if rows[-1] else out


def _ended(part: list[str]) -> list[str]:
    return [*part[:-1], f"{part[-1]}\n"] if part and not part[-1].endswith("\n") else part


def _matches(a: list[str], b: list[str]) -> dict[int, int]:
    """Line of `a` -> the same line of `b`, both growing."""
    out: dict[int, int] = {}
    i = j = 0
    for block in (*blocks(a, b), Block(len(a), len(a), len(b), len(b))):
        out.update(zip(range(i, block.i1), range(j, block.j1), strict=True))
        i, j = block.i2, block.j2
    return out


def _chunks(
    o: list[str], a: list[str], b: list[str], left: dict[int, int], right: dict[int, int]
) -> Iterator[Chunk]:
    """Stable and unstable runs in turn, as diff3 finds them."""
    at_o = at_a = at_b = 0
    while at_o < len(o) or at_a < len(a) or at_b < len(b):
        i = 0
        while at_o + i < len(o) and left.get(at_o + i) == at_a + i and right.get(at_o + i) == at_b + i:
            i += 1
        if i:
            yield Chunk(o[at_o : at_o + i])
            at_o, at_a, at_b = at_o + i, at_a + i, at_b + i
            continue
        next_o = next((n for n in range(at_o, len(o)) if n in left and n in right), None)
        ends = (len(o), len(a), len(b)) if next_o is None else (next_o, left[next_o], right[next_o])
        yield _decide(o[at_o : ends[0]], a[at_a : ends[1]], b[at_b : ends[2]])
        at_o, at_a, at_b = ends


def _decide(base: list[str], ours: list[str], theirs: list[str]) -> Chunk:
    if ours == theirs or theirs == base:
        return Chunk(ours)
    if ours == base:
        return Chunk(theirs)
    return Chunk(ours, base, theirs)


def _joined(chunks: Iterator[Chunk]) -> list[Chunk]:
    out: list[Chunk] = []
    for chunk in chunks:
        if out and not chunk.conflict and not out[-1].conflict:
            out[-1].ours.extend(chunk.ours)
        elif chunk.conflict or chunk.ours:
            out.append(Chunk(list(chunk.ours), chunk.base, chunk.theirs))
    return out
