"""Proposals from history: a component as an earlier revision had it, and by hand: as a folder or revision has it."""

from __future__ import annotations

import os
from pathlib import Path

from rover.diagnose.diagnosis import suspects
from rover.repair.proposals.protocol import Draft, Earlier, Files, PackageView
from rover_store.errors import PackageError, UsageError
from rover_store.ids import COMPONENTS, ComponentName
from rover_store.records import Diagnosis

#: a folder given by hand is read up to here
MAX_BYTES = 256 << 20
MAX_FILES = 20_000


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


def from_files(component: ComponentName, files: Files, where: str) -> Draft:
    """A replacement given by hand."""
    record = f"{component}.json"
    if record not in files:
        raise PackageError(where, record, f"a {component} component holds this file")
    return Draft(component=component, files=dict(files), source="hand", rationale=f"as given in {where}")


def from_folder(component: str, folder: Path) -> Draft:
    """A replacement that lies in a folder. Links and special files are refused, none is followed."""
    if component not in COMPONENTS:
        raise UsageError(f"no component is called {component!r}", hint=f"one of {', '.join(COMPONENTS)}")
    if not folder.is_dir():
        raise PackageError(str(folder), "", "is not a folder")
    files: dict[str, bytes] = {}
    total = 0
    for at, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(at) / name
            inside = path.relative_to(folder).as_posix()
            if path.is_symlink() or not path.is_file():
                raise PackageError(str(path), "", "is not a plain file")
            total += path.stat().st_size
            if total > MAX_BYTES or len(files) >= MAX_FILES:
                raise PackageError(str(folder), "", f"holds more than {MAX_FILES} files or {MAX_BYTES >> 20} MB")
            files[inside] = path.read_bytes()
    return from_files(component, files, str(folder))


def _earlier(component: ComponentName, found: Earlier) -> Draft:
    held = ", under which the package was admitted" if found.admitted else ""
    return Draft(
        component=component,
        files=found.files,
        source="history",
        rationale=f"the {component} of {found.commit[:12]}{held}",
    )
