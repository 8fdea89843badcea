"""package.json of a folder that is taken: its edges are pinned, its admission is the store's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rover_store.errors import PackageError
from rover_store.graph import DEFAULT
from rover_store.layout import PackageEntry, entry
from rover_store.names import COMPONENTS, ComponentName
from rover_store.records import Context, Edge, Package

if TYPE_CHECKING:
    from rover_store.store import Store
    from rover_store.write import Transaction


def completed(store: Store, tx: Transaction, tree: str, old: PackageEntry | None, *, fresh: bool) -> str:
    """The tree with package.json as it is stored.

    Edges of a component that differs from the old version are pinned anew; all are where there is none, or `fresh`.
    Those of an unchanged one stay as stored, whatever the folder says: a folder keeps the pins of its checkout. An
    admission is what a test found, never what a folder claims: the stored one stands, for its components.
    """
    record = _record(tx, tree)
    assert record is not None
    stored = _record(tx, old.tree) if old is not None else None
    present = entry(tx, "", tree).components
    bound = _bound(tx, present["context"])
    resources = store.resources()
    edges: list[Edge] = []
    for component in COMPONENTS:
        if not fresh and stored is not None and old is not None and old.components.get(component) == present[component]:
            edges += [edge for edge in stored.edges if edge.source == component]
            continue
        own = [edge for edge in record.edges if edge.source == component]
        edges += _pins(component, own, bound, {**resources_of(resources), **bound, **present})
    admission = stored.admission if stored is not None else None
    if tuple(edges) == record.edges and admission == record.admission:
        return tree
    data = record.model_copy(update={"edges": tuple(edges), "admission": admission}).dump()
    return tx.edit_tree(tree, {"package.json": data})


def resources_of(trees: Mapping[str, str]) -> dict[str, str]:
    """`resources/KIND/NAME` -> version."""
    return {f"resources/{name}": tree for name, tree in trees.items()}


def _record(tx: Transaction, tree: str) -> Package | None:
    item = tx.list_tree(tree).get("package.json")
    return Package.load(tx.read(item.id), "package.json") if item is not None else None


def _bound(tx: Transaction, context: str) -> dict[str, str]:
    """`resources/KIND/NAME` -> version, as context.json lists them."""
    record = Context.load(tx.read(tx.list_tree(context)["context.json"].id), "context/context.json")
    bound = {}
    for i, ref in enumerate(record.resources):
        if not tx.exists(ref.tree):
            reason = f"no version {ref.tree[:12]} in this store"
            raise PackageError("context/context.json", f"resources.{i}.tree", reason)
        bound[f"resources/{ref.kind}/{ref.name}"] = ref.tree
    return bound


def _pins(
    component: ComponentName, given: Iterable[Edge], bound: Mapping[str, str], present: Mapping[str, str]
) -> list[Edge]:
    given = list(given)
    targets = list(bound) if component == "context" else list(DEFAULT[component])
    targets += [e.target for e in given if e.target not in targets and component != "context"]
    blobs = {(e.target, e.version): e.blobs for e in given}
    out = []
    for target in targets:
        version = present.get(target)
        if version is None:
            raise PackageError("package.json", "edges", f"{component} depends on {target}, which does not exist")
        out.append(Edge(source=component, target=target, version=version, blobs=blobs.get((target, version), ())))
    return out
