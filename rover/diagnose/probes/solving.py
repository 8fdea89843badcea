"""Probes that solve the task again from a clean start: with the family's demonstrator and its independent solver.

Where the demonstrator fails, the probe asks what would help: a larger budget, all tools, a whole request. What is
left is a symptom, which the diagnosis holds against the causes that other probes found.
"""

from __future__ import annotations

from rover.diagnose.protocol import ProbeContext
from rover.diagnose.runs import Run, with_all, with_request, with_room
from rover.harness.tools.specs import WRITERS
from rover_store.records import Finding, Limits, Verdict


class Replay:
    """The demonstrator solves the task from a clean start, without a refused write, and the verifier accepts it."""

    name = "replay"
    written_for = frozenset[str]()
    cost = 2

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        run = ctx.runs.demonstrator
        if run is None or run.verdict.outcome == "infra_error":
            return ()
        if run.end == "policy_error":
            return (self._unsolvable(run),)
        out = self._failed_writes(run)
        if run.verdict.outcome == "failed":
            text = f"the verifier rejects the demonstrator's work: {why(run.verdict)}"
            out.append(_finding(self.name, "strict_verifier", text, ("verifier", "task", "context"), run))
        return tuple(out)

    def _unsolvable(self, run: Run) -> Finding:
        text = f"the demonstrator finds no way to do the task: {run.error[:200]}"
        return _finding(self.name, "unsolvable", text, ("task", "harness", "context"), run)

    def _failed_writes(self, run: Run) -> list[Finding]:
        failed = [
            call
            for turn in run.result.trajectory.turns
            for call in turn.calls
            if call.status == "error" and call.tool in WRITERS
        ]
        return [
            _finding(
                self.name,
                "failed_write",
                f"a write of the reference run fails: {call.tool}: {call.output[:160]}",
                ("harness", "context"),
                run,
            )
            for call in failed[:3]
        ]


class Room:
    """The budget is enough for the task, once nothing else is in the way."""

    name = "room"
    written_for = frozenset({"budget_too_small"})
    cost = 2

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        run = ctx.runs.demonstrator
        if run is None or run.end == "completed":
            return ()
        granted = ctx.env.harness.budget
        for other in (ctx.runs.generous, *ctx.runs.mended):
            if other is None or other.end != "completed":
                continue
            used = other.result.trajectory.usage
            turns, tokens = len(other.result.trajectory.turns), used.prompt_tokens + used.completion_tokens
            short = "turns" if turns > granted.turns else "tokens" if tokens > granted.tokens else ""
            if not short and other is not ctx.runs.generous:
                continue  # it was something else that was put right
            limit = short or "seconds"
            needed = {"turns": turns, "tokens": tokens, "seconds": 0}[limit]
            text = f"the task takes {turns} turns, the harness grants {granted.turns}: {run.error[:120]}"
            if limit != "turns":
                text = f"the harness grants {getattr(granted, limit):g} {limit}, too few: {run.error[:120]}"
            return (
                Finding(
                    probe=self.name,
                    kind="budget_too_small",
                    message=text,
                    components=("harness",),
                    evidence=(run.id, other.id),
                    details={"subject": "budget", "limit": limit, "turns": turns, "needed": needed},
                    excludes=("an agent's mistake: with a larger budget the same solver comes to its end",),
                ),
            )
        return ()


class LimitsHold:
    """No limit of the sandbox refuses a write or cuts off a read that the task needs."""

    name = "limits"
    written_for = frozenset({"limits_too_tight"})
    cost = 2

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        tight = tighter(ctx.env.harness.limits)
        run = ctx.runs.demonstrator
        if not tight or run is None or undisturbed(run):
            return ()
        free = ctx.runs.solve(with_all(ctx.env))
        bound = ctx.runs.solve(with_room(with_request(ctx.env), limits=False))
        if free is None or bound is None or not undisturbed(free) or undisturbed(bound):
            return ()
        where = _disturbance(bound)
        culprit = next((n for n in tight if n.partition("_")[0] in where), tight[0])
        return (
            Finding(
                probe=self.name,
                kind="limits_too_tight",
                message=f"under the usual limits the task can be done, under these not: {where[:160]}",
                components=("harness",),
                evidence=(run.id, bound.id, free.id),
                details={
                    "subject": culprit,
                    "limit": culprit,
                    "value": getattr(ctx.env.harness.limits, culprit),
                    "needed": getattr(Limits(), culprit),
                },
                excludes=("request, tools and budget: they were put right in both runs",),
            ),
        )


def tighter(limits: Limits) -> list[str]:
    """Names of the limits that are tighter than the usual ones."""
    usual = Limits()
    return [name for name in Limits.model_fields if getattr(limits, name) < getattr(usual, name)]


def undisturbed(run: Run) -> bool:
    """Whether a run came to its end without a refused call or a read that was cut off."""
    return not _disturbance(run)


def _disturbance(run: Run) -> str:
    calls = [c for turn in run.result.trajectory.turns for c in turn.calls]
    refused = next((c for c in calls if c.status == "error"), None)
    if refused is not None:
        return f"{refused.tool}: {refused.output[:140]}"
    if run.end != "completed":
        return run.error or run.end
    cut = next((c for c in calls if c.truncated), None)
    return f"the output of {cut.tool} was cut off" if cut is not None else ""


class NeededTools:
    """The tools that the family's solvers use, once nothing else is in their way, are offered.

    Both solvers count: the second one gives the verifier's alternative state.
    """

    name = "needed_tools"
    written_for = frozenset({"tool_removed"})
    cost = 2

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        tried = [r for r in (ctx.runs.demonstrator, ctx.runs.alternative) if r is not None]
        if all(r.end != "policy_error" for r in tried):
            return ()
        whole = ctx.runs.mended
        used = dict.fromkeys(c.tool for run in whole for t in run.result.trajectory.turns for c in t.calls)
        lacking = [tool for tool in used if tool not in ctx.env.harness.tools]
        if not lacking:
            return ()
        return (
            Finding(
                probe=self.name,
                kind="tool_removed",
                message=f"solvers of the task need {', '.join(lacking)}, which the harness does not offer",
                components=("harness",),
                evidence=(*(r.id for r in tried), *(r.id for r in whole)),
                details={"subject": ",".join(lacking), "tools": lacking},
            ),
        )


class Independent:
    """A second solver, written apart from the first, comes to a result that the verifier accepts."""

    name = "independent"
    written_for = frozenset[str]()
    cost = 2

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        run = ctx.runs.alternative
        if run is None or run.end != "completed" or run.verdict.outcome != "failed":
            return ()
        text = f"the verifier rejects an independent solution: {why(run.verdict)}"
        return (_finding(self.name, "strict_verifier", text, ("verifier", "task", "context"), run),)


def why(verdict: Verdict) -> str:
    """The criteria below 1, with their reasons, in one line."""
    low = [s for s in verdict.scores if s.score < 1]
    parts = [f"{s.requirement} ({s.reason[:100]})" if s.reason else s.requirement for s in low[:3]]
    return "; ".join(parts) or verdict.reason[:200] or verdict.outcome


def _finding(probe: str, kind: str, message: str, components: tuple[str, ...], run: Run) -> Finding:
    return Finding.model_validate(
        {"probe": probe, "kind": kind, "message": message, "components": components, "evidence": (run.id,)}
    )
