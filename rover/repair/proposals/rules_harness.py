"""Proposals for the harness by rule: the tools, the budget and the limits that the task needs."""

from __future__ import annotations

from typing import Any

from rover.harness.tools.specs import TOOLS
from rover.repair.proposals.protocol import Draft, PackageView, Style, suspected
from rover_store.ids import ComponentName
from rover_store.records import Budget, Diagnosis, Finding, Harness, Limits

#: a solver that needs n turns is granted twice as many
SLACK = 2
#: a solver that gets nowhere, or whose write fails, says no more than that something is lacking: no rule is for that
KINDS = frozenset({"tool_removed", "budget_too_small", "limits_too_tight"})


class HarnessByRule:
    """One edit of the harness for all findings that suspect it."""

    name = "harness-rule"
    component: ComponentName = "harness"
    style: Style = "rule"
    written_for = KINDS

    def propose(self, view: PackageView, diagnosis: Diagnosis) -> Draft | None:
        old = view.env.harness
        new, done = old, list[str]()
        for finding in suspected("harness", diagnosis):
            before = new
            if finding.kind == "tool_removed":
                new = with_tools(new, wanted(diagnosis))
                done += [f"offer {', '.join(t for t in new.tools if t not in old.tools)}"] if new != before else []
            elif finding.kind == "budget_too_small":
                new = _roomier(new, finding)
                done += [f"grant {_granted(before, new)}"] if new != before else []
            elif finding.kind == "limits_too_tight":
                new = _looser(new, finding)
                done += ["loosen the limits that refuse what the task needs"] if new != before else []
        if new == old:
            return None
        files = {**view.component("harness"), "harness.json": new.dump()}
        added = tuple(f"tool:{t}" for t in new.tools if t not in old.tools)
        return Draft(component="harness", files=files, rationale="; ".join(dict.fromkeys(done)), writes=added)


def wanted(diagnosis: Diagnosis) -> list[str]:
    """The tools to offer: those that a solver was seen to need, else the first that can do what is missing."""
    seen: list[str] = []
    possible: list[str] = []
    for finding in diagnosis.findings:
        if finding.kind != "tool_removed" or finding.status != "confirmed":
            continue
        tools = [str(t) for t in finding.details.get("tools", [])]
        if finding.probe == "needed_tools":
            seen += tools
        else:
            possible += tools[:1]
    return list(dict.fromkeys(seen or possible))


def with_tools(harness: Harness, tools: list[str]) -> Harness:
    more = set(tools) | set(harness.tools)
    known = [t for t in TOOLS if t in more]
    kept = [t for t in harness.tools if t not in TOOLS]
    return harness.model_copy(update={"tools": (*known, *kept)})


def with_turns(harness: Harness, turns: int) -> Harness:
    return _raised(harness, "budget", {"turns": turns})


def at_least(harness: Harness, budget: Budget, limits: Limits) -> Harness:
    """The harness with every budget and limit no lower than these."""
    return _raised(_raised(harness, "budget", budget.model_dump()), "limits", limits.model_dump())


def _roomier(harness: Harness, finding: Finding) -> Harness:
    """Twice what a solution was seen to need; where only the name of a bound is known, what is usual."""
    needed = dict[str, Any]()
    turns, limit, need = (finding.details.get(k) for k in ("turns", "limit", "needed"))
    if isinstance(turns, int | float) and turns:
        needed["turns"] = SLACK * int(turns)
    usual = Budget().model_dump()
    if limit in usual and limit != "turns":
        needed[str(limit)] = max(usual[str(limit)], SLACK * need if isinstance(need, int | float) else 0)
    return _raised(harness, "budget", needed or {"turns": max(usual["turns"], SLACK * harness.budget.turns)})


def _looser(harness: Harness, finding: Finding) -> Harness:
    """The named limit as it usually is, or twice what was needed; without a name, all of them as usual."""
    usual = Limits().model_dump()
    limit, need = finding.details.get("limit"), finding.details.get("needed")
    if limit in usual:
        least = usual[limit]
        wide = max(least, type(least)(SLACK * need)) if isinstance(need, int | float) else least
        return _raised(harness, "limits", {limit: wide})
    if limit in Budget().model_dump():
        return _raised(harness, "budget", {str(limit): Budget().model_dump()[str(limit)]})
    return _raised(harness, "limits", usual)


def _raised(harness: Harness, part: str, values: dict[str, Any]) -> Harness:
    now: Budget | Limits = getattr(harness, part)
    higher = {name: value for name, value in values.items() if value > getattr(now, name)}
    if not higher:
        return harness
    return harness.model_copy(update={part: now.model_copy(update=higher)})


def _granted(old: Harness, new: Harness) -> str:
    before, after = old.budget.model_dump(), new.budget.model_dump()
    return ", ".join(f"{after[n]:g} {n}" for n in after if after[n] != before[n])
