"""Repair a package by Factorial Compatibility Replay: diagnose, propose, replay, select, confirm, promote.

Interruptible at any time: rollouts and verdicts are kept as evidence, and the same call goes on where it
stopped. Nothing but evidence is written before the choice is confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rover.construct.rebuild import rebuild_verifier
from rover.diagnose.diagnosis import diagnose
from rover.diagnose.protocol import ProbeContext, Recorded
from rover.ops.diagnose import recorded
from rover.policy.protocol import Policy
from rover.repair import fcr
from rover.repair.audit import audit
from rover.repair.candidates import Frozen, Parent, freeze
from rover.repair.case import Lattice, Settings, case_id, confirm, run_case
from rover.repair.drafts import by_hand, from_revision
from rover.repair.history import envs, read_parent, view
from rover.repair.intent import Intent, last_admitted
from rover.repair.keep import keep
from rover.repair.oracle import ContractUnanswerable, Opinion, Oracle, state_of
from rover.repair.proposals.protocol import Draft, PackageView
from rover.repair.proposals.registry import propose
from rover.repair.trials import NobodyToAsk
from rover.repair.vote import by_vote
from rover.rollout.engine import Engine
from rover.rollout.env import Env, load_env, reference_state
from rover_store.errors import LostRace, PackageError, UsageError
from rover_store.ids import BIT, ComponentName
from rover_store.records import Diagnosis, Repair, Trajectory

if TYPE_CHECKING:
    from rover.sandbox.protocol import Runtime
    from rover_store.store import Store

Outcome = Literal["promoted", "kept", "abstained", "undecided", "dry_run"]
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
                return _Session(store, engine, request, progress).run(branch)
            except LostRace as error:
                if attempt + 1 == TRIES:
                    raise
                if progress is not None:
                    progress(f"{error.ref} moved; replaying on its new head")
    raise AssertionError("unreachable")


class _Session:
    """One attempt on one head."""

    def __init__(
        self, store: Store, engine: Engine, request: RepairRequest, progress: Callable[[str], None] | None
    ) -> None:
        self.store = store
        self.engine = engine
        self.request = request
        self.progress = progress
        self.commit = store.resolve("HEAD")
        self.env = load_env(store, store.package(request.package, self.commit).tree)

    def run(self, branch: str | None) -> RepairReport:
        seen = view(self.store, self.env, self.commit, self.engine)
        given = self._given(seen)  # a proposal that cannot be read is refused before anything runs
        self._tell("diagnose")
        found = self._diagnose()
        if found.verdict != "environment":
            outcome: Outcome = "undecided" if found.verdict in ("undecided", "infrastructure") else "abstained"
            return self._nothing(found, outcome, found.summary)
        intent = self._intent()
        if intent.undecided:
            open_questions = ", ".join(intent.undecided)
            reason = f"the parts of the package disagree on {open_questions}, none in the majority: a person decides"
            return self._nothing(found, "undecided", reason, intent)
        self._tell("propose")
        proposals = self._proposals(found, seen, given)
        if not proposals:
            return self._nothing(found, "kept", "no proposal for any component; try --propose or --from", intent)
        parent = read_parent(self.store, self.env.package, self.commit, _replaced(proposals))
        return self._replay(branch, found, intent, parent, proposals)

    def _replay(
        self, branch: str | None, found: Diagnosis, intent: Intent, parent: Parent, proposals: list[Frozen]
    ) -> RepairReport:
        known = recorded(self.store, self.env)
        settings = Settings(
            lazy=self.request.lazy,
            seed=self.request.seed,
            seeds=self.request.seeds,
            models=self.request.models,
            recorded=() if self.request.models else worth_replaying(known),
            crashed=tuple(r for r in known if r.verdict is not None and r.verdict.outcome == "verifier_error"),
            progress=self.progress,
        )
        try:
            rebuild = partial(rebuild_verifier, self.engine)
            lattice = run_case(self.engine, parent, found, intent, proposals, rebuild, settings)
        except NobodyToAsk as error:
            return self._nothing(found, "undecided", str(error), intent)
        if not lattice.selection.control_passed:
            confirm(lattice, lambda trial: audit(self.store, trial, self.request.seed), settings)
        record = _record(self.request, parent, found, proposals, lattice)
        replays = [lattice.trials.replay.ran, lattice.trials.replay.reused]
        if self.request.dry_run or lattice.selection.control_passed:
            return RepairReport(record, "", intent, *replays)
        target = branch if lattice.confirmed else None
        stored, case = keep(
            self.store, parent, lattice, proposals, record, branch=target, command=self.request.command
        )
        return RepairReport(stored, case, intent, *replays)

    # --- the steps ---------------------------------------------------------------------------------------
    def _diagnose(self) -> Diagnosis:
        resources = self.store.resources(self.commit)
        known = recorded(self.store, self.env)
        ctx = ProbeContext(self.env, self.engine, self.request.seed, resources, known)
        return diagnose(ctx, progress=self.progress)

    def _intent(self) -> Intent:
        admitted = last_admitted(envs(self.store, self.env.package, self.commit))
        return admitted or by_vote(self.env, *opinions(self.engine, self.env))

    def _given(self, seen: PackageView) -> tuple[Draft, ...]:
        """The caller's own: by hand, then from a revision."""
        drafts: dict[ComponentName, Draft] = {}
        for component, folder in sorted(self.request.propose.items()):
            draft = by_hand(self.store, seen, component, folder)
            drafts[draft.component] = draft
        if self.request.from_rev:
            for draft in from_revision(self.store, seen, self.request.from_rev):
                drafts.setdefault(draft.component, draft)
        return tuple(drafts.values())

    def _proposals(self, found: Diagnosis, seen: PackageView, given: tuple[Draft, ...]) -> list[Frozen]:
        """At most one for each component: the caller's, or else the proposers'. Frozen once."""
        chosen = given or propose(seen, found)
        frozen = [freeze(draft) for draft in sorted(chosen, key=lambda d: BIT[d.component])]
        return [f for f in frozen if _differs(f, self.env)]

    def _nothing(self, found: Diagnosis, outcome: Outcome, reason: str, intent: Intent | None = None) -> RepairReport:
        parent = Parent(self.commit, self.env.package, {self.env.package: self.env})
        record = Repair(
            case=case_id(parent, self.request.seed),
            package=self.env.package,
            parent=self.commit,
            diagnosis=found,
            outcome=outcome,
            reason=reason,
        )
        return RepairReport(record, "", intent, found.rollouts_run, found.rollouts_reused)

    def _tell(self, text: str) -> None:
        if self.progress is not None:
            self.progress(text)


