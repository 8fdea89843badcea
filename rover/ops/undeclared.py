"""Files of a package's workspace that its context.json does not name: what an author easily forgets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rover_store.store import Store


def undeclared(store: Store, name: str) -> tuple[str, ...]:
    """Paths below context/files of the package at HEAD that have no entry in context.json, sorted."""
    files = store.objects.read_tree(store.package(name).components["context"])
    value = json.loads(store.objects.read(files["context.json"].id))
    said = {entry["path"] for entry in value.get("files", ())}
    own = (path.removeprefix("files/") for path in files if path.startswith("files/"))
    return tuple(path for path in own if path not in said)
