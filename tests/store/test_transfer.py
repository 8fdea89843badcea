"""Clone, fetch, push and pull: what travels and what stays, and what plain git makes of it."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from store_samples import add, edit, git, new_store

from rover_store.errors import NotFound, PackageError, RoverError, UsageError
from rover_store.merging.open_merges import open_merges
from rover_store.objects import Objects
from rover_store.packs import BLOB, COMMIT, TREE, PackWriter
from rover_store.records import SealedAudit
from rover_store.ref_moves import move
from rover_store.refs import CASES, Refs
from rover_store.sealed import read_for_audit
from rover_store.store import Store
from rover_store.transfer import remotes
from rover_store.transfer.remotes import place, without_secrets
from rover_store.transfer.transfer import clone, fetch, pull, push

INSTRUCTION = "task/instruction.md"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = new_store(tmp_path / "source")
    add(made, "one")
    add(made, "two", resources={"files/orders": b"id\n1\n"})
    made.create_branch("trial")
    made.tag("v1", message="First")
    return made


def ids(repository: Path) -> set[str]:
    return set(git(repository, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split())


def test_clone_of_a_folder(store: Store, tmp_path: Path) -> None:
    with store.write("case") as tx:
        case = tx.detached_commit("Case", files={"case.json": b"{}\n"})
        tx.set_ref(f"{CASES}one-1", case)
    store.sealed.append("one", SealedAudit(package="one"))
    done = clone(str(tmp_path / "source"), tmp_path / "copy")
    copy = Store.open(tmp_path / "copy")
    assert (done.branch, done.commit, done.packages) == ("main", store.resolve(), 2)
    assert copy.packages() == store.packages()
    assert copy.branches() == {"main": store.resolve()}
    assert copy.tags() == store.tags()
    assert copy.resolve("origin/trial") == store.resolve("trial")
    assert copy.cases() == {}
    listing = ("rev-list", "--objects", "--no-object-names")
    reachable = set(git(store.git, *listing, "main", "trial", "v1").split())
    assert case not in ids(copy.git)
    # all that came is what branches and tags reach; the rest is the log of operations, which begins here
    assert ids(copy.git) - set(git(copy.git, *listing, "refs/rover/ops").split()) <= reachable
    assert not (copy.folder / "sealed.git").exists()
    assert {op.command.split()[0] for op in copy.op_log()} == {"clone"}
    assert copy.fsck() == []
    git(copy.git, "fsck", "--strict")
    assert remotes.remotes(copy)["origin"].url == str(store.git)
    assert git(copy.git, "remote", "get-url", "origin").strip() == str(store.git)


def test_sealed_audits_only_when_asked_for(store: Store, tmp_path: Path) -> None:
    record = SealedAudit(package="one", answers={"r": 1})
    store.sealed.append("one", record)
    clone(str(store.root), tmp_path / "plain")
    assert read_for_audit(Store.open(tmp_path / "plain"), "one") == ()
    done = clone(str(store.root), tmp_path / "full", sealed=True)
    assert done.fetched.sealed == 1
    assert read_for_audit(Store.open(tmp_path / "full"), "one") == (record,)
    bare = tmp_path / "bare.git"
    git(tmp_path, "init", "-q", "--bare", str(bare))
    with pytest.raises(UsageError, match="only from a rover store"):
        clone(str(bare), tmp_path / "third", sealed=True)
    assert not (tmp_path / "third").exists()


def test_a_part_of_a_store_is_no_place(store: Store, tmp_path: Path) -> None:
    store.sealed.append("one", SealedAudit(package="one", answers={"r": 1}))
    for part in ("sealed.git", "evidence.git"):
        with pytest.raises(UsageError, match="a part of a store"):
            clone(f"file://{store.folder / part}", tmp_path / "x")
        with pytest.raises(UsageError, match="a part of a store"):
            push(store, str(store.folder / part))
    assert not (tmp_path / "x").exists()


def test_what_a_git_pushes_among_the_sealed_audits_hides_no_commit(store: Store) -> None:
    record = SealedAudit(package="one", answers={"r": 1})
    store.sealed.append("one", record)
    apart, audit = store.folder / "sealed.git", Refs(store.folder / "sealed.git").get("refs/rover/sealed")
    head = store.resolve("HEAD")
    git(store.git, "push", "-q", str(apart), "main")
    for pack in (apart / "objects" / "pack").iterdir():  # as an older store held them
        shutil.copy(pack, store.git / "objects" / "pack")
    again = Store.open(store.root)
    assert again.resolve("HEAD") == head
    assert next(e.id for e in again.log()) == head
    with pytest.raises(NotFound):
        again.resolve(str(audit))


def test_two_people_over_a_bare_repository_and_git_in_the_middle(store: Store, tmp_path: Path) -> None:
    bare = tmp_path / "shared.git"
    git(tmp_path, "init", "-q", "--bare", "-b", "main", str(bare))
    remotes.add(store, "origin", str(bare))
    done = push(store, tags=True)
    assert done.pushed == ("refs/heads/main", "refs/tags/v1")
    assert push(store).pushed == ()
    clone(str(bare), tmp_path / "bob")
    bob = Store.open(tmp_path / "bob")
    edit(bob, "one", {INSTRUCTION: b"Bob."})
    push(bob)
    edit(store, "two", {INSTRUCTION: b"Alice."})
    with pytest.raises(UsageError, match="has commits that this store does not have"):
        push(store)
    assert pull(store).merged.status == "merged"
    push(store)
    # a third one with git alone
    git(tmp_path, "clone", "-q", str(bare), "plain")
    path = git(tmp_path / "plain", "ls-files", "packages/*/one/task/instruction.md").strip()
    (tmp_path / "plain" / path).write_text("By git.\n")
    git(tmp_path / "plain", "commit", "-qam", "Change one by git")
    git(tmp_path / "plain", "push", "-q")
    result = pull(bob)
    assert result.merged.status == "fast-forward"
    found = bob.find(f"HEAD:one/{INSTRUCTION}")
    assert bob.objects.read(found.id) == b"By git.\n"
    assert next(iter(bob.log(package="one"))).author == "Other <other@example.org>"
    assert bob.fsck() == []
    git(bare, "fsck", "--strict")


def test_pull_with_a_conflict_waits(store: Store, tmp_path: Path) -> None:
    clone(str(store.root), tmp_path / "bob")
    bob = Store.open(tmp_path / "bob")
    edit(store, "one", {INSTRUCTION: b"Alice."})
    mine = edit(bob, "one", {INSTRUCTION: b"Bob."})
    result = pull(bob)
    assert [c.file for c in result.merged.conflicts] == [INSTRUCTION]
    assert bob.resolve() == mine
    assert open_merges(bob)[0].record.other == "origin/main"
    with pytest.raises(UsageError, match="has commits that this store does not have"):
        push(bob)


def test_push_into_a_store_is_an_operation_there(store: Store, tmp_path: Path) -> None:
    clone(str(store.root), tmp_path / "bob")
    bob = Store.open(tmp_path / "bob")
    new = edit(bob, "one", {INSTRUCTION: b"Bob."})
    bob.tag("v2")
    done = push(bob, tags=True)
    assert [(u.ref, u.new) for u in done.updates] == [("main", new), ("tag v2", bob.refs.get("refs/tags/v2"))]
    assert store.resolve() == new
    assert store.package("one") == bob.package("one")
    assert store.fsck() == []
    store.undo()
    assert store.resolve() != new
    remotes.add(store, "self", str(store.root))
    with pytest.raises(UsageError, match="cannot be pushed to itself"):
        push(store, "self")


def test_a_tag_is_never_replaced(store: Store, tmp_path: Path) -> None:
    clone(str(store.root), tmp_path / "bob")
    bob = Store.open(tmp_path / "bob")
    store.delete_tag("v1")
    store.tag("v1", "HEAD~1", "Another")
    assert fetch(bob).kept == ("v1",)
    assert push(bob, tags=True).kept == ("v1",)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[str]:
    """A git server of its own on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = ["git", "daemon", "--reuseaddr", "--export-all", "--enable=receive-pack", f"--base-path={tmp_path}",
               f"--port={port}", "--listen=127.0.0.1", str(tmp_path)]  # fmt: skip
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    (tmp_path / ".gitconfig").write_text("[safe]\n\tdirectory = *\n")
    server = subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL)
    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    yield f"git://127.0.0.1:{port}"
    server.terminate()
    server.wait()


