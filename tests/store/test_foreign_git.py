"""Another git at work on the same repository at the same time: pushes, packs refs, commits; and many readers."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from store_samples import add, edit, git, new_store

from rover_store.errors import LostRace, StoreError
from rover_store.store import Store

PUSHER = """
import subprocess, sys
from pathlib import Path
work, rounds = Path(sys.argv[1]), int(sys.argv[2])
said = lambda *words: subprocess.run(["git", *words], cwd=work, capture_output=True, text=True)
for i in range(rounds):
    (work / "notes.md").write_text(f"{i}\\n")
    said("add", "-A")
    assert said("commit", "-qm", f"Pushed {i}").returncode == 0
    for attempt in range(50):
        done = said("push", "-q", "origin", "HEAD:main")
        if done.returncode == 0:
            print(said("rev-parse", "HEAD").stdout.strip(), flush=True)
            break
        refusals = ("fetch first", "rejected", "failed to update ref", "cannot lock ref", "File exists")
        assert any(word in done.stderr for word in refusals), done.stderr
        done = said("pull", "-q", "--rebase", "origin", "main")
        assert done.returncode == 0, done.stderr
    else:
        raise SystemExit("never got through")
    said("--git-dir", str(work / ".." / "store/.rover/store.git"), "pack-refs", "--all")
"""


def test_a_git_that_pushes_all_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sides get all their commits; what does not fit at the moment is refused in clean words."""
    for key in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{key}_NAME", "Other")
        monkeypatch.setenv(f"GIT_{key}_EMAIL", "other@example.org")
    store = new_store(tmp_path / "store")
    add(store, "one")
    git(tmp_path, "clone", "-q", str(store.git), "work")
    arguments = [sys.executable, "-c", PUSHER, str(tmp_path / "work"), "5"]
    ours: list[str] = []
    refused = 0
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        while child.poll() is None or len(ours) < 5:
            try:
                ours.append(edit(store, "one", {"context/files/data.csv": b"%d" % len(ours)}))
            except LostRace:
                refused += 1
            if child.poll() is None:  # a pull and a push of git need some time without news to get through
                threading.Event().wait((0.02, 0.2, 1.5)[len(ours) % 3])
        assert child.stdout is not None
        assert child.stderr is not None
        pushed, errors = child.stdout.read().split(), child.stderr.read()
    assert errors == ""
    assert len(pushed) == 5
    history = {entry.id for entry in store.log()}
    assert [commit for commit in (*ours, *pushed) if commit not in history] == []
    assert git(store.git, "fsck", "--full", "--strict", "--no-dangling").strip() == ""
    assert store.fsck() == []
    assert {move.new for op in store.op_log() if op.command == "(another git)" for move in op.moves} <= history
    assert not list(store.git.rglob("*.lock"))
    assert refused <= len(ours) + 20


READER = """
import sys, threading
from pathlib import Path
from rover_store.store import Store

store = Store.open(Path(sys.argv[1]))
wrong, rounds = [], 0

def look():
    global rounds
    while not stop.is_set():
        try:
            seen = store.resolve()
            names = {p.name: p for p in store.packages(seen)}
            items = [store.objects.subtree(names[n].tree, "context/files/data.csv") for n in ("one", "two")]
            a, b = (store.objects.read(item.id) for item in items)
            if a != b:
                wrong.append(f"half a commit: {a} {b}")
            head = {p.name: p.tree for p in store.packages()}
            if store.objects.subtree(head["one"], "context/files/data.csv").id != \\
                    store.objects.subtree(head["two"], "context/files/data.csv").id:
                wrong.append("half a commit in the index")
            if next(store.log(package="one", limit=1)).subject != "Both":
                wrong.append("log")
            rounds += 1
        except Exception as error:
            wrong.append(f"{type(error).__name__}: {error}")

stop = threading.Event()
threads = [threading.Thread(target=look) for _ in range(3)]
[t.start() for t in threads]
print("ready", flush=True)
sys.stdin.readline()
stop.set()
[t.join() for t in threads]
print(rounds, *wrong[:3], sep="\\n")
"""


def test_readers_never_see_half_a_commit(tmp_path: Path) -> None:
    """Two reading processes of three threads each beside a writer whose packs are rolled together meanwhile."""
    store = new_store(tmp_path)
    for name in ("one", "two"):
        add(store, name)

    def both(i: int) -> None:
        with store.write("both") as tx:
            for name in ("one", "two"):
                tx.set_package(name, tx.edit_tree(store.package(name).tree, {"context/files/data.csv": b"%d" % i}))
            tx.commit("Both")

    both(0)
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", READER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for reader in readers:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
    for i in range(1, 90):
        both(i)
    for reader in readers:
        out, _ = reader.communicate("stop\n", timeout=120)
        rounds, *wrong = out.splitlines()
        assert wrong == []
        assert int(rounds) > 3
    assert len(store.objects.packs) < 60
    assert len(list(store.log())) == 92


def test_many_threads_write_through_one_store(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    made: list[str] = []
    errors: list[Exception] = []

    def write(n: int) -> None:
        try:
            for i in range(6):
                made.append(edit(store, "one", {f"context/files/{n}": b"%d" % i}))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    history = {entry.id for entry in store.log()}
    assert len(set(made)) == 24
    assert set(made) <= history


def test_a_child_forked_while_writing_holds_nothing(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    with store.write("edit") as tx:
        tx.set_package("one", tx.edit_tree(store.package("one").tree, {"context/files/data.csv": b"2"}))
        tx.commit("Edit")
        child = os.fork()
        if child == 0:  # lives on after its parent has let go of the lock
            threading.Event().wait(1.0)
            os._exit(0)
    edit(store, "one", {"context/files/data.csv": b"3"})
    assert os.waitpid(child, os.WNOHANG) == (0, 0)  # it did not wait for the child
    os.waitpid(child, 0)
    assert len(list(store.log())) == 3


def test_the_store_goes_away_under_a_reader(tmp_path: Path) -> None:
    import shutil

    store = new_store(tmp_path)
    add(store, "one")
    again = Store.open(tmp_path)
    assert [p.name for p in again.packages()] == ["one"]
    shutil.rmtree(tmp_path / ".rover")
    with pytest.raises(StoreError) as caught:
        again.resolve()
    assert "\n" not in str(caught.value)
    with pytest.raises(StoreError, match="cannot write to the store"):
        edit(again, "one", {"context/files/data.csv": b"2"})
    with pytest.raises(StoreError):
        Store.open(tmp_path)
