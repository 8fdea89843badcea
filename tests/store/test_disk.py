"""Disks and machines that do not play along: read-only, without locks, full, with a clock that goes backwards."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from store_samples import add, edit, git, new_store

from rover_store import durable, lock, oplog
from rover_store.errors import RoverError, StoreError, UsageError
from rover_store.lock import file_system
from rover_store.store import Store


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_folder_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    store = new_store(tmp_path)
    head = add(store, "one")

    def refuse(_fd: int, _how: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StoreError, match=r"store.git: its file system \(\w+\) cannot lock files") as caught:
        edit(store, "one", {"context/files/data.csv": b"2"})
    assert (caught.value.exit_code, "local disk" in caught.value.hint) == (3, True)
    assert [p.name for p in store.packages()] == ["one"]  # reading needs no lock
    monkeypatch.undo()
    assert store.resolve() == head
    edit(store, "one", {"context/files/data.csv": b"2"})


def test_file_systems_are_named() -> None:
    assert file_system(Path("/proc/self")) == "proc"
    assert file_system(Path("/")) != "unknown"


READ_ONLY = """
import ctypes, os, sys
from pathlib import Path
libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWUSER, CLONE_NEWNS = 0x10000000, 0x20000
MS_BIND, MS_REMOUNT, MS_RDONLY, MS_REC, MS_PRIVATE = 4096, 32, 1, 16384, 1 << 18
folder = sys.argv[1].encode()
if libc.unshare(CLONE_NEWNS) and libc.unshare(CLONE_NEWUSER | CLONE_NEWNS):
    sys.exit(77)
if libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None) or libc.mount(folder, folder, None, MS_BIND, None) or \\
        libc.mount(None, folder, None, MS_BIND | MS_REMOUNT | MS_RDONLY, None):
    sys.exit(77)
from rover.cli.main import run
os.chdir(sys.argv[1])
for words in (["list"], ["log"], ["op", "log"], ["status"], ["tag", "v2"], ["undo"], ["branch", "b"], ["init"]):
    print("code:", words[0], run(words), flush=True)
"""


def test_a_read_only_disk_reads_and_refuses_to_write(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    for file in store.folder.glob("index.db*"):
        file.unlink()
    done = subprocess.run([sys.executable, "-c", READ_ONLY, str(tmp_path)], capture_output=True, text=True, check=False)
    if done.returncode == 77:
        pytest.skip("no mount namespaces here")
    codes = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("code: ")]
    assert codes == [
        ["list", "0"], ["log", "0"], ["op", "0"], ["status", "0"], ["tag", "3"], ["undo", "3"], ["branch", "3"],
        ["init", "2"],
    ], done.stdout + done.stderr  # fmt: skip
    said = [line for line in done.stderr.splitlines() if line.startswith("rover: ")]
    assert len(said) == 4
    assert all("Read-only file system" in line for line in said[:3])


def test_a_failed_fsync_acknowledges_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever fsync of a write it is: an error, and either all of it or none."""
    store = new_store(tmp_path)
    add(store, "one")
    real, outcomes = os.fsync, []
    for n in range(12):
        calls = iter(range(100))

        def failing(fd: int, n: int = n, calls: object = calls) -> None:
            if next(calls) == n:  # type: ignore[call-overload]
                raise OSError(errno.EIO, "Input/output error")
            real(fd)

        monkeypatch.setattr(durable, "_SLOW_S", 1e9)
        monkeypatch.setattr(os, "fsync", failing)
        before, log = store.resolve(), len(store.op_log())
        try:
            edit(store, "one", {"context/files/data.csv": b"%d" % n})
        except OSError:
            outcomes.append("failed")
            assert (store.resolve() == before) == (len(store.op_log()) == log)
        else:
            outcomes.append("done")
        monkeypatch.setattr(os, "fsync", real)
        assert store.fsck() == []
        assert not list(store.git.rglob("*.lock"))
    assert outcomes == sorted(outcomes, reverse=True)
    assert outcomes.count("failed") >= 5
    assert outcomes[-1] == "done"


