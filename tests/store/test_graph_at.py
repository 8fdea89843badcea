"""The graph in SQL against the pure functions: any graph, any revision, nothing read that no question touches."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_samples import add, edit, new_store

from rover_store import graph, graph_at
from rover_store.errors import NotFound, StoreError
from rover_store.graph import Dependency
from rover_store.graph_at import GraphAt
from rover_store.index.tables import TABLES
from rover_store.layout import changed_packages
from rover_store.store import Store

PACKAGES = ("one", "two", "three")
NODES = [f"{p}/{c}" for p in PACKAGES for c in ("context", "task", "verifier")]
NODES += ["resources/files/r", "resources/apps/s"]
EDGES = st.lists(st.tuples(st.sampled_from(NODES[:-2]), st.sampled_from([*NODES, "one/gone"]), st.sampled_from("ab")))
VERSIONS = st.fixed_dictionaries({n: st.sampled_from("ab") for n in NODES})


def _database(edges: list[Dependency], present: dict[str, str]) -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", isolation_level=None)
    for statement in filter(str.strip, TABLES.split(";")):
        db.execute(statement)
    rows = [(*e, e.source.partition("/")[0]) for e in edges]
    db.executemany("INSERT INTO edge (source, target, version, package) VALUES (?, ?, ?, ?)", rows)
    packages = {n: "" if n.startswith("resources/") else n.partition("/")[0] for n in present}
    rows2 = [(n, packages[n], v) for n, v in present.items()]
    db.executemany("INSERT INTO node (name, package, version) VALUES (?, ?, ?)", rows2)
    return db


def _unique(rows: list[tuple[str, str, str]]) -> list[Dependency]:
    return [Dependency(s, t, v) for (s, t), v in {(s, t): v for s, t, v in rows}.items()]


@settings(max_examples=120, deadline=None)
@given(EDGES, VERSIONS, st.sets(st.sampled_from(NODES)), st.sets(st.sampled_from(NODES)), st.integers(1, 5))
def test_sql_agrees_with_the_pure_functions(
    rows: list[tuple[str, str, str]], present: dict[str, str], one: set[str], two: set[str], depth: int
) -> None:
    edges = _unique(rows)
    at = GraphAt(_database(edges, present), False)
    assert sorted(at.reach(one, dependents=True)) == graph.closure(one, edges)
    assert at.reach(one | two, dependents=True).keys() == (
        at.reach(one, dependents=True).keys() | at.reach(two, dependents=True).keys()
    )
    assert at.stale() == graph.stale(edges, present)
    assert at.stale("t*") == [s for s in graph.stale(edges, present) if s.package.startswith("t")]
    net = nx.DiGraph([e[:2] for e in edges])
    net.add_nodes_from([*NODES, 0])
    net.add_edges_from((0, n) for n in one)
    far = {n: d - 1 for n, d in nx.single_source_shortest_path_length(net, 0, depth + 1).items() if n != 0}
    assert at.reach(one, dependents=False, depth=depth) == far
    assert at.versions([*NODES, "one/gone"]) == present
    assert at.edges(one, dependents=True) == sorted(e for e in edges if e.target in one)


def _plain(store: Store, rev: str) -> tuple[list[Dependency], dict[str, str]]:
    """The graph of a revision read from its objects, no index asked."""
    from rover_store.index.build import graph_of

    return graph_of(store.objects, store.commit(rev).tree)


STEPS = st.lists(
    st.tuples(st.sampled_from(PACKAGES), st.sampled_from(["edit", "add", "remove", "bind", "move"]), st.integers(0, 2)),
    min_size=1, max_size=6,
)  # fmt: skip


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_every_revision_is_answered_as_from_its_objects(
    steps: list[tuple[str, str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = new_store(tmp_path_factory.mktemp("store"))
    commits = [add(store, "zero", resources={"files/shared": b"0"})]
    for name, what, n in steps:
        there = any(p.name == name for p in store.packages())
        if what == "move":
            with store.write() as tx:
                tx.set_resource("files/shared", None if n == 2 else tx.tree({"files/data.csv": bytes([n])}))
                commits.append(tx.commit("Resource"))
        elif what == "remove" and there:
            with store.write() as tx:
                tx.remove_package(name)
                commits.append(tx.commit("Remove"))
        elif what == "edit" and there:
            commits.append(edit(store, name, {"task/instruction.md": b"%d" % n, "README.md": b"%d" % n}))
        else:
            commits.append(add(store, name, resources={"files/shared": b"%d" % n} if what == "bind" else None))
    for rev in commits:
        edges, present = _plain(store, rev)
        assert store.stale(rev) == graph.stale(edges, present)
        for node in present:
            assert store.closure([node], rev) == graph.closure([node], edges)
        names = [p.name for p in store.packages(rev)]
        assert graph_at.ask(store, rev, lambda at: at.count()) == len(names)
        assert graph_at.ask(store, rev, lambda at: at.count("t*")) == sum(n.startswith("t") for n in names)
        assert graph_at.ask(store, rev, lambda at: at.without_evidence()) == names


def test_cycles_and_dangling_edges_end(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    one = store.package("one")
    ids = one.components
    record = json.loads(store.objects.read(store.objects.list_tree(one.tree)["package.json"].id))
    record["edges"] += [
        {"source": "context", "target": "verifier", "version": ids["verifier"]},
        {"source": "task", "target": "resources/files/gone", "version": "0" * 40},
        {"source": "task", "target": "task", "version": ids["task"]},
    ]
    edit(store, "one", {"package.json": json.dumps(record).encode()})
    everything = ["one/context", "one/harness", "one/task", "one/verifier"]
    for rev in ("HEAD", "HEAD~1"):
        found = store.closure(["one/task"], rev)
        assert found == (everything if rev == "HEAD" else ["one/task", "one/verifier"])
    assert [(s.component, s.target, s.present) for s in store.stale()] == [("task", "resources/files/gone", None)]
    assert store.stale("HEAD~1") == []
    with pytest.raises(NotFound, match="resources/files/gone"):
        store.closure(["resources/files/gone"])


def test_a_question_leaves_nothing_behind_and_failing_ones_too(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    edit(store, "one", {"task/instruction.md": b"Other."})

    def fail(at: GraphAt) -> None:
        assert at.count() == 1
        raise ValueError("stop")

    for rev in ("HEAD~1", "HEAD"):
        with pytest.raises(ValueError, match="stop"):
            graph_at.ask(store, rev, fail)
        assert len(store.stale()) == 1
        assert store.stale("HEAD~1") == []
    assert store.index.ask(lambda db: db.execute("SELECT count(*) FROM temp.sqlite_master").fetchone()[0]) == 0


def test_what_is_no_text_names_nothing_and_costs_no_index(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    store.index.sync()
    place = store.index.path.stat().st_ino
    for name in ("\udcff", "one/\udcff", "resources/files/\udcff", "one/task\0"):
        with pytest.raises(NotFound):
            store.closure([name])
    assert graph_at.ask(store, "HEAD", lambda at: at.versions(["\udcff", "one/task"])).keys() == {"one/task"}
    assert store.index.path.stat().st_ino == place


def test_a_question_within_a_question_about_other_revisions_is_refused(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    for name in ("one", "two", "three"):
        add(store, name)
    place = store.index.path.stat().st_ino

    def nested(at: GraphAt) -> int:
        return at.count() + graph_at.ask(store, "HEAD~2", lambda inner: inner.count())

    assert graph_at.ask(store, "HEAD", nested) == 4
    with pytest.raises(StoreError, match="another revision is not answered yet"):
        graph_at.ask(store, "HEAD~1", nested)
    assert store.index.path.stat().st_ino == place


def test_only_what_differs_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = new_store(tmp_path)
    for name in ("one", "two", "three"):
        add(store, name)
    edit(store, "two", {"task/instruction.md": b"Other."})
    store.index.sync()
    root = [store.commit(rev).tree for rev in ("HEAD", "HEAD~1")]
    assert [c.name for c in changed_packages(store.objects, *root)] == ["two"]
    fresh = Store.open(tmp_path)
    read: list[str] = []
    monkeypatch.setattr(fresh.objects, "read", lambda blob: read.append(blob) or store.objects.read(blob))
    assert fresh.stale() != []
    assert read == []
    assert fresh.stale("HEAD~1") == []
    assert len(read) == 1
