"""The difference of two sequences in bounded time: anchors that are unique on both sides, then the smallest edit.

Patience diff (Bram Cohen) splits at items that occur once on each side; between anchors Myers' greedy search (1986)
finds the smallest edit, up to a number of edits and steps beyond which a block counts as replaced. Time is
O(n log n) apart from that search, however the input is made.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from rover_store.diffs.bounds import EDITS, STEPS


class Block(NamedTuple):
    """Items i1 to i2 of the old side stand where j1 to j2 of the new one do; all between blocks is equal."""

    i1: int
    i2: int
    j1: int
    j2: int


_DEPTH = 24


def blocks(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Block]:
    """What differs, in order. Neighbouring blocks are one."""
    start = first_difference(old, new)
    end = min(_same_at_the_end(old, new), min(len(old), len(new)) - start)
    codes: dict[Hashable, int] = {}
    a = [codes.setdefault(item, len(codes)) for item in old[start : len(old) - end]]
    b = [codes.setdefault(item, len(codes)) for item in new[start : len(new) - end]]
    budget = [STEPS]
    found: list[Block] = []
    waiting = [(Block(0, len(a), 0, len(b)), 0)]
    while waiting:
        whole, depth = waiting.pop()
        block = _trim(a, b, whole)
        if block.i1 == block.i2 or block.j1 == block.j2:
            if block.i1 < block.i2 or block.j1 < block.j2:
                found.append(block)
            continue
        anchors = _anchors(a, b, block) if depth < _DEPTH else []
        if anchors:
            ends = [*anchors, (block.i2, block.j2)]
            i, j = block.i1, block.j1
            for x, y in ends:
                waiting.append((Block(i, x, j, y), depth + 1))
                i, j = x + 1, y + 1
        else:
            found += _smallest(a, b, block, budget)
    return _joined([Block(i1 + start, i2 + start, j1 + start, j2 + start) for i1, i2, j1, j2 in sorted(found)])


def first_difference(old: Sequence[object], new: Sequence[object]) -> int:
    """Position of the first item that differs, by halving: slices compare fast."""
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _same_at_the_end(old: Sequence[object], new: Sequence[object]) -> int:
    """How many items both end with."""
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        if old[len(old) - middle : len(old) - low] == new[len(new) - middle : len(new) - low]:
            low = middle
        else:
            high = middle - 1
    return low


def _trim(a: list[int], b: list[int], block: Block) -> Block:
    i1, i2, j1, j2 = block
    while i1 < i2 and j1 < j2 and a[i1] == b[j1]:
        i1, j1 = i1 + 1, j1 + 1
    while i1 < i2 and j1 < j2 and a[i2 - 1] == b[j2 - 1]:
        i2, j2 = i2 - 1, j2 - 1
    return Block(i1, i2, j1, j2)


def _anchors(a: list[int], b: list[int], block: Block) -> list[tuple[int, int]]:
    """Items that both sides have once, in the longest order that both share."""
    i1, i2, j1, j2 = block
    in_a, in_b = Counter(a[i1:i2]), Counter(b[j1:j2])
    at = {b[j]: j for j in range(j1, j2) if in_b[b[j]] == 1}
    pairs = [(i, at[a[i]]) for i in range(i1, i2) if in_a[a[i]] == 1 and a[i] in at]
    return [pairs[k] for k in longest_run([j for _, j in pairs])]


def longest_run(values: Sequence[int]) -> list[int]:
    """Positions of a longest strictly increasing subsequence."""
    tails: list[int] = []
    ends: list[int] = []
    back = [-1] * len(values)
    for k, value in enumerate(values):
        at = bisect_left(tails, value)
        if at == len(tails):
            tails.append(value)
            ends.append(k)
        else:
            tails[at], ends[at] = value, k
        back[k] = ends[at - 1] if at else -1
    out = []
    k = ends[-1] if ends else -1
    while k >= 0:
        out.append(k)
        k = back[k]
    return out[::-1]


def _smallest(a: list[int], b: list[int], block: Block, budget: list[int]) -> list[Block]:
    """Myers' greedy search on one block; the block itself where the bounds end it."""
    i1, i2, j1, j2 = block
    n, m = i2 - i1, j2 - j1
    reach = {1: 0}
    trace: list[dict[int, int]] = []
    for d in range(min(n + m, EDITS) + 1):
        if budget[0] <= 0:
            return [block]
        trace.append(reach.copy())
        budget[0] -= 2 * d + 1
        for k in range(-d, d + 1, 2):
            down = k == -d or (k != d and reach.get(k - 1, -1) < reach.get(k + 1, -1))
            x = reach[k + 1] if down else reach[k - 1] + 1
            y = x - k
            start = x
            while x < n and y < m and a[i1 + x] == b[j1 + y]:
                x, y = x + 1, y + 1
            budget[0] -= x - start
            reach[k] = x
            if k == n - m and x >= n:
                return _walk_back(trace, n, m, i1, j1)
    return [block]


def _walk_back(trace: list[dict[int, int]], n: int, m: int, i1: int, j1: int) -> list[Block]:
    out: list[Block] = []
    x, y = n, m
    for d in range(len(trace) - 1, 0, -1):
        reach, k = trace[d], x - y
        down = k == -d or (k != d and reach.get(k - 1, -1) < reach.get(k + 1, -1))
        before = k + 1 if down else k - 1
        px = reach[before]
        py = px - before
        if down:
            out.append(Block(i1 + px, i1 + px, j1 + py, j1 + py + 1))
        else:
            out.append(Block(i1 + px, i1 + px + 1, j1 + py, j1 + py))
        x, y = px, py
    return out


def _joined(found: list[Block]) -> list[Block]:
    out: list[Block] = []
    for block in found:
        if out and out[-1].i2 == block.i1 and out[-1].j2 == block.j1:
            out[-1] = Block(out[-1].i1, block.i2, out[-1].j1, block.j2)
        else:
            out.append(block)
    return out
