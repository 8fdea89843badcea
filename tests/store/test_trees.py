"""Trees: ids as git computes them, edits that equal building anew."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_samples import git, new_store

from rover_store.errors import StoreError
from rover_store.names import blob_id
from rover_store.packs import TREE, object_id
from rover_store.trees import (
    EMPTY_TREE,
    FILE,
    FOLDER,
    Level,
    TreeItem,
    edit_tree,
    encode_tree,
    parse_tree,
    tree_id,
)

NAMES = st.sampled_from(["a", "b", "a.b", "a-b", "a0", "Z", "ü"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


def test_the_id_is_gits(tmp_path: Path) -> None:
    paths = ["a/b", "a.b", "a-b", "a0", "ab/c/d", "ü", "with space"]
    git(tmp_path, "init", "-q")
    for i, path in enumerate(paths):
        (tmp_path / path).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / path).write_bytes(b"%d" % i)
    git(tmp_path, "add", "-A")
    assert tree_id({p: (FILE, blob_id(b"%d" % i)) for i, p in enumerate(paths)}) == git(tmp_path, "write-tree").strip()
    assert tree_id({}) == EMPTY_TREE


def test_parse_and_encode_are_inverse() -> None:
    level = {"a": TreeItem(FOLDER, "1" * 40), "a.b": TreeItem(FILE, "2" * 40), "\udcff": TreeItem(FILE, "3" * 40)}
    assert parse_tree(encode_tree(level)) == level
    with pytest.raises(StoreError, match="damaged"):
        parse_tree(b"100644 name-without-end")


@pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", "../a", "a/./b", ".git/x", "a/.GIT", "a\0b"])
def test_paths_that_git_refuses(path: str) -> None:
    with pytest.raises(StoreError, match="not a path"):
        tree_id({path: (FILE, "1" * 40)})


def test_a_path_cannot_be_file_and_folder() -> None:
    for paths in (("a", "a/b"), ("a/b", "a")):
        with pytest.raises(StoreError, match="a file and a folder"):
            tree_id(dict.fromkeys(paths, (FILE, "1" * 40)))


class _Memory:
    """Trees in a dict."""

    def __init__(self) -> None:
        self.trees: dict[str, bytes] = {}

    def write(self, kind: int, data: bytes) -> str:
        name = object_id(kind, data)
        self.trees[name] = data
        return name

    def read(self, tree: str) -> Level:
        return parse_tree(self.trees[tree])


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(PATHS, st.integers(0, 3)), st.dictionaries(PATHS, st.none() | st.integers(0, 3)))
def test_an_edit_equals_building_anew(start: dict[str, int], edits: dict[str, int | None]) -> None:
    def clean(files: dict[str, int]) -> dict[str, int]:
        return {p: v for p, v in files.items() if not any(o.startswith(p + "/") for o in files)}

    files = clean(start)
    changes = {p: v for p, v in edits.items() if not any(o != p and (o.startswith(p + "/")) for o in edits)}
    memory = _Memory()
    base = edit_tree(None, {p: TreeItem(FILE, f"{v}" * 40) for p, v in files.items()}, memory.read, memory.write)
    items = {p: None if v is None else TreeItem(FILE, f"{v}" * 40) for p, v in changes.items()}
    edited = edit_tree(base, items, memory.read, memory.write)
    expected = dict(files)
    for path, value in changes.items():
        if value is None:
            expected = {p: v for p, v in expected.items() if p != path and not p.startswith(path + "/")}
        else:
            parents = {path[:i] for i in range(len(path)) if path[i] == "/"}
            expected = {p: v for p, v in expected.items() if p not in parents and not p.startswith(path + "/")}
            expected[path] = value
    assert edited == tree_id({p: (FILE, f"{v}" * 40) for p, v in expected.items()})


def test_only_touched_folders_are_written() -> None:
    memory = _Memory()
    files = {f"d{i}/e/f{j}": TreeItem(FILE, "1" * 40) for i in range(20) for j in range(3)}
    base = edit_tree(None, files, memory.read, memory.write)
    written: list[str] = []

    def count(kind: int, data: bytes) -> str:
        assert kind == TREE
        written.append(memory.write(kind, data))
        return written[-1]

    edit_tree(base, {"d3/e/f1": TreeItem(FILE, "2" * 40)}, memory.read, count)
    assert len(written) == 3


def test_a_transaction_edits_trees_of_its_own(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    with store.write() as tx:
        first = tx.tree({"a/b": b"1", "a/c": b"2"})
        second = tx.edit_tree(first, {"a/b": None, "d": first and TreeItem(FOLDER, first)})
        assert tx.read(blob_id(b"1")) == b"1"
    assert sorted(store.objects.read_tree(second)) == ["a/c", "d/a/b", "d/a/c"]


def test_a_path_as_deep_as_a_workspace_can_have(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    deep = "d/" * 511 + "f"
    tree = store.put_files({deep: b"1"})
    assert tree == tree_id({deep: (FILE, blob_id(b"1"))})
    assert list(store.objects.read_tree(store.put_files({deep: b"2"}, base=tree))) == [deep]
    with pytest.raises(StoreError, match="deeper than 520"):
        store.put_files({"d/" * 600 + "f": b"1"})
