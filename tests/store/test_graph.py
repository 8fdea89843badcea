"""The dependency graph: pure functions against networkx, and the store's answers against the pure functions."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_samples import add, edit, new_store

from rover_store import graph
from rover_store.errors import NotFound, StoreError
from rover_store.graph import Dependency

NODES = [f"n{i}" for i in range(8)]
EDGES = st.lists(st.tuples(st.sampled_from(NODES), st.sampled_from(NODES)).filter(lambda e: e[0] != e[1]), max_size=20)


def _edges(pairs: list[tuple[str, str]]) -> list[Dependency]:
    return [Dependency(a, b, "v") for a, b in pairs]


@settings(max_examples=80, deadline=None)
@given(EDGES, st.sets(st.sampled_from(NODES)), st.sets(st.sampled_from(NODES)))
def test_closure_is_all_ancestors_and_distributes_over_union(
    pairs: list[tuple[str, str]], one: set[str], two: set[str]
) -> None:
    edges = _edges(pairs)
    net = nx.DiGraph(pairs)
    net.add_nodes_from(NODES)
    expected = set(one)
    for n in one:
        expected |= nx.ancestors(net, n)
    assert graph.closure(one, edges) == sorted(expected)
    assert set(graph.closure(one | two, edges)) == set(graph.closure(one, edges)) | set(graph.closure(two, edges))


@settings(max_examples=80, deadline=None)
@given(EDGES)
def test_order_puts_dependencies_first_or_names_a_cycle(pairs: list[tuple[str, str]]) -> None:
    net = nx.DiGraph(pairs)
    if nx.is_directed_acyclic_graph(net):
        place = {n: i for i, n in enumerate(graph.order(NODES, _edges(pairs)))}
        assert sorted(place) == NODES
        assert all(place[b] < place[a] for a, b in pairs)
    else:
        with pytest.raises(StoreError, match=r"form a cycle: n\d -> "):
            graph.order(NODES, _edges(pairs))


def test_staleness_follows_an_edit_and_nothing_else(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one", resources={"files/shared": b"1"})
    add(store, "two", resources={"files/shared": b"1"})
    assert store.stale() == []
    before = store.package("one").components["task"]
    edit(store, "one", {"task/instruction.md": b"Other."})
    (stale,) = store.stale()
    now = store.package("one").components["task"]
    assert stale == ("one", "verifier", "one/task", before, now)
    assert store.stale("HEAD~1") == []
    assert store.stale(pattern="two") == []
    edit(store, "two", {"README.md": b"A word.\n"})
    assert len(store.stale()) == 1


def test_a_shared_resource_reaches_every_package(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    for name in ("one", "two", "three"):
        add(store, name, resources={"files/shared": b"1"} if name != "three" else {"files/own": b"1"})
    nodes = [f"{p}/{c}" for p in ("one", "two") for c in ("context", "harness", "task", "verifier")]
    expected = sorted(["resources/files/shared", *nodes])
    assert store.closure(["resources/files/shared"]) == expected
    assert store.closure(["one/task"]) == ["one/task", "one/verifier"]
    edit(store, "three", {"README.md": b"x"})
    assert store.closure(["resources/files/shared"], "HEAD~1") == expected
    assert graph.closure(["resources/files/shared"], store.graph()[0]) == expected
    assert store.dependents("one/context") == ["one/harness", "one/task", "one/verifier"]
    assert store.order(["one/verifier", "one/harness", "one/context", "resources/files/shared"]) == [
        "resources/files/shared", "one/context", "one/harness", "one/verifier",
    ]  # fmt: skip
    with store.write() as tx:
        tx.set_resource("files/shared", tx.tree({"files/data.csv": b"2"}))
        tx.commit("New data")
    assert [(s.package, s.component) for s in store.stale()] == [("one", "context"), ("two", "context")]
    with store.write() as tx:
        tx.set_resource("files/shared", None)
        tx.commit("No data")
    assert [s.present for s in store.stale()] == [None, None]
    with pytest.raises(NotFound, match="component or resource not found: one/nothing"):
        store.closure(["one/nothing"])
