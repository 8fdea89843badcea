"""A merge that waits: refs/rover/merges/BRANCH names a commit whose parents are both sides.

Its tree is the merge as far as it goes, with ours where something is in conflict, and merge.json, the record of what
is. Settling a conflict for a side writes a new such commit; `finish` ends the merge.
"""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from rover_store.commits import AUTHOR, encode_commit
from rover_store.errors import NotFound, PackageError, StoreError, UsageError
from rover_store.merging.fields import STORED, decode, put, style_of
from rover_store.merging.files import Place, merge_file, of_side
from rover_store.names import package_path
from rover_store.packs import COMMIT
from rover_store.records import Record
from rover_store.records.merge import Choice, Conflict, Merge, Side
from rover_store.refs import MERGES, check_ref
from rover_store.trees import FOLDER, TreeItem

if TYPE_CHECKING:
    from rover_store.store import Store
    from rover_store.write import Transaction

RECORD = "merge.json"


class OpenMerge(NamedTuple):
    """A merge that is not finished: its record, and the tree so far, which holds the record too."""

    ref: str
    commit: str
    record: Merge
    tree: str


def open_merges(store: Store) -> list[OpenMerge]:
    """All of them, by branch."""
    return [_load(store, ref, commit) for ref, commit in store.refs.all(MERGES).items()]


def open_merge(store: Store, branch: str) -> OpenMerge | None:
    """The one into a branch, None if there is none."""
    ref = check_ref(MERGES + branch)
    commit = store.refs.get(ref)
    return None if commit is None else _load(store, ref, commit)


def require_open(store: Store, branch: str | None = None) -> OpenMerge:
    """The one into a branch (the current one). UsageError if there is none."""
    name = branch or store.current_branch()
    found = open_merge(store, name) if name else None
    if found is None:
        raise UsageError(f"no merge into {name or 'a branch'} is open", hint="rover merge OTHER begins one")
    return found


def abort(store: Store, branch: str | None = None, *, command: str = "") -> OpenMerge:
    """Drop an open merge. The branch never moved, so nothing else changes; `undo` brings it back."""
    with store.write(command or "merge --abort") as tx:
        there = require_open(store, branch)
        tx.set_ref(there.ref, None, expect=there.commit)
    return there


def choose(
    store: Store, side: Choice, pattern: str = "*", branch: str | None = None, *, command: str = ""
) -> tuple[OpenMerge, int]:
    """Settle conflicts for one side: those whose package, package/file or file matches a glob. Says how many."""
    with store.write(command or f"merge --{side} {pattern}") as tx:
        there = require_open(store, branch)
        wanted = {c.id for c in there.record.conflicts if matches(c, pattern)}
        if not wanted:
            raise UsageError(f"no conflict matches {pattern!r}", hint="rover merge --list shows them")
        record, tree = settle(tx, there.record, there.tree, dict.fromkeys(wanted, side))
        keep_open(store, tx, record, tree, there)
    return require_open(store, record.into), len(wanted)


def matches(found: Conflict, pattern: str) -> bool:
    """Whether a glob fits a conflict: its id, its file, its package, or both."""
    whole = name_of(found)
    return any(fnmatchcase(text, pattern) for text in (whole, found.id, found.package or found.resource, found.file))


def name_of(found: Conflict) -> str:
    """`NAME/file` as people write it."""
    first = found.package or (f"resources/{found.resource}" if found.resource else "")
    return "/".join(part for part in (first, found.file) if part)


def keep_open(store: Store, tx: Transaction, record: Merge, tree: str, before: OpenMerge | None) -> str:
    """Write the commit of an open merge and point its ref there."""
    whole = tx.edit_tree(tree, {RECORD: record.dump()})
    text = f"{record.message}\n\n{len(record.conflicts)} conflict(s); not finished"
    commit = tx.add(COMMIT, encode_commit(whole, (record.ours, record.theirs), text, AUTHOR, store.clock()))
    tx.set_ref(MERGES + record.into, commit, expect=before.commit if before else None)
    return commit


