"""The operation log: every move of a ref, with the command that made it, kept in the repository itself.

refs/rover/ops is a chain of commits. The tree of each holds op.json (command, moves) and view/: HEAD, and an entry
of a submodule's mode for each branch, tag and case as it was afterwards, so that what did not move is not written
again. Parents are the operation before and the ids that it moved refs to, which keeps old heads alive. Moves made by
another git are noticed by comparing the view, and recorded as such.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from rover_store.commits import AUTHOR, Commit, encode_commit, parse_commit
from rover_store.errors import Ambiguous, UsageError
from rover_store.packs import BLOB, COMMIT, TREE
from rover_store.refs import EVIDENCE, HEADS, OPS, REMOTES, ROVER, SEALED, TAGS
from rover_store.trees import FILE, FOLDER, SUBMODULE, TreeItem, edit_tree, encode_tree

if TYPE_CHECKING:
    from rover_store.store import Store
    from rover_store.write import Transaction

OUTSIDE = "(another git)"
#: what HEAD is said to be at where it holds neither a branch nor an id
DAMAGED = "(damaged)"
View = Mapping[str, str]
_COUNTED = re.compile(r"@(?:~([0-9]{1,9}))?")
#: what the view holds; where the branches of remotes are is not for going back, `undo` alone moves them
_COVERED = (HEADS, TAGS, ROVER)
#: chains of their own, which no operation restores
_ELSEWHERE = (OPS, SEALED, EVIDENCE)
_known: WeakKeyDictionary[Store, tuple[str, View]] = WeakKeyDictionary()


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

    @property
    def summary(self) -> str:
        """The command, and of an undo or a restore what it was about."""
        about = self.details.get("undone") or self.details.get("restored")
        return f"{self.command} ({about if about != OUTSIDE else about[1:-1]})" if about else self.command


class Recorder:
    """Writes operations into a transaction's pack."""

    def __init__(self, store: Store, tx: Transaction) -> None:
        self._store = store
        self._tx = tx
        self.before = store.refs.get(OPS)
        self.last = self.before
        self._base = _view_tree(store, self.before) if self.before else None
        self._now = view(store)

    def notice(self) -> None:
        """Append what another git did since the last operation, if it did anything."""
        foreign = _outside(self._store, self.before, self._now) if self.before else []
        if foreign:
            self._append(OUTSIDE, foreign, {})

    def record(
        self, command: str, moves: Mapping[str, tuple[str | None, str | None]], details: Mapping[str, str]
    ) -> None:
        """Append one operation."""
        self._append(command, [Move(ref, old, new) for ref, (old, new) in moves.items()], details)

    def _append(self, command: str, moves: list[Move], details: Mapping[str, str]) -> None:
        add, op = self._tx.add, {"command": command, "moves": [m._asdict() for m in moves], "details": dict(details)}
        if self._base is None:  # the first operation, or the first after one of an older form
            edits = {ref: self._entry(ref, value) for ref, value in self._now.items() if _seen(ref)}
        else:
            edits = {}
        edits.update((m.ref, self._entry(m.ref, m.new)) for m in moves if _seen(m.ref))
        self._base = edit_tree(self._base, edits, self._tx.list_tree, add)
        tree = {"op.json": TreeItem(FILE, add(BLOB, _json(op))), "view": TreeItem(FOLDER, self._base)}
        # what a ref moved away from was the new value of an earlier operation, except for the very first one
        sides = ((m.new,) if self.last else (m.old, m.new) for m in moves if m.ref != "HEAD")
        kept = [self._tx.commit_of(v) for side in sides for v in side if v is not None]
        parents = list(dict.fromkeys(([self.last] if self.last else []) + [k for k in kept if k is not None]))
        tree_hex = add(TREE, encode_tree(tree))
        data = encode_commit(tree_hex, parents, command, AUTHOR, self._store.clock(), details)
        self.last = add(COMMIT, data)

    def _entry(self, ref: str, value: str | None) -> TreeItem | None:
        if value is None:
            return None
        if ref == "HEAD":
            return TreeItem(FILE, self._tx.add(BLOB, f"{value}\n".encode("utf-8", "surrogateescape")))
        return TreeItem(SUBMODULE, value)


def view(store: Store) -> dict[str, str]:
    """All branches, tags and cases, and HEAD, as they are. Refs that hold no id are left out."""
    refs = store.refs
    rover = {n: v for n, v in refs.remembered(ROVER).items() if _seen(n)}
    heads, tags = refs.all(HEADS, damaged=True), refs.all(TAGS, damaged=True)
    return {"HEAD": refs.head_text(), **heads, **tags, **rover}


