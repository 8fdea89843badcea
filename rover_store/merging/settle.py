"""Settling a merge by hand: a folder with each package that is in conflict, edited by a person and taken back.

    README.txt                     what to do
    conflicts.json                 one entry a conflict, with `choose`
    packages/NAME/**               the package as merged so far; texts in conflict have markers
    resources/KIND/NAME/**, tree/** the same for what is no package
    sides/c3/{base,ours,theirs}.*  the versions of a file that has no lines

`choose` is ours, theirs, base, {"value": ...} for a field, or `file`: as it lies in the folder.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rover_store.errors import PackageError, StoreError, UsageError
from rover_store.merging.files import chunks_of
from rover_store.merging.open_merges import OpenMerge, name_of, require_open
from rover_store.merging.text import marked
from rover_store.names import package_path
from rover_store.plain_file import read_plain
from rover_store.records import to_json
from rover_store.records.merge import Conflict, Side
from rover_store.trees import EXECUTABLE, FILE, check_path

if TYPE_CHECKING:
    from rover_store.store import Store

CONFLICTS = "conflicts.json"

_README = """A merge of {other} into {into} is waiting. Settle every conflict, then run

    rover merge --continue {folder}

conflicts.json lists what is in conflict. In each entry set "choose" to
    "ours"            the version of {into}
    "theirs"          the version of {other}
    "base"            the version before both
    {{"value": ...}}    another value, where a field is in conflict
    "file"            what lies in this folder: edit it there
