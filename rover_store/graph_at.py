"""The dependency graph of any revision, asked in SQL: only what a question touches is read, no object per node.

The index holds the graph of the current head. For another revision its tree is compared with the head's, and what
differs lies in temporary tables beside the index; they go away with the question. Every walk is a recursive query
that visits a node once: a cycle ends.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from rover_store import layout
from rover_store.errors import NotFound, StoreError
from rover_store.graph import Dependency, Stale, stale_order
from rover_store.names import COMPONENTS

if TYPE_CHECKING:
    from rover_store.store import Store

T = TypeVar("T")

#: beyond so many steps a walk is taken as unbounded
DEEP = 64
_KEPT = " AND e.package NOT IN (SELECT name FROM temp.moved)"
_RUN = ("context", "task", "harness")
_TABLES = (
    "CREATE TEMP TABLE moved (name TEXT PRIMARY KEY, tree TEXT, context TEXT, task TEXT, harness TEXT, verifier TEXT)"
    " WITHOUT ROWID",
    "CREATE TEMP TABLE node_new (name TEXT PRIMARY KEY, package TEXT, version TEXT) WITHOUT ROWID",
    "CREATE TEMP TABLE edge_new (source TEXT, target TEXT, version TEXT, package TEXT, PRIMARY KEY (source, target))",
    "CREATE INDEX temp.edge_new_target ON edge_new (target)",
)


def ask(store: Store, rev: str, question: Callable[[GraphAt], T]) -> T:
    """Answer a question about the graph of a revision. NotFound, Ambiguous for the revision."""
    tree = None if rev == "HEAD" and store.refs.head_id() is None else store.commit(rev).tree

    def within(db: sqlite3.Connection) -> T:
        db.execute("SAVEPOINT graph")  # one state of the index for all parts of an answer
        try:
            shown = _shown_tree(db)
            if shown != tree:
                _lay_beside(store, db, shown, tree)
            return question(GraphAt(db, shown != tree))
        finally:
            if db.in_transaction:
                db.execute("ROLLBACK TO graph")
                db.execute("RELEASE graph")

    return store.index.ask(within)


class GraphAt:
    """The graph of one revision, inside a question. Names are those of `graph`."""

    def __init__(self, db: sqlite3.Connection, moved: bool) -> None:
        self.db = db
        self._moved = moved
        self._edges = (("edge", _KEPT), ("temp.edge_new", "")) if moved else (("edge", ""),)

    def reach(self, names: Iterable[str], *, dependents: bool, depth: int | None = None) -> dict[str, int]:
        """The names and all they lead to within `depth` steps, with the distance (0 where no depth is asked)."""
        near, far = ("target", "source") if dependents else ("source", "target")
        given = _given(names)
        if depth is None or depth >= DEEP:
            steps = self._each(f"SELECT e.{far} FROM walk JOIN {{edge}} e ON e.{near} = walk.name WHERE 1{{kept}}")
            given_rows = "SELECT value FROM json_each(?)"
            sql = f"WITH RECURSIVE walk(name) AS ({given_rows} UNION {steps}) SELECT name, 0 FROM walk"
            return dict(self.db.execute(sql, (given,)).fetchall())
        steps = self._each(
            f"SELECT e.{far}, walk.far + 1 FROM walk JOIN {{edge}} e ON e.{near} = walk.name"
            f" WHERE walk.far < {int(depth)}{{kept}}"
        )
        sql = f"""WITH RECURSIVE walk(name, far) AS (SELECT value, 0 FROM json_each(?) UNION {steps})
        SELECT name, min(far) FROM walk GROUP BY name"""
        return dict(self.db.execute(sql, (given,)).fetchall())

    def edges(self, names: Iterable[str], *, dependents: bool) -> list[Dependency]:
        """Edges that end at the names (`dependents`) or begin there, sorted."""
        near = "target" if dependents else "source"
        sql = self._each(
            "SELECT e.source, e.target, e.version FROM json_each(?1) n CROSS JOIN {edge} e"
            f" ON e.{near} = n.value WHERE 1{{kept}}",
            "UNION ALL",
        )
        return sorted(Dependency(*row) for row in self.db.execute(sql, (_given(names),)))

    def versions(self, names: Iterable[str]) -> dict[str, str]:
        """Present version of those of the names that are there."""
        sql = f"SELECT q.value, {self._version('q.value')} FROM json_each(?) q"
        rows = self.db.execute(sql, (_given(names),))
        return {name: version for name, version in rows if version is not None}

    def components(self, package: str) -> list[str]:
        """Nodes of a package, in the order C, T, H, V; empty where the revision has no such package."""
        names = [f"{package}/{c}" for c in COMPONENTS]
        present = self.versions(names)
        return [name for name in names if name in present]

    def stale(self, pattern: str = "*") -> list[Stale]:
        """Edges whose target is no longer at the recorded version: the whole revision in one query."""
        present = self._version("e.target", "n.version")
        narrow = " AND e.package GLOB ?1" if pattern != "*" else ""
        sql = self._each(
            f"SELECT e.source, e.target, e.version, {present} FROM {{edge}} e LEFT JOIN node n ON n.name = e.target"
            f" WHERE {present} IS NOT e.version{narrow}{{kept}}",
            "UNION ALL",
        )
        rows = self.db.execute(sql, (glob(pattern),) if narrow else ()).fetchall()
        return sorted((stale_edge(*row) for row in rows), key=stale_order)

    def count(self, pattern: str = "*") -> int:
        """How many packages there are."""
        if pattern == "*" and not self._moved:
            return int(self.db.execute("SELECT count(*) FROM package").fetchone()[0])
        sql = self.each_package("SELECT count(*) AS n FROM {package} c WHERE c.name GLOB ?1{kept}")
        return int(self.db.execute(f"SELECT sum(n) FROM ({sql})", (glob(pattern),)).fetchone()[0])

    def without_evidence(self, pattern: str = "*") -> list[str]:
        """Packages for whose present C, T and H no rollout is recorded, sorted."""
        same = " AND ".join(f"r.{c} = c.{c}" for c in _RUN)
        sql = self.each_package(f"""SELECT c.name FROM {{package}} c WHERE c.name GLOB ?1{{kept}}
            AND NOT EXISTS (SELECT 1 FROM rollout r WHERE {same})""")
        return sorted(name for (name,) in self.db.execute(sql, (glob(pattern),)))

    def each_package(self, sql: str) -> str:
        """A SELECT over every table that holds packages `c` of this revision, with its components' versions."""
        tables = [("package", " AND c.name NOT IN (SELECT name FROM temp.moved)" if self._moved else "")]
        tables += [("temp.moved", " AND c.tree IS NOT NULL")] if self._moved else []
        return " UNION ALL ".join(sql.format(package=table, kept=kept) for table, kept in tables)

    def _each(self, sql: str, joint: str = "UNION") -> str:
        """A SELECT over every table that holds edges of this revision."""
        return f" {joint} ".join(sql.format(edge=edge, kept=kept) for edge, kept in self._edges)

    def _version(self, name: str, joined: str = "") -> str:
        """SQL for a node's present version; `joined`: the index's version where the query has it already."""
        index = joined or f"(SELECT version FROM node WHERE name = {name})"
        if not self._moved:
            return index
        beside = f"FROM temp.node_new WHERE name = {name}"
        return f"CASE WHEN EXISTS (SELECT 1 {beside}) THEN (SELECT version {beside}) ELSE {index} END"


