"""kill -9 in the middle of writing: nothing acknowledged is lost, nothing is stuck, the store stays sound.

A child commits without pause and prints each commit once it is told that it is durable; it is killed at a random
moment. A second child is stopped at every system call that matters, one after the other.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from store_samples import START, add, edit, git, new_store

from rover_store.evidence import rollout_id
from rover_store.records import Budget, RolloutKey, Trajectory
from rover_store.store import Store
from rover_store.trees import EMPTY_TREE

WRITER = """
import sys
from pathlib import Path
from rover_store.store import Store
from rover_store.records import Budget, RolloutKey, Trajectory
from rover_store.trees import EMPTY_TREE

store = Store.open(Path(sys.argv[1]), clock=lambda: 1_700_000_000)
start = int(sys.argv[2])
print("ready", flush=True)
for i in range(start, start + 100_000):
    with store.write(f"step {i}") as tx:
        files = {"context/files/n": b"%d" % i, "context/files/big": (b"%d" % i) * 2000}
        tree = tx.edit_tree(store.package("one").tree, files)
        tx.set_package("one", tree)
        commit = tx.commit(f"Step {i}")
        case = tx.detached_commit("Case", files={"case.json": b'{"n": %d}' % i})
        tx.set_ref(f"refs/rover/cases/c{i}", case, expect=None)
    print("commit", commit, flush=True)
    ids = dict(context="a" * 40, task="b" * 40, harness="c" * 40)
    key = RolloutKey(**ids, policy="p", seed=i, budget=Budget(), runtime="r")
    store.evidence.put([(Trajectory(key=key, package="one", start=EMPTY_TREE), {})])
    print("rollout", i, flush=True)
"""


def _killed(folder: Path, start: int, after: int, delay: float) -> list[list[str]]:
    """Run a writer, kill it some time after its n-th acknowledgement, and return all of them."""
    arguments = [sys.executable, "-c", WRITER, str(folder), str(start)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        lines = [child.stdout.readline() for _ in range(after)]
        time.sleep(delay)
        child.send_signal(signal.SIGKILL)
        lines += child.stdout.read().splitlines(keepends=True)
    return [line.split() for line in lines if line.endswith("\n")]


def test_twenty_kills_at_random(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    rng = random.Random(7)
    commits: list[str] = []
    seeds: list[int] = []
    for round_number in range(20):
        for kind, value in _killed(tmp_path, round_number * 1000, rng.randrange(6), rng.uniform(0.0, 0.03)):
            commits.append(value) if kind == "commit" else seeds.append(int(value))
        store = Store.open(tmp_path, clock=lambda: START)
        began = time.monotonic()
        edit(store, "one", {"context/files/after": b"%d" % round_number})
        assert time.monotonic() - began < 5  # nothing is stuck
        _sound(store, commits, seeds)
    assert len(commits) > 20
    assert len(seeds) > 15
    assert store.fsck() == []
    git(store.git, "fsck", "--full", "--strict")
    git(store.evidence.git, "fsck", "--full", "--strict")


def _sound(store: Store, commits: list[str], seeds: list[int]) -> None:
    entries = {e.id: e for e in store.log()}
    assert [c for c in commits if c not in entries] == []
    # both refs of an operation moved, or none did
    steps = {e.subject.split()[1] for e in entries.values() if e.subject.startswith("Step ")}
    assert steps == {name[1:] for name in store.cases()}
    done = {m for op in store.op_log() for m in op.command.split() if op.command.startswith("step ")} - {"step"}
    assert done == steps
    assert {t.key.seed for _, t in store.evidence.iter_rollouts()} >= set(seeds)
    assert not list(store.git.rglob("*.lock"))
    assert not list((store.git / "objects/pack").glob("tmp_*"))


STOPPED = """
import os, sys
from pathlib import Path
from rover_store.store import Store

store = Store.open(Path(sys.argv[1]), clock=lambda: 1_700_000_000)
left = int(sys.argv[2])

def dying(call):
    def step(*args, **kw):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), 9)
        return call(*args, **kw)
    return step

for name in ("open", "write", "pwrite", "fsync", "rename", "ftruncate", "fchmod", "unlink", "close"):
    setattr(os, name, dying(getattr(os, name)))
