"""Proposals for the verifier: checks written from the contract, and derived files made again."""

from __future__ import annotations

from rover.construct.anchors import derive
from rover.construct.families.protocol import Dropped
from rover.construct.rebuild import RebuildFailed, rebuild_verifier
from rover.repair.proposals.checks import FILE, written
from rover.repair.proposals.protocol import Draft, PackageView
from rover_store.ids import ComponentName
from rover_store.records import Anchors, Diagnosis, Finding, Query, Verifier

#: findings that say that the checks are not what the contract demands
_CHECKS = frozenset(
    {
        "lax_verifier", "strict_verifier", "flaky_verifier", "renamed_deliverable", "unscored_requirement",
        "extra_demand", "missing_anchor", "verifier_crash",
    }
)  # fmt: skip
#: findings under which somebody may hold the verifier to be too hard
_BLAME = frozenset({"missing_given", "missing_input", "tool_removed", "budget_too_small", "unsolvable"})


class VerifierByRule:
    """Checks written from the contract; where the fault lies elsewhere, the loosening that one might try."""

    name = "verifier-rule"
    component: ComponentName = "verifier"

    def propose(self, view: PackageView, diagnosis: Diagnosis) -> Draft | None:
        confirmed = [f for f in diagnosis.findings if f.status == "confirmed"]
        if any(f.kind in _CHECKS and f.components[0] == "verifier" for f in confirmed):
            return from_contract(view)
        if any(f.kind == "renamed_deliverable" for f in confirmed):
            return loosened(view, confirmed)
        if any(f.kind in _BLAME for f in confirmed):
            return loosened(view, confirmed)
        return None


class VerifierAgain:
    """The verifier's derived files made again for the present context, task and harness."""

    name = "verifier-again"
    component: ComponentName = "verifier"

    def propose(self, view: PackageView, diagnosis: Diagnosis) -> Draft | None:
        stale = {"changed_data", "wrong_anchor", "missing_anchor"}
        if view.engine is None or not any(f.kind in stale and f.status == "confirmed" for f in diagnosis.findings):
            return None
        try:
            files = dict(rebuild_verifier(view.engine, view.env))
            if files == view.component("verifier"):
                files["anchors.json"] = _anchors(view, {a.id: a.query for a in view.env.anchors.anchors}).dump()
        except RebuildFailed:
            return None
        return Draft(
            component="verifier",
            files=files,
            source="rederive",
            rationale="derive again from the present files what the verifier expects",
            writes=("path:anchors.json", "path:reference"),
        )


def from_contract(view: PackageView) -> Draft | None:
    """One criterion for each requirement, its check written from the rule; cases and reference stay."""
    env = view.env
    new = written(env.contract, env.verifier, env.anchors)
    try:
        anchors = _anchors(view, new.queries)
    except RebuildFailed:
        return None
    files = {p: d for p, d in view.component("verifier").items() if not p.startswith("checks/")}
    files["verifier.json"] = new.verifier.dump()
    files[FILE] = new.source.encode()
    files["anchors.json"] = anchors.dump()
    needs = tuple(f"deliverable:{d.id}" for d in env.contract.deliverables)
    return Draft(
        component="verifier",
        files=files,
        rationale="write the checks from the contract, one for each requirement",
        needs=needs,
        writes=tuple(f"requirement:{r.id}" for r in env.contract.requirements),
    )


def loosened(view: PackageView, findings: list[Finding]) -> Draft | None:
    """The verifier that no longer insists on what is about a deliverable's content."""
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


def _anchors(view: PackageView, queries: dict[str, Query]) -> Anchors:
    """The anchors of these queries: derived where there is an engine, else the present ones, if they are all there."""
    env = view.env
    if view.engine is not None:
        derived = derive(view.engine, env.contract, queries, env.start)
        if isinstance(derived, Dropped):
            raise RebuildFailed("verifier/anchors.json", "", derived.reason)
        return derived
    known = {a.id: a for a in env.anchors.anchors}
    if any(name not in known or known[name].query != query for name, query in queries.items()):
        raise RebuildFailed("verifier/anchors.json", "", "there is nothing to derive them with")
    return Anchors(anchors=tuple(a for a in env.anchors.anchors if a.id in queries))