def test_over_a_network(store: Store, tmp_path: Path, daemon: str) -> None:
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "net.git")
    remotes.add(store, "origin", f"{daemon}/net.git")
    push(store, tags=True)
    done = clone(f"{daemon}/net.git", tmp_path / "bob")
    bob = Store.open(tmp_path / "bob")
    assert (done.branch, bob.tags(), bob.packages()) == ("main", store.tags(), store.packages())
    new = edit(bob, "one", {INSTRUCTION: b"Bob."})
    push(bob)
    assert pull(store).merged.commit == new
    edit(store, "one", {INSTRUCTION: b"Alice."})
    push(store)
    edit(bob, "two", {INSTRUCTION: b"Bob."})
    with pytest.raises(UsageError, match="has commits that this store"):
        push(bob)
    assert pull(bob).merged.status == "merged"
    assert not list(bob.folder.glob("incoming-*"))
    assert bob.fsck() == []
    with pytest.raises(RoverError, match="git: "):
        clone(f"{daemon}/nothing.git", tmp_path / "no")
    assert not (tmp_path / "no").exists()


def hostile(tmp_path: Path, name: bytes) -> Path:
    """A repository whose tree has a name that no checkout may meet."""
    repository = tmp_path / "hostile.git"
    git(tmp_path, "init", "-q", "--bare", "-b", "main", str(repository))
    writer = PackWriter(repository / "objects" / "pack")
    blob = writer.add(BLOB, b"x")
    inner = writer.add(TREE, b"100644 config\0" + bytes.fromhex(blob))
    tree = writer.add(TREE, b"40000 " + name + b"\0" + bytes.fromhex(inner))
    person = b"A <a@b> 1700000000 +0000"
    data = b"tree " + tree.encode() + b"\nauthor " + person + b"\ncommitter " + person + b"\n\nx\n"
    commit = writer.add(COMMIT, data)
    writer.finish()
    move(Refs(repository), {"refs/heads/main": (None, commit)})
    return repository


