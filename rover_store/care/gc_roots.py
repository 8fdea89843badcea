"""What must never be collected: everything that a ref, the operation log, a case, a pin or a piece of evidence needs.

Git keeps what refs reach. A store needs more: an annotated tag that `undo` may bring back is named by op.json alone,
a proposal by case.json, the version that an edge was built against by package.json, and the component versions
behind a recorded score by the evidence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rover_store.errors import StoreError
from rover_store.refs import Refs

if TYPE_CHECKING:
    from rover_store.store import Store

_HEX = re.compile(r"\b[0-9a-f]{40}\b")
_HEX_BYTES = re.compile(rb"\b[0-9a-f]{40}\b")
#: where repair puts what was damaged
DAMAGED = "damaged"
#: a file larger than this is no list of ids that someone left
_NOTE = 1 << 20


def roots(store: Store, repositories: list[Path]) -> Iterator[str]:
    """Ids that keep what they reach. Some may name nothing: an edge may be broken, a case may be old."""
    for git in repositories:
        yield from _refs(git)
    yield from _operations(store)
    yield from _cases(store)
    yield from _pins(store)
    yield from _evidence(store)
    yield from _notes(store.folder)


def _refs(git: Path) -> Iterator[str]:
    refs = Refs(git)
    yield from refs.all().values()
    for head in (git, *sorted((git / "worktrees").glob("*"))):
        for file in sorted(head.glob("*HEAD")):
            yield from _hex_in(file)
    for file in sorted((git / "logs").rglob("*")):  # reflogs, where a foreign git keeps them
        yield from _hex_in(file)


def _operations(store: Store) -> Iterator[str]:
    from rover_store.care.forget import view_ids
    from rover_store.oplog import operations

    oldest = None
    for operation in operations(store):
        oldest = operation.id
        for move in operation.moves:  # HEAD may have been at a commit; names of branches keep nothing
            yield from (value for value in (move.old, move.new) if value is not None)
    if oldest is not None:  # what was there before the log began, `rover op restore` may go back to
        yield from view_ids(store, oldest)


def _cases(store: Store) -> Iterator[str]:
    for commit in store.cases().values():
        item = store.objects.subtree(store.revisions.load(commit).tree, "case.json")
        if item is not None and not item.is_folder:
            yield from _HEX.findall(store.objects.read(item.id).decode("utf-8", "replace"))


def _pins(store: Store) -> Iterator[str]:
    """Versions that edges were built against, at the head of every branch."""
    from rover_store import layout
    from rover_store.index import build as index_build
    from rover_store.index.rows import edges_of

    objects, head = store.objects, store.refs.head_id()
    here: str | None = None
    with suppress(StoreError):  # a branch on something that is no commit: fsck tells
        if head is not None:
            rows = store.index.ask(lambda db: db.execute("SELECT DISTINCT version FROM edge").fetchall())
            yield from (str(version) for (version,) in rows)
            here = store.revisions.load(head).tree
    for other in sorted(set(store.branches().values()) - {head}):
        with suppress(StoreError):
            for change in layout.changed_packages(objects, here, store.revisions.load(other).tree):
                if change.new is not None:
                    record = index_build.package_json(objects, change.new)
                    yield from (edge.version for edge in edges_of(change.name, record))


def _evidence(store: Store) -> Iterator[str]:
    columns = ("context FROM rollout", "task FROM rollout", "harness FROM rollout", "verifier FROM verdict")
    for column in columns:
        rows = store.index.ask(lambda db, c=column: db.execute(f"SELECT DISTINCT {c}").fetchall())  # type: ignore[misc]
        yield from (str(value) for (value,) in rows)


def _notes(folder: Path) -> Iterator[str]:
    """Ids in the small files beside the repositories: a merge under way, a proposal that waits."""
    for top in sorted(folder.iterdir()):
        if not top.name.endswith(".git") and not top.name.startswith("index.db") and top.name != DAMAGED:
            for file in [top] if top.is_file() else sorted(top.rglob("*")):
                yield from _hex_in(file)


def _hex_in(file: Path) -> Iterator[str]:
    with suppress(OSError):
        if file.is_file() and (file.stat().st_size <= _NOTE or "logs" in file.parts):
            for found in _HEX_BYTES.findall(file.read_bytes()):
                yield found.decode()


