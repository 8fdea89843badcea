"""The store against a dictionary: whatever is done in whatever order, both say the same."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from store_samples import git, new_store

from rover_store.errors import NotFound
from rover_store.store import Store

NAMES = st.sampled_from(["one", "two", "three"])
FILES = st.dictionaries(st.sampled_from(["a", "b/c", "context/x", "task/y"]), st.binary(max_size=3), min_size=1)
Packages = dict[str, dict[str, bytes]]


class StoreModel(RuleBasedStateMachine):
    """Branches hold packages, packages hold files; history is a list of such states."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.store = new_store(self.folder)
        self.branches: dict[str, list[Packages]] = {}
        self.current = "main"
        self.undo_to: list[tuple[dict[str, list[Packages]], str]] = []

    def teardown(self) -> None:
        assert self.store.fsck() == []
        git(self.store.git, "fsck", "--full", "--strict")
        shutil.rmtree(self.folder)

    def _saved(self) -> None:
        self.undo_to.append(({b: list(h) for b, h in self.branches.items()}, self.current))

    def _head(self) -> Packages:
        history = self.branches.get(self.current)
        return dict(history[-1]) if history else {}

    @rule(name=NAMES, files=FILES)
    def set_package(self, name: str, files: dict[str, bytes]) -> None:
        packages = self._head()
        files = {**files, "package.json": b'{"name": "%s"}' % name.encode()}
        with self.store.write(f"set {name}") as tx:
            tx.set_package(name, tx.tree(files))
            tx.commit(f"Set {name}")
        if packages.get(name) != files:
            self._saved()
            self.branches.setdefault(self.current, []).append({**packages, name: files})

    @precondition(lambda self: self._head())
    @rule(data=st.data())
    def remove_package(self, data: st.DataObject) -> None:
        packages = self._head()
        name = data.draw(st.sampled_from(sorted(packages)))
        with self.store.write(f"remove {name}") as tx:
            tx.remove_package(name)
            tx.commit(f"Remove {name}")
        self._saved()
        del packages[name]
        self.branches[self.current].append(packages)

    @precondition(lambda self: self.current in self.branches)
    @rule(branch=st.sampled_from(["main", "side"]))
    def branch_and_switch(self, branch: str) -> None:
        if branch not in self.branches:
            self.store.create_branch(branch)
            self._saved()
            self.branches[branch] = list(self.branches[self.current])
        if branch != self.current:
            self.store.switch(branch)
            self._saved()
            self.current = branch

    @precondition(lambda self: self.undo_to)
    @rule()
    def undo(self) -> None:
        self.store.undo()
        before = {b: list(h) for b, h in self.branches.items()}, self.current
        self.branches, self.current = self.undo_to[-1]
        self.undo_to[-1] = before  # undoing again brings it back

    @rule()
    def open_again(self) -> None:
        self.store = Store.open(self.folder, clock=self.store.clock)

    @rule()
    def lose_the_index(self) -> None:
        for file in self.store.folder.glob("index.db*"):
            file.unlink()
        self.open_again()

    @invariant()
    def agrees(self) -> None:
        assert set(self.store.branches()) == set(self.branches)
        assert self.store.current_branch() == self.current
        head = self._head()
        assert [p.name for p in self.store.packages()] == sorted(head)
        for package in self.store.packages():
            files = self.store.objects.read_tree(package.tree)
            assert {p: self.store.objects.read(i.id) for p, i in files.items()} == head[package.name]
            assert self.store.package(package.name) == package
        for branch, history in self.branches.items():
            entries = list(self.store.log(branch))
            assert len(entries) == len(history)
            assert {p.name for p in self.store.packages(branch)} == set(history[-1])
        try:
            self.store.package("four")
        except NotFound:
            return
        raise AssertionError("a package that was never set is found")


StoreModel.TestCase.settings = settings(max_examples=20, stateful_step_count=12, deadline=None)
TestStoreModel = StoreModel.TestCase
