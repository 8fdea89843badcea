"""The workspace as git sees it: path -> mode and blob id, its tree id, and what changed between two of them."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Mapping

from rover.sandbox.protocol import Snapshot
from rover_store.errors import StoreError
from rover_store.ids import blob_id
from rover_store.records import Artifact
from rover_store.trees import EXECUTABLE, FILE, LINK, TreeItem, check_path

Manifest = Mapping[str, TreeItem]

_MODES = {"file": FILE, "executable": EXECUTABLE, "link": LINK}
_WORDS = re.compile(r"""'([^']*)'|"([^"]*)"|([^\s'"|&;<>()`$={},]+)""")


def of_files(files: Mapping[str, bytes]) -> Manifest:
    """The manifest of plain files."""
    return {path: TreeItem(FILE, blob_id(data)) for path, data in files.items()}


def of_snapshot(snapshot: Snapshot) -> tuple[Manifest, dict[str, str]]:
    """The manifest of a snapshot, and a reason for each path that a git tree cannot hold."""
    found = {path: TreeItem(_MODES[entry.kind], entry.blob) for path, entry in snapshot.entries.items()}
    irregular = {_text(path): reason for path, reason in sorted(snapshot.refused.items())}
    for path in [p for p in found if "git" in p.lower() and not _holdable(p)]:
        del found[path]
        irregular[path] = "lies in a folder called .git"
    return found, irregular


def is_script(data: bytes) -> bool:
    """Whether a file says of itself how it is run, and so may be: packages keep no modes."""
    return data.startswith((b"#!", b"\x7fELF"))


def changes(before: Manifest, after: Manifest) -> tuple[Artifact, ...]:
    """Every path whose content or kind differs; a deleted one has no blob."""
    if before == after:
        return ()
    paths = {p for p in before.keys() | after.keys() if before.get(p) != after.get(p)}
    return tuple(artifact(path, after) for path in sorted(paths))


def artifact(path: str, manifest: Manifest) -> Artifact:
    """The version of a path that a manifest holds."""
    item = manifest.get(path)
    return Artifact(path=path, blob=None if item is None else item.id)


def named_in(command: str, manifest: Manifest) -> tuple[str, ...]:
    """Files that a shell command names, by path or by pattern."""
    found: set[str] = set()
    for groups in _WORDS.findall(command):
        for word in groups:
            if not word:
                continue
            path = posixpath.normpath(word)
            if path in manifest:
                found.add(path)
            elif any(mark in word for mark in "*?["):
                found.update(p for p in fnmatch.filter(manifest, path) if p.count("/") == path.count("/"))
    return tuple(sorted(found))


def _text(path: str) -> str:
    return path.encode("utf-8", "replace").decode()


def _holdable(path: str) -> bool:
    try:
        check_path(path)
    except StoreError:
        return False
    return True
