"""Proposals by re-derivation: a component made again from what is recorded of how it came to be, or from the contract.

They know no kind of finding: whatever confirmed finding suspects a component, the component is built anew.
"""

from __future__ import annotations

from rover.construct.families.guards import TOOLS
from rover.construct.rebuild import RebuildFailed
from rover.diagnose.restate import missing, restated
from rover.repair.proposals.context_edit import ContextEdit, bind_recorded, find_missing
from rover.repair.proposals.protocol import Draft, PackageView, Style, suspected
from rover.repair.proposals.recorded import bring_back
from rover.repair.proposals.rules_harness import at_least, with_tools, with_turns
from rover.repair.proposals.rules_task import draft as task_draft
from rover.repair.proposals.verifier_edit import VerifierEdit
from rover.repair.proposals.wordings import says_the_contract, worded
from rover_store.ids import ComponentName
from rover_store.records import Budget, Diagnosis, Limits
from rover_store.records.contract import ProtectedRule


class _Again:
    """What the four have in common."""

    style: Style = "rederive"
    written_for: frozenset[str] = frozenset()
    component: ComponentName

    def propose(self, view: PackageView, diagnosis: Diagnosis) -> Draft | None:
        if not suspected(self.component, diagnosis):
            return None
        made = self._made(view)
        return made if made is None or made.source == "rederive" else Draft(**{**made.__dict__, "source": "rederive"})

    def _made(self, view: PackageView) -> Draft | None:
        raise NotImplementedError


class ContextAgain(_Again):
    """The recorded resources at their recorded versions, the files that the task needs, and nothing else."""

    name = "context-again"
    component: ComponentName = "context"

    def _made(self, view: PackageView) -> Draft | None:
        edit = ContextEdit(view)
        bind_recorded(edit)
        recorded = {s.path for s in view.env.record.provenance.sources}
        bring_back(edit, sorted(recorded))
        for path in sorted(edit.needed - set(edit.start())):
            find_missing(edit, path)
        if view.env.record.provenance.builder != "hand" and recorded:
            protected = {
                p for n in view.contract.requirements if isinstance(n.rule, ProtectedRule) for p in n.rule.paths
            }
            for path in sorted(set(edit.start()) - recorded - protected):
                edit.take_out(path, "which no record of the package's making knows")
        for deliverable in view.contract.deliverables:
            if deliverable.in_place:
                edit.allow(deliverable.path)
        return edit.draft("rederive")


class TaskAgain(_Again):
    """The contract in the words of the family; without one, what the request does not state said in a sentence."""

    name = "task-again"
    component: ComponentName = "task"

    def _made(self, view: PackageView) -> Draft | None:
        now = view.env.instruction
        if says_the_contract(view, now):  # in other words it would say no more
            text = now
        else:
            text = worded(view) or restated(now, view.contract, missing(now, view.contract))
        return task_draft(view, text, "say what the contract says, in the words of its family")


class HarnessAgain(_Again):
    """All tools, and no budget or limit below what is usual or recorded."""

    name = "harness-again"
    component: ComponentName = "harness"

    def _made(self, view: PackageView) -> Draft | None:
        old = view.env.harness
        turns = view.env.record.provenance.config.get("turns")
        least = max(2 * Budget().turns, int(turns) if isinstance(turns, int) else 0)
        new = with_turns(at_least(with_tools(old, list(TOOLS)), Budget(), Limits()), least)
        if new == old:
            return None
        files = {**view.component("harness"), "harness.json": new.dump()}
        added = tuple(f"tool:{t}" for t in new.tools if t not in old.tools)
        said = "all tools, and budgets and limits as they usually are"
        return Draft("harness", files, source="rederive", rationale=said, writes=added)


class VerifierAgain(_Again):
    """Checks, anchors, reference and missing negatives made from the contract and the present files."""

    name = "verifier-again"
    component: ComponentName = "verifier"

    def _made(self, view: PackageView) -> Draft | None:
        edit = VerifierEdit(view)
        edit.write_checks(None)
        try:
            edit.derive(again=view.engine is not None)
        except RebuildFailed:
            return None
        edit.complete_cases()
        edit.solve()
        return edit.draft("rederive")