def test_an_error_while_giving_up_does_not_hide_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    fsync, unlink = os.fsync, os.unlink

    def full(_fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def broken(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr(os, "unlink", broken)
    with pytest.raises(OSError, match="No space left on device"):
        edit(store, "one", {"context/files/data.csv": b"2"})
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "unlink", unlink)
    edit(store, "one", {"context/files/data.csv": b"2"})
    assert not [p for p in store.folder.rglob("*") if "tmp_" in p.name or p.name.endswith(".lock")]


def test_a_clock_that_goes_backwards(tmp_path: Path) -> None:
    times = iter((5000, 5000, 4000, 4000, 3000, 3000, 0, 0, 6000, 6000))
    store = Store.init(tmp_path, clock=lambda: next(times))
    made = [add(store, "one")] + [edit(store, "one", {"context/files/data.csv": b"%d" % i}) for i in range(4)]
    assert [entry.id for entry in store.log()] == made[::-1]
    assert [entry.id for entry in store.log(package="one")] == made[::-1]
    assert [op.moves[0].new for op in store.op_log()] == made[::-1]
    assert git(store.git, "log", "--format=%H").split() == made[::-1]
    assert store.fsck() == []


def test_two_inits_at_once(tmp_path: Path) -> None:
    said: list[str] = []
    gate = threading.Barrier(4)

    def make() -> None:
        gate.wait()
        try:
            Store.init(tmp_path / "project")
            said.append("made")
        except UsageError as error:
            said.append(error.message)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(said)[-1] == "made"
    assert said.count("made") == 1
    assert all("exists already" in line for line in said if line != "made")
    assert [p.name for p in (tmp_path / "project").iterdir()] == [".rover"]
    assert Store.open(tmp_path / "project").fsck() == []


def test_what_a_killed_init_left_is_swept(tmp_path: Path) -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    dead, alive = tmp_path / f".rover.tmp-{child.pid}-1", tmp_path / f".rover.tmp-{os.getpid()}-1"
    for folder in (dead, alive):
        (folder / "store.git").mkdir(parents=True)
    Store.init(tmp_path)
    assert (dead.exists(), alive.exists()) == (False, True)


def test_unfinished_packs_of_another_git_go_after_a_day(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    fresh, old = (store.git / "objects" / "pack" / name for name in ("tmp_pack_AAAAAA", "tmp_idx_BBBBBB"))
    for path in (fresh, old):
        path.write_bytes(b"PACK")
    os.utime(old, (time.time() - 2 * 86_400,) * 2)
    edit(store, "one", {"context/files/data.csv": b"2"})
    assert (fresh.exists(), old.exists()) == (True, False)


def test_a_writer_keeps_its_turn_only_for_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    monkeypatch.setattr(lock, "_TURN_S", 1000.0)
    store.lock._turn_ends = 0.0
    doors: list[str] = []
    opened: Callable[[Path], int] = lock._opened
    monkeypatch.setattr(lock, "_opened", lambda path: (doors.append(path.name), opened(path))[1])
    for _ in range(3):
        with store.lock:
            pass
    assert doors == ["rover.turnstile", "rover.flock", "rover.flock", "rover.flock"]
    held = os.open(store.git / "rover.flock", os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    threading.Timer(0.2, lambda: os.close(held)).start()
    with store.lock:
        assert doors[4:] == ["rover.flock", "rover.turnstile", "rover.flock"]


@pytest.mark.parametrize("at", range(1, 7))
def test_an_interrupt_while_the_lock_is_taken_or_given_back(
    at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for a lock that this process forgot to give back, itself least of all."""
    store = new_store(tmp_path)
    add(store, "one")
    store.lock._turn_ends = 0.0
    real, calls = fcntl.flock, 0

    def flock(fd: int, how: int) -> None:
        nonlocal calls
        real(fd, how)
        calls += 1
        if calls == at:
            raise KeyboardInterrupt

    monkeypatch.setattr(fcntl, "flock", flock)
    with contextlib.suppress(KeyboardInterrupt), store.lock:
        pass
    monkeypatch.setattr(fcntl, "flock", real)
    assert not store.lock.held
    edit(store, "one", {"context/files/data.csv": b"2"})
    for name in ("rover.turnstile", "rover.flock"):
        other = os.open(store.git / name, os.O_RDWR)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(other)


def test_no_permission_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may do everything; so the refusal of the system is put in its mouth."""
    store = new_store(tmp_path)
    add(store, "one")
    real = os.open

    def refuse(path: object, flags: int, *rest: int, **more: int) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path, flags, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StoreError, match="cannot write to the store: Permission denied"):
        store.tag("v1")
    assert store.tags() == {}
    assert len(store.op_log()) == 1


def test_an_operation_names_what_is_gone(tmp_path: Path) -> None:
    """Restoring to commits that were pruned away is refused, and changes nothing."""
    store = new_store(tmp_path)
    add(store, "one")
    first = store.op_log()[0]
    edit(store, "one", {"context/files/data.csv": b"2"})
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / ".rover", copy / ".rover")
    broken = Store.open(copy)
    before = dict(broken.refs.all())
    monkey = broken.objects.exists
    broken.objects.exists = lambda name: name != first.moves[0].new and monkey(name)  # type: ignore[method-assign]
    with pytest.raises(RoverError, match="not found"):
        oplog.restore(broken, first.id)
    assert dict(broken.refs.all()) == before
