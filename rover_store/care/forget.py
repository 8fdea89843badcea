"""Forgetting old operations: the log is written again without them, so that heads which only they keep can go.

The log grows for ever by design; this is the one way to shorten it, and only on request. What stays keeps its command,
time and moves; its id changes, for the chain below it does. The oldest operation that stays holds on to what it moved
away from, so that `undo` still reaches there.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rover_store.commits import AUTHOR, encode_commit, parse_commit
from rover_store.packs import BLOB, COMMIT, TREE, PackWriter
from rover_store.publish import publish
from rover_store.refs import OPS
from rover_store.trees import FILE, SUBMODULE, TreeItem, encode_tree

if TYPE_CHECKING:
    from rover_store.oplog import Operation
    from rover_store.store import Store


def operations_before(store: Store, time: int) -> int:
    """How many operations are older than a time. The newest of all always stays."""
    from rover_store.oplog import operations

    old = [operation.time < time for operation in operations(store)]
    return sum(old[1:])


def forget_operations(store: Store, time: int) -> int:
    """Forget the operations before a time and return how many. What only they kept is unreachable afterwards."""
    from rover_store.oplog import operations

    with store.lock:
        log = list(operations(store))
        kept = [op for n, op in enumerate(log) if n == 0 or op.time >= time]
        if len(kept) == len(log):
            return 0
        writer = PackWriter(store.git / "objects" / "pack")
        try:
            new: dict[str, str] = {}
            last: str | None = None
            for operation in reversed(kept):
                last = new[operation.id] = _again(store, writer, operation, last, new)
            moves = {OPS: (store.refs.get(OPS), last)}
            publish(store.lock, store.refs, writer, moves, lambda: store.objects.refresh(force=True))
        finally:
            writer.abort()
    return len(log) - len(kept)


def view_ids(store: Store, operation: str) -> list[str]:
    """Ids that the branches, tags and cases were at after an operation."""
    commit = parse_commit(operation, store.objects.read_commit(operation))
    return [item.id for item in store.objects.read_tree(commit.tree).values() if item.mode == SUBMODULE]


def _again(store: Store, writer: PackWriter, operation: Operation, last: str | None, new: dict[str, str]) -> str:
    """Write one operation on top of another chain; ids of operations in its details become the new ones."""
    commit = parse_commit(operation.id, store.objects.read_commit(operation.id))
    level = store.objects.list_tree(commit.tree)
    op: dict[str, Any] = json.loads(store.objects.read(level["op.json"].id))
    details = {k: new.get(v, v) if isinstance(v, str) else v for k, v in op["details"].items()}
    tree = commit.tree
    if details != op["details"]:
        data = (json.dumps({**op, "details": details}, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()
        level["op.json"] = TreeItem(FILE, writer.add(BLOB, data))
        tree = writer.add(TREE, encode_tree(level))
    values = [v for m in operation.moves if m.ref != "HEAD" for v in ((m.new,) if last else (m.old, m.new))]
    values += [] if last else view_ids(store, operation.id)
    kept = [store.revisions.peel(v) for v in values if v is not None and store.objects.exists(v)]
    parents = list(dict.fromkeys(([last] if last else []) + kept))
    return writer.add(COMMIT, encode_commit(tree, parents, operation.command, AUTHOR, operation.time))
