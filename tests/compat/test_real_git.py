"""Real git reads what we write, and we read what real git writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from dulwich.repo import Repo
from store_samples import add, edit, git, new_store

from rover_store.names import package_path
from rover_store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = new_store(tmp_path / "store")
    add(store, "one", resources={"files/shared": b"1"})
    add(store, "two")
    edit(store, "one", {"task/instruction.md": "Zweite Fassung – größer.\n".encode()}, "Edit\n\nMit Umlauten: äöü")
    with store.write("repair") as tx:
        candidate = tx.detached_commit("Candidate", trailers={"Rover-Mask": "2"}, files={"case.json": b"{}"})
        tx.set_ref("refs/rover/cases/c1", candidate, expect=None)
    store.tag("v1", message="A release")
    return store


def test_fsck_log_and_show(store: Store) -> None:
    told = git(store.git, "fsck", "--full", "--strict").splitlines()
    assert [line for line in told if not line.startswith("dangling tree")] == []
    log = git(store.git, "log", "--format=%H %an <%ae> %at %s", "main").splitlines()
    assert log == [f"{e.id} {e.author} {e.time} {e.subject}" for e in store.log()]
    assert "größer" in git(store.git, "show", f"HEAD:{package_path('one')}/task/instruction.md")
    mask = git(store.git, "log", "-1", "--format=%(trailers:key=Rover-Mask,valueonly)", "refs/rover/cases/c1")
    assert mask.strip() == "2"
    assert git(store.git, "cat-file", "-t", "v1").strip() == "tag"
    assert "garbage: 0\n" in git(store.git, "count-objects", "-v")


def test_clone_holds_the_packages(store: Store, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--no-local", str(store.git), "clone")
    clone = tmp_path / "clone"
    files = {str(p.relative_to(clone)) for p in clone.rglob("*") if p.is_file() and ".git" not in p.parts}
    assert len([f for f in files if f.endswith("package.json")]) == 2
    assert "resources/files/shared/files/data.csv" in files
    git(clone, "fsck", "--full", "--strict")
    assert git(clone, "tag").strip() == "v1"


def test_a_pushed_commit_is_read(store: Store, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(store.git), "clone")
    clone = tmp_path / "clone"
    target = next(clone.rglob("one/task/instruction.md"))
    target.write_text("By another git.\n")
    git(clone, "commit", "-qam", "From outside")
    git(clone, "push", "-q", "origin", "main")
    entry = next(store.log(package="one"))
    assert (entry.subject, entry.author) == ("From outside", "Other <other@example.org>")
    assert [c.node for c in entry.changes] == ["one", "one/task"]
    assert store.objects.read(store.find("HEAD:one/task/instruction.md").id) == b"By another git.\n"
    assert [(s.component, s.target) for s in store.stale()] == [("verifier", "one/task")]
    assert store.fsck() == []
    edit(store, "one", {"context/files/data.csv": b"ours"})
    git(clone, "pull", "-q", "--ff-only")
    assert next(clone.rglob("one/context/files/data.csv")).read_bytes() == b"ours"


def test_gc_and_repack_of_git_keep_everything(store: Store) -> None:
    before = [(e.id, e.changes) for e in store.log()]
    git(store.git, "gc", "-q", "--prune=now")
    git(store.git, "pack-refs", "--all")
    again = Store.open(store.root, clock=store.clock)
    again.reindex()
    assert [(e.id, e.changes) for e in again.log()] == before
    assert again.fsck() == []
    assert list(again.cases()) == ["c1"]
    assert len(again.op_log()) == 5
    edit(again, "two", {"context/files/data.csv": b"after"})
    assert git(store.git, "rev-list", "--count", "main").strip() == "4"
    git(store.git, "fsck", "--full", "--strict")


def test_dulwich_reads_the_same(store: Store) -> None:
    with Repo(str(store.git)) as repo:
        walked = [entry.commit.id.decode() for entry in repo.get_walker()]
        assert walked == [e.id for e in store.log()]
        tree = repo[walked[0].encode()].tree.decode()
    assert tree == store.commit().tree


def test_evidence_is_a_repository_too(store: Store) -> None:
    git(store.folder / "evidence.git", "fsck", "--full", "--strict")
    assert git(store.folder / "evidence.git", "count-objects", "-v").splitlines()[-1].startswith("alternate: ")