@pytest.mark.parametrize("name", [b".git", b"..", b".GIT "])
def test_a_hostile_tree_is_refused_by_name(tmp_path: Path, name: bytes, daemon: str) -> None:
    hostile(tmp_path, name)
    for i, url in enumerate((str(tmp_path / "hostile.git"), f"{daemon}/hostile.git")):
        with pytest.raises(PackageError, match=r"(tree|object) [0-9a-f]{40}: hasDot\w+: .*; refused"):
            clone(url, tmp_path / f"c{i}")
        assert not (tmp_path / f"c{i}").exists()


@pytest.mark.parametrize("url", [
    "", "--upload-pack=touch x", "-x", "ext::sh -c touch% x", "fd::17", "http://", "ftp://host/x", "file://host/x",
    "ssh://-oProxyCommand=x/y", "-oProxyCommand=x:y", "x\ny", "javascript:", "https://host:99999999/x",
    "transport::address", "git::x",
])  # fmt: skip
def test_urls_that_are_refused(store: Store, tmp_path: Path, url: str) -> None:
    with pytest.raises(UsageError):
        clone(url, tmp_path / "x")
    with pytest.raises(UsageError):
        remotes.add(store, "bad", url)
    assert remotes.remotes(store) == {}


def test_secrets_are_not_shown() -> None:
    assert without_secrets("fatal: https://me:secret@host/x denied") == "fatal: https://me:***@host/x denied"
    assert without_secrets("https://ghp_token@host/x") == "https://***@host/x"
    assert place("https://me:secret@host/x").shown == "https://me:***@host/x"
    assert place("git@host.org:team/suite.git").kind == "network"
    with pytest.raises(UsageError) as caught:
        place("ftp://me:secret@host/x")
    assert "secret" not in caught.value.message


def test_remotes_are_those_of_git(store: Store, tmp_path: Path) -> None:
    git(store.git, "remote", "add", "upstream", "https://example.org/x.git")
    remotes.add(store, "origin", str(store.root))
    assert list(remotes.remotes(store)) == ["origin", "upstream"]
    with pytest.raises(UsageError, match="exists already"):
        remotes.add(store, "origin", str(store.root))
    for bad in ("", "a b", "../x", "-x", "x.lock"):
        with pytest.raises(UsageError):
            remotes.add(store, bad, str(store.root))
    remotes.remove(store, "upstream")
    with pytest.raises(NotFound):
        remotes.remove(store, "upstream")
    assert git(store.git, "remote").split() == ["origin"]
    assert git(store.git, "config", "gc.auto").strip() == "0"
    assert store.fsck() == []


