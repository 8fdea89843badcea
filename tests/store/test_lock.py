"""What a killed writer leaves, at each step, and what the next one makes of it."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

from store_samples import START, add, edit, new_store

from rover_store.lock import LOCK_FILE
from rover_store.packs import BLOB, PackWriter
from rover_store.ref_moves import move
from rover_store.store import Store


def _journal(store: Store, *lines: str) -> None:
    (store.git / LOCK_FILE).write_text("".join(f"{line}\n" for line in lines))


def test_unfinished_packs_are_removed(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    writer = PackWriter(store.git / "objects" / "pack")
    writer.add(BLOB, os.urandom(3 << 20))  # more than is held back until the end
    left = [p for p in (store.git / "objects" / "pack").iterdir() if p.name.startswith("tmp_pack_rover_")]
    assert len(left) == 1
    edit(store, "one", {"context/files/data.csv": b"2"})
    assert not left[0].exists()


def test_a_pack_without_its_index_is_removed(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    orphan = store.git / "objects" / "pack" / ("pack-" + "1" * 40 + ".pack")
    orphan.write_bytes(b"PACK")
    _journal(store, "ref refs/heads/main - " + "1" * 40, "pack pack-" + "1" * 40)
    edit(store, "one", {"context/files/data.csv": b"2"})
    assert not orphan.exists()
    assert store.fsck() == []


def test_a_lock_on_a_ref_is_removed(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    head = add(store, "one")
    lock = store.git / "refs" / "heads" / "main.lock"
    lock.touch()
    _journal(store, f"ref refs/heads/main {head} {head}")
    edit(store, "one", {"context/files/data.csv": b"2"})  # would wait ten seconds for a foreign lock
    assert not lock.exists()


def test_moves_that_have_begun_are_finished(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    first = add(store, "one")
    second = edit(store, "one", {"context/files/data.csv": b"2"})
    ops = store.refs.get("refs/rover/ops")
    previous = store.commit(str(ops)).parents[0]
    move(store.refs, {"refs/rover/ops": (ops, previous)})  # as if killed between the two refs
    _journal(store, f"ref refs/heads/main {first} {second}", f"ref refs/rover/ops {previous} {ops}", "go")
    store = Store.open(tmp_path, clock=lambda: START)
    store.tag("v1")
    assert [op.command for op in store.op_log()] == ["tag v1", "edit one", "add one"]


def test_moves_that_were_refused_are_not(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    first = add(store, "one")
    second = edit(store, "one", {"context/files/data.csv": b"2"})
    store.undo()
    _journal(store, f"ref refs/heads/main {first} {second}", "go", "no")
    with store.lock:
        pass
    assert store.resolve() == first
    assert (store.git / LOCK_FILE).read_text() == ""


def test_a_journal_of_garbage_hurts_nobody(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    (store.git / LOCK_FILE).write_bytes(b"\xff\xfenonsense\nref\npack\n\n")
    edit(store, "one", {"context/files/data.csv": b"2"})
    assert store.fsck() == []


def test_a_second_writer_waits(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    fd = os.open(store.git / LOCK_FILE, os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    done = threading.Event()

    def write() -> None:
        edit(store, "one", {"context/files/data.csv": b"2"})
        done.set()

    worker = threading.Thread(target=write)
    worker.start()
    assert not done.wait(0.2)
    assert len(list(store.log())) == 1  # reading goes on meanwhile
    os.close(fd)
    worker.join(10)
    assert done.is_set()
