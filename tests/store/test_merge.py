"""Merging branches: fast-forward, merge commits, conflicts that wait, are settled, dropped and undone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from store_samples import add, edit, git, new_store

from rover_store.errors import NotFound, PackageError, UsageError
from rover_store.merging.finish import continue_merge
from rover_store.merging.merge import merge
from rover_store.merging.open_merges import MERGES, abort, choose, open_merge, open_merges
from rover_store.merging.settle import write_folder
from rover_store.records import Task
from rover_store.store import Store

INSTRUCTION = "task/instruction.md"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = new_store(tmp_path / "store")
    add(made, "one")
    add(made, "two", resources={"files/orders": b"id\n1\n"})
    made.create_branch("trial")
    return made


def on(store: Store, branch: str, name: str, files: dict[str, bytes | None]) -> str:
    """Edit a package on a branch."""
    here = store.current_branch()
    assert here is not None
    store.switch(branch)
    done = edit(store, name, files)
    store.switch(here)
    return done


def text(store: Store, name: str, path: str, rev: str = "HEAD") -> str:
    return store.objects.read(store.find(f"{rev}:{name}/{path}").id).decode()


def conflicting(store: Store) -> None:
    """One conflict by line, one by field, one in a file without lines."""
    edit(store, "one", {"context/files/p.bin": b"\0base"})
    store.write().abort()
    with store.write("move") as tx:
        tx.promote("trial", store.resolve("main"), expect=store.branches()["trial"])
    for branch, word in (("main", "Ours"), ("trial", "Theirs")):
        on(store, branch, "one", {
            INSTRUCTION: f"{word} it.".encode(), "task/task.json": Task(title=word).dump(),
            "context/files/p.bin": f"\0{word}".encode(),
        })  # fmt: skip


def test_up_to_date_fast_forward_and_no_ff(store: Store) -> None:
    assert merge(store, "trial").status == "up to date"
    theirs = on(store, "trial", "one", {INSTRUCTION: b"New."})
    done = merge(store, "trial")
    assert (done.status, done.commit, store.resolve("main")) == ("fast-forward", theirs, theirs)
    theirs = on(store, "trial", "one", {INSTRUCTION: b"Newer."})
    done = merge(store, "trial", fast_forward=False)
    assert done.status == "merged"
    assert store.commit("main").parents[1] == theirs
    assert store.commit("main").trailers["Rover-Merge"] == theirs
    assert store.undo().command == "merge trial"
    assert merge(store, "main", into="trial").status == "up to date"


def test_different_packages_and_components(store: Store) -> None:
    ours = on(store, "main", "one", {INSTRUCTION: b"Ours."})
    on(store, "trial", "two", {INSTRUCTION: b"Two."})
    theirs = on(store, "trial", "one", {"verifier/checks/main.py": b"pass\n"})
    before = len(store.op_log())
    done = merge(store, "trial", message="Both")
    assert (done.status, done.taken, done.merged) == ("merged", ("two",), ("one",))
    found = store.commit("main")
    assert (found.parents, found.message) == ((ours, theirs), f"Both\n\nRover-Merge: {theirs}")
    assert text(store, "one", INSTRUCTION) == "Ours."
    assert text(store, "one", "verifier/checks/main.py") == "pass\n"
    assert text(store, "two", INSTRUCTION) == "Two."
    assert len(store.op_log()) == before + 1
    # the verifier of theirs never saw the task of ours
    assert ("verifier", "one/task") in {(s.component, s.target) for s in done.stale}
    assert ("verifier", "one/task") in {(s.component, s.target) for s in store.stale()}
    assert store.fsck() == []
    git(store.git, "fsck", "--strict")
    store.undo()
    assert store.resolve("main") == ours
    store.undo()
    assert store.resolve("main") == done.commit


def test_merging_does_not_depend_on_the_direction(store: Store) -> None:
    on(store, "main", "one", {INSTRUCTION: b"Ours."})
    on(store, "trial", "one", {"verifier/checks/main.py": b"pass\n"})
    store.create_branch("back", "trial")
    first = merge(store, "trial")
    second = merge(store, first.ours or "", into="back")
    assert store.commit("main").tree == store.commit("back").tree
    assert second.status == "merged"


def test_a_conflict_moves_no_branch_and_is_settled_in_a_folder(store: Store, tmp_path: Path) -> None:
    conflicting(store)
    head = store.resolve("main")
    done = merge(store, "trial")
    assert (done.status, done.commit, store.resolve("main")) == ("conflicts", None, head)
    assert {(c.kind, c.file) for c in done.conflicts} == {
        ("text", INSTRUCTION), ("field", "task/task.json"), ("file", "context/files/p.bin"),
    }  # fmt: skip
    assert [m.record.into for m in open_merges(store)] == ["main"]
    assert store.fsck() == []
    with pytest.raises(UsageError, match=r"3 conflict\(s\) are not settled"):
        continue_merge(store)
    folder = tmp_path / "resolve"
    write_folder(store, folder)
    with pytest.raises(UsageError, match="not an empty folder"):
        write_folder(store, folder)
    file = folder / "packages" / "one" / INSTRUCTION
    assert file.read_text().splitlines()[0] == "<<<<<<< main"
    assert (folder / "sides" / ids(done, "file") / "theirs.bin").read_bytes() == b"\0Theirs"
    with pytest.raises(PackageError, match=r"choose: nothing is chosen for one/"):
        continue_merge(store, folder)
    settle(folder, {ids(done, "file"): "theirs", ids(done, "field"): {"value": "Both"}})
    with pytest.raises(PackageError, match=r"one/task/instruction.md: line 1: a conflict marker is left"):
        continue_merge(store, folder)
    file.write_text("Agreed.\n")
    result = continue_merge(store, folder)
    assert (result.status, store.resolve("main")) == ("merged", result.commit)
    assert store.commit("main").parents == (head, done.theirs)
    assert text(store, "one", INSTRUCTION) == "Agreed.\n"
    assert Task.load(text(store, "one", "task/task.json").encode(), "").title == "Both"
    assert text(store, "one", "context/files/p.bin") == "\0Theirs"
    assert open_merges(store) == []
    assert store.fsck() == []
    with pytest.raises(NotFound):
        store.find("HEAD:merge.json")
    # who settled the components vouched for them: pinned to what is present
    left = {(s.component, s.target) for s in store.stale()}
    assert left == {("harness", "one/context"), ("verifier", "one/context"), ("verifier", "one/task")}
    store.undo()
    assert store.resolve("main") == head
    assert open_merge(store, "main") is not None


def ids(done: object, kind: str) -> str:
    return next(c.id for c in done.conflicts if c.kind == kind)  # type: ignore[attr-defined]


def settle(folder: Path, choices: dict[str, object]) -> None:
    value = json.loads((folder / "conflicts.json").read_text())
    for row in value["conflicts"]:
        row["choose"] = choices.get(row["id"], row["choose"])
    (folder / "conflicts.json").write_text(json.dumps(value))


def test_sides_by_glob_and_continue_without_a_folder(store: Store) -> None:
    conflicting(store)
    merge(store, "trial")
    there, count = choose(store, "theirs", "one/task/*")
    assert count == 2
    assert [c.choice for c in there.record.conflicts] == [None, "theirs", "theirs"]
    with pytest.raises(UsageError, match="no conflict matches"):
        choose(store, "ours", "nothing*")
    choose(store, "ours", "*.bin")
    result = continue_merge(store)
    assert text(store, "one", INSTRUCTION) == "Theirs it."
    assert text(store, "one", "context/files/p.bin") == "\0Ours"
    assert result.merged == ("one",)


def test_abort_and_undo_of_it(store: Store) -> None:
    conflicting(store)
    head = store.resolve()
    merge(store, "trial")
    abort(store)
    assert open_merges(store) == []
    assert store.resolve() == head
    store.undo()
    assert len(open_merges(store)) == 1
    abort(store)
    with pytest.raises(UsageError, match="no merge into main is open"):
        abort(store)


@pytest.mark.parametrize("favour", ["ours", "theirs"])
def test_favour(store: Store, favour: str) -> None:
    conflicting(store)
    assert merge(store, "trial", favour=favour).status == "merged"  # type: ignore[arg-type]
    assert text(store, "one", INSTRUCTION) == f"{favour.title()} it."
    assert store.fsck() == []


def test_a_branch_that_moved_is_merged_again(store: Store, tmp_path: Path) -> None:
    conflicting(store)
    merge(store, "trial")
    choose(store, "theirs", "one/task/*")
    add(store, "three")
    with pytest.raises(UsageError, match="main has moved since the merge of trial began"):
        continue_merge(store)
    again = merge(store, "trial")
    assert [c.choice for c in again.conflicts] == [None, "theirs", "theirs"]
    choose(store, "ours", "*.bin")
    continue_merge(store)
    assert store.package("three").name == "three"
    assert text(store, "one", INSTRUCTION) == "Theirs it."


def test_another_merge_does_not_throw_an_open_one_away(store: Store) -> None:
    conflicting(store)
    store.create_branch("third", "trial~1")
    on(store, "third", "two", {INSTRUCTION: b"Third."})
    merge(store, "trial")
    with pytest.raises(UsageError, match="a merge of trial into main is open"):
        merge(store, "third")


def test_deleted_here_changed_there(store: Store, tmp_path: Path) -> None:
    with store.write("remove") as tx:
        tx.remove_package("one")
        tx.commit("Remove one")
    on(store, "trial", "one", {INSTRUCTION: b"Changed."})
    done = merge(store, "trial")
    found = [(c.kind, c.package, c.reason) for c in done.conflicts]
    assert found == [("package", "one", "deleted by us, changed by them")]
    write_folder(store, tmp_path / "r")
    settle(tmp_path / "r", {"c1": "file"})
    (tmp_path / "r" / "packages" / "one" / INSTRUCTION).write_text("Kept.")
    continue_merge(store, tmp_path / "r")
    assert text(store, "one", INSTRUCTION) == "Kept."


def test_a_renamed_package_takes_the_change_along(store: Store) -> None:
    with store.write("rename") as tx:
        old = store.package("one")
        record = store.objects.read(store.objects.list_tree(old.tree)["package.json"].id)
        tx.set_package("uno", tx.edit_tree(old.tree, {"package.json": record.replace(b'"one"', b'"uno"')}))
        tx.remove_package("one")
        tx.commit("Rename")
    on(store, "trial", "one", {INSTRUCTION: b"Changed."})
    done = merge(store, "trial")
    assert (done.status, done.merged) == ("merged", ("uno",))
    assert text(store, "uno", INSTRUCTION) == "Changed."
    with pytest.raises(NotFound):
        store.package("one")


def test_resources_and_files_beside(store: Store) -> None:
    for branch, row in (("main", b"id\n1\n2\n"), ("trial", b"id\n1\n3\n")):
        store.switch(branch)
        with store.write("resource") as tx:
            tree = tx.edit_tree(store.resources()["files/orders"], {"files/data.csv": row})
            tx.set_resource("files/orders", tree)
            made = tx.commit("Resource")
            other = tx.detached_commit("File", base=made, files={"README.md": b"read\n", "packages/note.txt": row})
            tx.promote(branch, other, expect=made)
    store.switch("main")
    done = merge(store, "trial")
    assert [(c.kind, c.resource, c.file) for c in done.conflicts] == [
        ("text", "files/orders", "files/data.csv"), ("text", "", "packages/note.txt"),
    ]  # fmt: skip
    choose(store, "theirs")
    continue_merge(store)
    assert store.objects.read(store.find("HEAD:packages/note.txt").id) == b"id\n1\n3\n"


def test_criss_cross_histories_have_a_base_of_their_bases(store: Store) -> None:
    on(store, "main", "one", {INSTRUCTION: b"a\nb\nc\nd\nE\n"})
    on(store, "trial", "two", {INSTRUCTION: b"Two."})
    main, trial = store.branches()["main"], store.branches()["trial"]
    merge(store, trial)
    merge(store, main, into="trial")
    on(store, "main", "one", {INSTRUCTION: b"A\nb\nc\nd\nE\n"})
    on(store, "trial", "one", {INSTRUCTION: b"a\nb\nc\nD\nE\n"})
    done = merge(store, "trial")
    assert len(done.bases) == 2
    assert done.status == "merged"
    assert text(store, "one", INSTRUCTION) == "A\nb\nc\nD\nE\n"


def test_unrelated_histories(store: Store, tmp_path: Path) -> None:
    other = new_store(tmp_path / "other")
    add(other, "nine")
    git(store.git, "fetch", "-q", str(other.git), "main:refs/heads/alien")
    with pytest.raises(UsageError, match="have no commit in common"):
        merge(store, "alien")
    done = merge(store, "alien", unrelated=True)
    assert (done.status, done.taken) == ("merged", ("nine",))
    assert [p.name for p in store.packages()] == ["nine", "one", "two"]


def test_refusals(store: Store, tmp_path: Path) -> None:
    conflicting(store)
    for bad in ("nowhere", "0" * 40):
        with pytest.raises(NotFound):
            merge(store, bad)
    with pytest.raises(UsageError, match="there is no branch"):
        merge(store, "trial", into="nope")
    merge(store, "trial")
    folder = tmp_path / "r"
    write_folder(store, folder)
    (folder / "conflicts.json").write_text("[")
    with pytest.raises(PackageError, match="not valid JSON"):
        continue_merge(store, folder)
    (folder / "conflicts.json").write_text('{"merge": "x"}')
    with pytest.raises(PackageError, match="another state of this merge"):
        continue_merge(store, folder)
    assert store.refs.get(f"{MERGES}main") is not None


@pytest.mark.parametrize("data", [b"{", b"NaN", b"[]", b"7", b"", b"\xff", b"[" * 100_000])
@pytest.mark.parametrize("choice", ["theirs", {"value": "Both"}])
def test_a_record_that_was_broken_in_the_folder(store: Store, tmp_path: Path, data: bytes, choice: object) -> None:
    conflicting(store)
    done = merge(store, "trial")
    folder = tmp_path / "r"
    write_folder(store, folder)
    (folder / "packages/one/task/task.json").write_bytes(data)
    settle(folder, {ids(done, "text"): "ours", ids(done, "file"): "ours", ids(done, "field"): choice})
    with pytest.raises(PackageError, match=r"task\.json: (title: cannot be set|must be a JSON object)"):
        continue_merge(store, folder)
    assert store.resolve("main") == done.ours


def test_what_is_no_component_is_settled_in_the_folder_too(store: Store, tmp_path: Path) -> None:
    for branch, word in (("main", "ours"), ("trial", "theirs")):
        store.switch(branch)
        with store.write("several") as tx:
            package = store.package("one").tree
            data = store.objects.read(store.objects.list_tree(package)["package.json"].id)
            named = data.replace(b'"title": "One"', f'"title": "{word}"'.encode())
            tx.set_package("one", tx.edit_tree(package, {"package.json": named}))
            record = json.dumps({"name": "orders", "title": word}).encode()
            files = {"files/data.csv": f"id\n{word}\n".encode(), "resource.json": record}
            tx.set_resource("files/orders", tx.edit_tree(store.resources()["files/orders"], files))
            made = tx.commit("Several")
            beside = {"notes/a.md": f"{word}\n", "b.bin": f"\0{word}", "c.json": json.dumps({"x": word})}
            other = tx.detached_commit("Notes", base=made, files={k: v.encode() for k, v in beside.items()})
            tx.promote(branch, other, expect=made)
    store.switch("main")
    done = merge(store, "trial")
    assert [(c.kind, c.package or c.resource, c.file) for c in done.conflicts] == [
        ("field", "one", "package.json"), ("text", "files/orders", "files/data.csv"),
        ("field", "files/orders", "resource.json"), ("file", "", "b.bin"), ("field", "", "c.json"),
        ("text", "", "notes/a.md"),
    ]  # fmt: skip
    folder = tmp_path / "r"
    write_folder(store, folder)
    (folder / "resources/files/orders/files/data.csv").write_text("id\nboth\n")
    (folder / "tree/notes/a.md").write_text("both\n")
    assert (folder / "tree/b.bin").read_bytes() == b"\0ours"
    (folder / "tree/b.bin").write_bytes(b"\0both")
    settle(folder, {"c1": {"value": "Both"}, "c3": "theirs", "c4": "file", "c5": {"value": 7}})
    continue_merge(store, folder)
    assert json.loads(text(store, "one", "package.json"))["title"] == "Both"
    paths = ("resources/files/orders/files/data.csv", "notes/a.md", "b.bin", "c.json")
    found = [store.objects.read(store.find(f"HEAD:{p}").id) for p in paths]
    assert found == [b"id\nboth\n", b"both\n", b"\0both", b'{"x": 7}']
    record = store.objects.read(store.find("HEAD:resources/files/orders/resource.json").id)
    assert json.loads(record)["title"] == "theirs"
    # the package is still bound to the resource that its context lists: stale, not silently rebound
    assert ("two", "context", "resources/files/orders") in {(s.package, s.component, s.target) for s in store.stale()}
