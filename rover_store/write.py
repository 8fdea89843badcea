"""A write transaction: everything goes into one pack, then the refs move, then the index follows.

Nothing is visible before the `with` block ends; an exception inside it leaves no trace. When the block has
ended, the commit is durable. Two writers wait for each other and both succeed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO

from rover_store import commits, oplog
from rover_store.errors import LostRace, NotFound, StoreError, UsageError
from rover_store.names import RESOURCE_KINDS, check_name, package_path
from rover_store.packs import BLOB, COMMIT, TAG, PackWriter
from rover_store.publish import publish
from rover_store.refs import EVIDENCE, HEADS, OPS, ROVER, SEALED, TAGS, check_ref
from rover_store.rollup import roll_up
from rover_store.trees import FILE, FOLDER, Level, TreeItem, edit_tree, nest, parse_tree, write_level

if TYPE_CHECKING:
    from rover_store.store import Store

#: What a tree may be made of: bytes, the id of a blob, or a whole entry.
Content = bytes | str | TreeItem
Refs = dict[str, tuple[str | None, str | None]]


class Transaction:
    """One write. Use through `Store.write`."""

    def __init__(self, store: Store, command: str) -> None:
        self.store = store
        self.command = command
        self._writer = PackWriter(store.git / "objects" / "pack", store.objects.known)
        self._edits: dict[str, TreeItem | None] = {}
        self._moves: Refs = {}
        self._head: str | None = None
        self._details: dict[str, Any] = {}
        self._noticing = False
        if store.lock.held:
            store.objects.up_to_date()

    def __enter__(self) -> Transaction:
        self.store.lock.__enter__()
        try:
            if self.store.writing:
                raise StoreError("a write is already open in this process; finish it first")
            self.store.objects.up_to_date()
            self.store.writing = True
        except BaseException:
            self.store.lock.__exit__()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, _value: object, _trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            self.abort()
            self.store.writing = False
            self.store.lock.__exit__()
        if kind is None:
            self.store.after_write()

    # --- objects -----------------------------------------------------------------------------------------
    def add(self, kind: int, data: bytes) -> str:
        """Store an object of any kind and return its id."""
        return self._writer.add(kind, data)

    def add_stream(self, kind: int, size: int, chunks: Iterable[bytes], name: str) -> str:
        """Store an object of any size whose id is known; StoreError where the chunks do not have it."""
        return self._writer.add_stream(kind, size, chunks, name)

    def blob(self, data: bytes) -> str:
        """Store bytes and return their id. What the store has already is not written again."""
        return self._writer.add(BLOB, data)

    def blob_file(self, source: Path | BinaryIO) -> str:
        """Store a file of any size (a path, or the rest of an open seekable file), chunk by chunk; return its id."""
        from rover_store.packs.blob_files import write_file

        return write_file(self._writer, self.store.objects.exists, source)

    def tree(self, files: Mapping[str, Content]) -> str:
        """Store a set of files (nested paths) and return the tree's id."""
        return write_level(nest({path: self._item(c) for path, c in files.items()}), self.add)

    def edit_tree(self, base: str | None, edits: Mapping[str, Content | None]) -> str:
        """Store `base` with some paths replaced, added or deleted (None), and return the new tree's id."""
        items = {path: None if c is None else self._item(c) for path, c in edits.items()}
        return edit_tree(base, items, self.list_tree, self.add)

    def list_tree(self, tree: str) -> Level:
        """One level of a tree, written here or before."""
        return parse_tree(self._writer.get(tree)[1]) if tree in self._writer else self.store.objects.list_tree(tree)

    def read(self, blob: str) -> bytes:
        """Bytes of a blob, written here or before."""
        return self._writer.get(blob)[1] if blob in self._writer else self.store.objects.read(blob)

    def exists(self, object_hex: str) -> bool:
        return object_hex in self._writer or self.store.objects.exists(object_hex)

    # --- what the next commit holds ----------------------------------------------------------------------
    def set_package(self, name: str, tree: str) -> None:
        """The next commit holds this version of the package."""
        self._edits[package_path(check_name(name))] = self._folder(tree)

    def remove_package(self, name: str) -> None:
        """The next commit does not hold the package."""
        self._edits[package_path(check_name(name))] = None

    def set_resource(self, name: str, tree: str | None) -> None:
        """The next commit holds this version of a resource (`files/orders`), or none."""
        kind, _, short = name.partition("/")
        if kind not in RESOURCE_KINDS:
            raise UsageError(f"{name!r} is not a resource: KIND/NAME, kind one of {', '.join(RESOURCE_KINDS)}")
        check_name(short, "resource.json")
        self._edits[f"resources/{name}"] = None if tree is None else self._folder(tree)

    # --- commits and refs --------------------------------------------------------------------------------
    def commit(
        self,
        message: str,
        *,
        trailers: Mapping[str, str] | None = None,
        parents: Sequence[str] | None = None,
        branch: str | None = None,
        author: str | None = None,
        time: int | None = None,
    ) -> str:
        """Commit what was set, on a branch (the current one), and return the commit's id.

        Where nothing differs from the parent and no parents are given, no commit is made: the id is the head's.
        """
        ref = self.store.refs.head() if branch is None else HEADS + branch
        if not ref.startswith(HEADS):
            raise UsageError("HEAD is detached; name the branch to commit to")
        old = self.ref(ref)
        bases = tuple(parents) if parents is not None else ((old,) if old else ())
        tree = self._apply(bases[0] if bases else None, self._edits)
        self._edits = {}
        if parents is None and old is not None and tree == self.load(old).tree:
            return old
        new = self._commit(tree, bases, message, trailers, author, time)
        self._move(ref, old, new)
        return new

    def detached_commit(
        self,
        message: str,
        *,
        base: str = "HEAD",
        packages: Mapping[str, str | None] | None = None,
        resources: Mapping[str, str | None] | None = None,
        files: Mapping[str, Content] | None = None,
        parents: Sequence[str] | None = None,
        trailers: Mapping[str, str] | None = None,
        author: str | None = None,
        time: int | None = None,
    ) -> str:
        """A commit that moves no branch: the tree of `base` with packages and resources replaced.

        `files` are further paths at the top of the tree (case.json). `parents` defaults to the base.
        """
        start = base if base in self._writer else self.store.resolve(base)
        edits: dict[str, TreeItem | None] = {}
        for name, tree in (packages or {}).items():
            edits[package_path(check_name(name))] = None if tree is None else self._folder(tree)
        for name, tree in (resources or {}).items():
            edits[f"resources/{name}"] = None if tree is None else self._folder(tree)
        edits.update({path: self._item(content) for path, content in (files or {}).items()})
        tree_hex = self._apply(start, edits)
        return self._commit(tree_hex, (start,) if parents is None else parents, message, trailers, author, time)

    def set_ref(self, ref: str, commit: str | None, *, expect: str | None = None) -> None:
        """Move a ref below refs/rover/ (a case). LostRace if it is not at `expect`."""
        if not ref.startswith(ROVER) or ref.startswith((SEALED, OPS, EVIDENCE)):
            raise UsageError(f"{ref} is not for writing")
        self._expect(ref, expect)
        self._move(ref, expect, commit)

    def promote(self, branch: str, commit: str, *, expect: str | None) -> None:
        """Move a branch to a commit that exists. LostRace if the branch is not at `expect`."""
        self._expect(HEADS + branch, expect)
        self._move(HEADS + branch, expect, commit)

    def tag(self, name: str, commit: str, message: str = "", *, author: str | None = None) -> str:
        """An annotated tag. UsageError if the name is taken."""
        ref = check_ref(TAGS + name)
        if self.ref(ref) is not None:
            raise UsageError(f"the tag {name} exists already")
        data = commits.encode_tag(commit, name, message, author or self.store.author, self.store.clock())
        tag_hex = self._writer.add(TAG, data)
        self._move(ref, None, tag_hex)
        return tag_hex

    def move_ref(self, ref: str, old: str | None, new: str | None) -> None:
        """Move any ref that the operation log covers. A damaged ref counts as absent, and is put right."""
        found = self._moves[ref][1] if ref in self._moves else self.store.refs.peek(check_ref(ref))
        if found != old:
            raise LostRace(ref, old, found)
        self._move(ref, old, new)

    def move_head(self, target: str) -> None:
        """Point HEAD at another branch, or at a commit."""
        self._head = check_ref(target) if target.startswith("refs/") else self.load(target).id

    def notice(self) -> None:
        """Record what another git moved, even if this transaction moves nothing itself."""
        self._noticing = True

    def ref(self, name: str) -> str | None:
        """Where a ref will be when the transaction ends."""
        return self._moves[name][1] if name in self._moves else self.store.refs.get(name)

    def load(self, commit: str) -> commits.Commit:
        data = self._writer.get(commit)[1] if commit in self._writer else self.store.objects.read_commit(commit)
        return commits.parse_commit(commit, data)

    def note(self, **details: str) -> None:
        """Add to the record of this operation in the operation log."""
        self._details.update(details)

    def write_objects(self) -> None:
        """Make the objects durable without any commit. Only under the store's lock."""
        if not self.store.writing:
            roll_up(self.store.objects, self.store.lock)
        publish(self.store.lock, self.store.refs, self._writer, {}, lambda: self.store.objects.wrote(self._writer))

    def abort(self) -> None:
        """Forget what was not finished. Never raises: what it cannot remove, the next writer does."""
        with suppress(OSError):
            self._writer.abort()

    # --- within ------------------------------------------------------------------------------------------

    def _item(self, content: Content) -> TreeItem:
        if isinstance(content, TreeItem):
            return content
        if isinstance(content, bytes):
            return TreeItem(FILE, self.blob(content))
        if not self.exists(content):
            raise NotFound("object", content)
        return TreeItem(FILE, content)

    def _folder(self, tree: str) -> TreeItem:
        if not self.exists(tree):
            raise NotFound("tree", tree)
        return TreeItem(FOLDER, tree)

    def _apply(self, base: str | None, edits: Mapping[str, TreeItem | None]) -> str:
        tree = self.load(base).tree if base else None
        if not edits and tree is not None:
            return tree
        return edit_tree(tree, edits, self.list_tree, self.add)

    def _commit(
        self, tree: str, parents: Sequence[str], message: str, trailers: Mapping[str, str] | None,
        author: str | None, time: int | None,
    ) -> str:  # fmt: skip
        for parent in parents:
            self.load(parent)
        when = self.store.clock() if time is None else time
        data = commits.encode_commit(tree, parents, message, author or self.store.author, when, trailers)
        return self._writer.add(COMMIT, data)

    def _expect(self, ref: str, expect: str | None) -> None:
        found = self.ref(check_ref(ref))
        if found != expect:
            raise LostRace(ref, expect, found)

    def _move(self, ref: str, old: str | None, new: str | None) -> None:
        if new is not None and not self.exists(new):
            raise NotFound("commit", new)
        if new is not None and ref.startswith(HEADS):
            self.load(new)  # a branch names a commit
        first = self._moves[ref][0] if ref in self._moves else old
        self._moves[ref] = (first, new)

    def commit_of(self, object_hex: str) -> str | None:
        """The commit behind an id that may be a tag's; None where there is none."""
        for _ in range(5):
            if not self.exists(object_hex):
                return None
            ours = object_hex in self._writer
            kind, data = self._writer.get(object_hex) if ours else self.store.objects.get(object_hex)
            if kind != TAG:
                return object_hex if kind == COMMIT else None
            object_hex = commits.parse_tag(object_hex, data)[0]
        return None

    def _finish(self) -> None:
        if self._edits:
            raise StoreError("packages were set but not committed")
        roll_up(self.store.objects, self.store.lock)
        moves = {ref: move for ref, move in self._moves.items() if move[0] != move[1]}
        if self._head is not None and self._head != (old := self.store.refs.head_text()):
            moves["HEAD"] = (old, self._head)
        if moves or self._noticing:
            chain = oplog.Recorder(self.store, self)
            chain.notice()
            if moves:
                chain.record(self.command, moves, self._details)
            if chain.before != chain.last:
                moves[OPS] = (chain.before, chain.last)
        publish(self.store.lock, self.store.refs, self._writer, moves, lambda: self.store.objects.wrote(self._writer))
