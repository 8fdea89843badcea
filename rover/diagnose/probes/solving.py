"""Probes that solve the task again from a clean start: with the family's demonstrator and its independent solver.

Where the demonstrator fails, the probe asks what would help: a larger budget, all tools, a whole request. What is
left is a symptom, which the diagnosis holds against the causes that other probes found.
"""

from __future__ import annotations

from rover.diagnose.protocol import ProbeContext
from rover.diagnose.runs import Run
from rover.harness.tools.specs import WRITERS
from rover_store.records import Finding, Verdict


class Replay:
    """The demonstrator solves the task from a clean start, without a refused write, and the verifier accepts it."""

    name = "replay"
    written_for = frozenset[str]()
    cost = 2

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        run = ctx.runs.demonstrator
        if run is None or run.verdict.outcome == "infra_error":
            return ()
        short = self._budget(ctx, run)
        if run.end == "policy_error" and short is None:
            return (self._unsolvable(run),)
        out = [short] if short is not None else []
        out += self._failed_writes(run)
        if run.end == "completed" and run.verdict.outcome == "failed":
            text = f"the verifier rejects the demonstrator's work: {why(run.verdict)}"
            out.append(_finding(self.name, "strict_verifier", text, ("verifier", "task", "context"), run))
        return tuple(out)

    def _budget(self, ctx: ProbeContext, run: Run) -> Finding | None:
        """A task that is solved as soon as there is more budget has too little of it."""
        if run.end == "completed":
            return None
        with_more = ctx.runs.generous
        if with_more is None or with_more.end != "completed":
            return None
        turns, granted = len(with_more.result.trajectory.turns), ctx.env.harness.budget
        return Finding(
            probe=self.name,
            kind="budget_too_small",
            message=f"the demonstrator needs {turns} turns, the harness grants {granted.turns}: {run.error[:120]}",
            components=("harness",),
            evidence=(run.id, with_more.id),
            details={"subject": "budget", "turns": turns},
        )

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
