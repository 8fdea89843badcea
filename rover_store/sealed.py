"""The sealed audits of packages: written once through a door that only appends.

refs/rover/sealed is a chain of commits with the tree sealed/a/3/f/NAME/0001.json, 0002.json, ... No revision names
it, no clone transfers it, `undo` does not reach it. The one reader is `read_for_audit`, for rover.repair.audit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rover_store.commits import AUTHOR, encode_commit, parse_commit
from rover_store.names import check_name, package_path
from rover_store.packs import BLOB, COMMIT, PackWriter
from rover_store.records import SealedAudit
from rover_store.refs import SEALED
from rover_store.trees import FILE, Level, TreeItem, edit_tree, parse_tree

if TYPE_CHECKING:
    from rover_store.store import Store


class Sealed:
    """The door."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def append(self, package: str, record: SealedAudit) -> None:
        """Keep the audit of a package. The same record again changes nothing; another one comes after it."""
        self.append_all({package: record})

    def append_all(self, records: Mapping[str, SealedAudit]) -> None:
        """Keep many at once: one pack, one commit."""
        store = self._store
        with store.lock:
            head = store.refs.get(SEALED)
            root = _tree(store, head) if head else None
            writer = PackWriter(store.git / "objects" / "pack")
            try:
                edits: dict[str, TreeItem | None] = {}
                for name, record in sorted(records.items()):
                    there = _files(store, root, name)
                    blob = writer.add(BLOB, record.dump())
                    if blob not in [item.id for item in there.values()]:
                        edits[f"{_folder(name)}/{len(there) + 1:04}.json"] = TreeItem(FILE, blob)
                if not edits:
                    return

                def level(tree: str) -> Level:
                    return parse_tree(writer.get(tree)[1]) if tree in writer else store.objects.list_tree(tree)

                tree = edit_tree(root, edits, level, writer.add)
                data = encode_commit(tree, [head] if head else [], "Sealed", AUTHOR, store.clock())
                commit = writer.add(COMMIT, data)
                store.lock.write(f"ref {SEALED} {head or '-'} {commit}")
                writer.finish(lambda name: store.lock.write(f"pack {name}"))
                store.objects.refresh(force=True)
                store.lock.write("go")
                store.refs.compare_and_swap(SEALED, head, commit)
                store.lock.clear()
            finally:
                writer.abort()


def read_for_audit(store: Store, package: str) -> tuple[SealedAudit, ...]:
    """All audits kept for a package, the first one written first; empty if there is none."""
    head = store.refs.get(SEALED)
    found = _files(store, _tree(store, head), package) if head else {}
    return tuple(SealedAudit.load(store.objects.read(item.id), "sealed audit") for _, item in sorted(found.items()))


def _folder(name: str) -> str:
    return "sealed" + package_path(check_name(name)).removeprefix("packages")


def _tree(store: Store, head: str) -> str:
    return parse_commit(head, store.objects.read_commit(head)).tree


def _files(store: Store, root: str | None, name: str) -> Level:
    item = store.objects.subtree(root, _folder(name)) if root else None
    return store.objects.list_tree(item.id) if item is not None and item.is_folder else {}
