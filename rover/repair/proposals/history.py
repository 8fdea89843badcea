"""Proposals from history: a suspected component as an earlier revision had it."""

from __future__ import annotations

from rover.diagnose.diagnosis import suspects
from rover.repair.proposals.protocol import Draft, Earlier, Files, PackageView, Style
from rover_store.errors import NotFound
from rover_store.ids import ComponentName
from rover_store.records import Context, Diagnosis


class FromHistory:
    """The last version of a suspected component under which the package was admitted, else the last other one."""

    style: Style = "history"
    written_for: frozenset[str] = frozenset()

    def __init__(self, component: ComponentName) -> None:
        self.component: ComponentName = component
        self.name = f"{component}-history"

    def propose(self, view: PackageView, diagnosis: Diagnosis) -> Draft | None:
        if view.history is None or self.component not in suspects(diagnosis.findings):
            return None
        present = view.env.component_id(self.component)
        others = [e for e in view.history(self.component) if e.tree != present]
        best = next((e for e in others if e.admitted), others[0] if others else None)
        return None if best is None else _earlier(view, self.component, best)


def _earlier(view: PackageView, component: ComponentName, found: Earlier) -> Draft | None:
    held = ", under which the package was admitted" if found.admitted else ""
    resources = _resources(view, found) if component == "context" else {}
    if resources is None:
        return None
    return Draft(
        component=component,
        files=found.files,
        resources=resources,
        source="history",
        rationale=f"the {component} of {found.commit[:12]}{held}",
    )


def _resources(view: PackageView, found: Earlier) -> dict[str, Files] | None:
    """The resources that an earlier context was bound to in another version; None where one cannot be read."""
    now = {f"{r.kind}/{r.name}": r.tree for r in view.env.context.resources}
    out: dict[str, Files] = {}
    for ref in Context.load(found.files["context.json"], "context/context.json").resources:
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
