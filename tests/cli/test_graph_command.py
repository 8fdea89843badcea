"""`rover graph` and `rover status`: text in 80 columns, DOT that parses, JSON that says the same."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import Said, refused, rover, state
from store_samples import add, edit, new_store

from rover.cli.graph_render import to_dot
from rover_store.explain import Link, Node, Part
from rover_store.store import Store

TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|([A-Za-z_]\w*|\d+)|(->|[{}\[\]=;,]))')


def parse_dot(text: str) -> tuple[set[str], set[tuple[str, str]]]:
    """Nodes and edges of a digraph. Strict: every token and every statement must be DOT's."""
    tokens: list[str] = []
    at = 0
    while at < len(text.rstrip()):
        found = TOKEN.match(text, at)
        assert found, text[at : at + 40]
        tokens.append(next(t for t in found.groups() if t is not None))
        at = found.end()
    assert tokens[:3] == ["digraph", "rover", "{"]
    nodes: set[str] = set()
    edges: set[tuple[str, str]] = set()
    i, depth = 3, 1
    while depth:
        token = tokens[i]
        if token == "}":
            depth, i = depth - 1, i + 1
            continue
        if token == "subgraph":
            assert tokens[i + 1][0] == '"'
            assert tokens[i + 2] == "{"
            depth, i = depth + 1, i + 3
            continue
        end = i
        while tokens[end] != ";":
            end += 1
        words, i = tokens[i:end], end + 1
        attributes = words[words.index("[") :] if "[" in words else []
        body = words[: len(words) - len(attributes)]
        if attributes:
            assert attributes[-1] == "]"
            pairs = [attributes[1:-1][k : k + 4] for k in range(0, len(attributes) - 2, 4)]
            assert all(p[1] == "=" and p[-1] in (",", p[2]) for p in pairs)
        if "->" in body:
            assert len(body) == 3
            edges.add((_text(body[0]), _text(body[2])))
        elif body[0][0] == '"':
            assert len(body) == 1
            nodes.add(_text(body[0]))
        else:
            assert body in (["node"], ["edge"]) or (len(body) == 3 and body[1] == "=")
    assert i == len(tokens)
    return nodes, edges


def _text(token: str) -> str:
    assert token[0] == token[-1] == '"'
    return re.sub(r"\\(.)", r"\1", token[1:-1])


NAME = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(NAME, NAME, st.booleans()), max_size=5))
def test_any_name_is_quoted(rows: list[tuple[str, str, bool]]) -> None:
    links = tuple(Link(f"p/{a}", f"resources/files/{b}", "1" * 40, None if gone else "1" * 40) for a, b, gone in rows)
    names = {end for link in links for end in link[:2]}
    nodes, edges = parse_dot(to_dot(Part("c", (), tuple(Node(n, None) for n in sorted(names)), links)))
    assert len(nodes) == len(names)
    assert len(edges) == len({link[:2] for link in links})
    assert {end for edge in edges for end in edge} <= nodes


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Thirty packages on one resource, one of them edited, and one apart."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROVER_STORE", raising=False)
    store = new_store(tmp_path)
    for i in range(30):
        add(store, f"case-{i:02}", resources={"files/shared": b"1"})
    add(store, "alone")
    edit(store, "case-03", {"task/instruction.md": b"Other."})
    return store


def _fits(said: Said) -> list[str]:
    lines = said.out.splitlines()
    assert all(len(line) <= 80 for line in lines), said.out
    return lines


def test_a_package_as_a_tree(store: Store) -> None:
    said = rover("graph", "case-03")
    lines = _fits(said)
    ids = {c: v[:7] for c, v in store.package("case-03").components.items()}
    then = store.package("case-03", "HEAD~1").components["task"][:7]
    assert said.code == 0
    assert lines[0].startswith(f"case-03 at {store.resolve()[:12]}: 4 components in 1 package, 1 resource, 1 edge")
    assert f"    task {ids['task']}  stale: {then}, now {ids['task']}" in lines
    assert lines[lines.index("built against") + 1] == f"  case-03/verifier {ids['verifier']}"
    assert "      resources/files/shared " in said.out
    assert f"      context {ids['context']} (see above)" in lines
    order = lines[lines.index("order of rebuild") + 1 :]
    assert order == [
        "  1. resources/files/shared", "  2. case-03/context", "  3. case-03/harness, case-03/task",
        "  4. case-03/verifier",
    ]  # fmt: skip
    assert "stale" not in rover("graph", "case-03", "--rev", "HEAD~1").out.replace("nothing stale", "")


def test_a_shared_resource_is_summarised(store: Store) -> None:
    said = rover("graph", "files/shared")
    lines = _fits(said)
    assert len(lines) < 75
    assert "    ... and 20 more in 20 packages; --limit 0 shows all" in lines
    assert lines[-4:] == [
        "  1. resources/files/shared", "  2. 30 contexts", "  3. 30 harnesses, 30 tasks", "  4. 30 verifiers",
    ]  # fmt: skip
    assert rover("graph", "files/shared", "--limit", "0").out.count("/context") == 30
    near = rover("graph", "files/shared", "--down", "--depth", "1", "--limit", "2").out
    assert "task" not in near
    assert "built against it" in near
    up = rover("graph", "case-01/task", "--up").out
    assert "what was built against it" not in up
    assert "verifier" not in up