Texts in conflict have both versions between <<<<<<< and >>>>>>> lines: keep
what should stand and remove the markers; their "choose" is "file" already.
Versions of files without lines lie below sides/.
`rover merge --abort` drops the merge.
"""


def write_folder(store: Store, folder: Path, branch: str | None = None) -> OpenMerge:
    """Write the folder of an open merge. It must not exist or be empty; it appears whole or not at all."""
    there = require_open(store, branch)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists and is not an empty folder", hint="choose another folder")
    scratch = folder.with_name(f".{folder.name}.tmp-{os.getpid()}")
    try:
        scratch.mkdir(parents=True)
        try:
            _fill(store, there, scratch, folder)
            if folder.exists():
                folder.rmdir()
            os.rename(scratch, folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        raise StoreError(f"cannot write {folder}: {error.strerror}") from None
    return there


def place_of(found: Conflict) -> str:
    """Where the package, resource or file of a conflict lies in the folder."""
    if found.package:
        return f"packages/{found.package}"
    return f"resources/{found.resource}" if found.resource else f"tree/{found.file}"


def _fill(store: Store, there: OpenMerge, scratch: Path, folder: Path) -> None:
    record = there.record
    text = _README.format(other=record.other, into=record.into, folder=folder)
    (scratch / "README.txt").write_text(text, "utf-8")
    rows = [_entry(found) for found in record.conflicts]
    head = {"merge": there.commit, "into": record.into, "other": record.other}
    (scratch / CONFLICTS).write_bytes(to_json({**head, "conflicts": rows}))
    for place, found in {place_of(f): f for f in record.conflicts if f.package or f.resource}.items():
        tree = _tree(store, there, found)
        if tree is not None:
            _write_tree(store, tree, scratch.joinpath(*check_path(place)))
    for found in record.conflicts:
        if not (found.package or found.resource):
            _beside(store, there, found, scratch)
        if found.choice is None:
            _sides(store, found, scratch, record.into, record.other)


def _beside(store: Store, there: OpenMerge, found: Conflict, scratch: Path) -> None:
    """A file of no package, as merged so far."""
    item = store.objects.subtree(there.tree, found.file)
    if item is not None and item.mode in (FILE, EXECUTABLE):
        target = scratch.joinpath(*check_path(place_of(found)))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(store.objects.read(item.id))


def _write_tree(store: Store, tree: str, folder: Path) -> None:
    for path, item in store.objects.read_tree(tree).items():
        if item.mode not in (FILE, EXECUTABLE):
            raise StoreError(f"{path!r} is not a plain file; it was not written by rover")
        target = folder.joinpath(*check_path(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(store.objects.read(item.id))


def _tree(store: Store, there: OpenMerge, found: Conflict) -> str | None:
    path = package_path(found.package) if found.package else f"resources/{found.resource}"
    item = store.objects.subtree(there.tree, path)
    if item is None and found.kind in ("package", "resource"):
        return found.theirs.id or found.ours.id
    return item.id if item is not None and item.is_folder else None


def _sides(store: Store, found: Conflict, scratch: Path, into: str, other: str) -> None:
    """Both versions of a file: within it as markers, or beside as files of their own."""
    target = scratch.joinpath(*check_path(place_of(found)))
    if found.package or found.resource:
        target = target.joinpath(*check_path(found.file)) if found.file else target
    if found.kind == "text":
        datas = [store.objects.read(s.id) if s.id else None for s in (found.base, found.ours, found.theirs)]
        chunks = chunks_of(datas[0], datas[1] or b"", datas[2] or b"")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(marked(chunks or [], into, other).encode())
    elif found.kind == "file":
        for name, side in _named(found):
            if side.id is not None and side.mode != "040000":
                path = scratch.joinpath("sides", *check_path(found.id), f"{name}{Path(found.file).suffix}")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(store.objects.read(side.id))


def _named(found: Conflict) -> Iterator[tuple[str, Side]]:
    yield from (("base", found.base), ("ours", found.ours), ("theirs", found.theirs))


def _entry(found: Conflict) -> dict[str, Any]:
    row: dict[str, Any] = {"id": found.id, "kind": found.kind, "where": name_of(found)}
    if found.field:
        row["field"] = list(found.field)
    row["reason"] = found.reason
    if found.kind == "field":
        row.update({name: json.loads(s.value) if s.value is not None else "(absent)" for name, s in _named(found)})
    row["choose"] = found.choice or ("file" if found.kind == "text" else None)
    return row


# --- reading it back -------------------------------------------------------------------------------------
def read_choices(folder: Path, there: OpenMerge) -> dict[str, Any]:
    """Conflict id -> what was chosen. PackageError names the entry that is missing or makes no sense."""
    file = folder / CONFLICTS
    try:
        if file.is_symlink() or file.stat().st_size > 64 << 20:
            raise PackageError(CONFLICTS, "", "is a link or too large")
        value = json.loads(read_plain(file))
    except OSError as error:
        raise PackageError(str(file), "", f"cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise PackageError(CONFLICTS, "", f"not valid JSON ({str(error)[:100]})") from None
    if not isinstance(value, dict) or value.get("merge") != there.commit:
        raise PackageError(
            CONFLICTS, "merge", "was written for another state of this merge",
            hint="write the folder again: rover merge --resolve DIR",
        )  # fmt: skip
    rows = value.get("conflicts")
    entries = [r for r in rows if isinstance(r, dict)] if isinstance(rows, list) else []
    given = {r["id"]: r.get("choose") for r in entries if isinstance(r.get("id"), str)}
    for found in there.record.conflicts:
        _check_choice(found, given.get(found.id))
    return {found.id: given[found.id] for found in there.record.conflicts}


def _check_choice(found: Conflict, choice: Any) -> None:
    field = ".".join((found.id, "choose"))
    what = " ".join((name_of(found), ".".join(found.field))).strip()
    if choice is None:
        raise PackageError(CONFLICTS, field, f"nothing is chosen for {what}")
    free = isinstance(choice, dict) and set(choice) == {"value"} and found.kind == "field"
    if not free and choice not in ("ours", "theirs", "base", "file"):
        words = 'ours, theirs, base, file or {"value": ...}' if found.kind == "field" else "ours, theirs, base or file"
        raise PackageError(CONFLICTS, field, f"must be {words}, for {what}")
