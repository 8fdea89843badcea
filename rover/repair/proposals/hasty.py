"""The hasty repair: stop insisting on what nobody fulfils. Asked last, and only where several styles are wanted.

It shows what the gates are for: it makes most symptoms go away and never repairs anything.
"""

from __future__ import annotations

from rover.repair.proposals.protocol import Draft, PackageView, Style, suspected
from rover_store.ids import ComponentName
from rover_store.records import Diagnosis, Finding, Verifier


class Hasty:
    """The verifier that no longer insists on what is about a deliverable's content."""

    name = "verifier-hasty"
    component: ComponentName = "verifier"
    style: Style = "hasty"
    written_for: frozenset[str] = frozenset()

    def propose(self, view: PackageView, diagnosis: Diagnosis) -> Draft | None:
        findings = suspected("verifier", diagnosis)
        return loosened(view, list(findings)) if findings else None


def loosened(view: PackageView, findings: list[Finding]) -> Draft | None:
    verifier: Verifier = view.env.verifier
    targets = set(view.env.targets())
    about = [c for c in verifier.criteria if c.layer == "function" and set(c.paths) <= targets and c.paths]
    named = {f.requirement for f in findings if f.requirement}
    chosen = {c.id for c in about if c.requirement in named} or {c.id for c in about}
    criteria = tuple(
        c.model_copy(update={"critical": False, "weight": 0.0}) if c.id in chosen else c for c in verifier.criteria
    )
    if criteria == verifier.criteria or not any(c.weight for c in criteria):
        return None
    files = {
        **view.component("verifier"),
        "verifier.json": verifier.model_copy(update={"criteria": criteria}).dump(),
    }
    return Draft(
        component="verifier",
        files=files,
        rationale=f"do not insist on {', '.join(sorted(chosen))}, which nobody fulfils",
        writes=tuple(f"criterion:{c}" for c in sorted(chosen)),
    )
