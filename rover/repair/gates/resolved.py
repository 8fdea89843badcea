"""Gate (a): the finding is gone, and the oracle agrees with the verifier on every replayed run.

What a policy scores under the proposed verifier is no evidence by itself: a slip is worth whatever the oracle
says, no attacker passes, and on every seed both accept at least one run that is no attacker's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rover.diagnose.judged import requirement_scores
from rover.diagnose.registry import still_there
from rover.repair.oracle import ContractUnanswerable
from rover.repair.trial import Judged, Trial, verifier_accepts
from rover_store.errors import SandboxError
from rover_store.records import Finding, GateResult


def resolved(trial: Trial, findings: Sequence[Finding]) -> GateResult:
    """Whether the trigger is gone and both judges agree."""
    left = _left(trial, findings)
    if left:
        reason = f"still there: {left[0].message}"
        return GateResult(gate="resolved", passed=False, reason=reason, evidence=left[0].evidence)
    try:
        problems = list(disagreements(trial))
    except ContractUnanswerable as error:
        return GateResult(gate="resolved", passed=False, reason=f"the contract has no answer here: {error}")
    if problems:
        reason, evidence = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return GateResult(gate="resolved", passed=False, reason=reason + more, evidence=evidence)
    accepted = [j.run.result.id for j in trial.judged if j.accepted]
    reason = f"probes silent; both judges agree on {len(trial.judged)} runs and accept {len(accepted)}"
    return GateResult(gate="resolved", passed=True, reason=reason, evidence=tuple(accepted[:4]))


def _left(trial: Trial, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    confirmed = [f for f in findings if f.status == "confirmed"]
    return tuple(f for f in still_there(confirmed, trial.probing) if f.status == "confirmed")


def disagreements(trial: Trial) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Where verifier and oracle part, or a seed has no run that both accept: reason and rollout ids."""
    for run in trial.runs:
        if run.verdict.outcome == "infra_error":
            raise SandboxError(f"{run.actor.policy.id}: {run.verdict.reason}")
    for judged in trial.judged:
        reason = _parting(judged)
        if reason:
            yield f"{judged.run.actor.policy.id}: {reason}", (judged.run.result.id,)
    for k in trial.replay.seeds:
        honest = [j for j in trial.judged if j.run.k == k and j.run.actor.kind != "attacker"]
        if not any(j.accepted for j in honest):
            why = _why_not(honest[0]) if honest else "there is no run"
            yield f"on seed {k} both judges accept no run ({why})", tuple(j.run.result.id for j in honest[:1])


def _parting(judged: Judged) -> str:
    verdict, opinion = judged.run.verdict, judged.opinion
    if verdict.outcome == "verifier_error":
        return f"the verifier crashed: {verdict.reason}"
    if judged.run.actor.kind == "attacker" and verdict.outcome == "passed":
        return "an attacker passes"
    if judged.run.actor.kind == "attacker" and judged.solved:
        return "an attacker satisfies the contract"
    if opinion.broken and verifier_accepts(verdict):
        return f"the verifier accepts what the contract does not ({opinion.broken})"
    scores = requirement_scores(verdict)
    for requirement, ok in opinion.satisfied.items():
        if requirement not in scores:
            if not ok:
                return f"the verifier does not score {requirement}, which is broken ({opinion.reasons[requirement]})"
        elif ok != (scores[requirement] == 1.0):
            side = f"the contract holds and the verifier gives {scores[requirement]:.2f}"
            if not ok:
                side = f"the verifier accepts what the contract does not ({opinion.reasons[requirement]})"
            return f"{requirement}: {side}"
    return ""


def _why_not(judged: Judged) -> str:
    trajectory = judged.run.result.trajectory
    if trajectory.end != "completed":
        return f"{judged.run.actor.policy.id}: {trajectory.error or trajectory.end}"
    broken = next((n for n, ok in judged.opinion.satisfied.items() if not ok), None)
    if broken:
        return f"{broken}: {judged.opinion.reasons[broken]}"
    return judged.run.verdict.reason or judged.run.verdict.outcome
