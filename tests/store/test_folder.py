"""Package folders: out and back, and everything a hostile or careless folder may hold."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from store_samples import add, edit, new_store

from rover_store.errors import NotFound, PackageError, UsageError
from rover_store.files.intake import BASE_FILE, FolderLimits
from rover_store.folders.folder import read_folder
from rover_store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = new_store(tmp_path / "store")
    add(store, "one", resources={"files/shared": b"1"})
    return store


@pytest.fixture
def folder(store: Store, tmp_path: Path) -> Path:
    store.checkout("one", tmp_path / "one")
    return tmp_path / "one"


def _contents(folder: Path) -> dict[str, bytes]:
    files = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    files.pop(BASE_FILE, None)
    return files


def _change(path: Path, change: Callable[[Any], object]) -> None:
    value = json.loads(path.read_bytes())
    change(value)
    path.write_text(json.dumps(value))


def test_out_and_back_changes_nothing(store: Store, folder: Path) -> None:
    head = store.resolve()
    tree = store.package("one").tree
    assert _contents(folder) == {p: store.objects.read(i.id) for p, i in store.objects.read_tree(tree).items()}
    done = store.commit_folder(folder)
    assert (done.commit, done.changed) == (head, ())
    assert len(store.op_log()) == 1


def test_a_mode_is_no_version(store: Store, folder: Path, tmp_path: Path) -> None:
    store.commit_folder(folder)
    (folder / "verifier/checks/main.py").chmod(0o755)
    assert store.commit_folder(folder).changed == ()
    store.checkout("one", tmp_path / "again")
    assert not os.access(tmp_path / "again/verifier/checks/main.py", os.X_OK)


def test_a_changed_component_is_pinned_and_its_dependents_are_stale(store: Store, folder: Path) -> None:
    (folder / "context/files/data.csv").write_text("new\n")
    done = store.commit_folder(folder, "New data", author="A B <a@b>", time=7)
    assert done.changed == ("context",)
    assert (store.commit().message, store.commit().author, store.commit().time) == ("New data", "A B <a@b>", 7)
    assert [(s.component, s.target) for s in store.stale()] == [
        ("task", "one/context"), ("harness", "one/context"), ("verifier", "one/context"),
    ]  # fmt: skip
    (folder / "task/instruction.md").write_text("New words.\n")
    assert store.commit_folder(folder).changed == ("task",)  # the folder's old pins are not taken
    assert [(s.component, s.target) for s in store.stale()] == [
        ("harness", "one/context"), ("verifier", "one/context"), ("verifier", "one/task"),
    ]  # fmt: skip
    assert store.commit_folder(folder).changed == ()
    assert store.fsck() == []


def test_a_fresh_commit_leaves_nothing_stale(store: Store, folder: Path) -> None:
    (folder / "context/files/data.csv").write_text("new\n")
    store.commit_folder(folder)
    assert store.stale()
    assert store.commit_folder(folder, fresh=True).changed == ("package",)
    assert store.stale() == []
    assert store.commit_folder(folder, fresh=True).changed == ()
    assert store.commit_folder(folder).changed == ()
    assert store.fsck() == []


def test_a_new_package_is_pinned_to_what_is_there(store: Store, folder: Path) -> None:
    _change(folder / "package.json", lambda v: (v.update(name="two"), v.pop("edges")))
    done = store.commit_folder(folder)
    assert (done.package, done.changed) == ("two", ("context", "task", "harness", "verifier"))
    assert store.commit().subject == "Add two"
    assert store.stale() == []
    edges, _ = store.graph()
    assert [e.target for e in edges if e.source.startswith("two/")] == [
        "resources/files/shared", "two/context", "two/context", "two/context", "two/harness", "two/task",
    ]  # fmt: skip
    assert "two/context" in store.closure(["resources/files/shared"])


def test_only_package_json(store: Store, folder: Path) -> None:
    _change(folder / "package.json", lambda v: v.update(title="Another title"))
    assert store.commit_folder(folder).changed == ("package",)
    (folder / "README.md").write_text("About.\n")
    assert store.commit_folder(folder).changed == ("package",)
    assert store.stale() == []


def test_what_interpreters_leave_is_skipped_by_name(store: Store, folder: Path) -> None:
    (folder / "verifier/checks/__pycache__").mkdir()
    (folder / "verifier/checks/__pycache__/main.pyc").write_bytes(b"x")
    done = store.commit_folder(folder)
    assert (done.changed, done.skipped) == ((), ("verifier/checks/__pycache__",))


def test_checkout_does_not_overwrite(store: Store, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").touch()
    with pytest.raises(UsageError, match="not an empty folder"):
        store.checkout("one", tmp_path / "full")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="not an empty folder"):
        store.checkout("one", tmp_path / "file")
    (tmp_path / "empty").mkdir()
    store.checkout("one", tmp_path / "empty")
    assert (tmp_path / "empty/package.json").exists()
    with pytest.raises(NotFound, match="package not found: nope"):
        store.checkout("nope", tmp_path / "other")


BAD_RECORDS: list[tuple[str, Callable[[Any], object], str]] = [
    ("package.json", lambda v: v.update(colour="red"), "package.json: colour: Extra inputs are not permitted"),
    ("package.json", lambda v: v.update(title=3), "package.json: title: Input should be a valid string"),
    ("package.json", lambda v: v.update(name="../../x"), "package.json: name: "),
    ("package.json", lambda v: v.pop("title"), "package.json: title: Field required"),
    ("package.json", lambda v: v.update(schema_version=2), "schema_version: 2 was written by a newer rover"),
    ("task/task.json", lambda v: v.update(title=None), "task/task.json: title: "),
    ("harness/harness.json", lambda v: v.update(network="all"), "harness/harness.json: network: "),
    ("context/context.json", lambda v: v["resources"][0].update(tree="1" * 40), "resources.0.tree: no version 1111"),
    ("verifier/verifier.json", lambda v: v.update(pass_weight=float("nan")), "verifier/verifier.json: "),
]


@pytest.mark.parametrize(("file", "change", "message"), BAD_RECORDS)
def test_bad_records(store: Store, folder: Path, file: str, change: Callable[[Any], object], message: str) -> None:
    _change(folder / file, change)
    _refused(store, folder, message)


def _refused(store: Store, folder: Path, message: str) -> None:
    before = store.resolve(), store.op_log(), len(store.objects.packs)
    with pytest.raises(PackageError) as caught:
        store.commit_folder(folder)
    assert message in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.exit_code == 2
    assert (store.resolve(), store.op_log(), len(store.objects.packs)) == before
    assert store.fsck() == []


def _fifo(folder: Path) -> None:
    os.mkfifo(folder / "context/files/pipe")


def _link(folder: Path) -> None:
    (folder / "context/files/link").symlink_to("/etc/passwd")


def _folder_link(folder: Path) -> None:
    (folder / "context/files/outside").symlink_to("/etc")


def _sparse(folder: Path) -> None:
    with open(folder / "context/files/huge.bin", "wb") as file:
        file.truncate(5 << 30)


def _many_sparse(folder: Path) -> None:
    for i in range(6):
        with open(folder / f"context/files/part{i}.bin", "wb") as file:
            file.truncate(200 << 20)


def _case(folder: Path) -> None:
    (folder / "context/files/Data.csv").write_text("x")


def _unicode_twins(folder: Path) -> None:
    (folder / "context/files/\u00e9.csv").write_text("x")
    (folder / "context/files/e\u0301.csv").write_text("x")


def _newline(folder: Path) -> None:
    (folder / "context/files/a\nb.csv").write_text("x")


def _not_utf8(folder: Path) -> None:
    (Path(os.fsdecode(os.fsencode(folder) + b"/context/files/\xff.csv"))).write_text("x")


def _git_folder(folder: Path) -> None:
    (folder / "context/files/.git").mkdir()


def _git_disguise(folder: Path) -> None:
    (folder / "context/files/.g\u200cit").mkdir()
    (folder / "context/files/.g\u200cit/config").write_text("x")


def _stranger(folder: Path) -> None:
    (folder / "notes.txt").write_text("x")


def _socket(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(folder / "context/files")  # the name of a socket is short
        try:
            server.bind("s")
        finally:
            os.chdir(here)


def _link_loop(folder: Path) -> None:
    (folder / "context/files/loop").symlink_to("..")


def _backslash(folder: Path) -> None:
    (folder / "context/files/a\\b.csv").write_text("x")


def _base_below(folder: Path) -> None:
    (folder / ".rover-base").unlink()
    (folder / ".rover-base").symlink_to("/etc/passwd")


def _base_garbage(folder: Path) -> None:
    (folder / ".rover-base").write_text('{"package": 3}')


def _deep(folder: Path) -> None:
    path = folder / "context/files"
    for _ in range(40):
        path /= "d"
    path.mkdir(parents=True)


BAD_FOLDERS: list[tuple[Callable[[Path], object], str]] = [
    (_fifo, "context/files/pipe: is a FIFO"),
    (_link, "context/files/link: is a link"),
    (_folder_link, "context/files/outside: is a link"),
    (_link_loop, "context/files/loop: is a link"),
    (_socket, "context/files/s: is a socket"),
    (_backslash, "context/files/a\\b.csv: the name has a backslash"),
    (_base_below, ".rover-base: Too many levels of symbolic links"),
    (_base_garbage, ".rover-base: is damaged"),
    (_sparse, "context/files/huge.bin: 5.0 GiB; a file may have 256 MiB"),
    (_many_sparse, "the folder holds more than 1.0 GiB"),
    (_case, "the same name as 'Data.csv' where case does not count"),
    (_unicode_twins, "where case does not count"),
    (_newline, "control character or a line break"),
    (_not_utf8, "context/files/\\xff.csv: the name is not UTF-8"),
    (_git_folder, "context/files/.git: a git folder"),
    (_git_disguise, "a git folder"),
    (_stranger, "notes.txt: has no place in a package"),
    (_deep, "nested deeper"),
    (lambda f: (f / "task/contract.json").unlink(), "task/contract.json: missing"),
    (lambda f: (f / "task/instruction.md").write_text(" \n"), "task/instruction.md: is empty"),
    (lambda f: (f / "task/instruction.md").write_bytes(b"\xff\xfe"), "task/instruction.md: is not UTF-8"),
    (lambda f: (f / "package.json").write_text("{"), "package.json: not valid JSON"),
    (lambda f: (f / "package.json").write_text("[" * 100_000), "package.json: not valid JSON"),
    (lambda f: (f / "package.json").write_text("[]"), "package.json: must be a JSON object"),
]


@pytest.mark.parametrize(("spoil", "message"), BAD_FOLDERS)
def test_bad_folders(store: Store, folder: Path, spoil: Callable[[Path], object], message: str) -> None:
    spoil(folder)
    _refused(store, folder, message)


def test_names_in_unicode_are_fine(store: Store, folder: Path) -> None:
    (folder / "context/files/Übersicht 日本.csv").write_text("x")
    assert store.commit_folder(folder).changed == ("context",)
    assert store.find("HEAD:one/context/files/Übersicht 日本.csv").kind == "blob"


def test_not_a_folder(store: Store, tmp_path: Path) -> None:
    for path in (tmp_path / "nothing", tmp_path / "store/.rover/config.toml"):
        with pytest.raises(UsageError, match="is not a folder"):
            store.commit_folder(path)


def test_a_file_that_grows_while_it_is_read(folder: Path) -> None:
    intake = read_folder(folder)
    target = folder / "context/files/data.csv"
    with open(target, "a") as file:
        file.write("more")
    with pytest.raises(PackageError, match=r"context/files/data\.csv: changed while it was read"):
        intake.data("context/files/data.csv")


def test_a_file_that_becomes_a_link_while_it_is_read(folder: Path) -> None:
    intake = read_folder(folder)
    (folder / "context/files/data.csv").unlink()
    (folder / "context/files/data.csv").symlink_to("/etc/passwd")
    with pytest.raises(PackageError, match=r"data\.csv: cannot be read"):
        intake.data("context/files/data.csv")


def test_a_file_that_keeps_changing(store: Store, folder: Path) -> None:
    """Whatever a commit takes is one whole version, or it refuses."""
    stop = threading.Event()
    target = folder / "context/files/data.csv"
    versions = [bytes([65 + i]) * 50_000 for i in range(4)]
    target.write_bytes(versions[0])

    def churn() -> None:
        i = 0
        while not stop.is_set():
            i += 1
            scratch = folder.parent / "scratch"
            scratch.write_bytes(versions[i % 4])
            os.replace(scratch, target)
            time.sleep(0.001)

    worker = threading.Thread(target=churn)
    worker.start()
    refusals: list[str] = []
    try:
        for _ in range(15):
            try:
                store.commit_folder(folder)
            except PackageError as error:
                refusals.append(error.reason)
    finally:
        stop.set()
        worker.join()
    assert set(refusals) <= {"changed while it was read; try again"}
    assert store.fsck() == []
    for entry in store.log(package="one", component="context", limit=20):
        data = store.objects.read(store.find(f"{entry.id}:one/context/files/data.csv").id)
        assert data in versions or data == b"a,b\n3,2\n"


def test_limits_can_be_given(folder: Path) -> None:
    with pytest.raises(PackageError, match="more than 3 files"):
        read_folder(folder, FolderLimits(files=3))
    with pytest.raises(PackageError, match="longer than 20 bytes"):
        read_folder(folder, FolderLimits(path_bytes=20))


def test_someone_else_commits_between(store: Store, folder: Path) -> None:
    edit(store, "one", {"task/instruction.md": b"Theirs."})
    (folder / "context/files/data.csv").write_text("mine\n")
    (folder / ".rover-base").unlink()  # a folder that remembers nothing is what the package becomes
    done = store.commit_folder(folder)
    assert set(done.changed) == {"context", "task"}
    assert store.commit(done.commit).parents == (store.resolve("HEAD~1"),)


def test_an_admission_is_not_taken_from_a_folder(store: Store, folder: Path) -> None:
    """What a test found stands in the store; a folder cannot claim it, nor take it away."""

    def claim(parts: dict[str, str]) -> None:
        _change(folder / "package.json", lambda v: v.update(admission={"components": parts, "cases": 1, "digest": "d"}))

    def stored(name: str) -> object:
        tree = store.objects.list_tree(store.package(name).tree)
        return json.loads(store.objects.read(tree["package.json"].id)).get("admission")

    claim(dict(store.package("one").components))
    assert store.commit_folder(folder).changed == ()
    _change(folder / "package.json", lambda v: v.update(name="two"))
    store.commit_folder(folder)
    assert stored("one") is stored("two") is None

    found = {"components": dict(store.package("one").components), "cases": 9, "digest": "d"}
    record = store.objects.read(store.objects.list_tree(store.package("one").tree)["package.json"].id)
    edit(store, "one", {"package.json": json.dumps({**json.loads(record), "admission": found}).encode()})
    _change(folder / "package.json", lambda v: v.update(name="one", title="Another"))
    assert store.commit_folder(folder, force=True).changed == ("package",)
    assert stored("one") == found
