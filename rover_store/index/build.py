"""Bringing the index up to where the refs are: history by walking from the commits it knows, contents and evidence
by tree difference, refs and operations by comparison.

Everything comes from git. A caller holds one transaction around each call. `Rows` is a database that takes SQL with
`?` for values: SQLite itself, or any other through `mirror`. What is written here is plain SQL that both understand.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from rover_store import layout
from rover_store.commits import Commit
from rover_store.errors import NotFound, StoreError
from rover_store.graph import Dependency
from rover_store.index import rows as index_rows
from rover_store.index.rows import Row, Trees, edges_of
from rover_store.objects import Objects
from rover_store.refs import CASES, EVIDENCE, HEADS, OPS, SEALED, TAGS

if TYPE_CHECKING:
    from rover_store.refs import Refs
    from rover_store.store import Store

Load = Callable[[str], Commit]
_CHUNK = 1000
#: commits that a walk keeps parsed until their turn comes; of the others only the ids of their parents
_HELD = 20_000
_BROKEN = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


class Answer(Protocol):
    """What a query gives."""

    def fetchone(self) -> Any: ...

    def fetchall(self) -> Any: ...


class Rows(Protocol):
    """A database."""

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> Any: ...

    def executemany(self, sql: str, rows: Any, /) -> Any: ...


class Foreign(Exception):
    """What is shown is not of this repository, or no longer there: the index must be built anew."""


class Source:
    """The two repositories that an index is built from."""

    def __init__(self, store: Store, evidence: Objects, evidence_refs: Refs) -> None:
        self.store = store
        self.objects = store.objects
        self.trees = Trees(store.objects)
        self.evidence = evidence
        self.evidence_trees = Trees(evidence)
        self._evidence_refs = evidence_refs

    def load(self, commit: str) -> Commit:
        """A commit."""
        return self.store.revisions.load(commit)

    def heads(self) -> tuple[str | None, str | None]:
        """Commit of HEAD, and of the evidence."""
        return self.store.refs.head_id(), self._evidence_refs.get(EVIDENCE)

    def refs(self) -> list[tuple[str, str, str, str]]:
        """(kind, name, full name, id) of the branches, tags and cases."""
        kinds = (("branch", HEADS), ("tag", TAGS), ("case", CASES))
        found = [(kind, prefix, self.store.refs.all(prefix)) for kind, prefix in kinds]
        return [(k, name.removeprefix(p), name, value) for k, p, all_ in found for name, value in sorted(all_.items())]


# --- all of it -------------------------------------------------------------------------------------------
def show(db: Rows, source: Source) -> None:
    """Show what HEAD and the evidence are now. Foreign if what is shown cannot be followed."""
    head, evidence = source.heads()
    _show_head(db, source, head)
    _show_evidence(db, source, evidence)


def show_refs(db: Rows, source: Source) -> None:
    """Show branches, tags, cases and the operation log as they are now."""
    found = source.refs()
    current = source.store.refs.head()
    seen = hashlib.sha256(repr((current, found)).encode()).hexdigest()
    if meta(db, "refs") != seen:
        db.execute("DELETE FROM ref")
        peel = source.store.revisions.peel
        rows = []
        for kind, name, full, value in found:
            try:
                rows.append((kind, name, peel(value), full == current))
            except (NotFound, StoreError):
                continue  # a ref that names no commit: fsck tells
        insert(db, "ref", rows)
        set_meta(db, "refs", seen)
    last = source.store.refs.get(OPS)
    if meta(db, "operations") != last:
        _show_operations(db, source.store)
        set_meta(db, "operations", last)


def refs_are_shown(db: Rows, source: Source) -> bool:
    """Whether branches, tags, cases and the operation log are as they were shown last."""
    seen = hashlib.sha256(repr((source.store.refs.head(), source.refs())).encode()).hexdigest()
    return meta(db, "refs") == seen and meta(db, "operations") == source.store.refs.get(OPS)


def _show_head(db: Rows, source: Source, head: str | None) -> None:
    shown = meta(db, "head")
    if shown == head:
        return
    if shown is not None and not source.objects.exists(shown):
        raise Foreign
    row = db.execute("SELECT seq, tree FROM history WHERE id = ?", (shown,)).fetchone() if shown else None
    if shown and row is None:
        raise Foreign
    first = db.execute("SELECT count(*) FROM history").fetchone()[0] == 0
    seq = add_history(db, source.trees, source.load, head, shown=first) if head else None
    if not first:
        _mark(db, seq, row[0] if row else None)
    if seq is not None:
        db.execute("UPDATE history SET shown = ? WHERE seq = ?", (True, seq))
    try:
        show_contents(db, source.trees, row[1] if row else None, source.load(head).tree if head else None)
    except NotFound:
        if shown is None:
            raise
        raise Foreign from None  # the tree that was shown is pruned away
    set_meta(db, "head", head)


# --- history ---------------------------------------------------------------------------------------------
def add_history(db: Rows, trees: Trees, load: Load, head: str, *, shown: bool = False) -> int:
    """Add a commit and all its ancestors that are missing, parents first. Returns the commit's number."""
    known: dict[str, int] = {}

    def number(commit: str) -> int | None:
        if commit not in known:
            row = db.execute("SELECT seq FROM history WHERE id = ?", (commit,)).fetchone()
            if row is None:
                return None
            known[commit] = row[0]
        return known[commit]

    found = number(head)
    if found is not None:
        return found
    last: int = db.execute("SELECT coalesce(max(seq), 0) FROM history").fetchone()[0]
    batch = _Batch(db)
    for here in _missing(head, number, known, load):
        last += 1
        known[here.id] = last
        batch.add("history", [index_rows.commit_row(last, here, shown)])
        batch.add("parent", [(last, i, known[p]) for i, p in enumerate(here.parents)])
        batch.add("trailer", index_rows.trailer_rows(last, here.message))
        before = load(here.parents[0]).tree if here.parents else None
        if before != here.tree:
            batch.add("change", ((last, *c) for c in index_rows.node_changes(trees, before, here.tree)))
    batch.flush()
    return last


