"""Proposals from history: a suspected component as an earlier revision had it."""

from __future__ import annotations

from rover.diagnose.diagnosis import suspects
from rover.repair.proposals.protocol import Draft, Earlier, PackageView
from rover_store.ids import ComponentName
from rover_store.records import Diagnosis


class FromHistory:
    """The last version of a suspected component under which the package was admitted, else the last other one."""

    def __init__(self, component: ComponentName) -> None:
        self.component: ComponentName = component
        self.name = f"{component}-history"

    def propose(self, view: PackageView, diagnosis: Diagnosis) -> Draft | None:
        if view.history is None or self.component not in suspects(diagnosis.findings):
            return None
        present = view.env.component_id(self.component)
        others = [e for e in view.history(self.component) if e.tree != present]
        best = next((e for e in others if e.admitted), others[0] if others else None)
        return None if best is None else _earlier(self.component, best)


def _earlier(component: ComponentName, found: Earlier) -> Draft:
    held = ", under which the package was admitted" if found.admitted else ""
    return Draft(
        component=component,
        files=found.files,
        source="history",
        rationale=f"the {component} of {found.commit[:12]}{held}",
    )