def test_dot_and_json_say_the_same(store: Store) -> None:
    for words in (["case-03"], ["files/shared", "--down"], ["--stale"], ["alone", "--depth", "1"]):
        found = json.loads(rover("graph", *words, "--json").out)
        text = rover("graph", *words, "--dot").out
        nodes, edges = parse_dot(text)
        assert nodes == {n["name"] for n in found["nodes"]}
        assert edges == {(e["source"], e["target"]) for e in found["edges"]}
        assert text.count("style=dashed") == sum(e["stale"] for e in found["edges"])
        assert sorted(n for layer in found["order"] for n in layer) == sorted(nodes)
        assert (found["cycles"], found["dangling"]) == ([], [])
    nodes, _ = parse_dot(rover("graph", "files/shared", "--dot", "--limit", "2").out)
    assert len(nodes) == 1 + 2 * 4 + 1
    assert "more" in nodes
    narrow = json.loads(rover("graph", "files/shared", "--json", "--limit", "2").out)
    assert len(narrow["nodes"]) == 9


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_draws_it(store: Store) -> None:
    text = rover("graph", "case-03", "--dot").out
    done = subprocess.run(["dot", "-Tsvg"], input=text, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.count('class="edge"') == 6
    assert done.stderr == ""


def test_why(store: Store) -> None:
    said = rover("graph", "case-03/verifier", "--explain", "files/shared")
    lines = _fits(said)
    assert lines[0] == "case-03/verifier depends on files/shared, 1 shortest path"
    assert [line.split()[-2] for line in lines[3:]] == ["case-03/context", "resources/files/shared"]
    assert rover("graph", "files/shared", "--explain", "case-03/verifier").out == said.out
    found = json.loads(rover("graph", "case-03", "--explain", "files/shared", "--json").out)
    assert [[link["target"] for link in path] for path in found["paths"]] == [["resources/files/shared"]]
    assert parse_dot(rover("graph", "case-03", "--explain", "files/shared", "--dot").out)[1] == {
        ("case-03/context", "resources/files/shared")
    }
    apart = rover("graph", "alone", "--explain", "files/shared")
    assert (apart.code, apart.out) == (1, "")
    assert "neither of alone and files/shared depends on the other" in apart.err
    assert rover("graph", "alone", "--explain", "files/shared", "--json").code == 1


def test_cycles_and_lost_names_are_said(store: Store) -> None:
    entry = store.package("alone")
    record = json.loads(store.objects.read(store.objects.list_tree(entry.tree)["package.json"].id))
    record["edges"] += [
        {"source": "context", "target": "verifier", "version": entry.components["verifier"]},
        {"source": "task", "target": "resources/files/lost", "version": "0" * 40},
    ]
    edit(store, "alone", {"package.json": json.dumps(record).encode()})
    said = rover("graph", "alone")
    lines = _fits(said)
    assert "cycle: alone/context -> alone/verifier -> alone/context" in lines
    assert "not there: resources/files/lost" in lines
    assert any("resources/files/lost gone  stale: 0000000, now gone" in line for line in lines)
    found = json.loads(rover("graph", "alone", "--json").out)
    assert found["dangling"] == ["resources/files/lost"]
    assert len(found["cycles"]) == 1
    assert rover("graph", "files/lost").code == 0
    assert "files/lost" in rover("graph", "alone", "--explain", "files/lost").out


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["nobody"], "package, component or resource not found: nobody"),
        (["case-03/nothing"], "not found: case-03/nothing"),
        (["files/nothing"], "not found: files/nothing"),
        (["case-03", "--rev", "v9"], "revision not found: v9"),
        ([], "name a package, component or resource"),
        (["--explain", "alone"], "--explain needs a NAME"),
        (["alone", "--dot", "--json"], "--dot and --json exclude each other"),
        (["alone", "--depth", "-1"], "--depth"),
    ],
)
def test_bad_requests(store: Store, words: list[str], part: str) -> None:
    before = state(store.root)
    refused(rover("graph", *words), 2, part)
    assert state(store.root) == before


def test_an_empty_store_has_an_empty_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    new_store(tmp_path)
    refused(rover("graph", "one"), 2, "not found: one")
    assert rover("graph", "--stale").out == "all packages at no commit: nothing is stale\n"
    assert rover("status").out == "on main at no commit, 0 packages\n"


def test_status_counts_without_reading_packages(store: Store) -> None:
    with store.write() as tx:
        tx.set_resource("files/shared", tx.tree({"files/data.csv": b"2"}))
        tx.commit("New data")
    said = rover("status", "--limit", "3")
    lines = _fits(said)
    assert lines[0] == f"on main at {store.resolve()[:12]}, 31 packages"
    assert lines[2] == "stale: 30 packages built against a version that is no longer the present one"
    assert "... and 28 more; --limit 0 shows all" in lines
    assert "no rollouts yet for 31: alone, case-00, case-01, case-02, case-03 ..." in said.out
    found = json.loads(rover("status", "case-0*", "--json").out)
    assert (found["packages"], len(found["stale"]), len(found["without_evidence"])) == (10, 11, 10)
    assert found["open_cases"] == []
    refused(rover("status", "x*"), 2, "no package of HEAD matches 'x*'")