def _missing(head: str, number: Callable[[str], int | None], known: dict[str, int], load: Load) -> Iterator[Commit]:
    """The commits that `number` does not know, each after its parents; the caller enters them into `known`."""
    held: dict[str, Commit] = {}

    def commit(name: str) -> Commit:
        found = held.get(name) or load(name)
        if len(held) < _HELD:
            held[name] = found
        return found

    absent = {head}
    waiting = [head]
    while waiting:
        here = waiting[-1]
        if here in known:
            waiting.pop()
            continue
        found = commit(here)
        missing = [p for p in found.parents if p not in known and (p in absent or number(p) is None)]
        if missing:
            absent.update(missing)
            waiting += reversed(missing)
            continue
        waiting.pop()
        yield found
        held.pop(here, None)


def _mark(db: Rows, seq: int | None, old: int | None) -> None:
    """Mark the commits that are ancestors of the shown head, and those only."""
    if seq is None:
        db.execute("UPDATE history SET shown = ? WHERE shown = ?", (False, True))
        return
    fresh, waiting, forward = {seq}, [seq], old is None
    sql = "SELECT p.parent, h.shown FROM parent p JOIN history h ON h.seq = p.parent WHERE p.child = ?"
    while waiting:
        for parent, shown in db.execute(sql, (waiting.pop(),)).fetchall():
            forward = forward or parent == old
            if not shown and parent not in fresh:
                fresh.add(parent)
                waiting.append(parent)
    if forward:
        db.executemany("UPDATE history SET shown = ? WHERE seq = ?", [(True, s) for s in sorted(fresh)])
        return
    db.execute("UPDATE history SET shown = ? WHERE shown = ?", (False, True))
    db.execute(
        """WITH RECURSIVE up(seq) AS (SELECT seq FROM history WHERE seq = ?
        UNION SELECT parent FROM parent JOIN up ON child = up.seq)
        UPDATE history SET shown = ? WHERE seq IN (SELECT seq FROM up)""",
        (seq, True),
    )