def test_refusals_of_clone(store: Store, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no branch nope"):
        clone(str(store.root), tmp_path / "x", branch="nope")
    assert not (tmp_path / "x").exists()
    with pytest.raises(UsageError, match="exists already"):
        clone(str(store.root), store.root)
    with pytest.raises(UsageError, match="no such folder"):
        clone(str(tmp_path / "nothing"), tmp_path / "x")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="neither a rover store"):
        clone(str(tmp_path / "empty"), tmp_path / "x")
    assert clone(str(new_store(tmp_path / "new").root), tmp_path / "y").commit is None


def test_a_missing_object_in_the_source_leaves_nothing(store: Store, tmp_path: Path) -> None:
    clone(str(store.root), tmp_path / "bob")
    bob = Store.open(tmp_path / "bob")
    before = bob.resolve("origin/main")
    edit(store, "one", {INSTRUCTION: b"New."})
    last = max((store.git / "objects" / "pack").glob("*.pack"), key=lambda p: p.stat().st_mtime_ns)
    hidden = last.with_suffix(".idx").read_bytes()
    last.with_suffix(".idx").unlink()
    with pytest.raises(RoverError):
        fetch(bob)
    assert bob.resolve("origin/main") == before
    last.with_suffix(".idx").write_bytes(hidden)
    assert fetch(bob).updates[0].ref == "origin/main"
    assert Objects(bob.git).exists(store.resolve())


def _race(root: str, name: str, times: int) -> None:
    store = Store.open(Path(root))
    done = 0
    while done < times:
        add(store, f"{name}-{done}")
        while True:
            assert pull(store).merged.status != "conflicts"
            try:
                push(store)
            except UsageError:  # another one was first: pull again
                continue
            break
        done += 1


@pytest.mark.parametrize("between", ["store", "bare"])
def test_pushes_at_the_same_time_lose_nothing(store: Store, tmp_path: Path, between: str) -> None:
    url = str(store.root)
    if between == "bare":
        git(tmp_path, "init", "-q", "--bare", "-b", "main", "shared.git")
        url = str(tmp_path / "shared.git")
        remotes.add(store, "origin", url)
        push(store)
    people = ["ann", "bob", "cem"]
    for name in people:
        clone(url, tmp_path / name)
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_race, args=(str(tmp_path / n), n, 3)) for n in people]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    clone(url, tmp_path / "end")
    end = Store.open(tmp_path / "end")
    assert {p.name for p in end.packages()} == {"one", "two", *(f"{n}-{i}" for n in people for i in range(3))}
    assert end.fsck() == []


def test_the_environment_of_git_is_cleaned(
    store: Store, tmp_path: Path, daemon: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "net.git")
    remotes.add(store, "origin", f"{daemon}/net.git")
    touched = tmp_path / "touched"
    for name, value in {
        "GIT_DIR": "/nowhere", "GIT_OBJECT_DIRECTORY": "/nowhere", "GIT_WORK_TREE": "/",
        "GIT_PROXY_COMMAND": f"touch {touched}",
        "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.gitProxy", "GIT_CONFIG_VALUE_0": f"touch {touched}",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": "/nowhere", "GIT_NAMESPACE": "other", "GIT_TRACE": str(touched),
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    push(store)
    clone(f"{daemon}/net.git", tmp_path / "bob")
    assert Store.open(tmp_path / "bob").resolve() == store.resolve()
    assert not touched.exists()


def test_branches_that_are_gone_there_and_shallow_clones(store: Store, tmp_path: Path) -> None:
    clone(str(store.root), tmp_path / "bob")
    bob = Store.open(tmp_path / "bob")
    store.delete_branch("trial")
    assert [(u.ref, u.new) for u in fetch(bob).updates] == [("origin/trial", None)]
    with pytest.raises(NotFound):
        bob.resolve("origin/trial")
    git(tmp_path, "clone", "-q", "--bare", "--depth", "1", f"file://{store.git}", "shallow.git")
    with pytest.raises(UsageError, match="is a shallow clone"):
        clone(str(tmp_path / "shallow.git"), tmp_path / "x")
    with pytest.raises(UsageError, match="no glob"):
        clone(str(store.root), tmp_path / "x", packages=("a\n[core]",))