def glob(pattern: str) -> str:
    """A glob of names as SQLite writes it."""
    return pattern.replace("[!", "[^")


def _given(names: Iterable[str]) -> str:
    """Names as a parameter. What is no text names nothing: it is left out."""
    wanted = sorted(set(names))
    try:
        "".join(wanted).encode()
    except UnicodeEncodeError:
        wanted = [name for name in wanted if not any("\ud800" <= letter <= "\udfff" for letter in name)]
    return json.dumps(wanted)


def stale_edge(source: str, target: str, recorded: str, present: str | None) -> Stale:
    package, _, component = source.rpartition("/")
    return Stale(package, component, target, recorded, present)


def closure(store: Store, nodes: Iterable[str], rev: str = "HEAD") -> list[str]:
    """The nodes and all their transitive dependents, sorted. NotFound for a node that is not there."""
    wanted = sorted(set(nodes))

    def question(graph: GraphAt) -> list[str]:
        require_nodes(graph, wanted)
        return sorted(graph.reach(wanted, dependents=True))

    return ask(store, rev, question)


def edges(store: Store, nodes: Iterable[str], rev: str = "HEAD", *, dependents: bool) -> list[Dependency]:
    """Edges that end at the nodes (`dependents`) or begin there."""
    wanted = list(nodes)
    return ask(store, rev, lambda graph: graph.edges(wanted, dependents=dependents))


def require_nodes(graph: GraphAt, names: list[str]) -> None:
    """NotFound for the first name that is no node."""
    present = graph.versions(names)
    for name in names:
        if name not in present:
            raise NotFound("component or resource", name)


def stale(store: Store, rev: str = "HEAD", pattern: str = "*") -> list[Stale]:
    """Components whose dependency is no longer at the version they were built against."""
    return ask(store, rev, lambda graph: graph.stale(pattern))


def _shown_tree(db: sqlite3.Connection) -> str | None:
    row = db.execute(
        "SELECT tree FROM history WHERE id = (SELECT value FROM meta WHERE key = 'head')"
    ).fetchone()  # fmt: skip
    return None if row is None else str(row[0])


def _lay_beside(store: Store, db: sqlite3.Connection, shown: str | None, tree: str | None) -> None:
    """Packages and resources of `tree` that differ from what the index shows, in temporary tables."""
    from rover_store.index.build import package_json
    from rover_store.index.rows import edges_of

    if db.execute("SELECT 1 FROM temp.sqlite_master WHERE name = 'moved'").fetchone():
        raise StoreError("a question about another revision is not answered yet")
    for statement in _TABLES:
        db.execute(statement)
    objects = store.objects
    nodes: list[tuple[str, str, str | None]] = []
    edges: list[tuple[str, str, str, str]] = []
    changes = layout.changed_packages(objects, shown, tree)
    packages: list[tuple[str | None, ...]] = []
    for change in changes:
        components: dict[str, str] = {}
        if change.new is not None:
            edges += [(*edge, change.name) for edge in edges_of(change.name, package_json(objects, change.new))]
            components = dict(layout.entry(objects, change.name, change.new).components)
            nodes += [(f"{change.name}/{c}", change.name, version) for c, version in components.items()]
        packages.append((change.name, change.new, *(components.get(c) for c in COMPONENTS)))
    resources = layout.changed_resources(objects, shown, tree)
    nodes += [(f"resources/{r.name}", "", r.new) for r in resources]
    db.executemany("INSERT INTO moved VALUES (?, ?, ?, ?, ?, ?)", packages)
    db.execute(
        "INSERT INTO node_new SELECT name, package, NULL FROM node WHERE package IN (SELECT name FROM moved)"
    )
    db.executemany("INSERT OR REPLACE INTO node_new VALUES (?, ?, ?)", nodes)
    db.executemany("INSERT OR REPLACE INTO edge_new VALUES (?, ?, ?, ?)", edges)