# --- contents --------------------------------------------------------------------------------------------
def show_contents(db: Rows, trees: Trees, old: str | None, new: str | None) -> None:
    """Move packages, resources, nodes and edges from the tree of one head to that of another."""
    objects = trees.objects
    changes = trees.packages(old, new)
    for at in range(0, len(changes), _CHUNK):
        part = changes[at : at + _CHUNK]
        gone = part if old is not None else []
        for table, column in (("package", "name"), ("node", "package"), ("edge", "package")):
            db_delete(db, table, column, [(c.name,) for c in gone])
        rows = [index_rows.package_rows(objects, c.name, c.new) for c in part if c.new is not None]
        insert(db, "package", [row for row, _, _ in rows])
        insert(db, "node", [n for _, nodes, _ in rows for n in nodes])
        insert(db, "edge", [e for _, _, edges in rows for e in edges])
    resources = trees.resources(old, new)
    for at in range(0, len(resources), _CHUNK):
        part = resources[at : at + _CHUNK]
        gone = part if old is not None else []
        db_delete(db, "resource", "name", [(r.name,) for r in gone])
        db_delete(db, "node", "name", [(f"resources/{r.name}",) for r in gone])
        there = [(r.name, r.new) for r in part if r.new is not None]
        insert(db, "resource", [index_rows.resource_row(objects, name, tree) for name, tree in there])
        insert(db, "node", [(f"resources/{name}", "", tree) for name, tree in there])


def package_json(objects: Objects, tree: str) -> dict[str, Any]:
    """package.json as it is; empty where it is missing or no object: fsck tells, listing goes on."""
    return index_rows.record(objects, tree, "package.json")


def graph_of(objects: Objects, root: str) -> tuple[list[Dependency], dict[str, str]]:
    """Edges and the present version of every node, read from the tree of a revision."""
    edges: list[Dependency] = []
    present = {f"resources/{name}": tree for name, tree in layout.resource_trees(objects, root).items()}
    for name, tree in layout.package_trees(objects, root).items():
        edges += edges_of(name, package_json(objects, tree))
        present.update((f"{name}/{c}", t) for c, t in layout.entry(objects, name, tree).components.items())
    return sorted(edges), present


# --- evidence --------------------------------------------------------------------------------------------
def _show_evidence(db: Rows, source: Source, head: str | None) -> None:
    shown = meta(db, "evidence")
    if shown == head:
        return
    old, new = (_evidence_tree(source.evidence, h) for h in (shown, head))
    if shown and old is None:  # the evidence was pruned away under the index
        for table in ("rollout", "verdict", "score"):
            db.execute(f"DELETE FROM {table}")
    trees = source.evidence_trees
    pairs = [side for side in trees.unequal(old, new) if side.name == "rollouts"]
    for _ in range(3):
        pairs = [side for pair in pairs for side in trees.unequal(pair.old, pair.new)]
    batch = _Batch(db)
    for pair in sorted(pairs, key=lambda side: (side.name, side.old or "", side.new or "")):
        for rollout in sorted(trees.unequal(pair.old, pair.new)):
            _show_rollout(batch, source.evidence, *rollout)
    batch.flush()
    set_meta(db, "evidence", head)


