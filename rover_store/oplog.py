"""The operation log: every move of a ref, with the command that made it, kept in the repository itself.

refs/rover/ops is a chain of commits. The tree of each holds op.json (command, moves) and view.json (all branches,
tags and HEAD afterwards); its parents are the operation before and the ids that it moved away from or to, which
keeps old heads alive. Moves made by another git are noticed by comparing the view, and recorded as such.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from rover_store.commits import AUTHOR, Commit, encode_commit, parse_commit
from rover_store.errors import UsageError
from rover_store.packs import BLOB, COMMIT, TREE
from rover_store.refs import HEADS, OPS, TAGS
from rover_store.trees import FILE, TreeItem, encode_tree

if TYPE_CHECKING:
    from rover_store.store import Store

OUTSIDE = "(another git)"
Write = Callable[[int, bytes], str]


class Move(NamedTuple):
    """A ref that moved. For HEAD the values are names of branches. None: it did not exist."""

    ref: str
    old: str | None
    new: str | None


class Operation(NamedTuple):
    """One entry of the log."""

    id: str
    command: str
    time: int
    moves: tuple[Move, ...]
    details: Mapping[str, str]


class Recorder:
    """Writes operations into a transaction's pack."""

    def __init__(self, store: Store, write: Write, peel: Callable[[str], str]) -> None:
        self._store = store
        self._write = write
        self._peel = peel
        self.before = store.refs.get(OPS)
        self.last = self.before

    def record(
        self, command: str, moves: Mapping[str, tuple[str | None, str | None]], head: str | None,
        details: Mapping[str, str],
    ) -> None:  # fmt: skip
        """Append one operation, and before it what another git did since the last one."""
        now = view(self._store)
        known = self._view()
        names = sorted(known.keys() | now.keys())
        foreign = [Move(n, known.get(n), now.get(n)) for n in names if known.get(n) != now.get(n)]
        if foreign and self.before is not None:
            self._append(OUTSIDE, foreign, now, {})
        own = [Move(ref, old, new) for ref, (old, new) in moves.items()]
        after = dict(now)
        if head is not None:
            own.append(Move("HEAD", now["HEAD"], head))
            after["HEAD"] = head
        for ref, (_, new) in moves.items():
            if ref.startswith((HEADS, TAGS)):
                after.pop(ref, None)
                if new is not None:
                    after[ref] = new
        self._append(command, own, after, details)

    def _view(self) -> dict[str, str]:
        if self.before is None:
            return {}
        commit = _load(self._store, self.before)
        item = self._store.objects.list_tree(commit.tree).get("view.json")
        return dict(json.loads(self._store.objects.read(item.id))) if item else {}

    def _append(
        self, command: str, moves: list[Move], after: Mapping[str, str], details: Mapping[str, str]
    ) -> None:
        op = {"command": command, "moves": [m._asdict() for m in moves], "details": dict(details)}
        tree = {
            "op.json": TreeItem(FILE, self._write(BLOB, _json(op))),
            "view.json": TreeItem(FILE, self._write(BLOB, _json(after))),
        }
        # what a ref moved away from was the new value of an earlier operation, except for the very first one
        sides = ((m.new,) if self.last else (m.old, m.new) for m in moves if m.ref != "HEAD")
        kept = [v for side in sides for v in side if v is not None]
        parents = list(dict.fromkeys(([self.last] if self.last else []) + [self._peel(k) for k in kept]))
        tree_hex = self._write(TREE, encode_tree(tree))
        data = encode_commit(tree_hex, parents, command, AUTHOR, self._store.clock())
        self.last = self._write(COMMIT, data)


def view(store: Store) -> dict[str, str]:
    """All branches and tags, and HEAD, as they are."""
    return {"HEAD": store.refs.head(), **store.refs.all(HEADS), **store.refs.all(TAGS)}


def operations(store: Store) -> Iterator[Operation]:
    """The log, the newest first."""
    here = store.refs.get(OPS)
    while here is not None:
        commit = _load(store, here)
        item = store.objects.list_tree(commit.tree)["op.json"]
        op: dict[str, Any] = json.loads(store.objects.read(item.id))
        moves = tuple(Move(**m) for m in op["moves"])
        yield Operation(here, op["command"], commit.time, moves, op["details"])
        previous = commit.parents[0] if commit.parents else None
        here = previous if previous and "op.json" in store.objects.list_tree(_load(store, previous).tree) else None


def undo(store: Store, operation: str | None = None) -> Operation:
    """Take back the last operation (or the one named by its id) and return it. Undoing an undo does it again.

    UsageError where a ref has moved since, so that nothing newer is lost.
    """
    with store.write(command="undo") as tx:
        log = operations(store)
        target = next((op for op in log if operation is None or op.id.startswith(operation)), None)
        if target is None:
            raise UsageError("nothing to undo" if operation is None else f"no operation {operation}")
        for move in reversed(target.moves):
            found = store.refs.head() if move.ref == "HEAD" else tx.ref(move.ref)
            if found != move.new:
                raise UsageError(f"cannot undo {target.command!r}: {move.ref} has moved since")
            if move.ref == "HEAD":
                tx.move_head(move.old or HEADS + "main")
            else:
                tx.move_ref(move.ref, move.new, move.old)
        tx.note(undoes=target.id, undone=target.command)
    return target


def _load(store: Store, commit_hex: str) -> Commit:
    return parse_commit(commit_hex, store.objects.read_commit(commit_hex))


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()
