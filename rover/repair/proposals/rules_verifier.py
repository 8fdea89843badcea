"""Proposals for the verifier by rule: checks written from the contract where the findings point, the rest kept.

Where a finding names the requirements that are scored wrongly, only their criteria are written again; where it
cannot say which, all of them are. Weights, critical criteria and the pass mark follow the contract.
"""

from __future__ import annotations

from collections.abc import Iterable

from rover.construct.rebuild import RebuildFailed
from rover.repair.proposals.protocol import Draft, PackageView, Style, suspected
from rover.repair.proposals.verifier_edit import VerifierEdit
from rover_store.ids import ComponentName
from rover_store.records import Diagnosis, Finding

#: the checks are not what the contract demands
CHECKS = frozenset(
    {
        "lax_verifier", "strict_verifier", "flaky_verifier", "renamed_deliverable", "unscored_requirement",
        "extra_demand", "missing_anchor", "verifier_crash", "impossible_checks", "verifier_readable", "leaked_answer",
        "goal_at_start", "weak_pass_mark", "wrong_given", "contradiction", "wrong_anchor",
        "misnamed_input", "protected_target", "leftover_output",
    }
)  # fmt: skip
#: what the verifier derived is not what its queries and its builder give now
DERIVED = frozenset(
    {
        "wrong_anchor", "stale_anchor", "changed_data", "missing_anchor", "unsound_reference", "failed_write",
        "conflicting_copies", "wrong_unit",
    }
)  # fmt: skip
#: probes that see that something is wrong, and not all of what
_SYMPTOMS = frozenset({"start", "attackers", "reference", "replay", "independent"})
_WHOLE = frozenset({"flaky_verifier", "verifier_crash", "impossible_checks"})


class VerifierByRule:
    """One edit of the verifier for all findings that suspect it."""

    name = "verifier-rule"
    component: ComponentName = "verifier"
    style: Style = "rule"
    written_for = CHECKS | DERIVED

    def propose(self, view: PackageView, diagnosis: Diagnosis) -> Draft | None:
        findings = [f for f in suspected("verifier", diagnosis) if f.kind in self.written_for]
        checks = [f for f in findings if f.kind in CHECKS and not _of_anchor(f)]
        derived = [f for f in findings if f.kind in DERIVED]
        if not findings:
            return None
        edit = VerifierEdit(view)
        if checks:
            needs = concerned(view, checks)
            edit.write_checks(needs)
        try:
            edit.derive(again=bool(derived))
            if any(f.kind != "missing_anchor" for f in derived):
                edit.solve()
        except RebuildFailed:
            return None
        return edit.draft()


def _of_anchor(finding: Finding) -> bool:
    """Whether it is the expected value that is wrong, not the check that holds it."""
    return finding.kind == "wrong_anchor" and (finding.probe == "anchors" or "anchor" in finding.details)


def concerned(view: PackageView, findings: Iterable[Finding]) -> frozenset[str] | None:
    """The requirements whose criteria are to be written again; None where that may be all of them."""
    by_criterion = {c.id: c.requirement for c in view.env.verifier.criteria}
    found: set[str] = set()
    for finding in findings:
        details = finding.details
        named = {str(n) for n in details.get("requirements", [])}
        named |= {by_criterion[c] for c in map(str, details.get("criteria", [])) if c in by_criterion}
        named |= {by_criterion[str(details["criterion"])]} if details.get("criterion") in by_criterion else set()
        named |= {finding.requirement} if finding.requirement else set()
        named |= {c.requirement for c in view.env.verifier.criteria if details.get("subject") in c.paths}
        if finding.kind in _WHOLE or finding.probe in _SYMPTOMS:
            return None
        if not named and finding.kind not in ("extra_demand", "weak_pass_mark", "missing_anchor"):
            return None
        found |= named
    return frozenset(found | _alike(view, found))


def _alike(view: PackageView, found: set[str]) -> set[str]:
    """Requirements about the same deliverables: a run shows some of what such checks get wrong, seldom all of it."""
    about = {r.id: r.deliverable for r in view.env.contract.requirements}
    wanted = {about[name] for name in found if name in about}
    return {name for name, deliverable in about.items() if deliverable in wanted}
