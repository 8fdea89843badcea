"""Trees that another git pushed: read verbs go on, checkout refuses in one line and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from foreign_git import Entry, set_ref, tree_bytes, write_commit, write_object, write_tree
from store_samples import add, edit, folder_item, git, new_store

from rover.ops.show import show
from rover_store import trees
from rover_store.errors import PackageError, RoverError, StoreError
from rover_store.history.log_files import files
from rover_store.names import package_path
from rover_store.store import Store
from rover_store.trees import TreeItem

FILE, LINK, MODULE, FOLDER = "100644", "120000", "160000", "40000"
BLOB = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = new_store(tmp_path / "store")
    add(store, "good")
    assert write_object(store.git, "blob", b"") == BLOB
    return store


def _push(store: Store, entries: Iterable[Entry]) -> None:
    """A package `bad` on main with these entries in context/files, as another git may push it."""
    add(store, "bad")
    tree = folder_item(write_tree(store.git, entries))
    with store.write("push") as tx:
        tx.set_package("bad", tx.edit_tree(store.package("bad").tree, {"context/files": tree}))
        tx.commit("Pushed")


def _reads(store: Store) -> None:
    """Every read verb goes on."""
    assert [p.name for p in store.packages()] == ["bad", "good"]
    assert [p.name for p in store.packages("HEAD~0^0")] == ["bad", "good"]
    assert show(store, "bad").kind == "package"
    assert show(store, "HEAD:bad/context/files").kind == "folder"
    assert next(iter(store.log(package="bad"))).subject == "Pushed"
    assert [p.name for p in store.diff("HEAD~1", "HEAD").packages] == ["bad"]
    assert [p.name for p in store.diff("HEAD", "HEAD~2").packages] == ["bad"]
    store.reindex()
    assert store.stale()
    store.fsck()


def _refuses(store: Store, tmp_path: Path, message: str) -> None:
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(RoverError) as caught:
        store.checkout("bad", tmp_path / "new/folders/out")
    assert message in caught.value.message
    assert caught.value.exit_code == 2
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 400
    assert sorted(os.listdir(tmp_path)) == before
    store.checkout("good", tmp_path / "good")
    assert (tmp_path / "good/package.json").exists()


TREES: list[tuple[list[Entry], str]] = [
    ([(FILE, b".git", BLOB)], "bad/context/files/.git: a git folder"),
    ([(FOLDER, b".GIT", "tree")], "bad/context/files/.GIT: a git folder"),
    ([(FILE, b"GIT~1", BLOB)], "bad/context/files/GIT~1: a git folder"),
    ([(FILE, ".g\u200cit".encode(), BLOB)], "a git folder"),
    ([(FILE, b".git ", BLOB)], "a git folder"),
    ([(FILE, b".git::$INDEX_ALLOCATION", BLOB)], "a git folder"),
    ([(FOLDER, b"..", "tree")], "bad/context/files/..: '..' is no name"),
    ([(FILE, b".", BLOB)], "bad/context/files/.: '.' is no name"),
    ([(FILE, b"", BLOB)], "bad/context/files/: '' is no name"),
    ([(FILE, b"../../../../escaped", BLOB)], "has a slash or a NUL"),
    ([(FILE, b"/etc/cron.d/escaped", BLOB)], "has a slash or a NUL"),
    ([(FILE, b"a\\..\\b", BLOB)], "bad/context/files/a\\..\\b: the name has a backslash"),
    ([(FILE, b"a\nb", BLOB)], "control character or a line break"),
    ([(FILE, b"a\x1b[2Jb", BLOB)], "control character or a line break"),
    ([(FILE, b"\xff\xfe", BLOB)], "bad/context/files/\\xff\\xfe: the name is not UTF-8"),
    ([(FILE, b"A.csv", BLOB), (FILE, b"a.csv", BLOB)], "the same name as 'A.csv' where case does not count"),
    ([(FILE, "e\u0301".encode(), BLOB), (FILE, "\u00e9".encode(), BLOB)], "where case does not count"),
    ([(FILE, b"A", BLOB), (FOLDER, b"a", "tree")], "the same name as 'A' where case does not count"),
    ([(FILE, b"x" * 300, BLOB)], "longer than 255 bytes"),
    ([(FILE, b"a", BLOB), (FILE, b"a", BLOB)], "bad/context/files/a: two entries have this name"),
    ([(LINK, b"a", BLOB), (FOLDER, b"a", "tree")], "bad/context/files/a: two entries have this name"),
    ([(FILE, b"b", BLOB), (FILE, b"a", BLOB)], "its entries are out of order"),
    ([(LINK, b"link", BLOB)], "bad/context/files/link: is a link, not a plain file"),
    ([(MODULE, b"sub", "12" * 20)], "bad/context/files/sub: is a submodule"),
    ([("60644", b"device", BLOB)], "bad/context/files/device: has mode 60644"),
    ([(FILE, b"gone", "12" * 20)], "not found: 1212"),
]


@pytest.mark.parametrize(("entries", "message"), TREES)
def test_trees(store: Store, tmp_path: Path, entries: list[Entry], message: str) -> None:
    inner = write_tree(store.git, [(FILE, b"f", BLOB)])
    _push(store, [(mode, name, inner if i == "tree" else i) for mode, name, i in entries])
    _refuses(store, tmp_path, message)
    _reads(store)


def test_the_same_with_gits_own_plumbing(store: Store, tmp_path: Path) -> None:
    """`hash-object --literally` and `mktree` write what the tests above do."""
    entries: list[Entry] = [(FILE, b"..", BLOB), (LINK, b".git", BLOB)]
    done = subprocess.run(
        ["git", "hash-object", "-t", "tree", "--literally", "-w", "--stdin"], cwd=store.git, input=tree_bytes(entries),
        capture_output=True, check=True,
    )  # fmt: skip
    assert done.stdout.decode().strip() == write_tree(store.git, entries)
    made = subprocess.run(
        ["git", "mktree", "--missing"], cwd=store.git, input=f"120000 blob {BLOB}\tpasswd\n".encode(),
        capture_output=True, check=True,
    )  # fmt: skip
    add(store, "bad")
    edit(store, "bad", {"context/files": folder_item(made.stdout.decode().strip())}, "Pushed")  # type: ignore[dict-item]
    _refuses(store, tmp_path, "bad/context/files/passwd: is a link")
    _reads(store)


def test_names_that_only_windows_minds_are_written(store: Store, tmp_path: Path) -> None:
    names = [b"AUX", b"CON.txt", b"a:b", b"nul", b"trailing.", b"x" * 255]
    _push(store, [(FILE, name, BLOB) for name in sorted(names)])
    store.checkout("bad", tmp_path / "out")
    assert sorted(os.listdir(tmp_path / "out/context/files")) == sorted(n.decode() for n in names)
    assert store.commit_folder(tmp_path / "out").changed == ()


def test_a_package_that_brings_a_base_of_its_own(store: Store, tmp_path: Path) -> None:
    add(store, "bad")
    edit(store, "bad", {".rover-base": b"{}"}, "Pushed")
    _refuses(store, tmp_path, "bad/.rover-base: the name is reserved")


def test_two_thousand_levels(store: Store, tmp_path: Path) -> None:
    tree = write_tree(store.git, [(FILE, b"f", BLOB)])
    for _ in range(2000):
        tree = write_tree(store.git, [(FOLDER, b"d", tree)])
    _push(store, [(FOLDER, b"d", tree)])
    _refuses(store, tmp_path, "nested deeper than 200 folders")
    _reads(store)


def test_few_trees_that_stand_for_more_files_than_a_disk_holds(store: Store, tmp_path: Path) -> None:
    tree = write_tree(store.git, [(FILE, b"%d" % n, BLOB) for n in range(10)])
    for _ in range(11):
        tree = write_tree(store.git, [(FOLDER, b"%d" % n, tree) for n in range(10)])
    add(store, "bad")
    edit(store, "bad", {"context/files": folder_item(tree)}, "Pushed")  # type: ignore[dict-item]
    _refuses(store, tmp_path, "bad: holds more than 200000 files")


def test_packages_of_odd_names_and_places(store: Store, tmp_path: Path) -> None:
    """What no name reaches is not listed, and stops nothing; fsck tells."""
    good = store.package("good").tree
    a, b, c = package_path("good").split("/")[1:4]
    rows = [b"..", b"", b".git", b"\xff", b"a/task", b"good", b"x" * 300, b"UPPER"]
    wrong = write_tree(store.git, [(FOLDER, name, good) for name in rows])
    right = write_tree(store.git, [(FOLDER, b"\xff\xfe", good), (FOLDER, b"good", good), (FILE, b"stray", BLOB)])
    tree = write_tree(store.git, [(FOLDER, b"0" if c != "0" else b"1", wrong), (FOLDER, c.encode(), right)])
    for digit in (b, a):
        tree = write_tree(store.git, [(FOLDER, digit.encode(), tree)])
    packages = tree
    files = write_tree(store.git, [(FOLDER, name, good) for name in (b"", b"a/b", b"\xff", b"x")])
    kinds: list[Entry] = [(FOLDER, b"\xff", good), (FOLDER, b"files", files), (FILE, b"skills", BLOB)]
    resources = write_tree(store.git, kinds)
    root = write_tree(store.git, [(FOLDER, b"packages", packages), (FOLDER, b"resources", resources)])
    set_ref(store.git, "refs/heads/main", write_commit(store.git, root, [store.resolve()], 9, "Pushed"))
    for rev in ("HEAD", store.resolve() + "^0"):
        assert [p.name for p in store.packages(rev)] == ["good"]
        assert list(store.resources(rev)) == ["files/x"]
    assert [c.node for e in store.log(limit=1) for c in e.changes] == ["resources/files/x"]
    assert store.diff("HEAD~1").packages == ()
    assert store.fsck()
    store.checkout("good", tmp_path / "out")
    add(store, "two")  # and writing goes on
    assert [p.name for p in store.packages()] == ["good", "two"]


def test_no_folder_is_written_through_a_link(store: Store, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "out").symlink_to("outside")
    with pytest.raises(RoverError, match="is not an empty folder"):
        store.checkout("good", tmp_path / "out")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(RoverError, match="is not an empty folder"):
        store.checkout("good", tmp_path / "loop")
    with pytest.raises(StoreError, match="cannot write"):
        store.checkout("good", tmp_path / "store/.rover/config.toml/out")
    assert os.listdir(tmp_path / "outside") == []
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/package.json").symlink_to(tmp_path / "store/.rover/config.toml")
    with pytest.raises(PackageError, match="is a link"):
        store.commit_folder(tmp_path / "folder")


def test_git_agrees_that_these_are_bad(store: Store) -> None:
    _push(store, [(FILE, b".git", BLOB), (FILE, b"a", BLOB), (FILE, b"a", BLOB)])
    with pytest.raises(AssertionError, match=r"hasDotgit|duplicateEntries"):
        git(store.git, "fsck", "--strict")
    assert store.fsck()


def test_merging_what_is_nested_deeper_than_any_stack(store: Store) -> None:
    def pushed(text: bytes) -> None:
        tree = write_tree(store.git, [(FILE, b"f", write_object(store.git, "blob", text))])
        for _ in range(1500):
            tree = write_tree(store.git, [(FOLDER, b"d", tree)])
        with store.write("push") as tx:
            edits = {"context/files/deep": TreeItem(0o40000, tree)}
            tx.set_package("good", tx.edit_tree(store.package("good").tree, edits))
            tx.commit("Pushed")

    pushed(b"1")
    store.create_branch("other")
    pushed(b"2")
    store.switch("other")
    pushed(b"3")
    store.switch("main")
    done = store.merge("other")
    assert done.status == "conflicts"
    assert [c.reason for c in done.conflicts] == ["nested deeper than 190 folders: not merged by content"]
    assert store.merge("other", favour="theirs").status == "merged"
    assert store.package("good").tree == store.package("good", "other").tree
    assert "good/context/files/deep/" + "d/" * 1500 + "f" in {f.path for e in store.log() for f in files(store, e)}
    assert store.fsck() == []


def test_trees_that_stand_for_too_many_files(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "MOST_FILES", 5000)
    tree = write_tree(store.git, [(FILE, b"%d" % n, BLOB) for n in range(10)])
    for _ in range(8):
        tree = write_tree(store.git, [(FOLDER, b"%d" % n, tree) for n in range(10)])
    first = store.resolve()
    _push(store, [(FILE, b"bad\\name", BLOB), (FOLDER, b"bomb", tree)])
    bad = store.package("bad").tree
    for question in (lambda: store.diff(first), lambda: store.objects.read_tree(bad), lambda: store.blame("bad")):
        with pytest.raises(StoreError, match="stands for more than 5000 files"):
            question()
    problems = [problem.kind for problem in store.fsck()]
    assert "tooManyFiles" in problems
    assert "strayFile" not in problems  # thousands of lines would say nothing more
    _refuses(store, tmp_path, "backslash")
