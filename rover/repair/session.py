"""One case from a package to a choice: diagnose, freeze the intent, propose, replay, select, confirm, audit.

`consider` does all of it and stores nothing but evidence; `measure` puts any combination of its lattice to every
gate and to the sealed audit, whether the selection came by it or not. Promotion is the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from rover.construct.rebuild import rebuild_verifier
from rover.diagnose.diagnosis import diagnose
from rover.diagnose.neighbours import with_recorded
from rover.diagnose.protocol import ProbeContext, Recorded
from rover.harness.loop import Stopped
from rover.policy.protocol import Policy
from rover.repair import fcr
from rover.repair.audit import audit
from rover.repair.behind import behind, joined, put_right
from rover.repair.budget import BudgetSpent, Meter, RepairBudget
from rover.repair.candidates import Frozen, Parent, freeze
from rover.repair.case import Lattice, Settings, case_id, confirm, confirm_mask, run_case
from rover.repair.history import envs, read_parent, recorded, view
from rover.repair.intent import Intent, last_admitted
from rover.repair.poll import polled
from rover.repair.proposals.check import honest, refusal
from rover.repair.proposals.protocol import Draft, PackageView, Proposer
from rover.repair.proposals.registry import propose
from rover.repair.proposals.styles import Products, propose_styles
from rover.repair.trials import NobodyToAsk
from rover.rollout.env import Env, load_env
from rover_store.errors import PackageError, SandboxError
from rover_store.ids import BIT
from rover_store.records import Diagnosis, GateResult, Repair, Trajectory

if TYPE_CHECKING:
    from rover.rollout.engine import Engine
    from rover_store.store import Store

Progress = Callable[[str], None]
Outcome = Literal["promoted", "kept", "abstained", "undecided", "dry_run"]


@dataclass(frozen=True)
class CaseRequest:
    """One package at one commit, and how it is to be considered.

    `given` are the caller's own proposals: where there are any, no proposer is asked. `recorded` None means what
    the evidence holds. `without` names kinds whose rules are switched off, in probes and proposers alike.
    """

    package: str
    commit: str
    seed: int = 0
    seeds: int = 1
    lazy: bool = True
    models: Sequence[Policy] = ()
    given: tuple[Draft, ...] = ()
    recorded: tuple[Recorded, ...] | None = None
    history: bool = True
    without: frozenset[str] = frozenset()
    styles: int = 1
    proposers: Sequence[Proposer] = ()  # beside the built-in ones: those that need settings, such as models
    budget: RepairBudget = field(default_factory=RepairBudget)


@dataclass(frozen=True)
class Considered:
    """What came of a case. Without a lattice nothing was replayed; `record` says why."""

    request: CaseRequest
    env: Env
    diagnosis: Diagnosis
    parent: Parent
    record: Repair
    intent: Intent | None = None
    proposals: tuple[Frozen, ...] = ()
    lattice: Lattice | None = None
    settings: Settings | None = None
    rollouts_run: int = 0  # by this process, diagnosis and the reference runs of rebuilds included
    rollouts_reused: int = 0
    sets: int = 1  # sets of proposals that were tried, each frozen: products of styles
    sets_left_out: int = 0


@dataclass(frozen=True)
class Measured:
    """One combination under every gate, on fresh seeds, and before the sealed audit."""

    mask: int
    gates: tuple[GateResult, ...]
    confirmation: tuple[GateResult, ...]
    resolved: bool
    intent: bool
    boundary: bool
    verifier: bool
    siblings: bool
    audit: bool

    @property
    def safe(self) -> bool:
        """Resolved, and safely so: what the Safe Resolution Rate counts."""
        gates = self.resolved and self.intent and self.boundary and self.verifier and self.siblings
        confirmed = all(g.passed for g in (*self.gates, *self.confirmation))
        return gates and confirmed and self.audit


def consider(store: Store, engine: Engine, request: CaseRequest, progress: Progress | None = None) -> Considered:
    """Diagnose, freeze, propose, replay every combination that selection asks for, confirm, audit."""
    return _Session(store, engine, request, progress).run()


def measure(store: Store, considered: Considered, mask: int) -> Measured:
    """Any combination of the lattice, as the baselines need it. Rollouts are shared with everything before."""
    lattice, settings = considered.lattice, considered.settings
    if lattice is None or settings is None:
        reason = considered.record.reason or "there is no lattice"
        return _measured(mask, (GateResult(gate="rebuild", passed=False, reason=reason),), ())
    if mask not in lattice.built:
        reason = lattice.conflicts.get(mask, "nobody proposed it")
        return _measured(mask, (GateResult(gate="rebuild", passed=False, reason=reason),), ())
    gates = lattice.trials.thoroughly(mask)
    held = all(g.passed for g in gates)
    asked = partial(audit, store, seed=considered.request.seed)
    return _measured(mask, gates, confirm_mask(lattice, mask, asked, settings, replay=held))


def _measured(mask: int, gates: tuple[GateResult, ...], confirmation: tuple[GateResult, ...]) -> Measured:
    passed: dict[str, bool] = {g.gate: g.passed for g in gates}
    audited = any(g.gate == "audit" and g.passed and g.evidence for g in confirmation)
    whole = passed.get("rebuild", True)
    names = ("resolved", "intent", "boundary", "verifier", "siblings")
    resolved, intent, boundary, verifier, siblings = (whole and passed.get(name, False) for name in names)
    return Measured(mask, gates, confirmation, resolved, intent, boundary, verifier, siblings, audited)


class _Session:
    """One case on one commit."""

    def __init__(self, store: Store, engine: Engine, request: CaseRequest, progress: Progress | None) -> None:
        self.store = store
        self.engine = engine
        self.request = request
        self.progress = progress
        self.env = load_env(store, store.package(request.package, request.commit).tree)
        self.known = recorded(store, self.env) if request.recorded is None else request.recorded
        self.before = engine.ran, engine.reused
        self.meter = Meter(request.budget)
        self.context: ProbeContext | None = None
        self.found: Diagnosis | None = None

    def run(self) -> Considered:
        """The case within its budget. What was replayed when a bound is hit is kept as evidence."""
        refused = self.request.budget.nothing
        if refused:
            return self._nothing(self._undiagnosed(refused), "undecided", refused)
        before, self.engine.meter = self.engine.meter, self.meter
        try:
            return self._consider()
        except (BudgetSpent, Stopped, SandboxError):  # a bound that one candidate hits breaks off the others' runs
            spent = self.meter.spent
            if not spent:
                raise
            run, reused = self._counts()
            reason = f"{spent}: {run} rollouts were run and {reused} reused; the same command goes on from there"
            return self._nothing(self.found or self._undiagnosed(spent), "undecided", reason)
        finally:
            self.engine.meter = before

    def _consider(self) -> Considered:
        seen = view(self.store, self.env, self.request.commit, self.engine)
        self._tell("diagnose")
        found = self.found = self._diagnose(seen)
        if found.verdict != "environment":
            outcome: Outcome = "undecided" if found.verdict in ("undecided", "infrastructure") else "abstained"
            return self._nothing(found, outcome, found.summary)
        intent = self._intent()
        if intent.undecided:
            open_questions = ", ".join(intent.undecided)
            reason = f"the parts of the package disagree on {open_questions}, none in the majority: a person decides"
            return self._nothing(found, "undecided", reason, intent)
        self._tell("propose")
        meant = intent.contract if intent.contract != self.env.contract else None
        seen = replace(seen, intent=meant)
        products = self._products(found, seen)
        wider = self._behind(found, products)
        if wider is not found:
            found = self.found = wider
            products = self._products(found, seen)
        return self._tried(found, intent, products.sets, products.left_out)

    def _behind(self, found: Diagnosis, products: Products) -> Diagnosis:
        """The diagnosis, and what the first set of proposals would lay open."""
        if self.request.given or not products.sets:
            return found
        proposals = self._frozen(products.sets[0])
        parent = read_parent(self.store, self.env.package, self.request.commit)
        right = put_right(parent, proposals)
        if right is None:
            return found
        self._tell("behind")
        more = behind(
            self.engine, right, found, seed=self.request.seed, without=self.request.without, progress=self.progress
        )
        return joined(found, more)

    def _tried(
        self, found: Diagnosis, intent: Intent, sets: Sequence[tuple[Draft, ...]], left_out: int
    ) -> Considered:
        """Every set of proposals in turn, each frozen, until one is confirmed; the first one where none is."""
        first: Considered | None = None
        tried = 0
        for drafts in sets:
            proposals = self._frozen(drafts)
            if not proposals:
                continue
            tried += 1
            if len(sets) > 1:
                self._tell(f"proposals {tried} of {len(sets)}")
            parent = read_parent(self.store, self.env.package, self.request.commit, _replaced(proposals))
            now = self._replay(found, intent, parent, proposals)
            first = first or now
            ended = now.lattice is None or now.lattice.selection.control_passed
            # the sealed audit is asked once a case: another set after its veto would be made with its help
            asked = any(gate.gate == "audit" for gate in now.record.confirmation)
            if ended or asked or now.record.outcome == "dry_run":
                return replace(now, sets=tried, sets_left_out=left_out)
        if first is None:
            return self._nothing(found, "kept", "no proposal for any component; try --propose or --from", intent)
        run, reused = self._counts()
        return replace(first, rollouts_run=run, rollouts_reused=reused, sets=tried, sets_left_out=left_out)

    def _replay(self, found: Diagnosis, intent: Intent, parent: Parent, proposals: list[Frozen]) -> Considered:
        settings = Settings(
            lazy=self.request.lazy,
            seed=self.request.seed,
            seeds=self.request.seeds,
            models=self.request.models,
            recorded=() if self.request.models else worth_replaying(self.known),
            crashed=tuple(r for r in self.known if r.verdict is not None and r.verdict.outcome == "verifier_error"),
            diagnosed=self.context,
            meter=self.meter,
            progress=self.progress,
        )
        try:
            rebuild = partial(rebuild_verifier, self.engine)
            lattice = run_case(self.engine, parent, found, intent, proposals, rebuild, settings)
        except NobodyToAsk as error:
            return self._nothing(found, "undecided", str(error), intent)
        if not lattice.selection.control_passed:
            confirm(lattice, partial(audit, self.store, seed=self.request.seed), settings)
        record = _record(parent, found, proposals, lattice)
        return Considered(
            self.request, self.env, found, parent, record, intent, tuple(proposals), lattice, settings, *self._counts()
        )

    # --- the steps ---------------------------------------------------------------------------------------
    def _diagnose(self, seen: PackageView) -> Diagnosis:
        self.context = ProbeContext(self.env, self.engine, self.request.seed, seen.present, self.known, seen.read)
        return diagnose(self.context, progress=self.progress, without=self.request.without)

    def _undiagnosed(self, reason: str) -> Diagnosis:
        return Diagnosis(package=self.env.package, tree=self.env.tree, verdict="undecided", summary=reason)

    def _intent(self) -> Intent:
        admitted = last_admitted(envs(self.store, self.env.package, self.request.commit))
        if admitted is not None:
            return admitted
        return polled(self.engine, self.env, self._built(), self.known)

    def _built(self) -> Env:
        """The package on the data that it was built on, as far as those can be read."""
        try:
            return with_recorded(self.context, self.env) if self.context is not None else self.env
        except PackageError:
            return self.env

    def _products(self, found: Diagnosis, seen: PackageView) -> Products:
        """Sets of drafts, at most one for each component in a set: the caller's, or else the proposers'."""
        request = self.request
        if request.given:
            return Products([tuple(self._own(draft, seen) for draft in request.given)], 0)
        if request.styles > 1:
            return propose_styles(
                seen, found, request.styles, history=request.history, without=request.without,
                more=request.proposers, tell=self.progress,
            )  # fmt: skip
        made = propose(
            seen, found, history=request.history, without=request.without, more=request.proposers, tell=self.progress
        )
        return Products([made], 0)

    def _own(self, draft: Draft, seen: PackageView) -> Draft:
        """A caller's draft with its real writes. PackageError where it is no component of this package."""
        problem = refusal(seen, draft.component, draft)
        if problem:
            raise PackageError("proposal", draft.component, problem)
        return honest(seen, draft)

    def _frozen(self, drafts: Sequence[Draft]) -> list[Frozen]:
        """Frozen once; what would change nothing is none."""
        frozen = [freeze(draft) for draft in sorted(drafts, key=lambda d: BIT[d.component])]
        return [f for f in frozen if _differs(f, self.env)]

    def _nothing(self, found: Diagnosis, outcome: Outcome, reason: str, intent: Intent | None = None) -> Considered:
        parent = Parent(self.request.commit, self.env.package, {self.env.package: self.env})
        record = Repair(
            case=case_id(parent, self.request.seed),
            package=self.env.package,
            parent=self.request.commit,
            diagnosis=found,
            outcome=outcome,
            reason=reason,
        )
        run, reused = self._counts()
        return Considered(
            self.request, self.env, found, parent, record, intent, rollouts_run=run, rollouts_reused=reused
        )

    def _counts(self) -> tuple[int, int]:
        return self.engine.ran - self.before[0], self.engine.reused - self.before[1]

    def _tell(self, text: str) -> None:
        if self.progress is not None:
            self.progress(text)


def worth_replaying(found: Sequence[Recorded]) -> list[Trajectory]:
    """Recorded rollouts of models and people that ended by themselves: no attacker's, and no replay of one."""
    ours = ("null:", "replay:", "solver:", "solution:")
    ended = [r.trajectory for r in found if r.trajectory.end == "completed"]
    return [t for t in ended if not t.key.policy.startswith(ours)]


def _differs(proposal: Frozen, env: Env) -> bool:
    return proposal.record.tree != env.component_id(proposal.record.component) or bool(proposal.record.resources)


def _replaced(proposals: Sequence[Frozen]) -> list[str]:
    return sorted({name for p in proposals for name in p.draft.resources})


def _record(parent: Parent, found: Diagnosis, proposals: Sequence[Frozen], lattice: Lattice) -> Repair:
    selected = lattice.selection.selected
    outcome, reason = _outcome(lattice)
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


def _outcome(lattice: Lattice) -> tuple[Outcome, str]:
    """A choice that held is `dry_run` here: promoting it is the caller's."""
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
    return "dry_run", what
