"""A folder that was checked out, in a store that has moved on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from store_samples import add, edit, git, new_store

from rover_store.errors import PackageError, UsageError
from rover_store.files.intake import BASE_FILE
from rover_store.folders.folder import checkout, commit_folder
from rover_store.store import Store

DATA, WORDS = "context/files/data.csv", "task/instruction.md"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = new_store(tmp_path / "store")
    add(store, "one", "First line.\nSecond line.\nThird line.\n")
    return store


@pytest.fixture
def folder(store: Store, tmp_path: Path) -> Path:
    store.checkout("one", tmp_path / "one")
    return tmp_path / "one"


def _read(store: Store, path: str, rev: str = "HEAD") -> bytes:
    return store.objects.read(store.find(f"{rev}:one/{path}").id)


def _unchanged(store: Store, act: Callable[[], object], message: str) -> None:
    before = store.resolve(), store.op_log()
    with pytest.raises((UsageError, PackageError)) as caught:
        act()
    assert message in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.exit_code == 2
    assert (store.resolve(), store.op_log()) == before


def test_both_changes_are_kept(store: Store, folder: Path) -> None:
    base = store.resolve()
    theirs = edit(store, "one", {WORDS: b"First line.\nSecond line.\nTheir line.\n"})
    (folder / DATA).write_text("mine\n")
    (folder / WORDS).write_text("My line.\nSecond line.\nThird line.\n")
    done = store.commit_folder(folder, "Mine")
    assert done.changed == ("context", "task")
    assert done.merged == ("task",)
    assert _read(store, WORDS) == b"My line.\nSecond line.\nTheir line.\n"
    assert _read(store, DATA) == b"mine\n"
    merge = store.commit()
    side = store.commit(merge.parents[1])
    assert (merge.message, merge.parents[0], side.message, side.parents) == ("Merge: Mine", theirs, "Mine", (base,))
    assert _read(store, WORDS, side.id) == (folder / WORDS).read_bytes()
    assert store.fsck() == []
    assert git(store.git, "fsck", "--full", "--no-dangling").strip() == ""


def test_a_second_edit_of_the_folder_does_not_take_theirs_back(store: Store, folder: Path) -> None:
    edit(store, "one", {WORDS: b"Theirs.\n"})
    (folder / DATA).write_text("mine\n")
    store.commit_folder(folder)
    assert store.commit_folder(folder).changed == ()
    (folder / DATA).write_text("mine again\n")
    done = store.commit_folder(folder)
    assert (done.changed, done.merged) == (("context",), ("task",))
    assert (_read(store, WORDS), _read(store, DATA)) == (b"Theirs.\n", b"mine again\n")
    store.undo()
    assert _read(store, DATA) == b"mine\n"


def test_an_old_folder_without_changes_takes_nothing_back(store: Store, folder: Path) -> None:
    edit(store, "one", {WORDS: b"Theirs.\n"})
    head = store.resolve()
    done = store.commit_folder(folder)
    assert (done.commit, done.changed, done.merged) == (head, (), ())
    edit(store, "one", {DATA: b"later\n"})
    (folder / DATA).write_text("later\n")  # the same change as theirs
    assert store.commit_folder(folder).changed == ()
    assert (_read(store, WORDS), _read(store, DATA)) == (b"Theirs.\n", b"later\n")


def test_what_both_changed_is_named_and_nothing_is_taken(store: Store, folder: Path) -> None:
    theirs = edit(store, "one", {DATA: b"theirs\n"})
    (folder / DATA).write_text("mine\n")
    _unchanged(store, lambda: store.commit_folder(folder), "one: context/files/data.csv: changed here and in the store")
    with pytest.raises(UsageError, match=rf"\(by rover, {theirs[:10]}\)"):
        store.commit_folder(folder)
    done = store.commit_folder(folder, force=True)
    assert (done.changed, _read(store, DATA)) == (("context",), b"mine\n")
    assert store.commit_folder(folder).changed == ()


def test_a_field_that_both_changed(store: Store, folder: Path) -> None:
    def title(data: bytes, text: str) -> bytes:
        return json.dumps({**json.loads(data), "title": text}).encode()

    edit(store, "one", {"task/task.json": title(_read(store, "task/task.json"), "Theirs")})
    (folder / "task/task.json").write_bytes(title(_read(store, "task/task.json"), "Mine"))
    _unchanged(store, lambda: store.commit_folder(folder), "one: task/task.json: title: changed here and in the store")


def test_a_folder_moves_and_its_base_with_it(store: Store, folder: Path, tmp_path: Path) -> None:
    edit(store, "one", {WORDS: b"Theirs.\n"})
    (tmp_path / "deep").mkdir()
    moved = Path(shutil.move(folder, tmp_path / "deep/elsewhere"))
    (moved / DATA).write_text("mine\n")
    assert store.commit_folder(moved).merged == ("task",)
    assert BASE_FILE not in store.objects.read_tree(store.package("one").tree)


def test_pins_after_a_merge(store: Store, folder: Path) -> None:
    edit(store, "one", {WORDS: b"Theirs.\n"})
    (folder / DATA).write_text("mine\n")
    store.commit_folder(folder)
    assert {(s.component, s.target) for s in store.stale()} == {
        ("task", "one/context"), ("harness", "one/context"), ("verifier", "one/context"), ("verifier", "one/task"),
    }  # fmt: skip
    assert commit_folder(store, folder, fresh=True).changed == ("package",)
    assert store.stale() == []


def test_a_package_that_is_gone(store: Store, folder: Path) -> None:
    with store.write("remove") as tx:
        tx.remove_package("one")
        tx.commit("Remove one")
    (folder / DATA).write_text("mine\n")
    _unchanged(store, lambda: store.commit_folder(folder), "one is no longer on this branch")
    assert store.commit_folder(folder, force=True).changed == ("context", "task", "harness", "verifier")


def test_a_folder_of_another_store(store: Store, folder: Path, tmp_path: Path) -> None:
    other = new_store(tmp_path / "other")
    assert other.commit_folder(folder).package == "one"  # it has no such package yet
    third = new_store(tmp_path / "third")
    add(third, "one", "Something else.\n")
    (folder / DATA).write_text("mine\n")
    _unchanged(third, lambda: third.commit_folder(folder), "is not in this store")
    assert third.commit_folder(folder, force=True).package == "one"


def test_a_copy_under_another_name(store: Store, folder: Path) -> None:
    def name(value: str) -> None:
        record: dict[str, Any] = json.loads((folder / "package.json").read_bytes())
        (folder / "package.json").write_text(json.dumps({**record, "name": value}))

    name("two")
    assert store.commit_folder(folder).package == "two"
    name("one")
    _unchanged(store, lambda: store.commit_folder(folder), "was checked out as two, and one exists already")


def test_an_old_version_is_brought_back_by_force(store: Store, tmp_path: Path) -> None:
    edit(store, "one", {DATA: b"newer\n"})
    store.checkout("one", tmp_path / "old", "HEAD~1")
    assert store.commit_folder(tmp_path / "old").changed == ()
    assert store.commit_folder(tmp_path / "old", force=True).changed == ("context",)
    assert _read(store, DATA) == _read(store, DATA, "HEAD~2")


def test_a_checkout_of_another_branch_merges_without_its_history(store: Store, tmp_path: Path) -> None:
    store.create_branch("side")
    store.switch("side")
    edit(store, "one", {WORDS: b"On the side.\n"})
    store.switch("main")
    edit(store, "one", {"harness/harness.json": _read(store, "harness/harness.json") + b"\n"})
    store.checkout("one", tmp_path / "out", "side")
    (tmp_path / "out" / DATA).write_text("mine\n")
    done = store.commit_folder(tmp_path / "out")
    assert (done.changed, len(store.commit().parents)) == (("context",), 1)
    assert _read(store, WORDS).startswith(b"First line.")


def test_a_checkout_is_renewed(store: Store, folder: Path, tmp_path: Path) -> None:
    edit(store, "one", {DATA: b"newer\n"})
    checkout(store, "one", folder)
    assert (folder / DATA).read_bytes() == b"newer\n"
    (folder / DATA).write_text("mine\n")
    with pytest.raises(UsageError, match="has changes that are not committed"):
        checkout(store, "one", folder)
    store.commit_folder(folder)
    edit(store, "one", {WORDS: b"Newest.\n"})
    checkout(store, "one", folder)
    assert ((folder / DATA).read_bytes(), (folder / WORDS).read_bytes()) == (b"mine\n", b"Newest.\n")
    (folder / WORDS).write_text("mine too\n")
    checkout(store, "one", folder, force=True)
    assert (folder / WORDS).read_bytes() == b"Newest.\n"
    add(store, "two")
    with pytest.raises(UsageError, match="is a checkout of one"):
        checkout(store, "two", folder, force=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one", "store"]


def test_a_folder_that_cannot_be_written_keeps_its_old_base(store: Store, folder: Path) -> None:
    (folder / BASE_FILE).rename(folder.parent / "base")
    (folder / BASE_FILE).mkdir()  # nothing can be renamed over a folder
    with pytest.raises(PackageError, match=r"\.rover-base"):
        store.commit_folder(folder)
    (folder / DATA).write_text("mine\n")
    assert store.commit_folder(folder, force=True).changed == ("context",)
    assert sorted(p.name for p in folder.iterdir() if p.name.startswith(".")) == [BASE_FILE]