def carry_over(tx: Transaction, before: OpenMerge | None, record: Merge, tree: str) -> tuple[Merge, str]:
    """What was chosen in an earlier try of the same merge stands, where the conflict is still the same."""
    if before is None:
        return record, tree
    chosen = {_same(c): c.choice for c in before.record.conflicts if c.choice not in (None, "file")}
    choices = {c.id: chosen[_same(c)] for c in record.conflicts if _same(c) in chosen}
    return settle(tx, record, tree, {i: c for i, c in choices.items() if c is not None})


def settle(tx: Transaction, record: Merge, tree: str, choices: dict[str, Choice]) -> tuple[Merge, str]:
    """Take a side for some conflicts: the record that says so, and the tree that has it."""
    for found in record.conflicts:
        side = choices.get(found.id)
        if side in ("base", "ours", "theirs"):
            tree = _take(tx, tree, found, side)
    updated = tuple(
        c.model_copy(update={"choice": choices[c.id]}) if c.id in choices else c for c in record.conflicts
    )
    return record.model_copy(update={"conflicts": updated}), tree


def path_of(found: Conflict) -> str:
    """Where the conflict lies in the tree of a revision."""
    if found.package:
        return package_path(found.package) + (f"/{found.file}" if found.file else "")
    first = f"resources/{found.resource}" if found.resource else ""
    return "/".join(part for part in (first, found.file) if part)


def field_bytes(record: type[Record] | None, data: bytes, found: Conflict, value: object) -> bytes:
    """A JSON file with one field set. The layout stays where it can. PackageError where a person broke the file."""
    try:
        old = decode(data)
        style = STORED if record is not None else style_of(data, old) or STORED
        return style.encode(put(old, found.field, value))
    except (ValueError, KeyError, TypeError) as error:
        raise PackageError(name_of(found), ".".join(found.field), f"cannot be set ({error})") from None


# --- within ----------------------------------------------------------------------------------------------
def _take(tx: Transaction, tree: str, found: Conflict, side: Choice) -> str:
    from rover_store.merging.files import RECORDS

    path = path_of(found)
    picked: Side = getattr(found, side)
    if found.kind == "field":
        data = field_bytes(RECORDS.get(found.file), read_at(tx, tree, path), found, of_side(picked))
        return tx.edit_tree(tree, {path: data})
    if found.kind == "text" and found.ours.id and found.theirs.id:
        datas = [tx.read(s.id) if s.id else None for s in (found.base, found.ours, found.theirs)]
        place = Place(found.package, found.resource, found.file)
        done = merge_file(place, datas[0], datas[1] or b"", datas[2] or b"", side)  # type: ignore[arg-type]
        return tx.edit_tree(tree, {path: done.data})
    if picked.id is None:
        return tx.edit_tree(tree, {path: None})
    mode = FOLDER if found.kind in ("package", "resource") else int(picked.mode or "100644", 8)
    return tx.edit_tree(tree, {path: TreeItem(mode, picked.id)})


def read_at(tx: Transaction, tree: str, path: str) -> bytes:
    """Bytes of the file at a path of a tree. NotFound."""
    item = TreeItem(FOLDER, tree)
    for part in path.split("/"):
        inner = tx.list_tree(item.id).get(part) if item.is_folder else None
        if inner is None:
            raise NotFound("path", path)
        item = inner
    return tx.read(item.id)


def _same(found: Conflict) -> str:
    return json.dumps(found.model_dump(mode="json", exclude={"id", "choice", "reason"}), sort_keys=True)


def _load(store: Store, ref: str, commit: str) -> OpenMerge:
    found = store.revisions.load(commit)
    item = store.objects.list_tree(found.tree).get(RECORD)
    if item is None:
        raise StoreError(f"{ref} is no open merge", hint=f"drop it: git update-ref -d {ref}")
    return OpenMerge(ref, commit, Merge.load(store.objects.read(item.id), RECORD), found.tree)
