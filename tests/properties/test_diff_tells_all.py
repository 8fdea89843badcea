"""Two trees with different ids never compare as equal, whatever lies where in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rover_store.diffs import walk
from rover_store.diffs.diff import diff
from rover_store.diffs.folder import Overlay
from rover_store.names import blob_id, package_path
from rover_store.objects import Objects
from rover_store.packs import TREE
from rover_store.trees import EMPTY_TREE, EXECUTABLE, FILE, FOLDER, LINK, SUBMODULE, TreeItem, encode_tree

PLACE = package_path("one")
PATHS = (
    "README", "packages", "packages/README", "packages/one/task/task.json", "packages/0/0/0/one/task/task.json",
    PLACE, f"{PLACE}/package.json", f"{PLACE}/task", f"{PLACE}/task/task.json", f"{PLACE}/task/notes/a.txt",
    f"{PLACE}.json", f"{PLACE}/empty", f"{PLACE}/context/files/link", f"{PLACE.rpartition('/')[0]}/two/x",
    "resources", "resources/README", "resources/files", "resources/files/README", "resources/files/data",
    "resources/files/data/files/a.csv", "resources/files/a\\b/x", "resources/odd/data/x", "other/packages/x",
)  # fmt: skip
BLOBS = [blob_id(b"a"), blob_id(b"b")]
items = st.builds(TreeItem, st.sampled_from([FILE, EXECUTABLE, LINK, SUBMODULE, 0o100664]), st.sampled_from(BLOBS))
entries = items | st.just(TreeItem(FOLDER, EMPTY_TREE))
trees = st.tuples(st.dictionaries(st.sampled_from(PATHS), entries, max_size=6), st.sampled_from(["", *PATHS]))


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Overlay:
    folder: Path = tmp_path_factory.mktemp("empty")
    (folder / "objects/pack").mkdir(parents=True)
    return Overlay(Objects(folder))


@given(trees, trees)
def test_different_ids_are_told_apart(objects: Overlay, one: Any, other: Any) -> None:
    old, new = _root(objects, *one), _root(objects, *other)
    found = diff(objects, old, new)
    told = [(owner, component, file.path) for owner, component, file in walk.files(found)]
    assert bool(told) == (old != new)
    assert len(set(told)) >= len(told) - sum(path.endswith("/") for *_, path in told)
    back = [(owner, component, file.path) for owner, component, file in walk.files(diff(objects, new, old))]
    assert sorted(back) == sorted(told)


@given(trees)
def test_all_of_a_tree_is_new_beside_nothing(objects: Overlay, one: Any) -> None:
    root = _root(objects, *one)
    told = sorted(_whole(owner, component, file.path)
                  for owner, component, file in walk.files(diff(objects, EMPTY_TREE, root)))  # fmt: skip
    assert [path for path in told if not path.endswith("/")] == list(objects.read_tree(root))


def _whole(owner: str, component: str, path: str) -> str:
    place = package_path(owner) if component else owner
    return "/".join(part for part in (place, component if component != "package" else "", path) if part)


def _root(objects: Overlay, files: dict[str, TreeItem], odd: str) -> str:
    """The tree of these entries; the folder at `odd` is written with a mode of six digits, as old gits did."""
    nested: dict[str, Any] = {}
    for path, item in sorted(files.items()):  # what lies above a path is a folder
        here = nested
        *above, name = path.split("/")
        for part in above:
            inner = here.get(part)
            here = inner if isinstance(inner, dict) else here.setdefault(part, {})
            if not isinstance(here, dict):
                break
        else:
            here.setdefault(name, item)
    return _write(objects, nested, "", odd)


def _write(objects: Overlay, level: dict[str, Any], prefix: str, odd: str) -> str:
    made = {
        name: item if isinstance(item, TreeItem) else TreeItem(FOLDER, _write(objects, item, f"{prefix}{name}/", odd))
        for name, item in level.items()
    }
    data = encode_tree(made)
    if odd and odd.rpartition("/")[0] == prefix.rstrip("/"):
        name = odd.rpartition("/")[2].encode()
        data = data.replace(b"40000 " + name + b"\0", b"040000 " + name + b"\0")
    return objects.keep(TREE, data)
