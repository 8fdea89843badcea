"""What is recorded of the files that a package was built from: their digests, by which lost content is known again.

A file under another name, the copy of it that nobody changed, a column that was only spelled otherwise: whatever
gives the recorded digest is the recorded content, and nothing has to be guessed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

from rover.repair.proposals.context_edit import ContextEdit
from rover.repair.proposals.units import respelled


def digests(edit: ContextEdit) -> dict[str, str]:
    """Path -> sha256 of each source file, from the package's provenance and its resources' own records."""
    return {s.path: s.sha256 for s in edit.view.env.record.provenance.sources}


def bring_back(edit: ContextEdit, paths: Iterable[str]) -> list[str]:
    """Give these files their recorded content again, where it can be found; those for which it was."""
    wanted = digests(edit)
    done = []
    for path in paths:
        if path not in wanted:
            continue
        now = edit.start()
        is_it = _of(wanted[path])
        if path in now and is_it(now[path]):
            continue
        if _from_elsewhere(edit, path, now, is_it) or _respelled(edit, path, now, is_it):
            done.append(path)
    return done


def _from_elsewhere(edit: ContextEdit, path: str, now: dict[str, bytes], is_it: Callable[[bytes], bool]) -> bool:
    """The content lies in the workspace under another name."""
    other = next((p for p, data in sorted(now.items()) if p != path and is_it(data)), None)
    if other is None:
        return False
    if path in now:
        edit.put(path, now[other], f"put into {path} what it held when the package was built, which {other} holds")
        if other not in digests(edit):
            edit.take_out(other, f"a copy of {path}")
    else:
        edit.rename(other, path)
    return True


def _respelled(edit: ContextEdit, path: str, now: dict[str, bytes], is_it: Callable[[bytes], bool]) -> bool:
    """The same table in another spelling."""
    if path not in now:
        return False
    data = respelled(edit.view.contract, path, now[path], is_it)
    if data is None:
        return False
    edit.put(path, data, f"write {path} as it was when the package was built")
    return True


def _of(sha256: str) -> Callable[[bytes], bool]:
    return lambda data: hashlib.sha256(data).hexdigest() == sha256
