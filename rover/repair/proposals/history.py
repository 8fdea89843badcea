"""Proposals from history: a suspect as it was while the check held, or as the same repair left it in a sibling."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from rover.diagnose.protocol import ProbeContext
from rover.diagnose.registry import still_there
from rover.repair.proposals.check import replaced
from rover.repair.proposals.patch import applied
from rover.repair.proposals.protocol import Draft, Earlier, Files, PackageView, Style, suspected
from rover_store.errors import NotFound, PackageError
from rover_store.ids import ComponentName
from rover_store.records import Context, Diagnosis, Finding

#: earlier versions that are looked at
MOST_VERSIONS = 6


class FromHistory:
    """The last version of a suspect in which the check held.

    It held where the admission test of its revision says so; else the probes that raised the findings are asked
    again with that version in place. Where it held in none, the last admitted one, or the last other one.
    """

    style: Style = "history"
    written_for: frozenset[str] = frozenset()

    def __init__(self, component: ComponentName) -> None:
        self.component: ComponentName = component
        self.name = f"{component}-history"

    def propose(self, view: PackageView, diagnosis: Diagnosis) -> Draft | None:
        findings = suspected(self.component, diagnosis)
        if view.history is None or not findings:
            return None
        present = view.env.component_id(self.component)
        others = (e for e in view.history(self.component) if e.tree != present)
        drafts = [(e, _earlier(view, self.component, e)) for e in islice(others, MOST_VERSIONS)]
        known = [(e, d) for e, d in drafts if d is not None]
        if len(known) < 2:
            return known[0][1] if known else None
        for version, draft in known:
            if version.admitted or _silent(view, draft, findings):
                return draft
        return known[0][1]


class FromSibling:
    """The same repair as in a sibling: an edit that a repair made there, where it fits here word for word."""

    style: Style = "history"
    written_for: frozenset[str] = frozenset()

    def __init__(self, component: ComponentName) -> None:
        self.component: ComponentName = component
        self.name = f"{component}-sibling"

    def propose(self, view: PackageView, diagnosis: Diagnosis) -> Draft | None:
        findings = suspected(self.component, diagnosis)
        if view.precedents is None or not findings:
            return None
        mine = view.component(self.component)
        for found in view.precedents(self.component):
            files = applied(found.before, found.after, mine)
            if files is None or files == mine:
                continue
            resources = _resources(view, files) if self.component == "context" else {}
            if resources is None:
                continue
            return Draft(
                component=self.component,
                files=files,
                resources=resources,
                source="history",
                rationale=f"the repair of {found.package} in {found.commit[:12]}, made here as well",
            )
        return None


def _silent(view: PackageView, draft: Draft, findings: Sequence[Finding]) -> bool:
    """Whether the probes that raised the findings are silent with the draft in place."""
    if view.engine is None:
        return False
    try:
        env = replaced(view, draft)
    except PackageError:
        return False
    resources = {f"{r.kind}/{r.name}": r.tree for r in env.context.resources}
    return not still_there(findings, ProbeContext(env, view.engine, resources=resources))


def _earlier(view: PackageView, component: ComponentName, found: Earlier) -> Draft | None:
    held = ", under which the package was admitted" if found.admitted else ""
    resources = _resources(view, found.files) if component == "context" else {}
    if resources is None:
        return None
    return Draft(
        component=component,
        files=found.files,
        resources=resources,
        source="history",
        rationale=f"the {component} of {found.commit[:12]}{held}",
    )


def _resources(view: PackageView, files: Files) -> dict[str, Files] | None:
    """The resources that a context is bound to in another version; None where one cannot be read."""
    now = {f"{r.kind}/{r.name}": r.tree for r in view.env.context.resources}
    out: dict[str, Files] = {}
    for ref in Context.load(files["context.json"], "context/context.json").resources:
        name = f"{ref.kind}/{ref.name}"
        if now.get(name) == ref.tree:
            continue
        if view.read is None:
            return None
        try:
            out[name] = view.read(ref.tree)
        except NotFound:
            return None
    return out