def view_after(store: Store, operation: str) -> View:
    """The same as they were after an operation (its full id)."""
    tree = _view_tree(store, operation)
    if tree is None:  # the older form knew no cases
        level = store.objects.list_tree(_load(store, operation).tree)
        return dict(json.loads(store.objects.read(level["view.json"].id))) if "view.json" in level else {}
    known = _known.get(store)
    if known is None or known[0] != tree:
        found: dict[str, str] = {}
        _flatten(store, tree, "", found)
        _known[store] = known = (tree, found)
    return known[1]


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


def find(store: Store, operation: str | None) -> Operation:
    """The operation that an id, or the first digits of one, names. UsageError, or Ambiguous.

    None and `@` name the newest, `@~N` the one N before it.
    """
    wanted = "@" if operation is None else operation
    counted = _COUNTED.fullmatch(wanted)
    if counted is not None:
        back = next(islice(operations(store), int(counted[1] or 0), None), None)
        if back is None:
            raise UsageError("nothing to undo" if operation is None else f"no operation {operation}")
        return back
    found = [op for op in operations(store) if op.id.startswith(wanted)] if wanted else []
    if not found:
        raise UsageError(f"no operation {wanted}", hint="`rover op log` lists them")
    if len(found) > 1:
        raise Ambiguous(wanted, tuple(op.id for op in found))
    return found[0]


def _last_own(store: Store) -> Operation:
    """The newest operation that moved more than what is known of a remote. UsageError."""
    for operation in operations(store):
        if any(not move.ref.startswith(REMOTES) for move in operation.moves):
            return operation
    raise UsageError("nothing to undo")


def undo(store: Store, operation: str | None = None) -> Operation:
    """Take back the last operation (or the one named by its id) and return it. Undoing an undo does it again.

    What another git did since the last operation counts as one. An operation that only noted where a remote is (a
    push, a fetch) is passed over: it changed nothing here. UsageError where a ref has moved since, so that nothing
    newer is lost.
    """
    with store.lock:
        _notice(store)
        with store.write(command="undo") as tx:
            target = _last_own(store) if operation is None else find(store, operation)
            for move in reversed(target.moves):
                found = store.refs.head_text() if move.ref == "HEAD" else store.refs.peek(move.ref)
                if found != move.new:
                    hint = f"`rover op restore {target.id[:10]}` sets everything to what it was after it"
                    raise UsageError(f"cannot undo {target.summary!r}: {move.ref} has moved since", hint=hint)
                _move(tx, move.ref, found, move.old)
            tx.note(undoes=target.id, undone=target.summary)
    return target


def restore(store: Store, operation: str) -> Operation:
    """Set all branches, tags, cases and HEAD to what they were after an operation, and return that operation.

    This is one operation more: nothing is lost, `undo` takes it back. Nothing is recorded where nothing differs.
    """
    with store.lock:
        _notice(store)
        with store.write(command="op restore") as tx:
            target = find(store, operation)
            now, wanted = view(store), view_after(store, target.id)
            older = _view_tree(store, target.id) is None
            for ref in sorted(now.keys() | wanted.keys()):
                if now.get(ref) != wanted.get(ref) and not (older and ref.startswith(ROVER)):
                    _move(tx, ref, now.get(ref), wanted.get(ref))
            tx.note(restores=target.id, restored=target.summary)
    return target


# --- within --------------------------------------------------------------------------------------------------
def _move(tx: Transaction, ref: str, old: str | None, new: str | None) -> None:
    if ref != "HEAD":
        tx.move_ref(ref, old, new)
    elif new not in (None, DAMAGED):
        tx.move_head(str(new))


def _notice(store: Store) -> None:
    """Record what another git did, as an operation of its own."""
    last = store.refs.get(OPS)
    if last is not None and _outside(store, last, view(store)):
        with store.write(command=OUTSIDE) as tx:
            tx.notice()


def _outside(store: Store, last: str, now: View) -> list[Move]:
    known = view_after(store, last)
    if known == now:
        return []
    if _view_tree(store, last) is None:
        now = {ref: value for ref, value in now.items() if not ref.startswith(ROVER)}
    names = sorted(known.keys() | now.keys())
    return [Move(n, known.get(n), now.get(n)) for n in names if known.get(n) != now.get(n)]


def _seen(ref: str) -> bool:
    return ref == "HEAD" or (ref.startswith(_COVERED) and not ref.startswith(_ELSEWHERE))


def _view_tree(store: Store, operation: str) -> str | None:
    item = store.objects.list_tree(_load(store, operation).tree).get("view")
    return item.id if item is not None else None


def _flatten(store: Store, tree: str, prefix: str, out: dict[str, str]) -> None:
    for name, item in store.objects.list_tree(tree).items():
        if item.is_folder:
            _flatten(store, item.id, f"{prefix}{name}/", out)
        elif item.mode == SUBMODULE:
            out[prefix + name] = item.id
        else:
            out[prefix + name] = store.objects.read(item.id).decode("utf-8", "surrogateescape").strip()


def _load(store: Store, commit_hex: str) -> Commit:
    return parse_commit(commit_hex, store.objects.read_commit(commit_hex))


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()
