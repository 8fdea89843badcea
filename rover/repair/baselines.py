"""Simpler ways to use the same frozen proposals: apply all, add greedily, repair the blamed component, do nothing.

Each picks a combination and says why. None looks at gates or at the sealed audit: what a pick is worth is measured
afterwards by `session.measure`, for all methods alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from rover.diagnose.diagnosis import suspects
from rover.diagnose.registry import still_there
from rover.repair.fcr import letters
from rover.repair.session import Considered
from rover_store.errors import PackageError
from rover_store.ids import BIT
from rover_store.records import Diagnosis


@dataclass(frozen=True, slots=True)
class Standing:
    """How the trigger stands in a combination: findings that are left, and whether the failing run passes."""

    left: int
    passes: bool

    @property
    def gone(self) -> bool:
        return self.left == 0 and self.passes

    def better_than(self, other: Standing) -> bool:
        """Fewer findings left, or as many and a run that passes now."""
        return (self.left, not self.passes) < (other.left, not other.passes)

    def __str__(self) -> str:
        run = "the run passes" if self.passes else "the run does not pass"
        return f"{self.left} finding{'' if self.left == 1 else 's'} left, {run}"


class Board(Protocol):
    """What a baseline plays on."""

    #: bits of the proposed components
    proposed: Sequence[int]

    def conflict(self, mask: int) -> str | None:
        """The dependency conflict for which the combination cannot be applied, or None."""
        ...

    def standing(self, mask: int) -> Standing:
        """How the trigger stands there; 0 is the parent."""
        ...


@dataclass(frozen=True, slots=True)
class Pick:
    """The combination that a method applies; 0 applies nothing. `trace` says step by step why."""

    mask: int
    trace: tuple[str, ...]


def nothing(board: Board, blamed: Sequence[int]) -> Pick:
    """Leave the package as it is."""
    return Pick(0, ("nothing is applied",))


def apply_all(board: Board, blamed: Sequence[int]) -> Pick:
    """All proposals at once; none where they cannot be applied together."""
    mask = sum(board.proposed)
    if not mask:
        return Pick(0, ("nobody proposed anything",))
    reason = board.conflict(mask)
    if reason:
        return Pick(0, (f"{letters(mask)} cannot be applied: {reason}",))
    return Pick(mask, (f"{letters(mask)}: everything that was proposed",))


def local_only(board: Board, blamed: Sequence[int]) -> Pick:
    """The proposal for the component that is blamed first; none where there is no such proposal."""
    if not blamed:
        return Pick(0, ("no component is blamed",))
    first = blamed[0]
    if first not in board.proposed:
        return Pick(0, (f"{letters(first)} is blamed first and nobody proposed for it",))
    reason = board.conflict(first)
    if reason:
        return Pick(0, (f"{letters(first)} cannot be applied: {reason}",))
    return Pick(first, (f"{letters(first)} is blamed first",))


def greedy(board: Board, blamed: Sequence[int]) -> Pick:
    """Add one proposal at a time while the trigger gets better, in order of blame, then of the mask.

    Each step takes the first proposal that makes it better, and looks at those it passed over again afterwards.
    """
    order = in_order(board.proposed, blamed)
    mask, now = 0, board.standing(0)
    trace = [f"-: {now}"]
    while not now.gone:
        for bit in (b for b in order if not b & mask):
            reason = board.conflict(mask | bit)
            if reason:
                trace.append(f"{letters(mask | bit)} cannot be applied: {reason}")
                continue
            then = board.standing(mask | bit)
            if then.better_than(now):
                mask, now = mask | bit, then
                trace.append(f"{letters(mask)}: better, {now}")
                break
            trace.append(f"{letters(mask | bit)}: no better, {then}")
        else:
            break
    return Pick(mask, tuple(trace))


#: by the names under which tables list them
METHODS = {"apply-all": apply_all, "greedy": greedy, "local-only": local_only, "no-op": nothing}


def in_order(proposed: Sequence[int], blamed: Sequence[int]) -> list[int]:
    """Proposed bits, the blamed ones first and in that order, the others by mask."""
    first = [b for b in blamed if b in proposed]
    return [*first, *(b for b in sorted(proposed) if b not in first)]


def blamed_bits(diagnosis: Diagnosis) -> list[int]:
    """Components by blame, the likeliest first; as the findings name them where no blame was worked out."""
    if diagnosis.blame:
        ranked = sorted(diagnosis.blame.items(), key=lambda pair: (-pair[1], BIT[pair[0]]))
        return [BIT[component] for component, share in ranked if share > 0]
    return [BIT[c] for c in suspects(diagnosis.findings) if c in BIT]


class Lattices:
    """The board of one considered case. Runs are shared with all that was replayed before."""

    def __init__(self, considered: Considered) -> None:
        self.considered = considered
        self.proposed: Sequence[int] = sorted(BIT[p.record.component] for p in considered.proposals)
        self._known: dict[int, Standing] = {}

    def conflict(self, mask: int) -> str | None:
        """A verifier that cannot be made again is no conflict: it stays as it is, and the edits are applied."""
        lattice = self.considered.lattice
        if lattice is None:
            return self.considered.record.reason
        return None if mask in lattice.built else lattice.conflicts.get(mask, "nobody proposed it")

    def standing(self, mask: int) -> Standing:
        if mask not in self._known:
            self._known[mask] = self._look(mask)
        return self._known[mask]

    def _look(self, mask: int) -> Standing:
        lattice = self.considered.lattice
        triggers = [f for f in self.considered.diagnosis.findings if f.status == "confirmed"]
        if lattice is None:
            return Standing(len(triggers), False)
        probing = replace(lattice.trials.trial(mask).probing)  # asks anew: its runs are this method's cost
        try:
            left = triggers if mask == 0 else still_there(triggers, probing)
            run = probing.runs.demonstrator
        except PackageError:  # a combination whose files cannot be used resolves nothing
            return Standing(len(triggers), False)
        return Standing(sum(f.status == "confirmed" for f in left), run is not None and run.verdict.outcome == "passed")
