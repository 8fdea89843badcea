"""Care of a store against git, side by side in one run: collection of many small packs, checking, measuring.

CPU time of this process and of git's. Every side works on a copy of its own of the same store.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from rover.bench.rows import Row
from rover.bench.suite import build, clock, name
from rover_store.care.fsck import fsck
from rover_store.care.gc import gc
from rover_store.care.stats import stats
from rover_store.commits import AUTHOR, encode_commit
from rover_store.layout import package_trees
from rover_store.names import package_path
from rover_store.packs import BLOB, COMMIT, PackWriter
from rover_store.refs import HEADS
from rover_store.store import Store
from rover_store.trees import FILE, FOLDER, Level, TreeItem, edit_tree, parse_tree

PACKAGES = 200
#: files that are edited in turn: of 1.5, 9, 2 and 44 kB
_EDITED = ("task/instruction.md", "context/files/notes.md", "verifier/checks/main.py", "context/files/orders.csv")
#: gc may take this share of `git repack -ad`'s CPU
BAR = 0.5
_ENVIRONMENT = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
Tick = Callable[[int, int], None]


def measure_gc(work: Path, packs: int = 1000, tick: Tick | None = None) -> list[Row]:
    """CPU of gc on many small packs as a ratio to `git repack -ad`; and that nothing is lost by it."""
    say = tick or (lambda _done, _all: None)
    work.mkdir(parents=True, exist_ok=True)
    template = work / f"edits-{packs}"
    if not (template / "complete").exists():
        shutil.rmtree(template, ignore_errors=True)
        _many_packs(template, packs)
        (template / "complete").touch()
    say(1, 3)
    ours, theirs = work / "gc-ours", work / "gc-git"
    for folder in (ours, theirs):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(template, folder)
    git_s = _git(theirs, "repack", "-adq")
    say(2, 3)
    store = Store.open(ours, clock=clock())
    history = [entry.id for entry in store.log()]
    began = time.process_time()
    report = gc(store, dry_run=False, grace=0)
    own_s = time.process_time() - began
    say(3, 3)
    lost = len(history) - len(list(Store.open(ours).log()))
    part = report.repositories[0]
    for folder in (ours, theirs):
        shutil.rmtree(folder)
    note = f"{own_s:.2f} s; git repack -ad {git_s:.2f} s; {part.packs} packs to {part.packs_after}"
    return [
        Row(f"gc of {packs} small packs / git repack -ad", own_s / git_s, "ratio", BAR, note=note),
        Row(f"commits lost by gc of {packs} packs", lost, "commits", 0),
    ]


def measure_fsck(work: Path, packages: int = 2000, tick: Tick | None = None) -> list[Row]:
    """CPU of fsck as a ratio to `git fsck --full`, also without reading blobs, and memory; CPU of stats."""
    say = tick or (lambda _done, _all: None)
    store = build(work / f"suite-{packages}", packages)
    store.index.sync()
    git_s, quick_git_s = (_git(store.root, "fsck", *words, "--no-dangling") for words in
                          (("--full", "--strict"), ("--connectivity-only",)))  # fmt: skip
    say(1, 3)
    own_s, found = _timed(lambda: len(fsck(store)))
    quick_s, _ = _timed(lambda: len(fsck(store, quick=True)))
    say(2, 3)
    stats_s, _ = _timed(lambda: stats(store).total)
    say(3, 3)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = f"{packages} packages"
    return [
        Row(f"fsck of {size} / git fsck --full", own_s / git_s, "ratio",
            note=f"{own_s:.2f} s with records, evidence and index; git {git_s:.2f} s"),
        Row(f"fsck --quick of {size}", quick_s, "s", note=f"git fsck --connectivity-only {quick_git_s:.2f} s"),
        Row(f"stats of {size}", stats_s, "s"),
        Row(f"problems of a sound store of {size}", found, "problems", 0),
        Row("memory of this process so far", memory, "MB"),
    ]  # fmt: skip


def _many_packs(folder: Path, packs: int) -> None:
    """A store in which every one of the last commits lies in a pack of its own, as before any rolling together."""
    store = build(folder, PACKAGES)
    objects, head = store.objects, store.resolve()
    root = store.commit(head).tree
    first = package_trees(objects, root)
    trees = dict(first)
    times = clock()
    fresh: dict[str, Level] = {}
    for i in range(packs):
        writer = PackWriter(store.git / "objects" / "pack")

        def write(kind: int, data: bytes, writer: PackWriter = writer) -> str:
            made = writer.add(kind, data)
            if kind not in (BLOB, COMMIT):
                fresh[made] = parse_tree(data)
            return made

        def read(tree: str) -> Level:
            return fresh.get(tree) or objects.list_tree(tree)

        which = name(i % PACKAGES)
        path = _EDITED[i // PACKAGES % len(_EDITED)]
        before = objects.subtree(first[which], path)
        assert before is not None
        blob = write(BLOB, objects.read(before.id) + b"Edit %d.\n" % i)
        trees[which] = edit_tree(trees[which], {path: TreeItem(FILE, blob)}, read, write)
        root = edit_tree(root, {package_path(which): TreeItem(FOLDER, trees[which])}, read, write)
        head = write(COMMIT, encode_commit(root, [head], f"Edit {i}", AUTHOR, times()))
        writer.finish()
    (store.git / HEADS / "main").write_text(f"{head}\n")


def _timed(work: Callable[[], int]) -> tuple[float, int]:
    began = time.process_time()
    found = work()
    return time.process_time() - began, found


def _git(folder: Path, *words: str) -> float:
    """CPU seconds of a git command on the packages of a store."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    git = folder / ".rover" / "store.git"
    subprocess.run(["git", f"--git-dir={git}", *words], check=True, capture_output=True, env=_ENVIRONMENT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
