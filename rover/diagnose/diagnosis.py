"""From findings to a diagnosis: a defect of the environment, a mistake of the agent, or neither.

Probes report what they see one by one, so one defect shows several times: a request that lacks a number makes
the solvers fail as well. A symptom that a confirmed cause explains becomes evidence of that cause; one that
nothing explains stays a finding. Failing rollouts of a package with nothing wrong are the agent's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Literal

from rover.diagnose.blame import from_findings
from rover.diagnose.confidence import confidence
from rover.diagnose.protocol import ProbeContext, Recorded
from rover.diagnose.registry import probes
from rover_store.records import Diagnosis, Finding

#: causes that keep a solver from a result which the verifier accepts
_BLOCKING = frozenset(
    {
        "missing_given", "missing_input", "renamed_deliverable", "changed_data", "wrong_anchor", "missing_anchor",
        "tool_removed", "budget_too_small", "extra_demand", "contradiction", "verifier_crash",
    }
)  # fmt: skip
#: (probe, kind) of findings that may be mere consequences
_SYMPTOMS = frozenset(
    {
        ("replay", "unsolvable"), ("replay", "failed_write"), ("replay", "strict_verifier"),
        ("independent", "strict_verifier"), ("reference", "strict_verifier"), ("cases", "strict_verifier"),
        ("cases", "lax_verifier"), ("attackers", "lax_verifier"),
    }
)  # fmt: skip
#: what a broken or outdated verifier explains by itself: its own reference and cases rejected
_OWN_CASES = frozenset(
    {"renamed_deliverable", "changed_data", "wrong_anchor", "missing_anchor", "extra_demand", "verifier_crash"}
)

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
    for probe in probes():
        if wanted and probe.name not in wanted:
            continue
        if progress is not None:
            progress(probe.name)
        found += [f for f in probe.run(ctx) if f.kind not in without & probe.written_for]
    findings = tuple(f.model_copy(update={"confidence": confidence(f)}) for f in explained(tuple(found)))
    verdict = _verdict(ctx, findings)
    return Diagnosis(
        package=ctx.env.package,
        tree=ctx.env.tree,
        verdict=verdict,
        findings=findings,
        summary=_summary(ctx, findings, verdict),
        rollouts_run=ctx.runs.ran,
        rollouts_reused=ctx.runs.reused,
        blame=from_findings(findings) or None if verdict == "environment" else None,
    )


def explained(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Findings without the symptoms that a confirmed cause explains, and without the same thing said twice.

    Causes keep the order of the probes; the evidence of an explained symptom is added to those that explain it.
    """
    causes = [f for f in findings if f.status == "confirmed" and (f.probe, f.kind) not in _SYMPTOMS]
    kept: list[Finding] = []
    evidence: dict[int, list[str]] = {}
    for finding in findings:
        if (finding.probe, finding.kind) not in _SYMPTOMS:
            kept.append(finding)
            continue
        reasons = [c for c in causes if _explains(c, finding)]
        for cause in reasons:
            evidence.setdefault(id(cause), []).extend(finding.evidence)
        if not reasons:
            kept.append(finding)
    with_evidence = [_with(f, evidence.get(id(f), [])) for f in kept]
    return _said_once(with_evidence)


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


def suspects(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Components that confirmed findings point at first, then those they only suspect."""
    confirmed = [f for f in findings if f.status == "confirmed"]
    first = dict.fromkeys(f.components[0] for f in confirmed)
    return tuple(dict.fromkeys([*first, *(c for f in confirmed for c in f.components)]))


def _explains(cause: Finding, symptom: Finding) -> bool:
    if cause.kind == "flaky_verifier":
        return symptom.kind != "unsolvable"
    if symptom.kind == "lax_verifier":
        blind = cause.kind in ("unscored_requirement", "missing_anchor")
        return symptom.probe == "cases" and blind and _about(symptom) <= {cause.requirement}
    if symptom.probe in ("reference", "cases"):
        return cause.kind in _OWN_CASES
    return cause.kind in _BLOCKING


def _about(finding: Finding) -> set[str | None]:
    """The requirements that a finding about calibration cases speaks of."""
    return set(finding.details.get("requirements", [])) or {finding.requirement}


def _with(finding: Finding, evidence: list[str]) -> Finding:
    if not evidence:
        return finding
    return finding.model_copy(update={"evidence": tuple(dict.fromkeys([*finding.evidence, *evidence]))})


def _said_once(findings: list[Finding]) -> tuple[Finding, ...]:
    """One finding for each kind and subject; static and running probes may see the same tool missing."""
    seen: dict[tuple[str, str, str], Finding] = {}
    for finding in findings:
        key = (finding.probe, finding.kind, str(finding.details.get("subject", finding.message)))
        seen.setdefault(key, finding)
    return tuple(seen.values())


def _verdict(ctx: ProbeContext, findings: tuple[Finding, ...]) -> Judgement:
    if any(f.status == "confirmed" for f in findings):
        return "environment"
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


def _summary(ctx: ProbeContext, findings: tuple[Finding, ...], verdict: str) -> str:
    confirmed = [f for f in findings if f.status == "confirmed"]
    failed = agent_failures(ctx.recorded)
    count = f"{len(failed)} recorded rollout{'s' if len(failed) != 1 else ''}"
    if verdict == "environment":
        names = " and ".join(suspects(confirmed)[:2])
        more = f" (and {len(confirmed) - 1} more)" if len(confirmed) > 1 else ""
        return f"the environment is at fault, first of all its {names}: {confirmed[0].message}{more}"
    if verdict == "agent":
        return f"the package is sound; {count} failed by the agent's own mistake, nothing is to be changed"
    if verdict == "undecided":
        return f"{count} failed and no run shows that the task can be done; a person has to look"
    if verdict == "infrastructure":
        return "runs ended by the sandbox, a server or the harness; neither the package nor an agent is to blame"
    unsolved = "" if ctx.runs.demonstrator is not None else "; no solver is known for it, so it was not solved again"
    return f"nothing is wrong with the package{unsolved}"
