"""Every end state that diagnosis has, judged twice: by the verifier, and by the oracle, which evaluates the contract.

Where the two part, one of them is wrong, and it is not the agent. The states are the start, the reference, its
negatives and alternatives, and what solvers, careless solvers, attackers and recorded rollouts left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rover.construct.calibrate import alternative_state
from rover.diagnose.oracle.contract import ContractUnanswerable, Opinion, State, state_after, state_of
from rover.rollout.env import reference_state
from rover_store.errors import PackageError, RoverError
from rover_store.records import Verdict

if TYPE_CHECKING:
    from rover.diagnose.protocol import ProbeContext, Recorded
    from rover.diagnose.runs import Run

Kind = Literal["start", "reference", "negative", "alternative", "solver", "slip", "attacker", "recorded"]
#: recorded rollouts that are looked at, those of different policies first
MOST_RECORDED = 8


@dataclass(frozen=True, slots=True)
class Judged:
    """One end state. `id` is a rollout's, or names the case; `whole`: its rollout ended by itself."""

    name: str
    kind: Kind
    id: str
    verdict: Verdict
    opinion: Opinion
    whole: bool = True

    @property
    def honest(self) -> bool:
        """Work of somebody who meant to do the task and was not made to slip."""
        return self.kind in ("solver", "reference", "alternative")

    def parted(self) -> Iterator[tuple[str, bool]]:
        """(requirement, contract holds) wherever the verifier says otherwise, or says nothing of what is broken."""
        if self.verdict.outcome in ("verifier_error", "infra_error"):
            return
        scores = requirement_scores(self.verdict)
        for need, holds in self.opinion.satisfied.items():
            if need not in scores:
                if not holds:
                    yield need, False
            elif holds != (scores[need] == 1.0):
                yield need, holds


@dataclass(frozen=True, slots=True)
class _Unjudged:
    name: str
    kind: Kind
    id: str
    state: State
    verdict: Verdict
    whole: bool = True


def requirement_scores(verdict: Verdict) -> dict[str, float]:
    """The lowest score of the criteria of each requirement that the verifier scores."""
    out: dict[str, float] = {}
    for score in verdict.scores:
        if score.weight > 0 or score.critical:
            out[score.requirement] = min(out.get(score.requirement, 1.0), score.score)
    return out


def judged(ctx: ProbeContext) -> tuple[Judged, ...]:
    """All of them. ContractUnanswerable where the contract has no answer on the present files."""
    states = list(_states(ctx))
    opinions = ctx.runs.oracle.judge([s.state for s in states])
    return tuple(
        Judged(s.name, s.kind, s.id, s.verdict, opinion, s.whole)
        for s, opinion in zip(states, opinions, strict=True)
    )


def opinion_of(ctx: ProbeContext, run: Run) -> Opinion | None:
    """What the contract holds of a run on the package as it is; None where it has no answer."""
    try:
        return ctx.runs.oracle.judge([state_after(ctx.env.start, run.result)])[0]
    except ContractUnanswerable:
        return None


def _states(ctx: ProbeContext) -> Iterator[_Unjudged]:
    env, runs = ctx.env, ctx.runs
    yield _Unjudged("the start state", "start", env.start_tree, state_of(env.start, env.start), runs.start_verdict)
    yield from _calibration(ctx)
    solvers = [r for r in (runs.demonstrator, runs.alternative) if r is not None]
    yield from (_ran(ctx, run, "solver") for run in solvers if run.verdict.outcome != "infra_error")
    yield from (_ran(ctx, run, "slip") for run in runs.slips if run.verdict.outcome != "infra_error")
    yield from (_ran(ctx, run, "attacker") for run in runs.attackers if run.verdict.outcome != "infra_error")
    yield from _recorded(ctx)


def _calibration(ctx: ProbeContext) -> Iterator[_Unjudged]:
    """The reference, and what the verifier's own cases make of it."""
    env, engine = ctx.env, ctx.engine
    if not env.reference.changes and not env.reference.final_message:
        return
    try:
        reference = reference_state(env)
    except PackageError:
        return  # said by `reference`
    said = env.reference.final_message
    verdict = engine.grade_state(env, reference, said)
    yield _Unjudged("the reference", "reference", env.verifier_id, state_of(env.start, reference, said), verdict)
    made = [(r, s) for r, s in zip(ctx.runs.rules, ctx.runs.mutants, strict=True) if not isinstance(s, str)]
    verdicts = engine.grade_states([(env, state, said) for _, state in made])
    for (rule, state), verdict in zip(made, verdicts, strict=True):
        kind: Kind = "negative" if rule.requirement else "alternative"
        yield _Unjudged(f"the case {rule.id}", kind, f"case:{rule.id}", state_of(env.start, state, said), verdict)
    for name in env.cases.states:
        try:
            state, message = alternative_state(env, name)
        except PackageError:
            continue  # said by `cases`
        verdict = engine.grade_state(env, state, message)
        held = state_of(env.start, state, message)
        yield _Unjudged(f"the alternative {name}", "alternative", f"case:{name}", held, verdict)


def _ran(ctx: ProbeContext, run: Run, kind: Kind) -> _Unjudged:
    state = state_after(ctx.env.start, run.result)
    return _Unjudged(run.policy, kind, run.id, state, run.verdict, run.end == "completed")


def _recorded(ctx: ProbeContext) -> Iterator[_Unjudged]:
    """Rollouts of agents on this very version; those whose workspace is gone are left out."""
    from rover.rollout.records import RolloutResult

    for one in _various([r for r in ctx.recorded if _is_agents(r)])[:MOST_RECORDED]:
        assert one.verdict is not None
        try:
            result = RolloutResult(one.rollout, one.trajectory, ctx.engine.end_of(one.trajectory), True)
            state = state_after(ctx.env.start, result)
        except (RoverError, KeyError):
            continue  # evidence that is gone or broken says nothing
        whole = one.trajectory.end == "completed"
        yield _Unjudged(one.trajectory.key.policy, "recorded", one.rollout, state, one.verdict, whole)


def _is_agents(one: Recorded) -> bool:
    trajectory = one.trajectory
    ours = trajectory.purpose is not None or trajectory.key.policy.startswith("null:")
    return not ours and one.verdict is not None and trajectory.end != "infra_error" and not trajectory.pruned


def _various(found: list[Recorded]) -> list[Recorded]:
    """The first of each policy, then the others."""
    first = {r.trajectory.key.policy: r for r in reversed(found)}
    chosen = {r.rollout for r in first.values()}
    return [r for r in found if r.rollout in chosen] + [r for r in found if r.rollout not in chosen]
