"""Probes that try the verifier: on the start state, the reference, attackers, and its own calibration cases."""

from __future__ import annotations

from collections.abc import Iterable

from rover.construct.calibrate import Row
from rover.diagnose.judged import Judged, opinion_of
from rover.diagnose.probes.answers import readable_answers, reference_in_view
from rover.diagnose.probes.solving import why
from rover.diagnose.protocol import ProbeContext
from rover.diagnose.runs import Run
from rover.policy.null import with_deed
from rover.rollout.env import reference_state
from rover.verify.grade import passes
from rover_store.ids import ComponentName
from rover_store.records import Finding, Verdict


class StartState:
    """Nothing done is not success."""

    name = "start"
    written_for = frozenset[str]()
    cost = 1

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        verdict = ctx.runs.start_verdict
        crash = _crash(self.name, "the start state", verdict, (ctx.env.start_tree,))
        if crash or verdict.outcome != "passed":
            return crash
        text = "the verifier passes the start state: the goal holds before anything is done"
        return (_finding(self.name, "lax_verifier", text, ("verifier", "context"), (ctx.env.start_tree,)),)


class ReferenceState:
    """The verifier gives its own reference full marks."""

    name = "reference"
    written_for = frozenset[str]()
    cost = 1

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        env = ctx.env
        if not env.reference.changes and not env.reference.final_message:
            return ()
        state = reference_state(env)
        first = ctx.engine.grade_state(env, state, env.reference.final_message)
        crash = _crash(self.name, "the reference", first, (env.verifier_id,))
        if crash:
            return crash
        low = [s for s in first.scores if s.score < 1]
        if not low:
            return ()
        text = f"the verifier does not accept its own reference: {why(first)}"
        found = _finding(self.name, "strict_verifier", text, ("verifier", "context", "task"), (env.verifier_id,))
        return (found.model_copy(update={"requirement": low[0].requirement}),)


class Attackers:
    """No null attacker reaches the pass mark."""

    name = "attackers"
    written_for = frozenset[str]()
    cost = 3

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        if ctx.runs.start_verdict.outcome == "passed":
            return ()  # everything that changes little passes too: `start` says so
        through = [r for r in ctx.runs.attackers if _over_mark(ctx, r)]
        crashed = [r for r in ctx.runs.attackers if r.verdict.outcome == "verifier_error"]
        out: list[Finding] = []
        shown: list[str] = []
        if through:
            shown = sorted({p for p, _ in reference_in_view(ctx.env)} | {h["file"] for h in readable_answers(ctx)})
        done = [r for r in through if self._by_the_contract(ctx, r, shown)]
        lax = [r for r in through if r not in done]
        if done:
            where = next(iter(shown), "what the policy sees")
            text = f"attackers pass because the answer lies in {where}: {', '.join(map(_short, done))}"
            out.append(self._passed(text, "leaked_answer", ("context", "verifier"), done, where))
        if lax:
            text = f"an attacker that does not do the task passes: {', '.join(map(_with_deed, lax))}"
            out.append(self._passed(text, "lax_verifier", ("verifier",), lax, _short(lax[0])))
        for run in crashed[:1]:
            out += _crash(self.name, f"the work of {_short(run)}", run.verdict, (run.id,))
        return tuple(out)

    def _by_the_contract(self, ctx: ProbeContext, run: Run, shown: list[str]) -> bool:
        """Whether the work fulfils the contract, or so much of it that the answer must have been at hand.

        Then the verifier judges it rightly, and what lies about is at fault.
        """
        opinion = opinion_of(ctx, run)
        if opinion is None:
            return False
        state = Judged(run.policy, "attacker", run.id, run.verdict, opinion)
        return opinion.accepts or (bool(shown) and not list(state.parted()))

    def _passed(
        self, text: str, kind: str, components: tuple[ComponentName, ...], runs: list[Run], subject: str
    ) -> Finding:
        found = _finding(self.name, kind, text, components, tuple(r.id for r in runs))
        return found.model_copy(update={"details": {"subject": subject, "attackers": [_short(r) for r in runs]}})


class RecordedCrashes:
    """No recorded rollout left a state on which the verifier crashes. Graded again, so that a repair can ask too."""

    name = "recorded"
    written_for = frozenset[str]()
    cost = 1

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        crashed = [r for r in ctx.recorded if r.verdict is not None and r.verdict.outcome == "verifier_error"]
        out: list[Finding] = []
        for one in crashed:
            end = dict(ctx.engine.end_of(one.trajectory))
            again = ctx.engine.grade_state(ctx.env, end, one.trajectory.final_message)
            out += _crash(self.name, "a recorded rollout", again, (one.rollout,))
        return tuple(out[:1])


class CalibrationCases:
    """The verifier rejects each of its negatives for the requirement it breaks, and accepts each alternative."""

    name = "cases"
    written_for = frozenset[str]()
    cost = 2

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        wrong: dict[str, list[Row]] = {}
        for row in ctx.runs.cases:
            if not row.ok:
                wrong.setdefault(_kind(row), []).append(row)
        return tuple(self._finding(ctx, kind, rows) for kind, rows in wrong.items())

    def _finding(self, ctx: ProbeContext, kind: str, rows: list[Row]) -> Finding:
        first = rows[0]
        needs = tuple(dict.fromkeys(r.requirement for r in rows if r.requirement))
        text = {
            "lax_verifier": f"the negative {first.case} is not rejected for {first.requirement}",
            "strict_verifier": f"the valid alternative {first.case} is rejected: {first.reason[:160]}",
        }.get(kind, f"the case {first.case} cannot be tried: {first.reason[:160]}")
        more = f" (and {len(rows) - 1} more cases)" if len(rows) > 1 else ""
        found = _finding(
            self.name, kind, text + more, ("verifier",), (ctx.env.verifier_id, *(f"case:{r.case}" for r in rows))
        )
        return found.model_copy(
            update={
                "requirement": first.requirement,
                "details": {"subject": first.case, "requirements": list(needs)},
                # a rule that changes nothing may only have lost its hold
                "status": "hypothesis" if kind == "broken_case" else "confirmed",
            }
        )


def _kind(row: Row) -> str:
    if row.observed == "error":
        return "verifier_crash" if row.reason.startswith("verifier_error") else "broken_case"
    return "lax_verifier" if row.kind == "negative" else "strict_verifier"


def _over_mark(ctx: ProbeContext, run: Run) -> bool:
    """At or above the pass mark, whatever state the run ended in."""
    return passes(ctx.env.verifier, run.verdict.score, run.verdict.gate)


def _short(run: Run) -> str:
    """null:echo of the policy id null:echo:1."""
    return ":".join(run.policy.split(":")[:2])


def _with_deed(run: Run) -> str:
    return with_deed(_short(run))


def _crash(probe: str, what: str, verdict: Verdict, evidence: tuple[str, ...]) -> tuple[Finding, ...]:
    if verdict.outcome != "verifier_error":
        return ()
    text = f"the verifier crashes on {what}: {verdict.reason[:200]}"
    return (_finding(probe, "verifier_crash", text, ("verifier",), evidence),)


def _finding(
    probe: str, kind: str, message: str, components: Iterable[ComponentName], evidence: tuple[str, ...]
) -> Finding:
    return Finding(probe=probe, kind=kind, message=message, components=tuple(components), evidence=evidence)
