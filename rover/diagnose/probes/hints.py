"""Probes that only give hints: what looks wrong and may be meant. Hypotheses all; alone they blame nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rover.diagnose.protocol import ProbeContext
from rover_store.ids import ComponentName
from rover_store.records import Finding
from rover_store.records.contract import CellsRule, FieldRule, OrderRule

_DAY = re.compile(r"\d{4}-\d\d-\d\d")
#: fewer different policies with one score may be chance
LEAST_POLICIES = 3


class SameScore:
    """Not every policy gets the same partial score: a criterion that nobody meets, or everybody, measures nothing."""

    name = "same_score"
    written_for = frozenset({"same_score"})
    cost = 2

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        runs = [r for r in (ctx.runs.demonstrator, ctx.runs.alternative) if r is not None]
        scores = {r.policy: r.verdict.score for r in runs}
        for one in ctx.recorded:
            if one.verdict is not None and not one.trajectory.key.policy.startswith("null:"):
                scores[one.trajectory.key.policy] = one.verdict.score
        found = {s for s in scores.values() if s is not None}
        if len(scores) < LEAST_POLICIES or len(found) != 1 or not 0 < min(found) < 1:
            return ()
        text = f"{len(scores)} policies get the same partial score, {min(found):.2f}"
        return (_hint(self.name, "same_score", text, ("verifier", "task"), "score"),)


class Clock:
    """Dates that the contract is given do not lie after the package's own day."""

    name = "clock"
    written_for = frozenset({"contradiction"})
    cost = 0

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        today = ctx.env.context.clock
        if today is None:
            return ()
        late = [g for g in ctx.env.contract.givens if _DAY.fullmatch(str(g.value)) and str(g.value) > today]
        return tuple(
            _hint(self.name, "contradiction", f"{g.name} is {g.value}, the package's day is {today}", _BOTH, g.name)
            for g in late
        )


class Readings:
    """No two requirements say different things of one column, field or order."""

    name = "readings"
    written_for = frozenset({"contradiction"})
    cost = 0

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        return tuple(self._clashes(ctx))

    def _clashes(self, ctx: ProbeContext) -> Iterator[Finding]:
        seen: dict[tuple[str, str | None, str], tuple[str, object]] = {}
        for need in ctx.env.contract.requirements:
            rule = need.rule
            if not isinstance(rule, CellsRule | FieldRule | OrderRule):
                continue
            subject = rule.field if isinstance(rule, FieldRule) else rule.column
            key = (rule.kind, need.deliverable, subject)
            first, said = seen.setdefault(key, (need.id, rule))
            if said != rule:
                text = f"{first} and {need.id} say different things of {subject}"
                yield _hint(self.name, "contradiction", text, ("task",), subject)


_BOTH: tuple[ComponentName, ...] = ("task", "context")


def _hint(probe: str, kind: str, message: str, components: tuple[ComponentName, ...], subject: str) -> Finding:
    return Finding(
        probe=probe,
        kind=kind,
        message=message,
        components=components,
        status="hypothesis",
        evidence=("task/contract.json",),
        details={"subject": subject},
    )
