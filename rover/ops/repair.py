"""Repair a package by Factorial Compatibility Replay: diagnose, propose, replay, select, confirm, promote.

Interruptible at any time: rollouts and verdicts are kept as evidence, and the same call goes on where it
stopped. Nothing but evidence is written before the choice is confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rover.policy.protocol import Policy
from rover.repair import fcr
from rover.repair.budget import RepairBudget
from rover.repair.drafts import by_hand, from_revision
from rover.repair.history import view
from rover.repair.intent import Intent
from rover.repair.keep import keep
from rover.repair.proposals.protocol import Draft, Proposer
from rover.repair.ready import ready
from rover.repair.session import CaseRequest, Considered, consider, measure
from rover.rollout.engine import Engine
from rover.rollout.env import load_env
from rover_store.errors import LostRace, UsageError
from rover_store.ids import ComponentName
from rover_store.records import Repair

if TYPE_CHECKING:
    from rover.sandbox.protocol import Runtime
    from rover_store.store import Store

#: a branch that moves under a case this often is left alone
TRIES = 3
#: branches on which choices wait for a person: review/CASE
REVIEW = "review/"
#: asked with the whole lattice: the mask of a passing combination, or None for none
Choose = Callable[[Repair], int | None]


@dataclass(frozen=True)
class RepairRequest:
    """What to repair and how."""

    package: str
    lazy: bool = True
    dry_run: bool = False
    propose: Mapping[str, Path] = field(default_factory=dict)  # component -> folder
    from_rev: str = ""
    seed: int = 0
    seeds: int = 1
    models: Sequence[Policy] = ()
    command: str = "repair"
    styles: int = 1
    proposers: Sequence[Proposer] = ()  # beside the built-in ones
    budget: RepairBudget = field(default_factory=RepairBudget)
    branch: str = ""  # the one to repair; the current one where empty
    review: bool = False  # leave the choice on a branch of its own
    choose: Choose | None = None


@dataclass(frozen=True)
class RepairReport:
    """What came of it. `case` is the commit of the case, empty where nothing was stored. `review`: a branch."""

    repair: Repair
    case: str = ""
    review: str = ""
    intent: Intent | None = None
    rollouts_run: int = 0
    rollouts_reused: int = 0
    sets: int = 1  # sets of proposals that were tried: products of styles
    sets_left_out: int = 0

    @property
    def promoted(self) -> bool:
        return self.repair.promoted is not None


def repair(
    store: Store,
    runtime: Runtime,
    request: RepairRequest,
    *,
    workers: int = 1,
    progress: Callable[[str], None] | None = None,
) -> RepairReport:
    """Repair one package on a branch. A branch that moved meanwhile is replayed on, never overwritten."""
    if store.current_branch() is None and not request.branch and not request.dry_run:
        raise UsageError("HEAD is detached; switch to the branch that is to be repaired")
    with Engine(runtime, store.evidence, workers) as engine:
        return repair_with(store, engine, request, progress)


def repair_with(
    store: Store, engine: Engine, request: RepairRequest, progress: Callable[[str], None] | None = None
) -> RepairReport:
    """The same with an engine that the caller keeps open."""
    if request.from_rev:  # a name such as HEAD~1 means what it means now, however often the branch moves
        request = replace(request, from_rev=store.resolve(request.from_rev))
    for attempt in range(TRIES):
        try:
            return _attempt(store, engine, request, progress)
        except LostRace as error:
            if attempt + 1 == TRIES:
                raise
            if progress is not None:
                progress(f"{error.ref} moved; replaying on its new head")
    raise AssertionError("unreachable")


def _attempt(
    store: Store, engine: Engine, request: RepairRequest, progress: Callable[[str], None] | None
) -> RepairReport:
    """One attempt on one head."""
    branch = request.branch or store.current_branch()
    commit = store.resolve(f"refs/heads/{request.branch}" if request.branch else "HEAD")
    # a proposal that cannot be read is refused before anything runs
    given = _given(store, engine, request, commit)
    case = CaseRequest(
        package=request.package,
        commit=commit,
        seed=request.seed,
        seeds=request.seeds,
        lazy=request.lazy,
        models=request.models,
        given=given,
        styles=request.styles,
        proposers=request.proposers,
        budget=request.budget,
    )
    found = consider(store, engine, case, progress)
    if found.lattice is None or found.lattice.selection.control_passed:
        return _report(found, found.record)
    record = found.record if request.choose is None else _chosen(store, found, request.choose)
    if request.dry_run:
        would = record.outcome == "dry_run"
        said = record.model_copy(update={"reason": f"would promote {record.reason}"}) if would else record
        return _report(found, said)
    review = ""
    lattice = found.lattice
    if record.outcome == "dry_run" and record.selected is not None:
        if progress is not None:
            progress("admit")
        chosen = record.selected
        tested = ready(engine, lattice.built[chosen], found.parent, record.case)
        if tested.refused:
            why = f"{fcr.letters(chosen)} was selected; {tested.refused}"
            record = record.model_copy(update={"outcome": "kept", "reason": why})
        else:
            lattice = replace(lattice, built={**lattice.built, chosen: tested.built})
            record = record.model_copy(update={"reason": "; ".join((record.reason, *tested.notes))})
    if record.outcome == "dry_run":
        record = record.model_copy(update={"outcome": "review" if request.review else "promoted"})
        review = f"{REVIEW}{record.case}" if request.review else ""
    stored, kept = keep(
        store,
        found.parent,
        lattice,
        found.proposals,
        record,
        branch=branch if record.outcome == "promoted" else None,
        command=request.command,
        review=review,
    )
    return _report(found, stored, kept, review)


def _report(found: Considered, record: Repair, case: str = "", review: str = "") -> RepairReport:
    return RepairReport(
        record, case, review, found.intent, found.rollouts_run, found.rollouts_reused, found.sets, found.sets_left_out
    )


def _chosen(store: Store, found: Considered, choose: Choose) -> Repair:
    """The record after a person chose. Another combination than the selected one is confirmed first."""
    record = found.record
    passing = {c.mask for c in record.candidates if c.status == "passed"}
    if not passing:
        return record
    mask = choose(record)
    if mask is None:
        return record.model_copy(update={"selected": None, "outcome": "kept", "reason": "a person chose none of them"})
    if mask not in passing:
        raise UsageError(f"{fcr.letters(mask)} does not pass every gate; it cannot be chosen")
    if mask == record.selected:
        return record
    asked = measure(store, found, mask).confirmation
    failed = next((g for g in asked if not g.passed), None)
    name = fcr.letters(mask)
    reason = f"{name}: a person chose it among those that pass every gate"
    return record.model_copy(
        update={
            "selected": mask,
            "joint": _joint(record, mask),
            "confirmation": asked,
            "outcome": "kept" if failed else "dry_run",
            "reason": f"{name} was chosen and failed {failed.gate}: {failed.reason}" if failed else reason,
        }
    )


def _joint(record: Repair, mask: int) -> bool | None:
    built = {c.mask for c in record.candidates if c.status != "conflict"}
    tried = {c.mask for c in record.candidates if c.status in ("passed", "rejected")}
    passed = {c.mask for c in record.candidates if c.status == "passed"}
    return fcr.needs_joint(mask, frozenset(built), frozenset(tried), frozenset(passed))


def _given(store: Store, engine: Engine, request: RepairRequest, commit: str) -> tuple[Draft, ...]:
    """The caller's own: by hand, then from a revision."""
    if not request.propose and not request.from_rev:
        return ()
    env = load_env(store, store.package(request.package, commit).tree)
    seen = view(store, env, commit, engine)
    drafts: dict[ComponentName, Draft] = {}
    for component, folder in sorted(request.propose.items()):
        draft = by_hand(store, seen, component, folder)
        drafts[draft.component] = draft
    if request.from_rev:
        for draft in from_revision(store, seen, request.from_rev):
            drafts.setdefault(draft.component, draft)
    return tuple(drafts.values())
