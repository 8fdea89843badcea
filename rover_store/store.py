"""The store of a project: the one door to packages, history, evidence and the sealed audits.

Opening is cheap and reading needs neither pydantic nor SQLModel; what does is imported when it is used.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from rover_store import config, graph, layout, oplog
from rover_store.commits import AUTHOR, Commit
from rover_store.errors import NotFound, RoverError, StoreError, UsageError
from rover_store.graph import Dependency, Stale
from rover_store.layout import PackageEntry
from rover_store.lock import RepositoryLock
from rover_store.names import package_path
from rover_store.objects import Objects
from rover_store.operations import Operations
from rover_store.refs import CASES, HEADS, TAGS, Refs, check_ref, require
from rover_store.revisions.revision import Found, Revisions
from rover_store.write import Content, Transaction

if TYPE_CHECKING:
    from rover_store.care.fsck import Problem
    from rover_store.diffs.diff import Diff
    from rover_store.evidence import Evidence
    from rover_store.folders.folder import FolderCommit
    from rover_store.history.log import LogEntry
    from rover_store.index.index import Index
    from rover_store.oplog import Operation
    from rover_store.sealed import Sealed

Clock = Callable[[], int]


def wall_clock() -> int:
    """Seconds since 1970. A caller that wants the same ids again passes a clock of its own."""
    return int(time.time())


class Store(Operations):
    """An open store. Use `Store.init` or `Store.open`."""

    def __init__(self, root: Path, settings: config.Config, clock: Clock) -> None:
        self.root = root
        self.config = settings
        self.clock = clock
        self.author = settings.author or AUTHOR
        self.folder = root / config.FOLDER
        self.git = self.folder / "store.git"
        if not (self.git / "objects").is_dir():
            raise StoreError(f"{self.git}: missing or not a git repository", hint="restore it from a clone")
        self.objects = Objects(self.git)
        self.refs = Refs(self.git)
        self.revisions = Revisions(self.objects, self.refs, partial(oplog.operations, self), clock)
        self.lock = RepositoryLock(self.git, self.refs)
        self.writing = False
        self.mirrored = True
        self._late = threading.RLock()
        self._evidence: Evidence | None = None
        self._index: Index | None = None

    @classmethod
    def init(cls, folder: Path, *, clock: Clock = wall_clock) -> Store:
        """Make a store in a folder. UsageError if there is one already."""
        from rover_store.create import create

        create(folder)
        return cls.open(folder, clock=clock)

    @classmethod
    def open(cls, folder: Path | None = None, *, clock: Clock = wall_clock) -> Store:
        """Open the store of a project folder; without one, of ROVER_STORE or of the nearest folder above."""
        root = config.find(folder)
        return cls(root, config.read(root), clock)

    # --- reading -----------------------------------------------------------------------------------------
    def resolve(self, rev: str = "HEAD") -> str:
        """Full commit id. NotFound, or Ambiguous with the candidates."""
        if not rev:
            raise UsageError("an empty word names no revision", hint="HEAD is the newest commit")
        return self.revisions.commit(rev)

    def find(self, rev: str) -> Found:
        """What REV or REV:PATH names: commit, tree or blob."""
        return self.revisions.find(rev)

    def packages(self, rev: str = "HEAD", pattern: str = "*") -> list[PackageEntry]:
        """Packages of a revision whose name matches a glob, sorted by name."""
        commit = self._commit(rev)
        if commit is None:
            return []
        if commit == self.refs.head_id() and (known := self.index.packages(commit, pattern)) is not None:
            return known
        found = layout.package_trees(self.objects, self.revisions.load(commit).tree, pattern)
        return [layout.entry(self.objects, name, tree) for name, tree in found.items()]

    def package(self, name: str, rev: str = "HEAD") -> PackageEntry:
        """One package of a revision. NotFound if it is not there."""
        root = self._root(rev)
        item = self.objects.subtree(root, package_path(name)) if root else None
        if item is None or not item.is_folder:
            raise NotFound("package", name, hint="" if rev == "HEAD" else f"in {rev}")
        return layout.entry(self.objects, name, item.id)

    def resources(self, rev: str = "HEAD") -> dict[str, str]:
        """`files/orders` -> tree id."""
        root = self._root(rev)
        return {} if root is None else layout.resource_trees(self.objects, root)

    def log(
        self, rev: str = "HEAD", *, package: str | None = None, component: str | None = None,
        resource: str | None = None, since: int | None = None, until: int | None = None, limit: int | None = None,
    ) -> Iterator[LogEntry]:  # fmt: skip
        """Commits of a revision, the newest first; those that touch a package (glob), its component, a resource."""
        from rover_store.history.log import Filter, log

        node = package
        if component is not None:
            node = f"{package or '*'}/{component}"
        if resource is not None:
            node = f"resources/{resource}"
        wanted = Filter((node,) if node is not None else (), since=since, until=until)
        return log(self, rev, wanted, limit)

    def commit(self, rev: str = "HEAD") -> Commit:
        """A commit with its tree, parents, author, time, message and trailers."""
        return self.revisions.load(self.resolve(rev))

    def diff(self, old: str, new: str = "HEAD", pattern: str = "*") -> Diff:
        """What differs between two revisions, by package, component and file."""
        from rover_store.diffs.diff import diff

        a, b = self.commit(old), self.commit(new)
        return diff(self.objects, a.tree, b.tree, pattern, ids=(a.id, b.id))

    # --- the dependency graph ----------------------------------------------------------------------------
    def graph(self, rev: str = "HEAD") -> tuple[list[Dependency], dict[str, str]]:
        """Edges between nodes (`NAME/context`, `resources/files/x`), and every node's present version."""
        commit = self._commit(rev)
        if commit is None:
            return [], {}
        if commit == self.refs.head_id() and (known := self.index.graph(commit)) is not None:
            return known
        from rover_store.index.build import graph_of

        return graph_of(self.objects, self.revisions.load(commit).tree)

    def stale(self, rev: str = "HEAD", pattern: str = "*") -> list[Stale]:
        """Components whose dependency is no longer at the version they were built against."""
        from rover_store.graph_at import stale

        return stale(self, rev, pattern)

    def closure(self, nodes: Iterable[str], rev: str = "HEAD") -> list[str]:
        """The nodes and all their transitive dependents, in every package that shares a resource. NotFound."""
        from rover_store.graph_at import closure

        return closure(self, nodes, rev)

    def dependents(self, node: str, rev: str = "HEAD") -> list[str]:
        """Nodes that were built against this one, directly."""
        from rover_store.graph_at import edges

        return graph.dependents([node], edges(self, [node], rev, dependents=True))

    def order(self, nodes: Iterable[str], rev: str = "HEAD") -> list[str]:
        """The nodes in dependency order: what others are built against comes first."""
        from rover_store.graph_at import edges

        wanted = list(nodes)
        return graph.order(wanted, edges(self, wanted, rev, dependents=False))

    # --- writing -----------------------------------------------------------------------------------------
    def write(self, command: str = "") -> Transaction:
        """A transaction, for a `with` block. `command` is what the operation log says."""
        return Transaction(self, command)

    def put_files(self, files: Mapping[str, Content], base: str | None = None) -> str:
        """Store files outside any commit (a proposal, a candidate) and return their tree's id."""
        from rover_store.care.freshen import freshen

        with self.lock:
            tx = Transaction(self, "")
            try:
                tree = tx.edit_tree(base, files) if base else tx.tree(files)
                tx.write_objects()
            finally:
                tx.abort()
            freshen(self.objects, tree)
        return tree

    def after_write(self) -> None:
        """What follows a write: the index. If it fails, or another process is at it, the next question repairs."""
        with suppress(StoreError, OSError):
            self.index.sync(patience=0)
        if self.config.database and self.mirrored:
            from rover_store.index.mirror import sync

            try:
                sync(self, self.config.database, count_rows=False)
            except RoverError:  # `rover reindex` tells; one that is away is not waited for again
                self.mirrored = False

    @property
    def index(self) -> Index:
        """The index; opened when something asks."""
        with self._late:
            if self._index is None:
                from rover_store.index.index import Index

                self._index = Index(self, self.folder / "index.db")
            return self._index

    def reindex(self) -> None:
        """Build the index again from the two repositories."""
        self.index.rebuild()

    def fsck(self) -> list[Problem]:
        """Errors of the repositories, the records' ties and the index. `fsck.fsck` tells warnings too."""
        from rover_store.care.fsck import fsck

        return [problem for problem in fsck(self) if problem.severity == "error"]

    def checkout(self, name: str, folder: Path, rev: str = "HEAD", *, force: bool = False) -> PackageEntry:
        """Write a package out as a folder: a new or empty one, or an unchanged checkout (`force`: a changed one)."""
        from rover_store.folders.folder import checkout

        return checkout(self, name, folder, rev, force=force)

    def commit_folder(
        self, folder: Path, message: str = "", *, author: str | None = None, time: int | None = None,
        command: str = "", fresh: bool = False, force: bool = False,
    ) -> FolderCommit:  # fmt: skip
        """Take a package folder into the store. PackageError names file, field and reason; then nothing changes.

        What the store has changed since the folder was checked out is kept; UsageError where both changed one thing.
        `force` takes the folder as it is. `fresh` says that unchanged components fit the changed ones.
        """
        from rover_store.folders import folder as folders

        return folders.commit_folder(
            self, folder, message, author=author, time=time, command=command, fresh=fresh, force=force
        )

    # --- branches, tags, cases ---------------------------------------------------------------------------
    def current_branch(self) -> str | None:
        """Name of the branch that HEAD is on, None where it is detached."""
        head = self.refs.head()
        return head.removeprefix(HEADS) if head.startswith(HEADS) else None

    def branches(self) -> dict[str, str]:
        """Name -> commit id."""
        return {name.removeprefix(HEADS): value for name, value in self.refs.all(HEADS).items()}

    def tags(self) -> dict[str, str]:
        """Name -> id of what the tag names, mostly a commit."""
        return {n.removeprefix(TAGS): self.revisions.target(v) for n, v in self.refs.all(TAGS).items()}

    def cases(self) -> dict[str, str]:
        """Repair cases: name -> id of the case commit."""
        return {name.removeprefix(CASES): value for name, value in self.refs.all(CASES).items()}

    def create_branch(self, name: str, rev: str = "HEAD", *, command: str = "") -> str:
        """Make a branch at a revision and return its commit id. UsageError if the name is taken."""
        ref = check_ref(HEADS + name)
        target = self.resolve(rev)
        with self.write(command or f"branch {name}") as tx:
            if tx.ref(ref) is not None:
                raise UsageError(f"the branch {name} exists already")
            tx.move_ref(ref, None, target)
        return target

    def delete_branch(self, name: str, *, command: str = "") -> str:
        """Remove a branch and return the commit it was at; `undo` brings it back."""
        with self.write(command or f"branch -d {name}") as tx:
            ref = HEADS + name
            if self.refs.head() == ref:
                raise UsageError(f"{name} is the current branch; switch away first")
            old = require(self.refs, ref, "branch")
            tx.move_ref(ref, old, None)
        return old

    def switch(self, name: str, *, command: str = "") -> None:
        """Make a branch the current one."""
        with self.write(command or f"switch {name}") as tx:
            require(self.refs, HEADS + name, "branch")
            tx.move_head(HEADS + name)

    def tag(self, name: str, rev: str = "HEAD", message: str = "", *, command: str = "") -> str:
        """Make an annotated tag and return the tag object's id."""
        target = self.resolve(rev)
        with self.write(command or f"tag {name}") as tx:
            return tx.tag(name, target, message)

    def delete_tag(self, name: str, *, command: str = "") -> str:
        """Remove a tag and return the id it held."""
        with self.write(command or f"tag -d {name}") as tx:
            old = require(self.refs, TAGS + name, "tag")
            tx.move_ref(TAGS + name, old, None)
        return old

    # --- operations --------------------------------------------------------------------------------------
    def op_log(self, limit: int | None = None) -> list[Operation]:
        """Operations, the newest first."""
        return list(islice(oplog.operations(self), limit))

    def undo(self, operation: str | None = None) -> Operation:
        """Take back the last operation and return it. Undoing an undo does it again."""
        return oplog.undo(self, operation)

    # --- evidence and audits -----------------------------------------------------------------------------
    @property
    def evidence(self) -> Evidence:
        """Rollouts and verdicts."""
        with self._late:
            if self._evidence is None:
                from rover_store.evidence import Evidence

                self._evidence = Evidence(self)
            return self._evidence

    @property
    def has_evidence_open(self) -> bool:
        """Whether `evidence` was used; asking it loads the records."""
        return self._evidence is not None

    @property
    def sealed(self) -> Sealed:
        """The door that only appends."""
        from rover_store.sealed import Sealed

        return Sealed(self)

    def _commit(self, rev: str) -> str | None:
        """Full commit id of a revision; None for HEAD before the first commit."""
        return None if rev == "HEAD" and self.refs.head_id() is None else self.resolve(rev)

    def _root(self, rev: str) -> str | None:
        """Tree of a revision; None for HEAD before the first commit."""
        commit = self._commit(rev)
        return None if commit is None else self.revisions.load(commit).tree
