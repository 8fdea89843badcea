"""Merging versions of one package: by component, file, line and field; what cannot be merged is a conflict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from store_samples import add, new_store

from rover_store.merging.edges import Versions, merge_edges
from rover_store.merging.fields import ABSENT, at, decode, merge_values, put, style_of
from rover_store.merging.merge import merge_trees
from rover_store.merging.text import clean, marked, markers, merge_text
from rover_store.records import Contract, Deliverable, Package, Requirement
from rover_store.store import Store
from rover_store.trees import EXECUTABLE, TreeItem

Files = dict[str, bytes | TreeItem | None]


def versions(store: Store, base: Files, ours: Files, theirs: Files) -> tuple[str, str, str]:
    """Trees of three versions of the package `one`, each as edits of the last."""
    with store.lock:
        tx = store.write()
        b = tx.edit_tree(store.package("one").tree, base)
        sides = [tx.edit_tree(b, files) for files in (ours, theirs)]
        tx.write_objects()
        tx.abort()
    return b, sides[0], sides[1]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = new_store(tmp_path)
    add(made, "one")
    return made


def read(store: Store, tree: str, path: str) -> bytes:
    item = store.objects.subtree(tree, path)
    assert item is not None, path
    return store.objects.read(item.id)


def contract(*requirements: Requirement) -> bytes:
    return Contract(requirements=requirements, deliverables=(Deliverable(id="d", path="a.csv", type="csv"),)).dump()


def requirement(name: str, statement: str = "") -> Requirement:
    rule = {"kind": "format"}
    return Requirement.model_validate(
        {"id": name, "statement": statement or name, "deliverable": "d", "rule": rule}
    )


def test_one_side_changed_each_file(store: Store) -> None:
    base, ours, theirs = versions(
        store, {}, {"task/instruction.md": b"Ours."},
        {"verifier/checks/new.py": b"x = 1\n", "context/files/data.csv": None},
    )
    done = merge_trees(store, base, ours, theirs)
    assert done.conflicts == ()
    assert read(store, done.tree, "task/instruction.md") == b"Ours."
    assert read(store, done.tree, "verifier/checks/new.py") == b"x = 1\n"
    assert store.objects.subtree(done.tree, "context/files/data.csv") is None
    assert merge_trees(store, base, ours, base).tree == ours
    assert merge_trees(store, base, base, theirs).tree == theirs
    assert merge_trees(store, base, theirs, theirs).tree == theirs


def test_lines_and_fields(store: Store) -> None:
    text = b"".join(b"line %d\n" % i for i in range(9))
    base, ours, theirs = versions(
        store,
        {"task/instruction.md": text, "task/contract.json": contract(requirement("a"), requirement("b"))},
        {"task/instruction.md": text.replace(b"line 1", b"LINE 1"),
         "task/contract.json": contract(requirement("a", "ours"), requirement("b"), requirement("c"))},
        {"task/instruction.md": text.replace(b"line 7", b"LINE 7"),
         "task/contract.json": contract(requirement("a"), requirement("b", "theirs"), requirement("d"))},
    )  # fmt: skip
    done = merge_trees(store, base, ours, theirs)
    assert done.conflicts == ()
    both = text.replace(b"line 1", b"LINE 1").replace(b"line 7", b"LINE 7")
    assert read(store, done.tree, "task/instruction.md") == both
    found = Contract.load(read(store, done.tree, "task/contract.json"), "contract.json")
    assert [(r.id, r.statement) for r in found.requirements] == [("a", "ours"), ("b", "theirs"), ("c", "c"), ("d", "d")]


def test_conflicts_name_the_field_the_lines_and_the_file(store: Store) -> None:
    base, ours, theirs = versions(
        store,
        {"task/instruction.md": b"one\ntwo\n", "task/contract.json": contract(requirement("a")),
         "context/files/p.bin": b"\0base", "context/files/gone.txt": b"here\n"},
        {"task/instruction.md": b"ONE\ntwo\n", "task/contract.json": contract(requirement("a", "ours")),
         "context/files/p.bin": b"\0ours", "context/files/gone.txt": None},
        {"task/instruction.md": b"Eins\ntwo\n", "task/contract.json": contract(requirement("a", "theirs")),
         "context/files/p.bin": b"\0theirs", "context/files/gone.txt": b"changed\n"},
    )  # fmt: skip
    done = merge_trees(store, base, ours, theirs, name="one")
    found = {(c.kind, c.file, c.field): c for c in done.conflicts}
    assert set(found) == {
        ("text", "task/instruction.md", ()),
        ("field", "task/contract.json", ("requirements", "a", "statement")),
        ("file", "context/files/p.bin", ()),
        ("file", "context/files/gone.txt", ()),
    }
    field = found["field", "task/contract.json", ("requirements", "a", "statement")]
    assert (field.base.value, field.ours.value, field.theirs.value) == ('"a"', '"ours"', '"theirs"')
    assert (field.package, field.component) == ("one", "task")
    assert found["file", "context/files/gone.txt", ()].reason == "deleted by us, changed by them"
    assert store.objects.subtree(done.tree, "context/files/gone.txt") is None
    for favour in ("ours", "theirs"):
        picked = merge_trees(store, base, ours, theirs, favour=favour)  # type: ignore[arg-type]
        assert picked.conflicts == ()
        text = b"ONE\ntwo\n" if favour == "ours" else b"Eins\ntwo\n"
        assert read(store, picked.tree, "task/instruction.md") == text
        assert read(store, picked.tree, "context/files/p.bin") == b"\0" + favour.encode()


def test_a_moved_file_and_modes(store: Store) -> None:
    base, ours, theirs = versions(
        store,
        {"context/files/a.txt": b"a\nb\n"},
        {"context/files/a.txt": None, "context/files/moved.txt": b"a\nb\n"},
        {"context/files/a.txt": b"a\nB\n"},
    )
    done = merge_trees(store, base, ours, theirs)
    assert done.conflicts == ()
    assert read(store, done.tree, "context/files/moved.txt") == b"a\nB\n"
    assert store.objects.subtree(done.tree, "context/files/a.txt") is None
    check = store.objects.subtree(base, "verifier/checks/main.py")
    assert check is not None
    path = "verifier/checks/main.py"
    base, ours, theirs = versions(store, {}, {path: TreeItem(EXECUTABLE, check.id)}, {path: b"other\n"})
    item = store.objects.subtree(merge_trees(store, base, ours, theirs).tree, path)
    assert item is not None
    assert (item.mode, store.objects.read(item.id)) == (EXECUTABLE, b"other\n")


def test_a_file_against_a_folder(store: Store) -> None:
    base, ours, theirs = versions(store, {}, {"context/files/x": b"file\n"}, {"context/files/x/y": b"deep\n"})
    done = merge_trees(store, base, ours, theirs)
    assert [c.reason for c in done.conflicts] == ["a folder on one side, a file on the other"]


def test_both_added_a_package(store: Store) -> None:
    _, ours, theirs = versions(store, {}, {"task/instruction.md": b"ours\n"}, {"README.md": b"theirs\n"})
    done = merge_trees(store, None, ours, theirs)
    assert [(c.kind, c.file) for c in done.conflicts] == [("text", "task/instruction.md")]
    assert read(store, done.tree, "README.md") == b"theirs\n"


# --- values ----------------------------------------------------------------------------------------------
def test_values() -> None:
    rows = [{"id": "a", "n": 1}, {"id": "b", "n": 2}]
    assert merge_values({"x": 1, "l": [1]}, {"x": 2, "l": [1]}, {"x": 1, "l": [1, 2]}) == ({"x": 2, "l": [1, 2]}, [])
    value, found = merge_values(rows, [rows[0]], [rows[0], {"id": "b", "n": 3}])
    assert value == [rows[0]]
    assert [(c.path, c.ours, c.reason) for c in found] == [(("b",), ABSENT, "removed by us, changed by them")]
    assert merge_values(rows, rows[::-1], [*rows, {"id": "c"}]) == ([rows[1], {"id": "c"}, rows[0]], [])
    assert merge_values([1], [1, 2], [1, 3])[1][0].path == ()
    assert merge_values({"a": 1}, {"a": 1.0}, {"a": True})[1] != []
    assert merge_values(ABSENT, {"a": None}, {"b": 1}) == ({"a": None, "b": 1}, [])


def test_the_order_of_members_is_merged_and_may_conflict() -> None:
    a, b, c = ({"id": i} for i in "abc")
    assert merge_values([a, b, c], [c, a, b], [a, b, c])[0] == [c, a, b]
    value, found = merge_values([a, b, c], [c, a, b], [b, a, c])
    assert (value, [f.reason for f in found]) == ([c, a, b], ["both sides changed the order"])
    assert put(value, found[0].path, found[0].theirs) == [b, a, c]


def test_paths_into_values() -> None:
    value = {"rows": [{"id": "a", "n": 1}], "x": 1}
    assert at(value, ("rows", "a", "n")) == 1
    assert at(value, ("rows", "z", "n")) is ABSENT
    assert put(value, ("rows", "a", "n"), 2) == {"rows": [{"id": "a", "n": 2}], "x": 1}
    assert put(value, ("rows", "a"), ABSENT) == {"rows": [], "x": 1}
    assert put(value, ("rows", "b"), {"id": "b"})["rows"][1] == {"id": "b"}
    with pytest.raises(KeyError):
        put(value, ("x", "deep"), 1)


@pytest.mark.parametrize("data", [b'{"a": 1, "a": 2}', b"NaN", b"[" * 100_000, b"{", b"\xff"])
def test_what_is_not_plain_json(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode(data)


def test_layout_of_json_is_kept(store: Store) -> None:
    path = "context/files/a.json"
    def one(a: int, b: int) -> bytes:
        return json.dumps({"a": a, "b": b}, indent=4).encode()

    base, ours, theirs = versions(store, {path: one(1, 1)}, {path: one(2, 1)}, {path: one(1, 2)})
    assert read(store, merge_trees(store, base, ours, theirs).tree, path) == one(2, 2)
    odd = b'{"a":  1.10, "b": 1}'  # laid out as no writer does: never written anew, so its lines are in conflict
    edits = odd.replace(b"1.10", b"2.10"), odd.replace(b": 1}", b": 2}")
    base, ours, theirs = versions(store, {path: odd}, {path: edits[0]}, {path: edits[1]})
    assert [c.kind for c in merge_trees(store, base, ours, theirs).conflicts] == ["text"]
    assert style_of(odd, json.loads(odd)) is None


def test_json_that_is_nested_too_deep_is_merged_by_line(store: Store) -> None:
    def nested(first: int, last: int) -> bytes:
        return b"{\n" + b'"a": ' + b'{"x":' * 800 + b"%d" % first + b"}" * 800 + b',\n"b": 1,\n"c": %d\n}\n' % last

    path = "context/files/deep.json"
    base, ours, theirs = versions(store, {path: nested(1, 1)}, {path: nested(2, 1)}, {path: nested(1, 2)})
    assert read(store, merge_trees(store, base, ours, theirs).tree, path) == nested(2, 2)


# --- text ------------------------------------------------------------------------------------------------
def test_markers() -> None:
    chunks = merge_text("a\nb\n", "A\nb\n", "x\nb")
    assert clean(chunks) is None
    text = marked(chunks, "main", "trial")
    assert text.startswith("<<<<<<< main\nA\n")
    assert markers(text)[0] == 1
    assert markers("fine\n====\n") == []
    assert clean(merge_text("", "a\n" * 3000, "b\n" * 3000)) is None


# --- edges -----------------------------------------------------------------------------------------------
def edge(source: str, target: str, version: str) -> dict[str, str]:
    return {"source": source, "target": target, "version": version}


def test_edges_say_what_was_seen() -> None:
    base = [edge("task", "context", "c0"), edge("verifier", "task", "t0")]
    took = Versions({"task": "t1", "verifier": "v0"},
                    {"task": "t0", "verifier": "v1"}, {"task": "t1", "verifier": "v1", "context": "c0"})  # fmt: skip
    theirs = [edge("task", "context", "c0"), edge("verifier", "task", "t0")]
    assert merge_edges(base, base, theirs, took, {})[1] == edge("verifier", "task", "t0")  # stale: never saw t1
    both = Versions({"verifier": "v1", "task": "t1"}, {"verifier": "v2", "task": "t0"},
                    {"verifier": "v3", "task": "t1"})  # fmt: skip
    seen = [edge("verifier", "task", "t1")]
    assert merge_edges(base, seen, theirs, both, {}) [-1]["version"] == "t0"  # half of it never saw t1
    assert merge_edges(base, seen, seen, both, {})[-1]["version"] == "t1"
    assert merge_edges(base, seen, theirs, both, {}, frozenset({"verifier"}))[-1]["version"] == "t1"


def test_package_json_after_a_merge(store: Store) -> None:
    base, ours, theirs = versions(store, {}, {"task/instruction.md": b"Ours."}, {"verifier/checks/main.py": b"pass\n"})
    tree = merge_trees(store, base, ours, theirs).tree
    record = Package.load(read(store, tree, "package.json"), "package.json")
    item = store.objects.subtree(base, "task")
    assert item is not None
    assert next(e.version for e in record.edges if (e.source, e.target) == ("verifier", "task")) == item.id
