"""Narrowed logs: by file, range, person, word and older name; the order is that of parents."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from store_samples import add, edit, git, new_store

from rover_store.errors import NotFound, UsageError
from rover_store.history.log import Filter, log
from rover_store.history.log_files import files
from rover_store.names import package_path
from rover_store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = new_store(tmp_path)
    add(store, "one", resources={"files/shared": b"1"})
    add(store, "two", "Other.")
    edit(store, "one", {"task/instruction.md": b"First."}, "Edit task of one")
    edit(store, "one", {"context/files/data.csv": b"9"}, "Edit data of one")
    edit(store, "two", {"README.md": b"hello\n"}, "Describe two")
    with store.write("data") as tx:
        tx.set_resource("files/shared", tx.tree({"files/data.csv": b"2", "resource.json": b"{}\n"}))
        tx.commit("New data", trailers={"Rover-Seed": "7", "Reviewed-by": "Ada"}, author="Ada <ada@example.org>")
    return store


def _subjects(store: Store, rev: str = "HEAD", limit: int | None = None, **wanted: object) -> list[str]:
    return [e.subject for e in log(store, rev, Filter(**wanted), limit)]  # type: ignore[arg-type]


PATHS = {
    "one/task/instruction.md": ["Edit task of one", "Add one"],
    "one/task": ["Edit task of one", "Add one"],
    "one/context/files": ["Edit data of one", "Add one"],
    "one/context/context.json": ["Add one"],
    "two/README.md": ["Describe two"],
    "two": ["Describe two", "Add two"],
    "*/task/instruction.md": ["Edit task of one", "Add two", "Add one"],
    "resources/files/shared": ["New data", "Add one"],
    "resources/files/shared/resource.json": ["Add one"],
    "resources/files": ["New data", "Add one"],
    "resources": ["New data", "Add one"],
    "one/nothing/here": [],
    "packages": ["Describe two", "Edit data of one", "Edit task of one", "Add two", "Add one"],
}


@pytest.mark.parametrize("path", PATHS)
def test_paths_as_git_has_them(path: str, store: Store) -> None:
    assert _subjects(store, paths=(path,)) == PATHS[path]
    name, _, rest = path.partition("/")
    if "*" not in path:
        full = path if name in ("resources", "packages") else package_path(name) + (f"/{rest}" if rest else "")
        assert git(store.git, "log", "--format=%s", "HEAD", "--", full).splitlines() == PATHS[path]
        assert _subjects(store, paths=(full,)) == PATHS[path]


def test_people_words_and_trailers(store: Store) -> None:
    assert _subjects(store, author="ADA") == ["New data"]
    assert _subjects(store, author="^rover <", limit=1) == ["Describe two"]
    assert _subjects(store, grep="(task|data) of") == ["Edit data of one", "Edit task of one"]
    assert _subjects(store, grep="reviewed-BY") == ["New data"]
    assert _subjects(store, trailers=(("rover-seed", None),)) == ["New data"]
    assert _subjects(store, trailers=(("Rover-Seed", "7"), ("Reviewed-by", "Ada"))) == ["New data"]
    assert _subjects(store, trailers=(("Rover-Seed", "8"),)) == []
    assert _subjects(store, nodes=("one",), grep="data") == ["Edit data of one"]
    with pytest.raises(UsageError, match="is not a regular expression"):
        log(store, "HEAD", Filter(grep="("))


def test_ranges(store: Store) -> None:
    store.create_branch("side", "HEAD~3")
    store.switch("side")
    edit(store, "two", {"task/instruction.md": b"Side."}, "Side of two")
    for text in ("main..side", "side..main", "main...side", "^main side", "HEAD~1..", "main side", "side^!"):
        words = ["rev-list", "--topo-order", *("HEAD~1..HEAD" if text == "HEAD~1.." else text).split()]
        assert {e.id for e in log(store, text)} == set(git(store.git, *words).split()), text
    assert sorted(_subjects(store, "main...side", nodes=("two",))) == ["Describe two", "Side of two"]
    assert _subjects(store, "main..side", limit=1) == ["Side of two"]
    with pytest.raises(NotFound):
        log(store, "main..nowhere")


def test_merges_and_first_parents(store: Store) -> None:
    main = store.resolve()
    store.create_branch("side", "HEAD~2")
    store.switch("side")
    side = edit(store, "two", {"task/instruction.md": b"Side."}, "Side of two")
    with store.write("merge") as tx:
        tx.commit("Merge", parents=[side, main])
    everything = [e.id for e in log(store)]
    assert set(everything) == set(git(store.git, "rev-list", "HEAD").split())
    for entry in log(store):
        assert all(everything.index(p) > everything.index(entry.id) for p in entry.parents)
    first = git(store.git, "log", "--first-parent", "--format=%s", "HEAD").splitlines()
    assert _subjects(store, first_parent=True) == first
    assert _subjects(store, "main..HEAD", first_parent=True) == ["Merge", "Side of two"]


def test_reverse(store: Store) -> None:
    newest = _subjects(store)
    assert _subjects(store, reverse=True) == newest[::-1]
    assert _subjects(store, limit=2, reverse=True) == newest[:2][::-1]
    assert _subjects(store, "HEAD~3..HEAD", reverse=True) == newest[:3][::-1]


def test_a_clock_that_goes_backwards(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    for i in range(5):
        with store.write() as tx:
            tx.commit(f"{i}", parents=[tx.ref("refs/heads/main") or ""], time=1000 - i)
    assert _subjects(store) == ["4", "3", "2", "1", "0", "Add one"]
    assert _subjects(store, until=998) == ["4", "3", "2"]


def _rename(store: Store, old: str, new: str, **files: bytes) -> str:
    with store.write(f"rename {old}") as tx:
        tree = tx.edit_tree(store.package(old).tree, dict(files) or {})
        tx.remove_package(old)
        tx.set_package(new, tree)
        return tx.commit(f"Rename {old} to {new}")


def test_follow_a_renamed_package(store: Store) -> None:
    commit = _rename(store, "one", "uno")
    edit(store, "uno", {"task/instruction.md": b"Renamed."}, "Edit uno")
    assert _subjects(store, nodes=("uno",)) == ["Edit uno", "Rename one to uno"]
    followed = ["Edit uno", "Rename one to uno", "Edit data of one", "Edit task of one", "Add one"]
    assert _subjects(store, nodes=("uno",), follow=True) == followed
    assert [e.renamed for e in log(store, "HEAD", Filter(("uno",), follow=True)) if e.id == commit] == ["one"]
    assert _subjects(store, paths=("uno/task/instruction.md",), follow=True) == [
        "Edit uno", "Rename one to uno", "Edit task of one", "Add one",
    ]  # fmt: skip
    _rename(store, "uno", "eins")
    assert _subjects(store, nodes=("eins",), follow=True)[1:] == followed
    add(store, "one", "Another package of that name.")
    assert _subjects(store, nodes=("eins",), follow=True)[1:] == followed
    assert _subjects(store, nodes=("one",), follow=True, limit=2) == ["Add one", "Rename one to uno"]


def test_what_shares_neither_context_nor_task_is_no_rename(store: Store) -> None:
    with store.write("swap") as tx:
        tree = tx.edit_tree(store.package("one").tree, {"task/instruction.md": b"New.", "context/files/data.csv": b"x"})
        tx.remove_package("one")
        tx.set_package("three", tree)
        tx.commit("Swap")
    assert _subjects(store, nodes=("three",), follow=True) == ["Swap"]


def test_a_head_that_moves_and_an_index_that_is_built_anew_meanwhile(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    with store.write() as tx:
        for i in range(500):
            tx.commit(f"{i}", parents=[tx.ref("refs/heads/main") or ""])
    expected = _subjects(store)
    reader = log(store)
    seen = [e.subject for e in islice(reader, 210)]
    Store.open(store.root).reindex()
    seen += [e.subject for e in islice(reader, 10)]
    git(store.git, "update-ref", "refs/heads/main", store.resolve("HEAD~50"))
    assert seen + [e.subject for e in reader] == expected


def test_at_most_so_many_changes(store: Store) -> None:
    first = list(log(store, "HEAD", Filter(changes=2)))[-1]
    assert (len(first.changes), first.more) == (2, 4)
    assert [e.more for e in log(store, "HEAD", Filter(nodes=("one",), changes=1))] == [1, 1, 4]


def test_files_of_a_commit(store: Store) -> None:
    entry = next(log(store, "HEAD~2"))
    assert [(f.path, f.status) for f in files(store, entry)] == [("one/context/files/data.csv", "changed")]
    added = next(log(store, "HEAD~4", Filter(nodes=("two/task",))))
    assert [f.path.removeprefix("two/task/") for f in files(store, added)] == [
        "contract.json", "instruction.md", "task.json",
    ]  # fmt: skip
    data = next(log(store))
    assert [f.path for f in files(store, data)] == ["resources/files/shared/files/data.csv"]
