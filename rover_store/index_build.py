"""Bringing the index up to a head: history by walking from the commits it knows, contents by tree difference.

Everything comes from git. A caller holds one SQLite transaction around each call.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import Any

from rover_store import layout
from rover_store.commits import Commit
from rover_store.errors import StoreError
from rover_store.graph import Dependency, node
from rover_store.objects import Objects

Load = Callable[[str], Commit]


def add_history(db: sqlite3.Connection, objects: Objects, load: Load, head: str) -> int:
    """Add a commit and all its ancestors that are missing, parents first. Returns the commit's number."""
    known: dict[str, int] = {}

    def number(commit: str) -> int | None:
        if commit not in known:
            row = db.execute("SELECT seq FROM history WHERE id = ?", (commit,)).fetchone()
            if row is None:
                return None
            known[commit] = row[0]
        return known[commit]

    last = db.execute("SELECT coalesce(max(seq), 0) FROM history").fetchone()[0]
    waiting = [head]
    while waiting:
        here = waiting[-1]
        if number(here) is not None:
            waiting.pop()
            continue
        commit = load(here)
        missing = [p for p in commit.parents if number(p) is None]
        if missing:
            waiting += reversed(missing)
            continue
        waiting.pop()
        last += 1
        known[here] = last
        row = (last, here, commit.tree, commit.author, commit.time, commit.message, 0)
        db.execute("INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        parents = [(last, i, known[p]) for i, p in enumerate(commit.parents)]
        db.executemany("INSERT INTO parent VALUES (?, ?, ?)", parents)
        before = load(commit.parents[0]).tree if commit.parents else None
        changes = [(last, *change) for change in node_changes(objects, before, commit.tree)]
        db.executemany("INSERT INTO change VALUES (?, ?, ?, ?, ?)", changes)
    found = number(head)
    assert found is not None
    return found


def node_changes(
    objects: Objects, old: str | None, new: str | None
) -> list[tuple[str, str, str | None, str | None]]:
    """(node, package, old, new) of every package, component and resource that differs between two trees."""
    out: list[tuple[str, str, str | None, str | None]] = []
    for package in layout.changed_packages(objects, old, new):
        out.append((package.name, package.name, package.old, package.new))
        for c in layout.changed_components(objects, package.old, package.new):
            out.append((f"{package.name}/{c.name}", package.name, c.old, c.new))
    out += [(f"resources/{r.name}", "", r.old, r.new) for r in layout.changed_resources(objects, old, new)]
    return out


def show_head(db: sqlite3.Connection, seq: int | None, old: int | None) -> None:
    """Mark the commits that are ancestors of the shown head."""
    if seq is None:
        db.execute("UPDATE history SET shown = 0 WHERE shown")
        return
    fresh, waiting, forward = {seq}, [seq], old is None
    while waiting:
        here = waiting.pop()
        for (parent,) in db.execute("SELECT parent FROM parent WHERE child = ?", (here,)).fetchall():
            if parent == old:
                forward = True
            shown = db.execute("SELECT shown FROM history WHERE seq = ?", (parent,)).fetchone()[0]
            if not shown and parent not in fresh:
                fresh.add(parent)
                waiting.append(parent)
    if forward:
        db.executemany("UPDATE history SET shown = 1 WHERE seq = ?", [(s,) for s in fresh])
        return
    db.execute("UPDATE history SET shown = 0 WHERE shown")
    db.execute(
        """WITH RECURSIVE up(seq) AS (VALUES (?) UNION SELECT parent FROM parent JOIN up ON child = up.seq)
        UPDATE history SET shown = 1 WHERE seq IN up""",
        (seq,),
    )


def show_contents(db: sqlite3.Connection, objects: Objects, old: str | None, new: str | None) -> None:
    """Move packages, nodes and edges from the tree of one head to that of another."""
    changes = layout.changed_packages(objects, old, new)
    gone = [(c.name,) for c in changes]
    for table, column in (("package", "name"), ("node", "package"), ("edge", "package")):
        db.executemany(f"DELETE FROM {table} WHERE {column} = ?", gone)
    for change in changes:
        if change.new is not None:
            _insert_package(db, objects, change.name, change.new)
    for resource in layout.changed_resources(objects, old, new):
        name = f"resources/{resource.name}"
        db.execute("DELETE FROM node WHERE name = ?", (name,))
        if resource.new is not None:
            db.execute("INSERT INTO node VALUES (?, '', ?)", (name, resource.new))


def _insert_package(db: sqlite3.Connection, objects: Objects, name: str, tree: str) -> None:
    record = package_json(objects, tree)
    texts = [record[k] if isinstance(record.get(k), str) else "" for k in ("title", "family", "workspace")]
    db.execute("INSERT INTO package VALUES (?, ?, ?, ?, ?)", (name, tree, *texts))
    components = layout.entry(objects, name, tree).components
    db.executemany("INSERT INTO node VALUES (?, ?, ?)", [(f"{name}/{c}", name, t) for c, t in components.items()])
    rows = [(*edge, name) for edge in edges_of(name, record)]
    db.executemany("INSERT OR REPLACE INTO edge VALUES (?, ?, ?, ?)", rows)


def package_json(objects: Objects, tree: str) -> dict[str, Any]:
    """package.json as it is; empty where it is missing or no object: fsck tells, listing goes on."""
    item = objects.list_tree(tree).get("package.json")
    try:
        value = json.loads(objects.read(item.id)) if item is not None else {}
    except (ValueError, RecursionError, StoreError):
        return {}
    return value if isinstance(value, dict) else {}


def edges_of(name: str, record: dict[str, Any]) -> list[Dependency]:
    """Edges of a package.json with full names at both ends; what is no edge is left out."""
    out = []
    rows = record.get("edges")
    for row in rows if isinstance(rows, list) else ():
        values = [row.get(k) if isinstance(row, dict) else None for k in ("source", "target", "version")]
        if all(isinstance(v, str) for v in values):
            source, target, version = (str(v) for v in values)
            out.append(Dependency(node(name, source), node(name, target), version))
    return out


def graph_of(objects: Objects, root: str) -> tuple[list[Dependency], dict[str, str]]:
    """Edges and the present version of every node, read from the tree of a revision."""
    edges: list[Dependency] = []
    present = {f"resources/{name}": tree for name, tree in layout.resource_trees(objects, root).items()}
    for name, tree in layout.package_trees(objects, root).items():
        edges += edges_of(name, package_json(objects, tree))
        present.update((f"{name}/{c}", t) for c, t in layout.entry(objects, name, tree).components.items())
    return sorted(edges), present


def show_evidence(db: sqlite3.Connection, objects: Objects, old: str | None, new: str | None) -> None:
    """Move rollouts and verdicts from one evidence tree to another."""
    sides = [_rollouts(objects, root) for root in (old, new)]
    pairs: list[tuple[str | None, str | None]] = [(sides[0], sides[1])]
    for _ in range(3):
        pairs = [(c.old, c.new) for a, b in pairs for c in layout.unequal(objects, a, b)]
    for a, b in pairs:
        for rollout in layout.unequal(objects, a, b):
            _show_rollout(db, objects, rollout.name, rollout.new)


def _show_rollout(db: sqlite3.Connection, objects: Objects, name: str, tree: str | None) -> None:
    db.execute("DELETE FROM rollout WHERE id = ?", (name,))
    db.execute("DELETE FROM verdict WHERE rollout = ?", (name,))
    if tree is None:
        return
    level = objects.list_tree(tree)
    if "trajectory.json" not in level:
        return
    record = json.loads(objects.read(level["trajectory.json"].id))
    key = record["key"]
    row = (
        name, record["package"], key["context"], key["task"], key["harness"], key["policy"], key["seed"],
        record.get("end", "completed"),
    )  # fmt: skip
    db.execute("INSERT INTO rollout VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    if "verdicts" in level:
        for file, item in objects.list_tree(level["verdicts"].id).items():
            verdict = json.loads(objects.read(item.id))
            row2 = (name, file.removesuffix(".json"), verdict["outcome"], verdict.get("score"))
            db.execute("INSERT INTO verdict VALUES (?, ?, ?, ?)", row2)


def _rollouts(objects: Objects, root: str | None) -> str | None:
    item = objects.list_tree(root).get("rollouts") if root else None
    return item.id if item is not None else None


