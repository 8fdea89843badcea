"""Contents of a whole Diff: places, modes, links, submodules, files too large for memory; a folder against a store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from store_samples import add, edit, folder_item, new_store, odd_commit

from rover_store.diffs import contents, walk
from rover_store.diffs.folder import folder_diff
from rover_store.errors import PackageError
from rover_store.store import Store
from rover_store.trees import EXECUTABLE, LINK, SUBMODULE, TreeItem


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = new_store(tmp_path / "project")
    add(store, "one", resources={"files/shared": b"a,b\n1,2\n"})
    return store


def said(store: Store) -> dict[tuple[str, str], tuple[str, ...]]:
    return {(c.owner, c.place): c.content.notes for c in contents(store.objects, store.diff("HEAD~1"))}


def test_places_tell_what_a_file_is(store: Store) -> None:
    edit(store, "one", {"task/task.json": b'{"title": "x"}\n', "README.md": b"x", "context/files/task.json": b"{}"})
    with store.write() as tx:
        tx.set_resource("files/shared", tx.tree({"files/data.csv": b"a,b\n1,3\n", "resource.json": b"{}\n"}))
        tx.commit("Resource")
    found = list(contents(store.objects, store.diff("HEAD~2")))
    assert [(c.owner, c.component, c.place, c.content.kind) for c in found] == [
        ("one", "package", "README.md", "text"), ("one", "context", "context/files/task.json", "json"),
        ("one", "task", "task/task.json", "record"), ("resources/files/shared", "", "files/data.csv", "table"),
    ]  # fmt: skip


def test_modes_links_and_submodules(store: Store) -> None:
    tree = store.package("one").tree
    item = store.objects.subtree(tree, "verifier/checks/main.py")
    assert item is not None
    with store.write() as tx:
        blob = tx.blob(b"../elsewhere.json")
        edits = {
            "verifier/checks/main.py": TreeItem(EXECUTABLE, item.id),
            "context/files/data.csv": TreeItem(LINK, blob),
            "harness/harness.json": TreeItem(LINK, blob),
            "context/files/module": TreeItem(SUBMODULE, "1" * 40),
            "context/files/empty": folder_item(tx.tree({})),
        }
        tx.set_package("one", tx.edit_tree(tree, edits))
        tx.commit("Modes")
    found = said(store)
    assert found["one", "verifier/checks/main.py"] == ("only the mode differs: 100644 -> 100755",)
    assert found["one", "harness/harness.json"][0] == "mode: 100644 -> 120000"
    assert found["one", "context/files/data.csv"][0] == "mode: 100644 -> 120000"
    assert "not here" in found["one", "context/files/module"][0]


def test_files_larger_than_memory_are_streamed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "EXTRACT_BYTES", 1 << 20)
    data = bytes(3 << 20)
    edit(store, "one", {"context/files/a.bin": data, "context/files/b.bin": data, "context/files/c.bin": data})
    other = bytearray(data)
    other[2_500_000] = 1
    changed = {"context/files/a.bin": bytes(other), "context/files/b.bin": data + b"x", "context/files/c.bin": None}
    edit(store, "one", changed)
    found = said(store)
    assert found["one", "context/files/a.bin"][-1] == "the first difference is at byte 2500000"
    assert found["one", "context/files/b.bin"][-1] == f"the first difference is at byte {3 << 20}"
    assert found["one", "context/files/c.bin"] == ()


@pytest.mark.parametrize(
    ("old", "new", "at"),
    [([b"ab", b"cd"], [b"abcx"], 3), ([b"a"], [b"a", b"b"], 1), ([b"abc"], [b"x"], 0), ([b"", b"a"], [b"ab"], 1)],
)
def test_streams_of_any_cut(old: list[bytes], new: list[bytes], at: int) -> None:
    assert walk._first_difference(iter(old), iter(new)) == at


def test_a_folder_on_top_of_a_store(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    store.checkout("one", folder)
    assert folder_diff(store, folder).package is None
    (folder / "task/instruction.md").write_text("Other.\n")
    (folder / "context/files/more").mkdir()
    (folder / "context/files/more/x.csv").write_text("a\n1\n")
    found = folder_diff(store, folder)
    assert found.package is not None
    files = [(c.name, f.path, f.status) for c in found.package.components for f in c.files]
    assert files == [("context", "files/more/x.csv", "added"), ("task", "instruction.md", "changed")]
    (part,) = walk.content(found.objects, "task/instruction.md", found.package.components[1].files[0]).parts
    assert part.hunks[0].lines == (("-", "Do it."), ("+", "Other."))
    assert found.objects.read_tree(found.new).keys() >= {"package.json", "context/files/more/x.csv"}
    assert not store.objects.exists(found.new)


def test_edges_that_a_commit_fills_in_are_no_difference(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    store.checkout("one", folder)
    record = json.loads((folder / "package.json").read_bytes())
    edges = record.pop("edges", None)
    (folder / "package.json").write_text(json.dumps(record))
    assert edges
    assert folder_diff(store, folder).package is None
    (folder / "package.json").write_text(json.dumps({**record, "title": "Another"}))
    found = folder_diff(store, folder).package
    assert found is not None
    (change,) = found.components[0].files
    fields = walk.content(folder_diff(store, folder).objects, "package.json", change).fields
    assert [(f.path, f.new) for f in fields] == [("title", "Another")]


@pytest.mark.parametrize("data", [b"{", b"[1]", b"{}", b'{"name": 3}', b'{"name": "../x"}', b"[" * 100_000])
def test_a_folder_that_names_no_package(data: bytes, store: Store, tmp_path: Path) -> None:
    store.checkout("one", tmp_path / "out")
    (tmp_path / "out/package.json").write_bytes(data)
    with pytest.raises(PackageError, match=r"^package\.json: "):
        folder_diff(store, tmp_path / "out")


def test_what_lies_where_no_package_does_is_told(store: Store) -> None:
    odd_commit(store)
    found = store.diff("HEAD~1")
    assert (found.packages, found.resources) == ((), ())
    paths = [f.path for f in found.other]
    assert paths == sorted(paths)
    assert {p for p in paths if not p.startswith("packages/0/0/0/one/")} == {
        "empty/", "packages/0/module", "packages/README", "resources/list", "resources/odd/x/a.txt"
    }  # fmt: skip
    assert "packages/0/0/0/one/task/task.json" in paths
    assert said(store)["", "empty/"] == ("a folder without files",)
    assert "not here" in said(store)["", "packages/0/module"][0]
