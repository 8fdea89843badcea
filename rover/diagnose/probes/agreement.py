"""The probe that knows no kind of defect: the contract against the verifier, on every end state there is.

The oracle evaluates the contract by code outside the verifier, on answers of the second engine. On a sound package
the two agree requirement by requirement, whoever made the state; a careful solver's work fulfils the contract, an
attacker's does not. Whatever a person or a rule may have done wrong shows here, if it matters at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rover.diagnose.judged import Judged
from rover.diagnose.oracle.contract import ContractUnanswerable
from rover.diagnose.probes.answers import built_on_other_data
from rover.diagnose.protocol import ProbeContext
from rover.policy.null import with_deed
from rover_store.ids import ComponentName
from rover_store.records import Finding

#: evidence ids that one finding carries
MOST_EVIDENCE = 12


class Agreement:
    """Verifier and contract agree on every end state; careful work fulfils the contract, attacks do not."""

    name = "agreement"
    written_for = frozenset[str]()
    cost = 3

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        try:
            states = ctx.runs.judged
        except ContractUnanswerable as error:
            return (self._unanswerable(ctx, str(error)),)
        vetted = (*self._parted(ctx, states), *self._extra(states), *self._careful(ctx, states))
        return (*vetted, *self._reference(states), *self._attacked(ctx, states))

    def _unanswerable(self, ctx: ProbeContext, why: str) -> Finding:
        return Finding(
            probe=self.name,
            kind="unsolvable",
            message=f"the contract has no answer on the present files: {why[:200]}",
            components=("context", "task"),
            evidence=(ctx.env.start_tree, "task/contract.json"),
            details={"subject": "contract"},
            excludes=("an agent's mistake: the question itself has no answer here",),
        )

    def _parted(self, ctx: ProbeContext, states: Sequence[Judged]) -> Iterator[Finding]:
        """Where the verifier says another thing of a requirement than the contract."""
        for holds, kind, verb in ((False, "lax_verifier", "accepts"), (True, "strict_verifier", "rejects")):
            by_need: dict[str, list[Judged]] = {}
            for one in states:
                for need, held in one.parted():
                    if held is holds:
                        by_need.setdefault(need, []).append(one)
            if not by_need:
                continue
            needs = [r.id for r in ctx.env.contract.requirements if r.id in by_need]
            first = by_need[needs[0]][0]
            why = first.opinion.reasons.get(needs[0]) or _reason(first, needs[0])
            which = "breaks" if not holds else "fulfils"
            who = with_deed(first.name)
            text = f"{who} {which} {needs[0]}, and the verifier {verb} it: {why[:160]}"
            yield self._found(kind, text, _suspects(ctx), [s for n in needs for s in by_need[n]], needs)

    def _extra(self, states: Sequence[Judged]) -> Iterator[Finding]:
        """Criteria of no requirement that reject work which fulfils the whole contract."""
        seen: dict[str, list[Judged]] = {}
        for one in states:
            if one.opinion.accepts and one.honest:
                for score in one.verdict.scores:
                    if score.requirement not in one.opinion.satisfied and score.score < 1:
                        seen.setdefault(score.criterion, []).append(one)
        if seen:
            names = ", ".join(sorted(seen)[:3])
            text = f"{names} rejects work that fulfils every demand of the contract"
            found = self._found("strict_verifier", text, ("verifier",), [s for held in seen.values() for s in held], [])
            yield found.model_copy(update={"details": {**found.details, "subject": "extra", "criteria": sorted(seen)}})

    def _careful(self, ctx: ProbeContext, states: Sequence[Judged]) -> Iterator[Finding]:
        """A careful solver that came to its end, and whose work the contract rejects."""
        failed = [s for s in states if s.kind == "solver" and s.whole and not all(s.opinion.satisfied.values())]
        if failed:
            broken = next(n for n, ok in failed[0].opinion.satisfied.items() if not ok)
            why = failed[0].opinion.reasons[broken]
            text = f"a careful solver's work breaks the contract: {broken} ({why[:140]})"
            yield self._found("unsolvable", text, ("task", "context", "harness"), failed, [broken])

    def _reference(self, states: Sequence[Judged]) -> Iterator[Finding]:
        """A reference that does not fulfil the contract, though a solver's work does."""
        reference = next((s for s in states if s.kind == "reference"), None)
        solved = any(s.kind == "solver" and s.opinion.accepts for s in states)
        if reference is None or reference.opinion.accepts or not solved:
            return
        broken = [n for n, ok in reference.opinion.satisfied.items() if not ok]
        why = reference.opinion.reasons[broken[0]]
        text = f"the reference breaks the contract: {broken[0]} ({why[:140]})"
        yield self._found("unsound_reference", text, ("verifier", "context"), [reference], broken)

    def _attacked(self, ctx: ProbeContext, states: Sequence[Judged]) -> Iterator[Finding]:
        """Attackers whose work fulfils the contract: the answer lay about, or the goal held already."""
        through = [s for s in states if s.kind == "attacker" and s.opinion.accepts]
        start = next((s for s in states if s.kind == "start"), None)
        if start is not None and start.opinion.accepts:
            text = "the start state fulfils the contract: the goal holds before anything is done"
            found = self._found("goal_at_start", text, ("context", "task"), [start], [])
            targets = list(ctx.env.targets())  # none where the contract asks for nothing
            subject = targets[0] if targets else "contract"
            yield found.model_copy(update={"details": {**found.details, "subject": subject, "paths": targets}})
        elif through:
            text = f"an attacker's work fulfils the contract: {', '.join(with_deed(_short(s)) for s in through)}"
            found = self._found("leaked_answer", text, ("context", "task"), through, [])
            yield found.model_copy(update={"details": {**found.details, "attackers": [_short(s) for s in through]}})

    def _found(
        self,
        kind: str,
        message: str,
        components: tuple[ComponentName, ...],
        states: Sequence[Judged],
        needs: Sequence[str],
    ) -> Finding:
        ids = tuple(dict.fromkeys(s.id for s in states))[:MOST_EVIDENCE]
        kinds = sorted({s.kind for s in states})
        return Finding(
            probe=self.name,
            kind=kind,
            message=message,
            components=components,
            requirement=needs[0] if needs else None,
            evidence=ids,
            details={"subject": kind, "requirements": list(needs), "states": kinds},
            excludes=(_EXCLUDES[kind],),
        )


_EXCLUDES = {
    "lax_verifier": "an agent's mistake: the contract is evaluated apart from the verifier, on fixed states",
    "strict_verifier": "an agent's mistake: the rejected work fulfils the contract",
    "unsolvable": "the verifier: its opinion was not asked",
    "unsound_reference": "context, task and harness: a solver's work on them fulfils the contract",
    "goal_at_start": "the verifier: the contract itself holds at the start",
    "leaked_answer": "the verifier: the attacker's work does fulfil the contract",
}


def _suspects(ctx: ProbeContext) -> tuple[ComponentName, ...]:
    """The verifier; the context beside it where its data are no longer those that the verifier was built on."""
    changed = any(built_on_other_data(ctx.env, anchor) for anchor in ctx.env.anchors.anchors)
    return ("verifier", "context") if changed else ("verifier",)


def _reason(one: Judged, need: str) -> str:
    return next((s.reason for s in one.verdict.scores if s.requirement == need and s.score < 1), "")


def _short(one: Judged) -> str:
    return ":".join(one.name.split(":")[:2])