def worth_replaying(found: Sequence[Recorded]) -> list[Trajectory]:
    """Recorded rollouts of models and people that ended by themselves: no attacker's, and no replay of one."""
    ours = ("null:", "replay:", "solver:")
    ended = [r.trajectory for r in found if r.trajectory.end == "completed"]
    return [t for t in ended if not t.key.policy.startswith(ours)]


def opinions(engine: Engine, env: Env) -> tuple[Opinion | None, Opinion | None]:
    """What the oracle holds of the reference and of the start state; None where it cannot say."""
    oracle = Oracle(engine, env.contract, env.start)
    try:
        start = oracle.judge([state_of(env.start, env.start)])[0]
    except ContractUnanswerable:
        return None, None
    try:
        reference = reference_state(env) if env.reference.changes else None
    except PackageError:
        reference = None
    if reference is None:
        return None, start
    return oracle.judge([state_of(env.start, reference, env.reference.final_message)])[0], start


def _differs(proposal: Frozen, env: Env) -> bool:
    return proposal.record.tree != env.component_id(proposal.record.component) or bool(proposal.record.resources)


def _replaced(proposals: Sequence[Frozen]) -> list[str]:
    return sorted({name for p in proposals for name in p.draft.resources})


def _record(
    request: RepairRequest, parent: Parent, found: Diagnosis, proposals: Sequence[Frozen], lattice: Lattice
) -> Repair:
    selected = lattice.selection.selected
    outcome, reason = _outcome(request, lattice)
    return Repair(
        case=lattice.case,
        package=parent.name,
        parent=parent.commit,
        diagnosis=found,
        proposals=tuple(p.record for p in proposals),
        candidates=lattice.candidates(),
        selected=selected.mask if selected else None,
        joint=lattice.selection.joint,
        confirmation=tuple(lattice.confirmation),
        outcome=outcome,
        reason=reason,
    )


def _outcome(request: RepairRequest, lattice: Lattice) -> tuple[Outcome, str]:
    selected = lattice.selection.selected
    if lattice.selection.control_passed:
        return "abstained", "the package passes every gate as it is: the finding is dropped"
    if selected is None and lattice.trials.undecided:
        open_ones = ", ".join(fcr.letters(mask) for mask in lattice.trials.undecided)
        return "undecided", f"no combination passes every gate, and nobody could be asked about {open_ones}"
    if selected is None:
        return "kept", "no combination passes every gate"
    letters = fcr.letters(selected.mask)
    failed = next((g for g in lattice.confirmation if not g.passed), None)
    if failed is not None:
        return "kept", f"{letters} was selected and failed {failed.gate}: {failed.reason}"
    what = f"{letters}: the smallest combination that passes every gate"
    if lattice.selection.joint:
        what += "; it is joint, no part of it passes alone"
    return ("dry_run", f"would promote {what}") if request.dry_run else ("promoted", what)
