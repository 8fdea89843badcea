"""Formats that `extract` reads: workbooks by cell, documents by their text, images by size, archives by member.

What comes back from `extract` was made from hostile bytes: every shape is checked, and what does not fit is a reason.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from rover_store.diffs.bounds import COLUMNS, LISTED
from rover_store.diffs.content import Content, Counts, Image, Member, TableChange, TextPart
from rover_store.diffs.tables import Grid, compare_tables, one_table
from rover_store.diffs.text import compare_lines, one_sided

#: ending -> format that `extract` is asked for
FORMATS = {
    "xlsx": "workbook", "xlsm": "workbook", "docx": "docx", "pptx": "pptx", "pdf": "pdf", "zip": "archive",
    "tar": "archive", "tgz": "archive", "gz": "archive", "jar": "archive", "odt": "archive", "ods": "archive",
    "png": "image", "gif": "image", "jpg": "image", "jpeg": "image", "bmp": "image", "webp": "image",
    "tif": "image", "tiff": "image", "ico": "image",
}  # fmt: skip
KINDS: Mapping[str, Any] = {
    "workbook": "workbook", "docx": "document", "pptx": "document", "pdf": "document", "image": "image",
    "archive": "archive",
}  # fmt: skip
_MAGIC = (
    (b"%PDF-", "pdf"), (b"\x89PNG\r\n", "image"), (b"\xff\xd8\xff", "image"), (b"GIF8", "image"),
    (b"PK\x03\x04", "archive"),
)  # fmt: skip
#: parts of office files in words
_PARTS = (
    ("xl/styles.xml", "styles"), ("xl/sharedStrings.xml", "table of texts"), ("docProps/", "properties"),
    ("xl/theme", "theme"), ("word/theme", "theme"), ("word/styles.xml", "styles"),
    ("xl/worksheets/", "layout of a sheet"),
    ("xl/charts", "charts"), ("word/media", "pictures"), ("ppt/media", "pictures"),
    ("xl/workbook.xml", "workbook settings"),
    ("word/document.xml", "formatting of the text"), ("ppt/slides/", "layout of a slide"),
)  # fmt: skip


def format_of(path: str, data: bytes) -> str:
    """The format to ask `extract` for; empty for one that is compared here."""
    ending = path.rsplit(".", 1)[-1].lower() if "." in path.rsplit("/", 1)[-1] else ""
    return FORMATS.get(ending) or next((f for start, f in _MAGIC if data.startswith(start)), "")


def compare_extracted(
    form: str, old: bytes | None, new: bytes | None, found: list[dict[str, Any]], context: int
) -> Content | str:
    """The content of two sides that `extract` read, or the reason why it cannot be told."""
    sides: list[dict[str, Any] | None] = []
    rest = list(found)
    for name, data in (("old", old), ("new", new)):
        side = rest.pop(0) if data is not None and rest else None
        if data is not None and (not isinstance(side, dict) or "error" in side):
            reason = str(side.get("error", "no answer")) if isinstance(side, dict) else "no answer"
            which = f"{name} version " if old is not None and new is not None else ""
            return f"{which}not readable as {form}: {' '.join(reason.split())[:200]}"
        sides.append(side)
    try:
        content: Content = _BY_FORM[KINDS[form]](form, (old, new), sides, context)
        return content
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        return f"not readable as {form} ({type(error).__name__})"


Sides = tuple[bytes | None, bytes | None]
Found = list[dict[str, Any] | None]


def _content(form: str, data: Sides, **more: Any) -> Content:
    old, new = (None if d is None else len(d) for d in data)
    return Content(KINDS[form], old, new, **more)


def _workbook(form: str, data: Sides, found: Found, context: int) -> Content:
    old, new = (None if side is None else _sheets(side) for side in found)
    tables: list[TableChange] = []
    notes: list[str] = []
    for side, label in zip(found, ("old", "new"), strict=True):
        cut = [str(s["name"]) for s in (side or {}).get("sheets", ()) if s.get("cut")]
        notes += [f"sheet {name} of the {label} version is large: its beginning was compared" for name in cut]
    if old is None or new is None:
        tables = [one_table(n, g, added=old is None) for n, g in (old or new or {}).items()]
        return _content(form, data, tables=tuple(tables), notes=tuple(notes), counts=table_counts(tables))
    gone, came = [n for n in old if n not in new], [n for n in new if n not in old]
    for name in list(gone):
        other = next((n for n in came if new[n] == old[name] and new[n].rows), None)
        if other is not None:
            gone.remove(name)
            came.remove(other)
            tables.append(TableChange(other, "changed", old_name=name))
    tables += [t for n in old if n in new and (t := compare_tables(n, old[n], new[n])).differs]
    tables += [one_table(n, old[n], added=False) for n in gone] + [one_table(n, new[n], added=True) for n in came]
    if [n for n in old if n in new] != [n for n in new if n in old]:
        notes.append("order of sheets: " + ", ".join(new))
    states = [{str(s["name"]): str(s.get("state", "visible")) for s in (side or {})["sheets"]} for side in found]
    notes += [f"sheet {n}: {states[0][n]} -> {s}" for n, s in states[1].items() if states[0].get(n, s) != s]
    if not tables and not notes:
        notes.append(_packing("cells", found[0], found[1]))
    return _content(form, data, tables=tuple(tables), notes=tuple(notes), counts=table_counts(tables))


def _sheets(side: dict[str, Any]) -> dict[str, Grid]:
    out = {}
    for sheet in side["sheets"]:
        rows = [tuple(str(c) for c in row[:COLUMNS]) for row in sheet["rows"]]
        formulas = {(int(r), int(c)): str(f) for r, c, f in sheet.get("formulas", ())}
        out[str(sheet["name"])] = Grid(rows, formulas)
    return out


def _document(form: str, data: Sides, found: Found, context: int) -> Content:
    old, new = ({str(n): [str(x) for x in ls] for n, ls in (side or {"text": ()})["text"]} for side in found)
    parts: list[TextPart] = []
    for name in [*old, *(n for n in new if n not in old)]:
        if name in old and name in new:
            part = compare_lines(old[name], new[name], context, name)
            parts += [part] if part is not None else []
        else:
            status: Any = "removed" if name in old else "added"
            parts.append(one_sided(old.get(name) or new.get(name) or [], status, name))
    notes = [
        f"the {label} version is long: its beginning was compared"
        for side, label in zip(found, ("old", "new"), strict=True)
        if (side or {}).get("cut")
    ]
    if not parts and found[0] is not None and found[1] is not None:
        notes.append(_packing("text", found[0], found[1]))
    lines = Counts(sum(p.added for p in parts), sum(p.removed for p in parts))
    return _content(form, data, parts=tuple(parts), notes=tuple(notes), counts=lines)


def _packing(what: str, old: dict[str, Any] | None, new: dict[str, Any] | None) -> str:
    """Equal content, different bytes: the parts of the file that differ."""
    a, b = (side.get("parts", {}) if side else {} for side in (old, new))
    differ = [n for n in sorted({*a, *b}) if a.get(n) != b.get(n)]
    if not differ:
        return f"the same {what}; only the packing differs (order, times or compression)"
    named = dict.fromkeys(next((word for start, word in _PARTS if n.startswith(start)), n) for n in differ)
    shown = list(named)[:5]
    more = f", and {len(named) - 5} more" if len(named) > 5 else ""
    return f"the same {what}; only the formatting differs ({', '.join(shown)}{more})"


def _image(form: str, data: Sides, found: Found, context: int) -> Content:
    pictures: list[Image | None] = []
    for raw, side in zip(data, found, strict=True):
        if raw is None or side is None:
            pictures.append(None)
            continue
        image = side["image"]
        digest = hashlib.sha256(raw).hexdigest()
        width, height = int(image["width"]), int(image["height"])
        pictures.append(Image(str(image["format"]), width, height, len(raw), digest, str(image.get("mode", ""))))
    notes = []
    a, b = pictures
    if a is not None and b is not None and a[:3] == b[:3]:
        notes.append("the same size in pixels, other content")
    return _content(form, data, old_image=a, new_image=b, notes=tuple(notes))


def _archive(form: str, data: Sides, found: Found, context: int) -> Content:
    old, new = ({str(n): (int(s), str(d)) for n, s, d in (side or {"members": ()})["members"]} for side in found)
    out: list[Member] = []
    for name in sorted({*old, *new}):
        a, b = old.get(name), new.get(name)
        if a != b:
            status: Any = "added" if a is None else "removed" if b is None else "changed"
            out.append(Member(name[:500], status, a[0] if a else None, b[0] if b else None))
    notes = [f"{len(out) - LISTED} more members differ"] if len(out) > LISTED else []
    if not out:
        notes.append("the same members; only the packing differs (order, times or compression)")
    return _content(form, data, members=tuple(out[:LISTED]), notes=tuple(notes), counts=Counts(members=len(out)))


_BY_FORM: dict[str, Any] = {"workbook": _workbook, "document": _document, "image": _image, "archive": _archive}


def table_counts(tables: list[TableChange]) -> Counts:
    def columns(t: TableChange) -> int:
        return len(t.columns.added) + len(t.columns.removed) + len(t.columns.renamed)

    return Counts(
        cells=sum(t.counts[0] for t in tables),
        rows_added=sum(t.counts[1] for t in tables),
        rows_removed=sum(t.counts[2] for t in tables),
        columns=sum(map(columns, tables)),
    )
