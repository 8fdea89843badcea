"""Keeping objects young that a proposal uses again, as git does: what was stored before is not written a second time,

so its pack may be old, and nothing reaches a proposal yet. Without this a collection could take half of it away.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from rover_store.objects import Objects
from rover_store.trees import SUBMODULE

#: a pack this young is young enough
_YOUNG_S = 3600


def freshen(objects: Objects, tree: str) -> None:
    """Make the packs and loose files young that hold a tree and what lies below it."""
    ids = {tree}
    waiting = [tree]
    while waiting:
        for item in objects.list_tree(waiting.pop()).values():
            if item.id not in ids and item.mode != SUBMODULE:
                ids.add(item.id)
                waiting += [item.id] if item.is_folder else []
    touched = set()
    packs = sorted(objects.packs, key=lambda pack: os.stat(pack.path).st_mtime, reverse=True)
    for object_hex in ids:
        name = bytes.fromhex(object_hex)
        pack = next((pack for pack in packs if pack.find(name) is not None), None)
        touched.add(pack.path if pack is not None else objects.folder / object_hex[:2] / object_hex[2:])
    for path in touched:
        with suppress(OSError):  # another user's pack: its age is what it is
            if time.time() - os.stat(path).st_mtime > _YOUNG_S:
                os.utime(path)
