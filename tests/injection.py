"""Faults at the system calls of the store: a script of writes runs in a forked child in which the n-th call fails.

A `Fault` names a call by its number and what happens there: the process dies before, after or in the middle of it,
it fails as a full or broken disk does, or it writes less than asked. `play` runs the script with a fault on a copy
of a store and says what the child acknowledged; `judge` opens what is left and says what is wrong with it.
"""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from store_samples import git, new_store, package_files, package_tree

from rover_store import durable, lock
from rover_store.care.gc import gc
from rover_store.errors import RoverError, StoreError
from rover_store.evidence import rollout_id
from rover_store.lock import LOCK_FILE
from rover_store.merging.merge import merge
from rover_store.oplog import OUTSIDE, operations, restore, view, view_after
from rover_store.records import Budget, RolloutKey, SealedAudit, Trajectory
from rover_store.sealed import read_for_audit
from rover_store.store import Store
from rover_store.trees import EMPTY_TREE

KILLS = ("kill before", "kill after", "kill half way")
ERRORS = ("ENOSPC", "EIO", "full from here", "short", "short, then ENOSPC")
#: seconds that a write after a crash may take
PATIENCE = 5.0
#: a rename and an unlink need no room
_ROOM = ("open", "write", "pwrite", "mkdir", "sqlite")
_CALLS = ("write", "pwrite", "fsync", "rename", "replace", "unlink", "rmdir", "ftruncate", "mkdir", "fchmod", "close")
#: opened for writing, or to make a folder durable
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_DIRECTORY


class Fault(NamedTuple):
    """What happens at which call of a run (numbered from 0)."""

    at: int
    kind: str


class Call(NamedTuple):
    """A call of the clean run: the step of the script, and what was called."""

    step: str
    name: str


class Played(NamedTuple):
    """What a child said before it ended: acknowledgements of its steps, failures, and how it ended."""

    said: list[dict[str, Any]]
    calls: list[Call]
    killed: bool