with store.write("second") as tx:
    tx.set_package("one", tx.edit_tree(store.package("one").tree, {"context/files/n": b"2"}))
    commit = tx.commit("Second")
    case = tx.detached_commit("Case", files={"case.json": b"{}"}, parents=[commit])
    tx.set_ref("refs/rover/cases/c", case, expect=None)
print(commit, flush=True)
"""


def test_a_kill_at_every_step_of_one_write(tmp_path: Path) -> None:
    """The steps are the system calls of a write; the child dies before the n-th, for n = 1, 2, ... until it lives."""
    source = new_store(tmp_path / "source")
    first = add(source, "one")
    outcomes: list[str] = []
    for n in range(1, 200):
        folder = tmp_path / f"s{n}"
        subprocess.run(["cp", "-a", str(tmp_path / "source"), str(folder)], check=True)
        arguments = [sys.executable, "-c", STOPPED, str(folder), str(n)]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        store = Store.open(folder, clock=lambda: START)
        assert store.resolve() in (first, *(e.id for e in store.log()))  # readable before any repair
        third = edit(store, "one", {"context/files/n": b"3"})
        subjects = [e.subject for e in store.log()]
        assert subjects in (["Edit one", "Add one"], ["Edit one", "Second", "Add one"])
        committed = "Second" in subjects
        assert (list(store.cases()) == ["c"]) is committed
        assert [op.command for op in store.op_log()] == (
            ["edit one", "second", "add one"] if committed else ["edit one", "add one"]
        )
        assert store.resolve() == third
        assert store.fsck() == []
        outcomes.append("committed" if committed else "absent")
        if done.returncode == 0:
            assert committed
            break
        assert done.returncode == -signal.SIGKILL
    else:
        pytest.fail("a write takes more steps than this test counts")
    assert outcomes == sorted(outcomes, reverse=True, key=lambda o: o == "absent")
    assert outcomes.count("absent") > 5
    assert outcomes.count("committed") > 5


def test_a_kill_while_packs_are_rolled_together(tmp_path: Path) -> None:
    store = new_store(tmp_path / "source")
    add(store, "one")
    for i in range(38):
        edit(store, "one", {"context/files/n": b"%d" % i})
    rng = random.Random(3)
    for n in rng.sample(range(1, 140), 12):
        folder = tmp_path / f"s{n}"
        subprocess.run(["cp", "-a", str(tmp_path / "source"), str(folder)], check=True)
        for step in (n, 10_000):
            subprocess.run([sys.executable, "-c", STOPPED, str(folder), str(step)], capture_output=True, check=False)
        killed = Store.open(folder, clock=lambda: START)
        edit(killed, "one", {"context/files/n": b"end"})
        assert killed.fsck() == []
        assert len(list(killed.log())) >= 40
        left = {p.stem for p in (killed.git / "objects/pack").glob("*.pack")}
        assert left == {p.stem for p in (killed.git / "objects/pack").glob("*.idx")}


def test_evidence_put_is_durable(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    key = RolloutKey(
        context="a" * 40, task="b" * 40, harness="c" * 40, policy="p", seed=1, budget=Budget(), runtime="r"
    )
    trajectory = Trajectory(key=key, package="one", start=EMPTY_TREE)
    child = os.fork()
    if child == 0:
        Store.open(tmp_path).evidence.put([(trajectory, {})])
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert store.evidence.get_rollout(rollout_id(trajectory)) == trajectory


FULL = """
import os, resource, signal, sys
from pathlib import Path
from rover_store.store import Store

store = Store.open(Path(sys.argv[1]), clock=lambda: 1_700_000_000)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    with store.write("big") as tx:
        tx.set_package("one", tx.tree({"big": os.urandom(200_000)}))
        tx.commit("Big")
except OSError as error:
    print(error.strerror)
else:
    print("done")
"""


def test_a_disk_that_refuses_leaves_everything_as_it_was(tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk: the pack, its index, and the index database hit it."""
    store = new_store(tmp_path)
    head = add(store, "one")
    for limit in (100_000, 200_100, 20, 0):
        arguments = [sys.executable, "-c", FULL, str(tmp_path), str(limit)]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == ("File too large\n", "")
        assert store.resolve() == head
        assert len(store.op_log()) == 1
        assert store.fsck() == []
    assert not list((store.git / "objects/pack").glob("tmp_*"))
    edit(store, "one", {"context/files/n": b"1"})
    assert len(list(store.log())) == 2
