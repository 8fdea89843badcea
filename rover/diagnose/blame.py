"""Which component is at fault, as a probability for each that is suspected, the likeliest first.

What the findings say comes first: each confirmed one lays its confidence on its first suspect and a share of it on
the others. Where a finding names no cause, neighbours of the package are tried (rover.diagnose.neighbours): all
components that can be are put right at once, and then each is left as it was. The one without which the task cannot
be done is at fault, the one that makes no difference is not. That V is at fault shows without a run: the contract is
its neighbour, and where V parts from it on the same states, it is V or the data that it was built on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rover.diagnose.neighbours import changed
from rover.diagnose.oracle.contract import ContractUnanswerable, state_after
from rover.diagnose.oracle.program import oracle_of
from rover.diagnose.weighing import SYMPTOMS
from rover.rollout.env import Env
from rover_store.errors import PackageError, SandboxError
from rover_store.ids import COMPONENTS, ComponentName
from rover_store.records import Finding

if TYPE_CHECKING:
    from rover.diagnose.protocol import ProbeContext

#: share of a finding's confidence that its second, third, ... suspect gets
OTHERS = (1.0, 0.25, 0.1, 0.05)
#: what a run that settles the matter is worth
GUILTY, CLEARED = 0.95, 0.05
#: symptoms that a component other than the verifier must be behind
_NOT_DONE = frozenset({"unsolvable", "failed_write"})
_TRIED: tuple[ComponentName, ...] = ("context", "task", "harness")


@dataclass
class Blame:
    """Probabilities, and the components that runs settled, with what was seen in words."""

    by_component: dict[ComponentName, float] = field(default_factory=dict)
    guilty: dict[ComponentName, str] = field(default_factory=dict)
    cleared: dict[ComponentName, str] = field(default_factory=dict)


def blamed(ctx: ProbeContext, findings: Sequence[Finding]) -> Blame:
    """Blame by the findings, and by neighbours where they name no cause."""
    found = Blame(from_findings(findings))
    confirmed = [f for f in findings if f.status == "confirmed"]
    open_ones = [f for f in confirmed if (f.probe, f.kind) in SYMPTOMS]
    if any(f.kind in _NOT_DONE for f in open_ones) and ctx.runs.family is not None:
        with contextlib.suppress(SandboxError, PackageError):  # nothing is learned where a neighbour cannot be tried
            _by_necessity(ctx, found)
    for component in found.guilty:
        found.by_component[component] = max(GUILTY, found.by_component.get(component, 0.0))
    caused = {f.components[0] for f in confirmed if f not in open_ones}
    for component in found.cleared:
        if component not in caused and component in found.by_component:
            found.by_component[component] = min(CLEARED, found.by_component[component])
    found.by_component = ordered(found.by_component)
    return found


def told_apart(findings: Iterable[Finding], blame: Blame) -> tuple[Finding, ...]:
    """Symptoms with their suspects in the order of blame, without those that runs cleared."""
    out = []
    for finding in findings:
        if finding.status != "confirmed" or (finding.probe, finding.kind) not in SYMPTOMS:
            out.append(finding)
            continue
        open_to = finding.kind in _NOT_DONE
        named = [c for c in finding.components if not (open_to and c in blame.cleared)]
        named = [*(c for c in blame.guilty if open_to), *(c for c in named if not (open_to and c in blame.guilty))]
        if not named:
            out.append(finding)
            continue
        why = [f"{c}: {blame.cleared[c]}" for c in finding.components if open_to and c in blame.cleared]
        said = (*(finding.excludes or ()), *why)
        out.append(finding.model_copy(update={"components": tuple(dict.fromkeys(named)), "excludes": said or None}))
    return tuple(out)


def from_findings(findings: Iterable[Finding]) -> dict[ComponentName, float]:
    """How likely each component is at fault by what the confirmed findings say alone."""
    innocent: dict[ComponentName, float] = {}
    for finding in findings:
        if finding.status != "confirmed":
            continue
        for component, share in zip(finding.components, OTHERS, strict=False):
            weight = share * (0.9 if finding.confidence is None else finding.confidence)
            innocent[component] = innocent.get(component, 1.0) * (1.0 - min(weight, 0.99))
    return ordered({component: 1.0 - left for component, left in innocent.items()})


def ordered(blame: Mapping[ComponentName, float]) -> dict[ComponentName, float]:
    """The likeliest first; of equals in the order C, T, H, V."""
    known = sorted(blame.items(), key=lambda item: (-round(item[1], 6), COMPONENTS.index(item[0])))
    return {component: round(value, 3) for component, value in known}


def _by_necessity(ctx: ProbeContext, found: Blame) -> None:
    """All neighbours at once; then each component as it was, the others put right."""
    whole, possible = _put_right(ctx, _TRIED)
    if not possible or not _can_be_done(ctx, whole):
        return
    for component in possible:
        rest = [c for c in possible if c != component]
        env, _ = _put_right(ctx, rest)
        if rest and _can_be_done(ctx, env):
            found.cleared[component] = "the task can be done with it as it is, once the others are put right"
        else:
            found.guilty[component] = "the task cannot be done with it as it is, whatever else is put right"
    for component in _TRIED:
        if component not in possible:
            found.cleared[component] = "the task can be done with it as it is, once the others are put right"


def _put_right(ctx: ProbeContext, components: Sequence[ComponentName]) -> tuple[Env, list[ComponentName]]:
    env, done = ctx.env, list[ComponentName]()
    for component in components:
        other = changed(ctx, env, component)
        for make in ctx.neighbours if other is None else ():
            other = next((n.env for n in make(ctx, (component,)) if n.component == component), None)
        if other is not None:
            env = other
            done.append(component)
    return env, done


def _can_be_done(ctx: ProbeContext, env: Env) -> bool:
    """Whether a careful solver comes to its end there, and its work fulfils the contract there."""
    run = ctx.runs.solve(env)
    if run is None or run.end != "completed":
        return False
    calls = [c for turn in run.result.trajectory.turns for c in turn.calls]
    if any(c.status == "error" for c in calls):
        return False
    try:
        return oracle_of(ctx.engine, env, env.contract).judge([state_after(env.start, run.result)])[0].accepts
    except ContractUnanswerable:
        return False
