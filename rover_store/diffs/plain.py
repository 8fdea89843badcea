"""Differences as plain JSON values, as `schemas/v1/diff.schema.json` has them. What is empty is left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rover_store.diffs.content import Content, Counts, Hunk, Image, TableChange, TextPart
from rover_store.diffs.diff import ComponentDiff, FileDiff, PackageDiff, ResourceDiff
from rover_store.diffs.walk import moves

#: (place in the package or resource, file) -> its content; None: names alone
Reader = Callable[[str, FileDiff], Content | None]
_CELL = ("row", "column", "old", "new", "old_number", "new_number")


def package(found: PackageDiff, read: Reader) -> dict[str, Any]:
    moved = moves(found)
    return {
        "name": found.name, "status": found.status, "old": found.old, "new": found.new,
        "components": [component(c, read, moved) for c in found.components],
    }  # fmt: skip


def component(found: ComponentDiff, read: Reader, moved: Mapping[str, str]) -> dict[str, Any]:
    inside = "" if found.name == "package" else f"{found.name}/"
    return {
        "name": found.name, "status": found.status, "old": found.old, "new": found.new,
        "files": [file(f, read(inside + f.path, f), moved.get(inside + f.path, "")) for f in found.files],
        "items": [i._asdict() for i in found.items],
    }  # fmt: skip


def resource(found: ResourceDiff, read: Reader) -> dict[str, Any]:
    files = [file(f, read(f.path, f)) for f in found.files]
    return {"name": found.name, "status": found.status, "old": found.old, "new": found.new, "files": files}


def file(found: FileDiff, inside: Content | None, moved: str = "") -> dict[str, Any]:
    out: dict[str, Any] = found._asdict()
    if moved:
        out["moved"] = moved
    if inside is not None:
        out["content"] = content(inside)
    return out


def content(found: Content) -> dict[str, Any]:
    out: dict[str, Any] = {"kind": found.kind, "old_size": found.old_size, "new_size": found.new_size}
    more: dict[str, Any] = {
        "notes": list(found.notes),
        "parts": [_part(p) for p in found.parts],
        "fields": [_present(f._asdict(), ("path", "status", "old", "new")) for f in found.fields],
        "tables": [_table(t) for t in found.tables],
        "members": [m._asdict() for m in found.members],
        "old_image": _image(found.old_image),
        "new_image": _image(found.new_image),
        "counts": counts(found.counts),
    }
    return out | {k: v for k, v in more.items() if v}


def counts(found: Counts) -> dict[str, int]:
    return {k: v for k, v in found._asdict().items() if v}


def _part(found: TextPart) -> dict[str, Any]:
    return found._asdict() | {"hunks": [_hunk(h) for h in found.hunks]}


def _hunk(found: Hunk) -> dict[str, Any]:
    return found._asdict() | {"lines": [mark + text for mark, text in found.lines]}


def _table(found: TableChange) -> dict[str, Any]:
    cells, added, removed = found.counts
    out: dict[str, Any] = {
        "name": found.name, "status": found.status, "old_rows": found.old_rows, "new_rows": found.new_rows,
        "changed_cells": cells, "added_rows": added, "removed_rows": removed,
    }  # fmt: skip
    columns = {k: v for k, v in found.columns._asdict().items() if v}
    more: dict[str, Any] = {
        "old_name": found.old_name, "header": found.header, "key": found.key, "columns": columns,
        "rows_reordered": found.rows_reordered,
        "cells": [_present(c._asdict(), _CELL) for c in found.cells],
        "rows_added": [r._asdict() for r in found.rows_added],
        "rows_removed": [r._asdict() for r in found.rows_removed],
        "omitted": found.omitted,
    }  # fmt: skip
    return out | {k: v for k, v in more.items() if v}


def _image(found: Image | None) -> dict[str, Any] | None:
    return None if found is None else _present(found._asdict(), ("format", "width", "height", "size", "sha256"))


def _present(values: dict[str, Any], keep: tuple[str, ...]) -> dict[str, Any]:
    return {k: v for k, v in values.items() if v or k in keep}
