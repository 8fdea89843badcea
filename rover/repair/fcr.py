"""Factorial Compatibility Replay, the pure part: combinations, expansion, selection.

Nodes are opaque names; what rebuilds a node, what a combination costs and whether it passes the gates are
functions that the caller gives. Nothing here reads a store, a clock or a file.

A mask names a combination of proposals by component: C = 1, T = 2, H = 4, V = 8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rover_store.graph import Dependency, closure, order

LETTERS = ((1, "C"), (2, "T"), (4, "H"), (8, "V"))


@dataclass(frozen=True, slots=True)
class Expansion:
    """What a combination touches: everything it may reach, what really changes, what is made again."""

    closure: frozenset[str]
    changed: frozenset[str]
    rebuilt: frozenset[str]


@dataclass(frozen=True, slots=True)
class Option:
    """One combination, expanded, with its cost in bytes of changed blobs."""

    mask: int
    expansion: Expansion
    cost: int = 0

    @property
    def rank(self) -> tuple[int, int, int, int]:
        """Selection order: fewest changed versions, fewest rebuilt, lowest cost, lowest mask."""
        return (len(self.expansion.changed), len(self.expansion.rebuilt), self.cost, self.mask)


@dataclass(frozen=True, slots=True)
class Selection:
    """What a run chose. `joint` is None where nothing was selected or a lazy run cannot know it."""

    selected: Option | None
    evaluated: tuple[int, ...]  # masks in the order in which they were evaluated
    passed: tuple[int, ...]
    joint: bool | None
    control_passed: bool = False


def letters(mask: int) -> str:
    """`5` -> `CH`; the control is `-`."""
    return "".join(letter for bit, letter in LETTERS if mask & bit) or "-"


def combinations(proposed: int, conflict: Callable[[int], str | None]) -> tuple[tuple[int, ...], dict[int, str]]:
    """The non-empty combinations of the proposed components without a conflict, and the dropped ones with why.

    `conflict(mask)` gives the reason of a dependency conflict, or None.
    """
    kept: list[int] = []
    dropped: dict[int, str] = {}
    for mask in range(1, 16):
        if mask & ~proposed:
            continue
        reason = conflict(mask)
        if reason is None:
            kept.append(mask)
        else:
            dropped[mask] = reason
    return tuple(kept), dropped


def expand(roots: frozenset[str], edges: Sequence[Dependency], rebuild: Callable[[str], bool]) -> Expansion:
    """Rebuild the closure of `roots` in dependency order, with early cut-off. StoreError names a cycle.

    `roots` are the nodes that proposals replace: changed versions all. A node is rebuilt where something it
    depends on really changed; `rebuild(node)` makes it again against the present versions and says whether its
    tree id is another one. Where it is not, nothing behind it is rebuilt on its account.
    """
    reached = closure(roots, edges)
    depends_on: dict[str, set[str]] = {}
    for edge in edges:
        depends_on.setdefault(edge.source, set()).add(edge.target)
    changed = set(roots)
    rebuilt: set[str] = set()
    for node in order(reached, edges):
        if changed.isdisjoint(depends_on.get(node, ())):
            continue
        rebuilt.add(node)
        if rebuild(node):
            changed.add(node)
    return Expansion(frozenset(reached), frozenset(changed), frozenset(rebuilt))


def select(
    candidates: Iterable[Option], evaluate: Callable[[Option], bool], *, lazy: bool = True
) -> Selection:
    """The first candidate in selection order that passes.

    A lazy run stops there; an exhaustive one evaluates all, in the same order, and selects the same. The
    control (mask 0), where given, is evaluated first; if it passes, the finding is dropped and nothing selected.
    What `evaluate` raises goes through: evidence made so far is the caller's to keep.
    """
    options = sorted(candidates, key=lambda o: (o.mask != 0, o.rank))
    evaluated: list[int] = []
    passed: list[int] = []
    chosen: Option | None = None
    for option in options:
        evaluated.append(option.mask)
        if not evaluate(option):
            continue
        if option.mask == 0:
            return Selection(None, tuple(evaluated), (), None, control_passed=True)
        passed.append(option.mask)
        chosen = chosen or option
        if lazy:
            break
    masks = frozenset(o.mask for o in options)
    joint = None if chosen is None else needs_joint(chosen.mask, masks, frozenset(evaluated), frozenset(passed))
    return Selection(chosen, tuple(evaluated), tuple(passed), joint)


def needs_joint(
    mask: int, candidates: frozenset[int], evaluated: frozenset[int], passed: frozenset[int]
) -> bool | None:
    """Whether a passing combination of two or more has no passing proper subset; None where that is open.

    A subset in conflict is no candidate, so it passes nothing.
    """
    subsets = {m for m in candidates if m and m != mask and m & mask == m}
    if mask.bit_count() < 2 or subsets & passed:
        return False
    return True if subsets <= evaluated else None