class Shim:
    """Stands between the store and the system, in a child."""

    def __init__(self, fault: Fault | None) -> None:
        self.fault = fault
        self.calls: list[Call] = []
        self.step = ""
        self.full = False
        self.active = False
        self.ours: set[int] = set()

    def install(self) -> None:
        # what depends on the time of day would number the calls anew in each run
        lock._TURN_S, durable._SLOW_S = 0.0, 1e9
        for name in _CALLS:
            setattr(os, name, self._wrapped(name, getattr(os, name)))
        os.open = self._opening(os.open)  # type: ignore[assignment]
        fcntl.flock = self._wrapped("flock", fcntl.flock)
        os.fdopen = self._buffered  # type: ignore[assignment]
        shim, connect = self, sqlite3.connect

        class Connection(sqlite3.Connection):
            def execute(self, sql: str, *rest: Any) -> sqlite3.Cursor:
                if sql.split()[0] in ("BEGIN", "COMMIT", "INSERT"):
                    return shim._wrapped("sqlite", super().execute)(sql, *rest)
                return super().execute(sql, *rest)

        sqlite3.connect = lambda *a, **k: connect(*a, **{"factory": Connection, **k})  # type: ignore[assignment]

    def _wrapped(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def step(*given: Any, **more: Any) -> Any:
            foreign = name == "close" and given[0] not in self.ours
            if not self.active or foreign:
                return call(*given, **more)
            if name == "close":
                self.ours.discard(given[0])
            number = len(self.calls)
            self.calls.append(Call(self.step, name))
            if self.full and name in _ROOM:
                raise _error(name, errno.ENOSPC)
            if self.fault is None or number != self.fault.at:
                return call(*given, **more)
            return self._fail(name, call, given, more)

        return step

    def _fail(self, name: str, call: Callable[..., Any], given: tuple[Any, ...], more: dict[str, Any]) -> Any:
        kind = self.fault.kind if self.fault else ""
        if kind == "kill before" or (kind == "kill half way" and name not in ("write", "pwrite")):
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "kill after":
            call(*given, **more)
            os.kill(os.getpid(), signal.SIGKILL)
        if kind in ("kill half way", "short", "short, then ENOSPC") and name in ("write", "pwrite"):
            fd, data, *rest = given
            written = call(fd, bytes(data)[: len(data) // 2], *rest)
            if kind == "kill half way":
                os.kill(os.getpid(), signal.SIGKILL)
            self.full = kind != "short"
            return written
        self.full = kind == "full from here"
        if name == "close":  # the descriptor is gone whatever close says
            call(*given, **more)
        raise _error(name, errno.EIO if kind == "EIO" else errno.ENOSPC)

    def _opening(self, call: Callable[..., Any]) -> Callable[..., Any]:
        counted = self._wrapped("open", call)

        def opening(path: Any, flags: int, *rest: Any, **more: Any) -> int:
            fd: int = (counted if flags & _WRITING else call)(path, flags, *rest, **more)
            if flags & _WRITING and self.active:
                self.ours.add(fd)
            return fd

        return opening

    def _buffered(self, fd: int, mode: str = "r", *rest: Any, **more: Any) -> Any:
        if mode != "wb":
            return open(fd, mode, *rest, **more)

        class Raw(io.FileIO):
            def write(self, data: Any) -> int:
                return os.write(self.fileno(), data)

        return io.BufferedWriter(Raw(fd, "wb"))


def _error(name: str, code: int) -> Exception:
    if name == "sqlite":
        return sqlite3.OperationalError("database or disk is full" if code == errno.ENOSPC else "disk I/O error")
    return OSError(code, os.strerror(code))


def kinds(name: str) -> tuple[str, ...]:
    """Faults that make sense at a call."""
    if name in ("write", "pwrite"):
        return (*KILLS, *ERRORS)
    errors = ("ENOSPC", "EIO", "full from here") if name in _ROOM else ("EIO",)
    return ("kill before", "kill after", *errors)


# --- the script ----------------------------------------------------------------------------------------------
def _commit(store: Store) -> dict[str, Any]:
    with store.write("commit many") as tx:
        resource = tx.tree({"resource.json": b"{}\n", "files/data.csv": b"a\n1\n"})
        tx.set_resource("files/shared", resource)
        for name in ("two", "three"):
            files = package_files(name, resources={"files/shared": resource})
            tx.set_package(name, package_tree(tx, name, files, {"files/shared": resource}))
        commit = tx.commit("Commit many")
        case = tx.detached_commit("Case", files={"case.json": b"{}"}, parents=[commit])
        tx.set_ref("refs/rover/cases/one", case)
    return {"commit": commit}


def _edit(text: bytes) -> Callable[[Store], dict[str, Any]]:
    def edit(store: Store) -> dict[str, Any]:
        with store.write("edit") as tx:
            tree = tx.edit_tree(store.package("one").tree, {"context/files/data.csv": text})
            tx.set_package("one", tree)
            return {"commit": tx.commit("Edit")}

    return edit


def trajectory(seed: int) -> Trajectory:
    ids = {"context": "a" * 40, "task": "b" * 40, "harness": "c" * 40}
    key = RolloutKey(**ids, policy="p", seed=seed, budget=Budget(), runtime="r")
    return Trajectory(key=key, package="one", start=EMPTY_TREE)


def audit(seed: int) -> SealedAudit:
    return SealedAudit(package="one", answers={"n": seed})


def _evidence(store: Store) -> dict[str, Any]:
    store.evidence.put([(trajectory(1), {})])
    return {"rollout": 1}


def _sealed(store: Store) -> dict[str, Any]:
    store.sealed.append("one", audit(1))
    return {"sealed": 1}


def _remove(store: Store) -> dict[str, Any]:
    with store.write("remove") as tx:
        tx.remove_package("two")
        return {"commit": tx.commit("Remove")}


def _diverge(store: Store) -> dict[str, Any]:
    with store.write("diverge") as tx:
        tree = tx.edit_tree(store.package("three", "main").tree, {"context/files/data.csv": b"other"})
        tx.set_package("three", tree)
        return {"commit": tx.commit("On main", branch="main")}


def _merge(store: Store) -> dict[str, Any]:
    made = merge(store, "main")
    assert made.conflicts == ()
    assert made.commit != made.ours
    return {"commit": made.commit}


def _restore(store: Store) -> dict[str, Any]:
    early = next(op for op in operations(store) if op.command == "branch old")
    restore(store, early.id)
    return {}


STEPS: dict[str, Callable[[Store], Any]] = {
    "commit": _commit,
    "tag": lambda store: store.tag("v2", message="Two"),
    "branch": lambda store: store.create_branch("side/one"),
    "evidence": _evidence,
    "sealed": _sealed,
    "switch": lambda store: store.switch("side/one"),
    "roll up": _edit(b"1"),
    "put files": lambda store: {"object": store.put_files({"candidate/a": b"a"})},
    "undo": lambda store: store.undo(),
    "delete packed": lambda store: store.delete_branch("old"),
    "remove": _remove,
    "diverge": _diverge,
    "merge": _merge,
    "op restore": _restore,
    "take its place": lambda store: (store.delete_branch("old"), store.create_branch("old/new"))[1],
    "gc": lambda store: gc(store, dry_run=False) and None,
    "restore over": lambda store: restore(store, next(o.id for o in operations(store) if o.command == "op restore")),
}


def template(folder: Path) -> None:
    """The store that the script starts on: some history, packed refs, and nearly as many packs as are rolled up."""
    store = new_store(folder)
    with store.write("add one") as tx:
        tx.set_package("one", package_tree(tx, "one", package_files("one"), {}))
        tx.commit("Add one")
    store.tag("v1", message="One")
    store.create_branch("old")
    git(store.git, "pack-refs", "--all")
    for i in range(32):
        _edit(b"template %d" % i)(store)
    assert store.fsck() == []


# --- a run ---------------------------------------------------------------------------------------------------
def play(folder: Path, fault: Fault | None, steps: dict[str, Callable[[Store], Any]] = STEPS) -> Played:
    """Run the script in a child, on the store in a folder."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            _act(folder, fault, steps, writing)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writing)
    with open(reading, "rb") as pipe:
        lines = pipe.read().splitlines(keepends=True)
    _, status = os.waitpid(child, 0)
    said = [json.loads(line) for line in lines if line.endswith(b"\n")]
    calls = [Call(*call) for row in said if "calls" in row for call in row["calls"]]
    killed = os.WIFSIGNALED(status)
    if not killed and os.WEXITSTATUS(status) != 0:
        said.append({"wrong": f"the child ended with {os.WEXITSTATUS(status)}"})
    return Played([row for row in said if "calls" not in row], calls, killed)


def _act(folder: Path, fault: Fault | None, steps: dict[str, Callable[[Store], Any]], pipe: int) -> None:
    clock = iter(range(1_800_000_000, 1_900_000_000))
    write = os.write

    def say(**row: Any) -> None:
        write(pipe, json.dumps(row).encode() + b"\n")

    store = Store.open(folder, clock=lambda: next(clock))
    shim = Shim(fault)
    shim.install()
    for name, step in steps.items():
        shim.step = name
        before = store.refs.get("refs/rover/ops")
        try:
            shim.active = True
            facts = step(store)
            shim.active = False
            say(step=name, op=store.refs.get("refs/rover/ops"), **(facts if isinstance(facts, dict) else {}))
        except Exception as error:
            shim.active = False
            shim.full = False  # somebody makes room
            say(failed=name, error=type(error).__name__, text=str(error), fits=_fits(error, step, store))
            if store.refs.peek("refs/rover/ops") == before:
                _again(name, step, store, say)
    say(calls=[list(call) for call in shim.calls])


def _again(name: str, step: Callable[[Store], Any], store: Store, say: Callable[..., None]) -> None:
    """What failed and changed nothing must work in the same process once the disk does."""
    try:
        facts = step(store)
        say(step=name, op=store.refs.get("refs/rover/ops"), **(facts if isinstance(facts, dict) else {}))
    except Exception as error:
        say(wrong=f"{name} does not work afterwards: {type(error).__name__}: {error}")


def _fits(error: Exception, step: object, store: Store) -> bool:
    """An error that a caller can show: one line of ours, or the system's own."""
    return isinstance(error, RoverError | OSError) and "\n" not in str(error)


def copy(source: Path, target: Path) -> None:
    """A copy of a store; packs, which never change, are linked."""
    def one(a: str, b: str) -> None:
        (os.link if a.endswith((".pack", ".idx")) else shutil.copy2)(a, b)

    shutil.copytree(source, target, copy_function=one)


# --- what must hold afterwards -------------------------------------------------------------------------------
def judge(folder: Path, played: Played) -> list[str]:
    """All that is wrong with what is left. Empty if nothing is lost, half, stuck or left over."""
    wrong = [row["wrong"] for row in played.said if "wrong" in row]
    wrong += [f"{r['failed']}: {r['error']}: {r['text']}" for r in played.said if "failed" in r and not r["fits"]]
    store = Store.open(folder, clock=lambda: 1_950_000_000)
    try:
        [store.objects.read_commit(store.resolve(name)) for name in ("HEAD", *store.branches())]
        store.packages()
    except RoverError as error:
        wrong.append(f"not readable before any repair: {error}")
    wrong += _next_writes(store)
    wrong += _acknowledged(store, played.said)
    wrong += _left_over(store)
    wrong += [f"fsck: {problem.where}: {problem.what}" for problem in store.fsck()]
    for repository in _gits(store):
        done = subprocess.run(
            ["git", "--git-dir", str(repository), "fsck", "--full", "--strict", "--no-dangling"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode or "error" in done.stderr:
            wrong.append(f"git fsck {repository.name}: {done.stdout}{done.stderr}".strip())
    wrong += _index(store)
    store.index.close() if hasattr(store.index, "close") else None
    return wrong


def _next_writes(store: Store) -> list[str]:
    began = time.monotonic()
    try:
        _edit(b"afterwards")(store)
        store.evidence.put([(trajectory(9), {})])
        store.sealed.append("one", audit(9))
    except (RoverError, OSError) as error:
        return [f"the next write fails: {error}"]
    took = time.monotonic() - began
    return [f"the next writes took {took:.1f} s"] if took > PATIENCE else []


def _acknowledged(store: Store, said: list[dict[str, Any]]) -> list[str]:
    wrong = []
    log = list(operations(store))
    ids = {op.id for op in log}
    for row in said:
        if "step" not in row:
            continue
        if row["op"] not in ids:
            wrong.append(f"lost: the operation of {row['step']}")
        ids_named = [row[key] for key in ("commit", "object") if key in row]
        wrong += [f"lost: {name} of {row['step']}" for name in ids_named if not store.objects.exists(name)]
        if "rollout" in row and store.evidence.get_rollout(rollout_id(trajectory(1))) is None:
            wrong.append("lost: a rollout")
        if "sealed" in row and audit(1) not in read_for_audit(store, "one"):
            wrong.append("lost: a sealed audit")
    if any(op.command == OUTSIDE for op in log):
        wrong.append("half done: refs moved that the operation log does not know")
    if view(store) != view_after(store, log[0].id):
        wrong.append("half done: the refs are not what the last operation says")
    return wrong


def _gits(store: Store) -> list[Path]:
    return sorted(path for path in store.folder.glob("*.git") if (path / "HEAD").exists())


def _left_over(store: Store) -> list[str]:
    found = [p for p in store.folder.rglob("*") if p.name.endswith(".lock") or "tmp_" in p.name or ".tmp-" in p.name]
    for repository in _gits(store):
        packs = repository / "objects" / "pack"
        found += [p for p in packs.glob("*.pack") if not p.with_suffix(".idx").exists()]
        found += [p for p in packs.glob("*.idx") if not p.with_suffix(".pack").exists()]
        found += [p for p in [repository / LOCK_FILE] if p.exists() and p.stat().st_size]
    return [f"left over: {path.relative_to(store.folder)}" for path in found]


def _index(store: Store) -> list[str]:
    def answers() -> list[Any]:
        log = [entry.id for entry in store.log()]
        rollouts = [name for name, _ in store.evidence.iter_rollouts()]
        return [store.packages(), log, store.graph(), rollouts, store.stale()]

    try:
        before = answers()
        store.reindex()
        return [] if answers() == before else ["the index says other things when it is built again"]
    except StoreError as error:
        return [f"the index: {error}"]
