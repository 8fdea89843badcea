"""The store against a dictionary: whatever is done in whatever order, by whoever, killed or not, both say the same.

Packages, resources, branches, tags, cases, evidence, undo and op restore; a reader that looks all the time; writers
that are killed or give up; another git that commits. At the end the store, the store with its index built again, and
a mirror that git made agree.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
from pathlib import Path
from typing import NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from injection import Fault, Shim, trajectory
from store_samples import git, new_store

from rover_store.errors import NotFound
from rover_store.evidence import rollout_id
from rover_store.oplog import OUTSIDE, restore
from rover_store.refs import CASES
from rover_store.store import Store

NAMES = st.sampled_from(["one", "two", "three"])
FILES = st.dictionaries(st.sampled_from(["a", "b/c", "context/x", "task/y"]), st.binary(max_size=3), min_size=1)
BRANCHES = st.sampled_from(["main", "side", "side2/deep"])
Files = dict[str, bytes]
Packages = dict[str, Files]


class State(NamedTuple):
    """All that undo and restore reach. History: the packages after each commit; a tag is one state of them."""

    current: str
    branches: dict[str, tuple[Packages, ...]]
    tags: dict[str, Packages]
    cases: dict[str, Files]


class StoreModel(RuleBasedStateMachine):
    """Beside the store: the present state, the state after each operation, and the evidence."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.store = new_store(self.folder)
        self.clock = self.store.clock
        self.state = State("main", {}, {}, {})
        self.states = [self.state]
        self.unnoticed = False  # another git moved something since the last operation
        self.rollouts: set[int] = set()
        self.stop = threading.Event()
        self.trouble: list[str] = []
        self.reader = threading.Thread(target=self._look)
        self.reader.start()

    def teardown(self) -> None:
        self.stop.set()
        self.reader.join()
        try:
            assert self.trouble == []
            before = self._answers(self.store)
            self.store.reindex()
            assert self._answers(self.store) == before
            assert self._answers(Store.open(self.folder)) == before
            self._mirror()
        finally:
            shutil.rmtree(self.folder)

    # --- what goes on meanwhile ------------------------------------------------------------------------------
    def _look(self) -> None:
        store = Store.open(self.folder)
        while not self.stop.wait(0.01):
            try:
                if store.refs.head_id() is not None:
                    for package in store.packages():
                        store.objects.read_tree(package.tree)
                    next(store.log(limit=1), None)
            except NotFound:  # undone to nothing between the two questions
                continue
            except Exception as error:
                self.trouble.append(f"{type(error).__name__}: {error}")

    # --- the model -------------------------------------------------------------------------------------------
    def _head(self) -> Packages:
        history = self.state.branches.get(self.state.current)
        return dict(history[-1]) if history else {}

    def _op(self, state: State) -> None:
        self._noticed()
        self.state = state
        self.states.append(state)

    def _noticed(self) -> None:
        if self.unnoticed:
            self.states.append(self.state)
            self.unnoticed = False

    def _with(self, packages: Packages) -> State:
        history = (*self.state.branches.get(self.state.current, ()), packages)
        return self.state._replace(branches={**self.state.branches, self.state.current: history})

    def _set(self, name: str, files: Files) -> None:
        with self.store.write(f"set {name}") as tx:
            tx.set_package(name, tx.tree(files))
            tx.commit(f"Set {name}")

    # --- writes ----------------------------------------------------------------------------------------------
    @rule(name=NAMES, files=FILES)
    def set_package(self, name: str, files: Files) -> None:
        files = {**files, "package.json": b'{"name": "%s"}' % name.encode()}
        self._set(name, files)
        if self._head().get(name) != files:
            self._op(self._with({**self._head(), name: files}))

    @precondition(lambda self: self._head())
    @rule(data=st.data())
    def remove_package(self, data: st.DataObject) -> None:
        packages = self._head()
        name = data.draw(st.sampled_from(sorted(packages)))
        with self.store.write(f"remove {name}") as tx:
            tx.remove_package(name)
            tx.commit(f"Remove {name}")
        del packages[name]
        self._op(self._with(packages))

    @precondition(lambda self: self.state.current in self.state.branches)
    @rule(branch=BRANCHES, switch=st.booleans())
    def branch(self, branch: str, switch: bool) -> None:
        history = self.state.branches[self.state.current]
        if branch not in self.state.branches:
            self.store.create_branch(branch)
            self._op(self.state._replace(branches={**self.state.branches, branch: history}))
        if switch and branch != self.state.current:
            self.store.switch(branch)
            self._op(self.state._replace(current=branch))

    @precondition(lambda self: len(self.state.branches) > 1)
    @rule(data=st.data())
    def delete_branch(self, data: st.DataObject) -> None:
        others = sorted(set(self.state.branches) - {self.state.current})
        if others:
            branch = data.draw(st.sampled_from(others))
            self.store.delete_branch(branch)
            self._op(self.state._replace(branches={b: h for b, h in self.state.branches.items() if b != branch}))

    @precondition(lambda self: self.state.current in self.state.branches)
    @rule(tag=st.sampled_from(["v1", "v2"]))
    def tag(self, tag: str) -> None:
        if tag in self.state.tags:
            self.store.delete_tag(tag)
            self._op(self.state._replace(tags={t: p for t, p in self.state.tags.items() if t != tag}))
        else:
            self.store.tag(tag, message="A tag")
            self._op(self.state._replace(tags={**self.state.tags, tag: self._head()}))

    @precondition(lambda self: self.state.current in self.state.branches)
    @rule(case=st.sampled_from(["a", "b"]), text=st.binary(max_size=2))
    def case(self, case: str, text: bytes) -> None:
        old = self.store.cases().get(case)
        with self.store.write(f"case {case}") as tx:
            made = tx.detached_commit("Case", files={"case.json": b"{}", "text": text})
            tx.set_ref(CASES + case, made, expect=old)
        self._op(self.state._replace(cases={**self.state.cases, case: {"text": text}}))

    @rule(seed=st.integers(0, 3))
    def evidence(self, seed: int) -> None:
        self.store.evidence.put([(trajectory(seed), {})])
        self.rollouts.add(seed)

    # --- going back ------------------------------------------------------------------------------------------
    @precondition(lambda self: len(self.states) > 1)
    @rule()
    def undo(self) -> None:
        self._noticed()
        self.store.undo()
        self._op(self.states[-2])

    @precondition(lambda self: len(self.states) > 1)
    @rule(data=st.data())
    def op_restore(self, data: st.DataObject) -> None:
        known = len(self.store.op_log())
        n = data.draw(st.integers(1, known))
        operation = self.store.op_log()[known - n]
        restore(self.store, operation.id)
        self._noticed()
        assert len(self.store.op_log()) in (len(self.states) - 1, len(self.states))
        if len(self.store.op_log()) == len(self.states):
            self._op(self.states[n])

    # --- what goes wrong -------------------------------------------------------------------------------------
    @rule(name=NAMES, n=st.integers(0, 60))
    def killed(self, name: str, n: int) -> None:
        """A writer dies at some system call: it did all or nothing."""
        files = {"package.json": b'{"name": "%s"}' % name.encode(), "killed": b"%d" % n}
        child = os.fork()
        if child == 0:
            try:
                shim = Shim(Fault(n, "kill before"))
                shim.install()
                self.store = Store.open(self.folder, clock=lambda: 1_750_000_000)
                shim.active = True
                self._set(name, files)
            finally:
                os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        with self.store.lock:  # whoever comes next repairs
            pass
        before = self._head()
        if before.get(name) != files and self._there(name) == files:
            self._op(self._with({**before, name: files}))

    @rule(name=NAMES)
    def given_up(self, name: str) -> None:
        class GivenUpError(Exception):
            pass

        try:
            with self.store.write("given up") as tx:
                tx.set_package(name, tx.tree({"package.json": b"{}", "never": b"1"}))
                tx.commit("Never")
                raise GivenUpError
        except GivenUpError:
            return

    @rule()
    def open_again(self) -> None:
        self.store = Store.open(self.folder, clock=self.clock)

    @rule()
    def lose_the_index(self) -> None:
        for file in self.store.folder.glob("index.db*"):
            file.unlink()
        self.open_again()

    @precondition(lambda self: self.state.current in self.state.branches)
    @rule(pack=st.booleans())
    def another_git(self, pack: bool) -> None:
        """It commits, and maybe packs all refs."""
        head = self.store.resolve()
        made = git(self.store.git, "commit-tree", f"{head}^{{tree}}", "-p", head, "-m", "Other").strip()
        git(self.store.git, "update-ref", f"refs/heads/{self.state.current}", made, head)
        if pack:
            git(self.store.git, "pack-refs", "--all")
        self.state = self._with(self._head())
        self.unnoticed = True

    # --- both say the same -----------------------------------------------------------------------------------
    @invariant()
    def agrees(self) -> None:
        state, store = self.state, self.store
        assert self.trouble == []
        assert set(store.branches()) == set(state.branches)
        assert store.current_branch() == state.current
        assert {p.name: self._files(p.tree) for p in store.packages()} == self._head()
        for branch, history in state.branches.items():
            assert len(list(store.log(branch))) == len(history)
        assert set(store.tags()) == set(state.tags)
        for tag, packages in state.tags.items():
            assert {p.name for p in store.packages(tag)} == set(packages)
        texts = {c: store.objects.subtree(store.commit(v).tree, "text") for c, v in store.cases().items()}
        assert {c: {"text": store.objects.read(item.id)} for c, item in texts.items() if item} == state.cases
        assert len(store.op_log()) == len(self.states) - 1
        have = {seed for seed in range(4) if store.evidence.get_rollout(rollout_id(trajectory(seed)))}
        assert have == self.rollouts

    def _there(self, name: str) -> Files:
        try:
            return self._files(self.store.package(name).tree)
        except NotFound:
            return {}

    def _files(self, tree: str) -> Files:
        return {p: self.store.objects.read(i.id) for p, i in self.store.objects.read_tree(tree).items()}

    def _answers(self, store: Store) -> list[object]:
        logs = [[entry.id for entry in store.log(branch)] for branch in sorted(store.branches())]
        rollouts = [name for name, _ in store.evidence.iter_rollouts()]
        return [store.packages(), logs, rollouts, store.graph(), store.op_log(), store.refs.all()]

    def _mirror(self) -> None:
        """What git fetches is all of it, and sound."""
        assert [problem for problem in self.store.fsck() if problem.kind not in NOT_WHOLE] == []
        git(self.store.git, "fsck", "--full", "--strict")
        git(self.folder, "clone", "-q", "--mirror", str(self.store.git), "mirror")
        refs = git(self.folder / "mirror", "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        assert dict(line.split() for line in refs) == self.store.refs.all()
        for branch in self.state.branches:
            log = git(self.folder / "mirror", "log", "--format=%H", branch).split()
            assert log == [entry.id for entry in self.store.log(branch)]
        if self.unnoticed:
            return
        assert [op.command == OUTSIDE for op in self.store.op_log()].count(True) <= len(self.states)


#: the packages here have few files, and package.json little in it
NOT_WHOLE = ("missingFile", "badRecord")

StoreModel.TestCase.settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
TestStoreModel = StoreModel.TestCase
