"""Transfers and merges that are killed, or whose disk fails, at any step: nothing half, and running again finishes."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from injection import Fault, Shim, kinds
from store_samples import add, edit, git, new_store

from rover_store.merging.finish import continue_merge
from rover_store.merging.merge import merge
from rover_store.merging.open_merges import choose, open_merges
from rover_store.store import Store
from rover_store.transfer import remotes
from rover_store.transfer.transfer import clone, pull, push

INSTRUCTION = "task/instruction.md"
Work = Callable[[Path], object]


def prepared(folder: Path) -> None:
    """A source, a clone with a commit of its own, a repository between, and a store with two branches."""
    store = new_store(folder / "source")
    add(store, "one")
    add(store, "two")
    git(folder, "init", "-q", "--bare", "-b", "main", "shared.git")
    remotes.add(store, "shared", str(folder / "shared.git"))
    push(store, "shared")
    clone(str(store.root), folder / "bob")
    bob = Store.open(folder / "bob")
    edit(bob, "one", {INSTRUCTION: b"Bob."})
    store.create_branch("trial")
    edit(store, "two", {INSTRUCTION: b"Alice."})
    store.switch("trial")
    edit(store, "two", {INSTRUCTION: b"Trial."})
    store.switch("main")


def _pull(folder: Path) -> object:
    return pull(Store.open(folder / "bob", clock=lambda: 1_800_000_000), str(folder / "source"))


def _push(folder: Path) -> object:
    store = Store.open(folder / "bob", clock=lambda: 1_800_000_000)
    pull(store, str(folder / "source"))
    return push(store, str(folder / "source"))


def _clone(folder: Path) -> object:
    return clone(str(folder / "source"), folder / "new", packages=("two",))


def _merge(folder: Path) -> object:
    store = Store.open(folder / "source", clock=lambda: 1_800_000_000)
    if not open_merges(store):
        merge(store, "trial")
    choose(store, "theirs")
    return continue_merge(store)


def play(folder: Path, work: Work, fault: Fault | None) -> tuple[int, list[str]]:
    """Run the work in a child with a fault; its wait status, and the calls of a clean run."""
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        os.close(reads)
        shim = Shim(fault)
        shim.install()
        shim.active = True
        code = 1
        try:
            work(folder)
            code = 0
        except Exception:
            code = 1
        shim.active = False
        os.write(writes, ("\n".join(c.name for c in shim.calls)).encode()[:60_000])
        os._exit(code)
    os.close(writes)
    with os.fdopen(reads) as pipe:
        calls = pipe.read().split()
    return os.waitpid(child, 0)[1], calls


def judge(folder: Path, work: Work) -> None:
    """Whatever happened: both stores are well, nothing half lies about, and the work can be done again."""
    if not (folder / "new" / ".rover").exists():
        shutil.rmtree(folder / "new", ignore_errors=True)
        work(folder)
    for name in ("source", "bob", "new"):
        if (folder / name).exists():
            store = Store.open(folder / name)
            assert store.fsck() == []
            git(store.git, "fsck", "--strict", "--connectivity-only")
            assert not [p for p in store.folder.iterdir() if p.name.startswith(("incoming-", "whole-", ".rover."))]


@pytest.mark.parametrize("work", [_pull, _push, _clone, _merge])
def test_no_step_leaves_anything_half(tmp_path: Path, work: Work) -> None:
    prepared(tmp_path / "ready")
    shutil.copytree(tmp_path / "ready", tmp_path / "clean", symlinks=True)
    status, calls = play(tmp_path / "clean", work, None)
    assert status == 0
    assert len(calls) > 20
    step = max(1, len(calls) // 14)
    killed = 0
    for i, at in enumerate(range(0, len(calls), step)):
        chosen = kinds(calls[at])
        fault = Fault(at, chosen[i % len(chosen)])
        folder = tmp_path / f"run{i}"
        shutil.copytree(tmp_path / "ready", folder, symlinks=True)
        status, _ = play(folder, work, fault)
        killed += os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        if work is _clone and (folder / "new" / ".rover").exists():
            assert Store.open(folder / "new").packages()
            continue
        judge(folder, _again(work))
        shutil.rmtree(folder)
    assert killed > 2


def _again(work: Work) -> Work:
    def again(folder: Path) -> object:
        if work is _merge:
            store = Store.open(folder / "source")
            if store.commit("main").trailers.get("Rover-Merge"):
                return None  # it was done before the fault
        return work(folder)

    return again