def _show_rollout(batch: _Batch, objects: Objects, name: str, old: str | None, new: str | None) -> None:
    """Rows of one rollout: its record where that differs, and the verdicts that came or went."""
    before, after = (objects.list_tree(tree) if tree else {} for tree in (old, new))
    was, now = before.get("trajectory.json"), after.get("trajectory.json")
    if was != now:
        if was is not None:
            batch.delete("rollout", "id", name)
        if now is not None:
            with suppress(*_BROKEN):  # fsck tells
                batch.add("rollout", [index_rows.rollout_row(name, objects.read(now.id))])
    sides = [objects.list_tree(level["verdicts"].id) if "verdicts" in level else {} for level in (before, after)]
    for file in sorted(sides[0].keys() | sides[1].keys()):
        if sides[0].get(file) == sides[1].get(file):
            continue
        verifier = index_rows.word(file.removesuffix(".json"))
        if file in sides[0]:
            batch.delete_verdict(name, verifier)
        if file in sides[1]:
            try:
                row, scores = index_rows.verdict_rows(name, verifier, objects.read(sides[1][file].id))
            except _BROKEN:
                continue
            batch.add("verdict", [row])
            batch.add("score", scores)


def _evidence_tree(objects: Objects, head: str | None) -> str | None:
    from rover_store.commits import parse_commit

    if head is None:
        return None
    try:
        tree = parse_commit(head, objects.read_commit(head)).tree
        objects.list_tree(tree)
    except NotFound:
        return None
    return tree


# --- operations ------------------------------------------------------------------------------------------
def _show_operations(db: Rows, store: Store) -> None:
    """Add the operations since the newest that is known; those that are no longer in the log go."""
    from rover_store.oplog import operations

    fresh = []
    known = 0
    for operation in operations(store):
        row = db.execute("SELECT number FROM operation WHERE id = ?", (operation.id,)).fetchone()
        if row is not None:
            known = row[0]
            break
        fresh.append(operation)
    db.execute("DELETE FROM operation WHERE number > ?", (known,))
    db.execute("DELETE FROM move WHERE operation > ?", (known,))
    batch = _Batch(db)
    for number, op in enumerate(reversed(fresh), known + 1):
        command = index_rows.word(op.command)
        batch.add("operation", [(number, op.id, command, index_rows.whole(op.time) or 0, index_rows.date(op.time))])
        moves = {m.ref: m for m in op.moves if not m.ref.startswith(SEALED)}
        batch.add("move", [(number, *map(_text, m)) for m in moves.values()])
    batch.flush()


def _text(value: str | None) -> str | None:
    return None if value is None else index_rows.word(value)


# --- rows ------------------------------------------------------------------------------------------------
class _Batch:
    """Rows for several tables, handed over in large lists so that memory stays flat."""

    def __init__(self, db: Rows) -> None:
        self._db = db
        self._rows: dict[str, list[Row]] = {}

    def add(self, table: str, rows: Iterable[Row]) -> None:
        held = self._rows.setdefault(table, [])
        for row in rows:
            held.append(row)
            if len(held) >= _CHUNK:
                insert(self._db, table, held)
                held.clear()

    def delete(self, table: str, column: str, value: str) -> None:
        """At once: nothing that is held has this key."""
        db_delete(self._db, table, column, [(value,)])

    def delete_verdict(self, rollout: str, verifier: str) -> None:
        for table in ("verdict", "score"):
            self._db.execute(f"DELETE FROM {table} WHERE rollout = ? AND verifier = ?", (rollout, verifier))

    def flush(self) -> None:
        for table, rows in self._rows.items():
            insert(self._db, table, rows)
        self._rows.clear()


def insert(db: Rows, table: str, rows: Sequence[Row]) -> None:
    """Rows in the order of the table's columns."""
    if rows:
        db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)


def db_delete(db: Rows, table: str, column: str, values: Sequence[Row]) -> None:
    if values:
        db.executemany(f"DELETE FROM {table} WHERE {column} = ?", values)


def meta(db: Rows, key: str) -> str | None:
    """What the index remembers about itself."""
    row = db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def set_meta(db: Rows, key: str, value: str | None) -> None:
    db.execute("DELETE FROM meta WHERE key = ?", (key,))
    if value is not None:
        db.execute("INSERT INTO meta VALUES (?, ?)", (key, value))
