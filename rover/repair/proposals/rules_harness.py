"""Proposals for the harness: the tools and turns that the task needs, or, where a solver gets nowhere, more room."""

from __future__ import annotations

from rover.harness.tools.specs import TOOLS
from rover.repair.proposals.protocol import Draft, PackageView
from rover_store.ids import ComponentName
from rover_store.records import Budget, Diagnosis, Harness

#: a solver that needs n turns is granted twice as many
SLACK = 2


class HarnessByRule:
    """One edit of the harness for all findings that point there, or that a larger harness might cure."""

    name = "harness-rule"
    component: ComponentName = "harness"

    def propose(self, view: PackageView, diagnosis: Diagnosis) -> Draft | None:
        old = view.env.harness
        new, done = old, list[str]()
        for finding in diagnosis.findings:
            if finding.status != "confirmed":
                continue
            if finding.kind == "tool_removed":
                new = _with_tools(new, wanted(diagnosis))
                done.append(f"offer {', '.join(t for t in new.tools if t not in old.tools)}")
            elif finding.kind == "budget_too_small":
                turns = SLACK * int(finding.details.get("turns", 0))
                new = _with_turns(new, turns)
                done.append(f"grant {new.budget.turns} turns")
            elif finding.kind in ("missing_given", "unsolvable"):
                # whoever sees a solver give up may think that it lacks room
                new = _with_turns(new, SLACK * old.budget.turns)
                done.append(f"grant {new.budget.turns} turns, in case the solver lacks room")
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
        if finding.kind != "tool_removed":
            continue
        tools = [str(t) for t in finding.details.get("tools", [])]
        if finding.probe == "needed_tools":
            seen += tools
        else:
            possible += tools[:1]
    return list(dict.fromkeys(seen or possible))


def _with_tools(harness: Harness, tools: list[str]) -> Harness:
    more = set(tools) | set(harness.tools)
    known = [t for t in TOOLS if t in more]
    kept = [t for t in harness.tools if t not in TOOLS]
    return harness.model_copy(update={"tools": (*known, *kept)})


def _with_turns(harness: Harness, turns: int) -> Harness:
    budget: Budget = harness.budget
    if turns <= budget.turns:
        return harness
    return harness.model_copy(update={"budget": budget.model_copy(update={"turns": turns})})
