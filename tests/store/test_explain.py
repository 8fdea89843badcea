"""A part of the graph: nodes, order of rebuild, cycles, the shortest chains; NetworkX only when it is needed."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_samples import add, edit, new_store

from rover_store.errors import NotFound
from rover_store.explain import (
    Link,
    Node,
    Part,
    cycles,
    explain,
    generations,
    narrow,
    only_stale,
    part,
    stale_part,
)
from rover_store.store import Store

NAMES = [f"p{i}/task" for i in range(6)]
PAIRS = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=14)


def _part(pairs: list[tuple[str, str]]) -> Part:
    links = tuple(sorted({Link(a, b, "v", "v") for a, b in pairs}))
    return Part("c", (), tuple(Node(n, "v") for n in NAMES), links)


@settings(max_examples=100, deadline=None)
@given(PAIRS)
def test_every_generation_needs_earlier_ones_alone(pairs: list[tuple[str, str]]) -> None:
    found = _part(pairs)
    layers = generations(found)
    place = {name: i for i, layer in enumerate(layers) for name in layer}
    assert sorted(place) == NAMES
    groups = [set(g) for g in nx.strongly_connected_components(nx.DiGraph([(a, b) for a, b in pairs if a != b]))]
    for a, b in pairs:
        together = any(a in g and b in g for g in groups) or a == b
        assert place[a] == place[b] if together else place[a] > place[b]
    edges = {(b, a) for a, b in pairs}
    for cycle in cycles(found):
        assert cycle[0] == cycle[-1] == min(cycle)
        assert all(step in edges for step in pairwise(cycle))
    looped = {a for a, b in pairs if a == b}
    knots = [g for g in groups if len(g) > 1]
    assert {c[0] for c in cycles(found)} == {min(g) for g in knots} | (looped - {n for g in knots for n in g})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = new_store(tmp_path)
    for name in ("one", "two"):
        add(store, name, resources={"files/shared": b"1"})
    add(store, "alone")
    return store


def test_a_part_holds_both_directions(store: Store) -> None:
    found = part(store, ["one"])
    assert found.commit == store.resolve()
    assert found.roots == ("one/context", "one/harness", "one/task", "one/verifier")
    assert [n.name for n in found.nodes] == [
        "one/context", "one/harness", "one/task", "one/verifier", "resources/files/shared",
    ]  # fmt: skip
    assert len(found.links) == 6
    assert [n.part for n in found.nodes] == ["context", "harness", "task", "verifier", "resource"]
    shared = part(store, ["files/shared"])
    assert {n.package for n in shared.nodes} == {"", "one", "two"}
    assert part(store, ["resources/files/shared"], dependents=False).links == ()
    near = part(store, ["files/shared"], depth=1)
    assert [n.name for n in near.nodes] == ["one/context", "resources/files/shared", "two/context"]
    up = part(store, ["one/task"], dependents=False)
    assert [n.name for n in up.nodes] == ["one/context", "one/task", "resources/files/shared"]
    assert generations(up) == [("resources/files/shared",), ("one/context",), ("one/task",)]
    few, more = narrow(shared, 1)
    assert more == 1
    assert {n.package for n in few.nodes} == {"", "one"}
    assert all(link.source.startswith("one/") for link in few.links)


def test_what_moved_on_is_stale_and_what_went_is_named(store: Store) -> None:
    edit(store, "one", {"task/instruction.md": b"Other."})
    with store.write() as tx:
        tx.set_resource("files/shared", None)
        tx.commit("No data")
    found = stale_part(store)
    assert [link[:2] for link in found.links] == [
        ("one/context", "resources/files/shared"), ("one/verifier", "one/task"),
        ("two/context", "resources/files/shared"),
    ]  # fmt: skip
    assert [(n.name, n.version) for n in found.nodes if n.version is None] == [("resources/files/shared", None)]
    assert [link.dangling for link in found.links] == [True, False, True]
    assert only_stale(part(store, ["one"])).links == found.links[:2]
    gone = part(store, ["files/shared"])
    assert [n.version for n in gone.nodes if n.part == "resource"] == [None]
    assert stale_part(store, "HEAD~2").links == ()


def test_why_is_it_affected(store: Store) -> None:
    (chain,) = explain(store, "one/context", "files/shared")
    assert [link[:2] for link in chain] == [("one/context", "resources/files/shared")]
    chains = explain(store, "one/verifier", "files/shared")
    assert [[link.target for link in c] for c in chains] == [["one/context", "resources/files/shared"]]
    assert [len(c) for c in explain(store, "one", "files/shared")] == [1]
    assert explain(store, "files/shared", "one") == []
    assert explain(store, "alone", "files/shared") == []
    assert explain(store, "one/task", "one/verifier") == []
    for names in (("nobody", "one"), ("one", "files/nothing"), ("one/nothing", "one")):
        with pytest.raises(NotFound, match="not found"):
            explain(store, *names)


def test_all_shortest_chains_up_to_a_limit(store: Store) -> None:
    entry = store.package("one")
    record = json.loads(store.objects.read(store.objects.list_tree(entry.tree)["package.json"].id))
    ids = entry.components
    record["edges"] = [
        {"source": s, "target": t, "version": ids[t]}
        for s, t in (("verifier", "task"), ("verifier", "harness"), ("task", "context"), ("harness", "context"))
    ]
    edit(store, "one", {"package.json": json.dumps(record).encode()})
    chains = explain(store, "one/verifier", "one/context")
    assert [[link.target for link in c] for c in chains] == [
        ["one/harness", "one/context"], ["one/task", "one/context"],
    ]  # fmt: skip
    assert len(explain(store, "one/verifier", "one/context", limit=1)) == 1


def test_networkx_waits_until_it_is_needed(store: Store) -> None:
    code = f"""
import sys
from pathlib import Path
from rover_store.store import Store
from rover_store.explain import part, generations
from rover_store.impact import impact
store = Store.open(Path({str(store.root)!r}))
found = part(store, ["one"]); impact(store, "HEAD~1"); store.stale()
slow = [m for m in ("networkx", "pydantic", "sqlmodel", "dulwich", "numpy") if m in sys.modules]
assert not slow, slow
generations(found)
assert "networkx" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
