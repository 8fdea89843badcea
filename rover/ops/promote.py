"""What waits on a branch of its own, taken or dropped: the choice of a repair under review, a generation of evolution.

A branch that moved since the case was judged is never overwritten. Where nothing that the case rests on changed, its
choice is put on the new head as it is: evidence is keyed by content, so every gate would say the same again.
Where something did, it is refused, and the repair is to be made again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rover.ops.repair import REVIEW
from rover.repair.history import siblings
from rover.repair.words import case_message
from rover_store.cases import case_json, find_case
from rover_store.errors import NotFound, UsageError
from rover_store.layout import TreeChange, changed_packages, changed_resources
from rover_store.records import Repair
from rover_store.refs import CASES, HEADS

if TYPE_CHECKING:
    from rover_store.store import Store
    from rover_store.write import Transaction

#: branches of `rover evolve`: evolve/N
EVOLVE = "evolve/"


@dataclass(frozen=True, slots=True)
class Promoted:
    """What was done. `case` is empty for a branch; `moved`: the choice was put on a head that had moved."""

    action: str  # promoted, dropped
    branch: str
    commit: str
    previous: str
    case: str = ""
    moved: bool = False


def promote(store: Store, word: str, *, drop: bool = False, command: str = "promote") -> Promoted:
    """Move the current branch to what a case or a branch holds, or drop it.

    NotFound for what is no case or branch, UsageError for a case that left nothing to promote, a detached HEAD,
    and a branch that moved on in what the choice rests on. Nothing changes then.
    """
    if word.startswith(EVOLVE):
        return _drop_branch(store, word, command) if drop else _fast_forward(store, word, command)
    if word in store.branches() and not word.startswith(REVIEW):
        raise UsageError(f"{word} is a branch of yours", hint=f"`rover merge {word}` takes its commits")
    case, commit = find_case(store, word.removeprefix(REVIEW))
    repair = _waiting(store, case, commit)
    return _drop(store, case, commit, repair, command) if drop else _promote(store, case, commit, repair, command)


# --- a case ------------------------------------------------------------------------------------------------
def _waiting(store: Store, case: str, commit: str) -> Repair:
    """The record of a case under review, whose branch is as the repair left it."""
    repair = Repair.load(case_json(store, case, commit), f"case {case}")
    if repair.outcome == "promoted":
        raise UsageError(f"{case} was promoted already, as {(repair.promoted or '')[:12]}")
    if repair.outcome != "review":
        raise UsageError(f"{case} has nothing to promote: {repair.reason}", hint="repair --review leaves a choice")
    if REVIEW + case not in store.branches():
        raise NotFound("branch", REVIEW + case, hint=f"make the choice again: rover repair {repair.package} --review")
    return repair


def _promote(store: Store, case: str, commit: str, repair: Repair, command: str) -> Promoted:
    branch = _current(store)
    review = REVIEW + case
    candidate = _candidate(repair)
    with store.write(command) as tx:
        if tx.ref(HEADS + review) != candidate:
            hint = f"`rover check`, then `rover merge {review}`"
            raise UsageError(f"{review} has commits that no case has judged", hint=hint)
        head = tx.ref(HEADS + branch) or ""
        new = candidate if head == repair.parent else _on(store, tx, repair, candidate, head)
        tx.promote(branch, new, expect=head)
        tx.move_ref(HEADS + review, candidate, None)
        _settle(tx, case, commit, repair.model_copy(update={"outcome": "promoted", "promoted": new}))
    return Promoted("promoted", branch, new, head, case, moved=head != repair.parent)


def _drop(store: Store, case: str, commit: str, repair: Repair, command: str) -> Promoted:
    review = REVIEW + case
    if store.current_branch() == review:
        raise UsageError(f"{review} is the current branch; switch away first")
    with store.write(command) as tx:
        old = tx.ref(HEADS + review)
        tx.move_ref(HEADS + review, old, None)
        reason = f"dropped in review: {repair.reason}"
        _settle(tx, case, commit, repair.model_copy(update={"outcome": "kept", "reason": reason}))
    return Promoted("dropped", review, old or "", old or "", case)


def _candidate(repair: Repair) -> str:
    found = next((c.commit for c in repair.candidates if c.mask == repair.selected), None)
    if found is None:
        raise UsageError(f"{repair.case} names no commit of its choice")
    return found


def _settle(tx: Transaction, case: str, commit: str, repair: Repair) -> None:
    """The case as it is now: the same commit with another record."""
    new = tx.detached_commit(
        case_message(repair),
        base=commit,
        files={"case.json": repair.dump()},
        parents=tx.load(commit).parents,
        trailers={"Rover-Case": case},
    )
    tx.set_ref(CASES + case, new, expect=commit)


def _on(store: Store, tx: Transaction, repair: Repair, candidate: str, head: str) -> str:
    """The choice as a commit on another head. UsageError where the head changed what the case rests on."""
    parent, chosen, now = (tx.load(c).tree for c in (repair.parent, candidate, head))
    packages = changed_packages(store.objects, parent, chosen)
    resources = changed_resources(store.objects, parent, chosen)
    reason = next(_disturbed(store, repair, head, parent, now, packages, resources), None)
    if reason:
        again = f"rover repair {repair.package} --review"
        raise UsageError(f"the branch moved, and {reason} since {repair.case} was judged", hint=f"again: {again}")
    return tx.detached_commit(
        tx.load(candidate).message,
        base=head,
        packages={p.name: p.new for p in packages},
        resources={r.name: r.new for r in resources},
        parents=(head,),
    )


def _disturbed(
    store: Store, repair: Repair, head: str, parent: str, now: str,
    packages: list[TreeChange], resources: list[TreeChange],
) -> Iterator[str]:  # fmt: skip
    """What of the new head is not as the case found it."""
    moved = {p.name for p in changed_packages(store.objects, parent, now)}
    shared = {r.name for r in changed_resources(store.objects, parent, now)}
    yield from (f"{name} changed" for name in sorted(moved & {repair.package, *(p.name for p in packages)}))
    yield from (f"{name} changed" for name in sorted(shared & {r.name for r in resources}))
    names = [r.name for r in resources]
    before, after = (siblings(store, repair.package, names, rev) for rev in (repair.parent, head))
    for name in names:
        others = (set(after[name]) ^ set(before[name])) | (set(after[name]) & moved)
        yield from (f"{other}, which shares {name}, changed" for other in sorted(others))


# --- a branch of evolution ---------------------------------------------------------------------------------
def _fast_forward(store: Store, name: str, command: str) -> Promoted:
    from rover_store.history.ancestry import is_ancestor

    branch = _current(store)
    tip = _tip(store, name)
    with store.write(command) as tx:
        head = tx.ref(HEADS + branch)
        if head == tip:
            raise UsageError(f"{branch} is at {name} already")
        if head is not None and not is_ancestor(store, head, tip):
            raise UsageError(f"{branch} has commits that {name} has not", hint=f"`rover merge {name}` takes both")
        tx.promote(branch, tip, expect=head)
    return Promoted("promoted", branch, tip, head or "", moved=False)


def _drop_branch(store: Store, name: str, command: str) -> Promoted:
    tip = _tip(store, name)
    store.delete_branch(name, command=command)
    return Promoted("dropped", name, tip, tip)


def _tip(store: Store, name: str) -> str:
    found = store.branches().get(name)
    if found is None:
        known = ", ".join(b for b in store.branches() if b.startswith(EVOLVE))
        raise NotFound("branch", name, hint=f"known: {known or 'none; `rover evolve` makes them'}")
    return found


def _current(store: Store) -> str:
    branch = store.current_branch()
    if branch is None:
        raise UsageError("HEAD is detached; switch to the branch that is to move")
    if branch.startswith((REVIEW, EVOLVE)):
        raise UsageError(f"the current branch is {branch}; switch to the one that is to move")
    return branch
