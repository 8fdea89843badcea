"""Drafts that a person names: a component in a folder, or the components of an earlier revision."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rover.repair.proposals.protocol import Draft, PackageView
from rover_store.errors import NotFound, PackageError, UsageError
from rover_store.files.intake import read_folder
from rover_store.files.package_records import OPTIONAL, REQUIRED
from rover_store.ids import COMPONENTS, ComponentName
from rover_store.records import Context, Harness, Record, Task, Verifier

if TYPE_CHECKING:
    from rover_store.store import Store

Files = Mapping[str, bytes]
_RECORDS: dict[str, type[Record]] = {"context": Context, "task": Task, "harness": Harness, "verifier": Verifier}


def by_hand(store: Store, view: PackageView, component: str, folder: Path) -> Draft:
    """A component from a folder that holds it whole, as `rover checkout` writes it below NAME/COMPONENT."""
    if component not in COMPONENTS:
        raise UsageError(f"--propose {component}=...: a component is one of {', '.join(COMPONENTS)}")
    intake = read_folder(folder)
    files = {entry.path: entry.read() for entry in intake.files}
    for path in files:
        if path.startswith(f"{component}/"):
            raise UsageError(f"{folder} holds {component}/; name that folder itself")
    _check_records(component, files)
    return _draft(store, view, component, files, f"by hand from {folder.name}/", "hand")


def _check_records(component: str, files: Files) -> None:
    """PackageError for a record of the component that is missing or cannot be read."""
    for path, kind in {**REQUIRED, **OPTIONAL}.items():
        part, _, name = path.partition("/")
        if part == component and name in files and kind is not None:
            kind.load(files[name], path)
        elif part == component and name not in files and path in REQUIRED:
            raise PackageError(path, "", "missing")


def from_revision(store: Store, view: PackageView, rev: str) -> list[Draft]:
    """The components of the package at an earlier revision, those that differ from the present ones."""
    entry = store.package(view.name, rev)
    commit = store.resolve(rev)
    out = []
    for component in COMPONENTS:
        tree = entry.components.get(component)
        if tree is None or tree == view.env.component_id(component):
            continue
        items = store.objects.read_tree(tree)
        files = {path: store.objects.read(item.id) for path, item in items.items()}
        out.append(_draft(store, view, component, files, f"as in {commit[:10]}", "history"))
    if not out:
        raise UsageError(f"--from {rev[:12]}: the package is the same there; nothing to propose")
    return out


def _draft(
    store: Store, view: PackageView, component: ComponentName, files: Files, rationale: str, source: str
) -> Draft:
    name = f"{component}.json"
    if name not in files:
        raise PackageError(f"{component}/{name}", "", "missing")
    record = _RECORDS[component].load(files[name], f"{component}/{name}")
    resources = _bound(store, view, record) if isinstance(record, Context) else {}
    return Draft(component, files, resources, source, rationale)  # type: ignore[arg-type]


def _bound(store: Store, view: PackageView, context: Context) -> dict[str, Files]:
    """Resources that this context is bound to in a version that the present one is not."""
    now = {f"{r.kind}/{r.name}": r.tree for r in view.env.context.resources}
    out: dict[str, Files] = {}
    for number, ref in enumerate(context.resources):
        name = f"{ref.kind}/{ref.name}"
        if now.get(name) == ref.tree:
            continue
        try:
            items = store.objects.read_tree(ref.tree)
        except NotFound:
            reason = f"{name} at {ref.tree[:12]} is not in the store"
            raise PackageError("context/context.json", f"resources.{number}.tree", reason) from None
        out[name] = {path: store.objects.read(item.id) for path, item in items.items()}
    return out
