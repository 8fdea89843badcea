"""From findings to a diagnosis: a defect of the environment, a mistake of the agent, or neither.

Every probe is asked, cheapest first; what one defect shows several times is said once (rover.diagnose.weighing), and
the suspected components are told apart (rover.diagnose.blame). Failing rollouts of a package with nothing wrong are
the agent's. A probe that breaks is no finding: where nothing else is confirmed, the diagnosis could not be made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from rover.diagnose.blame import blamed, told_apart
from rover.diagnose.confidence import confidence, in_verdict
from rover.diagnose.kinds import RULES_OUT
from rover.diagnose.protocol import ProbeContext, Recorded
from rover.diagnose.registry import asked, probes_for
from rover.diagnose.weighing import explained, suspects
from rover_store.ids import ComponentName
from rover_store.records import Diagnosis, Finding

__all__ = ["agent_failures", "diagnose", "explained", "suspects"]

Judgement = Literal["sound", "environment", "agent", "infrastructure", "undecided"]
Progress = Callable[[str], None]


def diagnose(
    ctx: ProbeContext,
    *,
    only: Iterable[str] = (),
    without: frozenset[str] = frozenset(),
    progress: Progress | None = None,
) -> Diagnosis:
    """Ask every probe (or those named in `only`), cheapest first, and weigh what they found.

    `without` names kinds whose rules are switched off: findings of these kinds from probes that were written for
    them are dropped, as if nobody had thought of such a probe.
    """
    wanted = set(only)
    found: list[Finding] = []
    broken: dict[str, str] = {}
    for probe in probes_for(ctx.env):
        if wanted and probe.name not in wanted:
            continue
        if progress is not None:
            progress(probe.name)
        answer, why = asked(probe, ctx, forgiving=True)
        found += [f for f in answer if f.kind not in without & probe.written_for]
        if why:
            broken[probe.name] = why
    findings = tuple(f.model_copy(update={"confidence": confidence(f)}) for f in explained(found, ctx.env))
    blame = blamed(ctx, findings)
    findings = tuple(_with_exclusion(f) for f in told_apart(findings, blame))
    verdict = _verdict(ctx, findings, broken)
    return Diagnosis(
        package=ctx.env.package,
        tree=ctx.env.tree,
        verdict=verdict,
        findings=findings,
        summary=_summary(ctx, findings, verdict, broken, blame.by_component),
        rollouts_run=ctx.runs.ran,
        rollouts_reused=ctx.runs.reused,
        blame=(blame.by_component or None) if verdict == "environment" else None,
        confidence=in_verdict(verdict, findings),
    )


def _with_exclusion(finding: Finding) -> Finding:
    """A confirmed finding says what it rules out: itself, or as its kind does."""
    text = RULES_OUT.get(finding.kind)
    if finding.excludes or finding.status != "confirmed" or text is None:
        return finding
    return finding.model_copy(update={"excludes": (text,)})


def agent_failures(recorded: Iterable[Recorded]) -> tuple[Recorded, ...]:
    """Recorded rollouts that failed: the agent's, where the package is sound.

    What rover ran by itself to try a package, and attackers, are no agents.
    """
    return tuple(
        r
        for r in recorded
        if r.trajectory.purpose is None
        and not r.trajectory.key.policy.startswith("null:")
        and r.verdict is not None
        and r.verdict.outcome in ("failed", "policy_error")
    )


def _verdict(ctx: ProbeContext, findings: tuple[Finding, ...], broken: Mapping[str, str]) -> Judgement:
    if any(f.status == "confirmed" for f in findings):
        return "environment"
    if broken:
        return "infrastructure"
    run = ctx.runs.demonstrator
    if run is not None and run.verdict.outcome == "infra_error":
        return "infrastructure"
    outcomes = Counter(r.verdict.outcome for r in ctx.recorded if r.verdict is not None)
    failed = agent_failures(ctx.recorded)
    if failed:
        # without a solver, only a rollout that passed shows that the task can be done
        return "agent" if run is not None or outcomes["passed"] else "undecided"
    if outcomes["infra_error"] and not outcomes["passed"]:
        return "infrastructure"
    return "sound"


def _summary(
    ctx: ProbeContext,
    findings: tuple[Finding, ...],
    verdict: str,
    broken: Mapping[str, str],
    blame: Mapping[ComponentName, float],
) -> str:
    confirmed = [f for f in findings if f.status == "confirmed"]
    failed = agent_failures(ctx.recorded)
    count = f"{len(failed)} recorded rollout{'s' if len(failed) != 1 else ''}"
    if verdict == "environment":
        names = " and ".join([c for c, likely in blame.items() if likely >= 0.5][:2] or suspects(confirmed)[:2])
        more = f" (and {len(confirmed) - 1} more)" if len(confirmed) > 1 else ""
        return f"the environment is at fault, first of all its {names}: {confirmed[0].message}{more}"
    if verdict == "agent":
        return f"the package is sound; {count} failed by the agent's own mistake, nothing is to be changed"
    if verdict == "undecided":
        return f"{count} failed and no run shows that the task can be done; a person has to look"
    if broken:
        name, why = next(iter(broken.items()))
        more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
        return f"the probe {name} broke, so that nothing is known: {why[:160]}{more}"
    if verdict == "infrastructure":
        return "runs ended by the sandbox, a server or the harness; neither the package nor an agent is to blame"
    unsolved = "" if ctx.runs.demonstrator is not None else "; no solver is known for it, so it was not solved again"
    return f"nothing is wrong with the package{unsolved}"
