"""Proposals for the task: say what the contract needs said, call a deliverable by the contract's name.

The contract itself is never touched: it is the frozen intent.
"""

from __future__ import annotations

from rover.diagnose.restate import restated, words
from rover.repair.proposals.protocol import Draft, PackageView
from rover_store.ids import ComponentName
from rover_store.records import Diagnosis, Finding


class TaskByRule:
    """One edit of the request for all findings that point there."""

    name = "task-rule"
    component: ComponentName = "task"

    def propose(self, view: PackageView, diagnosis: Diagnosis) -> Draft | None:
        text = view.env.instruction
        done: list[str] = []
        needs: list[str] = []
        for finding in diagnosis.findings:
            if finding.status != "confirmed" or finding.components[0] != "task":
                continue
            text, what = _edited(view, text, finding)
            if what:
                done.append(what)
                needs.append(f"given:{finding.details.get('subject', '')}")
        if not done or text == view.env.instruction:
            return None
        files = {**view.component("task"), "instruction.md": text.encode()}
        return Draft(component="task", files=files, rationale="; ".join(done), writes=("path:instruction.md",))


def _edited(view: PackageView, text: str, finding: Finding) -> tuple[str, str]:
    """The request after one edit, and what it was in words; empty where there is none to make."""
    subject = str(finding.details.get("subject", ""))
    if finding.kind == "missing_given":
        givens = [g for g in view.env.contract.givens if g.name == subject]
        if givens:
            return restated(text, view.env.contract, givens), f"state the value of {subject} again"
        value = finding.details.get("value", subject)
        return f"{text.rstrip()}\n\nIt also has to hold {words(str(value))}.\n", f"name {value}"
    if finding.kind == "renamed_deliverable":
        found = finding.details.get("found")
        if found:
            return text.replace(str(found), subject), f"ask for {subject}, as the contract does"
    if finding.kind == "leaked_answer" and subject == "instruction":
        sample = str(finding.details.get("sample", ""))
        lines = [line for line in text.splitlines() if not sample or sample.lower() not in line.lower()]
        return "\n".join(lines) + "\n", "take the answer out of the request"
    return text, ""
