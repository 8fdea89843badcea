"""One repair case in memory: frozen intent and proposals in, lattice and choice out. Nothing is stored here.

    parent -> build every combination -> select through the gates -> confirm on new seeds -> audit
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from rover.diagnose.protocol import ProbeContext, Recorded
from rover.policy.protocol import Policy
from rover.repair import fcr
from rover.repair.ahead import Ahead
from rover.repair.budget import Meter
from rover.repair.candidates import Builder, Built, Frozen, Parent, RebuildVerifier
from rover.repair.conflicts import conflict
from rover.repair.intent import Intent
from rover.repair.replay import Replay
from rover.repair.trial import Trial
from rover.repair.trials import Progress, Trials
from rover.rollout.engine import Engine
from rover.verify.shown import Conditions
from rover_store.ids import digest
from rover_store.records import Candidate, Diagnosis, GateResult, Trajectory

#: seeds of confirmation are counted from here: none was seen in selection
FRESH = 1000
#: a verifier that goes by the clock or by chance says something else under these
OTHERWISE = Conditions(clock=(300 * 24 + 7) * 3600.0, seed=FRESH)


@dataclass(frozen=True)
class Settings:
    """How a case is run. `seeds`: rollouts of each policy for each candidate."""

    lazy: bool = True
    seed: int = 0
    seeds: int = 1
    models: Sequence[Policy] = ()
    recorded: Sequence[Trajectory] = ()
    crashed: tuple[Recorded, ...] = ()  # rollouts on which the verifier crashed
    diagnosed: ProbeContext | None = None  # what the probes looked at
    meter: Meter | None = None
    progress: Progress | None = None


@dataclass
class Lattice:
    """The outcome: every combination with what became of it, and the choice."""

    case: str
    built: dict[int, Built]
    conflicts: dict[int, str]
    selection: fcr.Selection
    trials: Trials
    confirmation: list[GateResult] = field(default_factory=list)

    @property
    def chosen(self) -> Built | None:
        return self.built[self.selection.selected.mask] if self.selection.selected else None

    @property
    def confirmed(self) -> bool:
        return self.chosen is not None and bool(self.confirmation) and all(g.passed for g in self.confirmation)

    def candidates(self) -> tuple[Candidate, ...]:
        """A record for every combination, in the order of masks."""
        made = [self._record(mask) for mask in sorted(self.built)]
        made += [
            Candidate(
                mask=mask, status="conflict", gates=(GateResult(gate="rebuild", passed=False, reason=reason),)
            )
            for mask, reason in self.conflicts.items()
        ]
        return tuple(sorted(made, key=lambda c: c.mask))

    def _record(self, mask: int) -> Candidate:
        built = self.built[mask]
        status = "control" if mask == 0 else "not_run"
        if mask and mask in self.selection.evaluated:
            status = "passed" if mask in self.selection.passed else "rejected"
        trial = self.trials.trials.get(mask)
        ran, reused = trial.rollouts() if trial else (0, 0)
        return Candidate(
            mask=mask,
            closure=tuple(sorted(built.expansion.closure)),
            changed=tuple(sorted(built.expansion.changed)),
            rebuilt=tuple(sorted(built.expansion.rebuilt)),
            cost=built.cost,
            status=status,
            gates=self.trials.gates.get(mask, ()),
            rollouts_run=ran,
            rollouts_reused=reused,
        )


def case_id(parent: Parent, seed: int) -> str:
    """Name of a case: the same for the same version of the package, whatever branch it lies on."""
    return f"{parent.name}-{digest([parent.name, parent.env.tree, seed])[:8]}"


def run_case(
    engine: Engine,
    parent: Parent,
    diagnosis: Diagnosis,
    intent: Intent,
    proposals: Sequence[Frozen],
    rebuild: RebuildVerifier,
    settings: Settings,
) -> Lattice:
    """Enumerate, expand, replay, select. NobodyToAsk where no policy can show that the task can be done."""
    builder = Builder(parent, proposals, rebuild)
    masks, conflicts = fcr.combinations(builder.proposed, lambda m: conflict(builder.chosen(m), builder.unbuilt(m)))
    built = {0: builder.control()}
    for mask in masks:
        _tell(settings, f"build {fcr.letters(mask)}")
        built[mask] = builder.build(mask)
    case = case_id(parent, settings.seed)
    trials = Trials(
        parent=parent,
        intent=intent,
        findings=diagnosis.findings,
        replay=Replay(engine, case, tuple(range(settings.seeds))),
        built=built,
        models=settings.models,
        recorded=settings.recorded,
        crashed=settings.crashed,
        diagnosed=settings.diagnosed,
        meter=settings.meter,
        seed=settings.seed,
        thorough=not settings.lazy,
        progress=settings.progress,
    )
    options = [b.option for b in built.values()]
    with Ahead(trials, options, engine.workers, lazy=settings.lazy) as evaluate:
        selection = fcr.select(options, evaluate, lazy=settings.lazy)
    return Lattice(case, built, conflicts, selection, trials)


def confirm(lattice: Lattice, audit: Callable[[Trial], GateResult], settings: Settings) -> None:
    """Replay the choice on new seeds, then ask the sealed audit. What they say is kept in the lattice."""
    chosen = lattice.selection.selected
    if chosen is not None:
        lattice.confirmation += confirm_mask(lattice, chosen.mask, audit, settings)


def confirm_mask(
    lattice: Lattice,
    mask: int,
    audit: Callable[[Trial], GateResult],
    settings: Settings,
    *,
    replay: bool = True,
) -> tuple[GateResult, ...]:
    """Confirmation of any combination. Without `replay` the audit alone: a gate has failed already."""
    first = lattice.trials
    fresh = replace(
        first,
        replay=Replay(first.replay.engine, lattice.case, tuple(FRESH + k for k in range(settings.seeds))),
        seed=settings.seed + FRESH,
        diagnosed=None,
        thorough=False,
        near=False,
        gates={},
        trials={},
        undecided=[],
    )
    if not replay:
        return (audit(fresh.trial(mask)),)
    _tell(settings, "confirm")
    with first.replay.engine.under(OTHERWISE):
        passed = fresh.evaluate(lattice.built[mask].option)
    said = _confirmed(passed, fresh.gates[mask])
    if not passed:
        return (said,)
    _tell(settings, "audit")
    return said, audit(fresh.trial(mask))


def _confirmed(passed: bool, gates: Iterable[GateResult]) -> GateResult:
    failed = next((g for g in gates if not g.passed), None)
    reason = f"{failed.gate}: {failed.reason}" if failed else "every gate holds on new seeds"
    evidence = tuple(e for g in gates for e in g.evidence)[:8]
    return GateResult(gate="confirm", passed=passed, reason=reason, evidence=evidence)


def _tell(settings: Settings, text: str) -> None:
    if settings.progress is not None:
        settings.progress(text)
