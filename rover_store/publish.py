"""The last steps of every write, in the one order that survives a kill or a failing disk at any of them.

Journal, pack, ref locks with their new content, `go`, renames, an empty journal. Until `go` a failure leaves
everything as it was; after it, either the moves are finished or the next writer finishes them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from rover_store.lock import RepositoryLock
from rover_store.packs import PackWriter
from rover_store.ref_moves import Moves, Prepared
from rover_store.refs import Refs


def publish(
    lock: RepositoryLock, refs: Refs, writer: PackWriter, moves: Moves, visible: Callable[[], object] = lambda: None
) -> None:
    """Make a writer's objects durable and visible, and move refs to them, all or none. Only under the lock.

    `visible` is called when the objects can be read and nothing names them yet. An error after the first rename
    says that the moves are not known to be durable; they are never half done.
    """
    prepared = None
    try:
        lock.write(*(_line(ref, old, new) for ref, (old, new) in moves.items()))
        writer.finish(lambda name: lock.write(f"pack {name}"))
        visible()
        prepared = Prepared(refs, moves)
        lock.write("go")
        prepared.commit()
    except BaseException:
        with contextlib.suppress(Exception):
            if prepared is not None and not prepared.begun:
                lock.write("no")
        if prepared is not None:
            prepared.abort()
        with contextlib.suppress(Exception):  # what is left over now, the next writer clears
            lock.recover()
        raise
    with contextlib.suppress(OSError):  # done and durable: a journal that stays is found to be done
        if prepared.abort():
            lock.clear()


def _line(ref: str, old: str | None, new: str | None) -> str:
    if ref == "HEAD":
        return f"head {new} {(old or '-').replace(' ', '')}"
    return f"ref {ref} {old or '-'} {new or '-'}"
