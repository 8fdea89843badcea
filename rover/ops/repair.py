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
from rover.repair.budget import RepairBudget
from rover.repair.drafts import by_hand, from_revision
from rover.repair.history import view
from rover.repair.intent import Intent
from rover.repair.keep import keep
from rover.repair.proposals.protocol import Draft
from rover.repair.session import CaseRequest, consider
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
    budget: RepairBudget = field(default_factory=RepairBudget)


@dataclass(frozen=True)
class RepairReport:
    """What came of it. `case` is the commit of the case, empty where nothing was stored."""

    repair: Repair
    case: str = ""
    intent: Intent | None = None
    rollouts_run: int = 0
    rollouts_reused: int = 0

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
    """Repair one package on the current branch. A branch that moved meanwhile is replayed on, never overwritten."""
    branch = store.current_branch()
    if branch is None and not request.dry_run:
        raise UsageError("HEAD is detached; switch to the branch that is to be repaired")
    if request.from_rev:  # a name such as HEAD~1 means what it means now, however often the branch moves
        request = replace(request, from_rev=store.resolve(request.from_rev))
    with Engine(runtime, store.evidence, workers) as engine:
        for attempt in range(TRIES):
            try:
                return _attempt(store, engine, request, branch, progress)
            except LostRace as error:
                if attempt + 1 == TRIES:
                    raise
                if progress is not None:
                    progress(f"{error.ref} moved; replaying on its new head")
    raise AssertionError("unreachable")


def _attempt(
    store: Store,
    engine: Engine,
    request: RepairRequest,
    branch: str | None,
    progress: Callable[[str], None] | None,
) -> RepairReport:
    """One attempt on one head."""
    commit = store.resolve("HEAD")
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
        budget=request.budget,
    )
    found = consider(store, engine, case, progress)
    counts = found.rollouts_run, found.rollouts_reused
    lattice, record = found.lattice, found.record
    if lattice is None or lattice.selection.control_passed:
        return RepairReport(record, "", found.intent, *counts)
    if request.dry_run:
        would = record.outcome == "dry_run"
        said = record.model_copy(update={"reason": f"would promote {record.reason}"}) if would else record
        return RepairReport(said, "", found.intent, *counts)
    if record.outcome == "dry_run":
        record = record.model_copy(update={"outcome": "promoted"})
    target = branch if lattice.confirmed else None
    stored, kept = keep(
        store, found.parent, lattice, found.proposals, record, branch=target, command=request.command
    )
    return RepairReport(stored, kept, found.intent, *counts)


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
