"""One file on two sides: chooses how to compare by its place, its ending and its bytes. Never silent on a difference.

Each way falls back to a coarser one, and says why: fields and cells to lines, lines and documents to bytes.
"""

from __future__ import annotations

from rover_store.diffs import documents, fields, text
from rover_store.diffs.anchors import anchor_tables
from rover_store.diffs.bounds import EXTRACT_BYTES, JSON_BYTES, TABLE_BYTES, TEXT_BYTES
from rover_store.diffs.content import Content, Counts, Extract, TableChange
from rover_store.diffs.record_parts import RECORDS
from rover_store.diffs.sequence import first_difference
from rover_store.diffs.tables import compare_tables, one_table, read_delimited
from rover_store.diffs.text import Text, compare_text, decode
from rover_store.diffs.writing import json_writing, table_writing

JSON_LINES = ("jsonl", "ndjson")


def compare(
    path: str, old: bytes | None, new: bytes | None, *, context: int = 3, extract: Extract | None = None
) -> Content:
    """What differs between two versions of a file; None for a side that is absent.

    `path` is the place in a package or resource (`task/contract.json`): it tells which record a file holds.
    """
    if old is None and new is None:
        raise ValueError("a comparison needs a side")
    if old is not None and old == new:
        return Content("bytes", len(old), len(old))
    found = _compare(path, old, new, context, extract)
    if found.says or old is None or new is None:
        return found
    return found._replace(notes=(*found.notes, *_bytes(old, new).notes))


def _compare(path: str, old: bytes | None, new: bytes | None, context: int, extract: Extract | None) -> Content:
    some = new if new is not None else old or b""
    form = documents.format_of(path, some)
    if form:
        return _extracted(form, old, new, context, extract)
    sides = [None if d is None else decode(d) for d in (old, new)]
    if any(s is None and d is not None for s, d in zip(sides, (old, new), strict=True)):
        return _bytes(old, new)
    before, after = sides
    sizes = (None if old is None else len(old), None if new is None else len(new))
    ending = path.rsplit(".", 1)[-1].lower()
    found: Content | str = ""
    if ending == "json" and max(s or 0 for s in sizes) <= JSON_BYTES:
        found = _json(path, before, after, sizes)
    elif ending in JSON_LINES and max(s or 0 for s in sizes) <= JSON_BYTES:
        found = _json_lines(before, after, sizes)
    elif ending in ("csv", "tsv") and max(s or 0 for s in sizes) <= TABLE_BYTES:
        found = _table(ending, before, after, sizes)
    if isinstance(found, Content):
        return found
    return _lines(before, after, sizes, context, found)


Sizes = tuple[int | None, int | None]


def _lines(old: Text | None, new: Text | None, sizes: Sizes, context: int, note: str = "") -> Content:
    notes = (note,) if note else ()
    if old is not None and new is not None:
        found = compare_text(old, new, context)
        parts, more = (found.part,) if found.part else (), found.notes
    else:
        side = old or new
        assert side is not None
        part = text.one_sided(side.lines, "added" if old is None else "removed")
        parts, more = (part,), () if side.encoding == "utf-8" else (f"encoding: {side.encoding}",)
        if not side.ended:
            more = (*more, "no newline at the end")
    counts = Counts(sum(p.added for p in parts), sum(p.removed for p in parts))
    return Content("text", *sizes, (*notes, *more), parts, counts=counts)


def _json(path: str, old: Text | None, new: Text | None, sizes: Sizes) -> Content | str:
    kind = RECORDS.get(path, "")
    values = []
    for side, label in ((old, "old"), (new, "new")):
        try:
            values.append(None if side is None else fields.parse(side.text))
        except ValueError as error:
            which = f"{label} version " if old and new else ""
            return f"{which}not valid JSON ({' '.join(str(error).split())[:120]}), compared by line"
    notes: tuple[str, ...] = ()
    tables: tuple[TableChange, ...] = ()
    if old is None or new is None:
        found = fields.one_value(values[0] if new is None else values[1], kind, added=old is None)
    else:
        tables, rest = anchor_tables(*values) if kind == "anchors" else ((), values)
        found = fields.compare_values(rest[0], rest[1], kind)
        said = text.notes(old, new)
        if tables:
            notes = tuple(said)
        elif not found.changes and old.text == new.text:
            notes = (f"the same values; only the writing differs ({', '.join(said)})",)
        elif not found.changes:
            notes = (json_writing(old.text, new.text), *said)
        else:
            notes = tuple(said)
    if found.total > len(found.changes):
        notes = (*notes, f"{found.total - len(found.changes)} more fields differ")
    form = "record" if kind else "json"
    counts = documents.table_counts(list(tables)).plus(Counts(fields=found.total))
    return Content(form, *sizes, notes, fields=found.changes, tables=tables, counts=counts)  # type: ignore[arg-type]


def _json_lines(old: Text | None, new: Text | None, sizes: Sizes) -> Content | str:
    """JSON Lines as the list of its values. A line that is no JSON: compared by line."""
    if old is None or new is None:
        return ""
    rows = []
    for side in (old, new):
        try:
            rows.append([fields.parse(line) for line in side.lines if line.strip()])
        except ValueError as error:
            return f"not valid JSON Lines ({' '.join(str(error).split())[:120]}), compared by line"
    found = fields.compare_values(rows[0], rows[1])
    said = tuple(text.notes(old, new))
    if not found.changes:
        said = ("the same values; only the writing differs", *said)
    changes = tuple(f._replace(path=f.path or "[]") for f in found.changes)
    return Content("json", *sizes, said, fields=changes, counts=Counts(fields=found.total))


def _table(ending: str, old: Text | None, new: Text | None, sizes: Sizes) -> Content | str:
    read = []
    for side in (old, new):
        grid = None if side is None else read_delimited(side.text, ending)
        if isinstance(grid, str):
            return grid
        read.append(grid)
    a, b = read
    if a is None or b is None:
        one = a or b
        assert one is not None
        table = one_table("", one[0], added=a is None)
        return Content("table", *sizes, tables=(table,), counts=documents.table_counts([table]))
    assert old is not None
    assert new is not None
    said = text.notes(old, new)
    table = compare_tables("", a[0], b[0])
    if table.differs:
        marks = [f"delimiter {a[1]!r} -> {b[1]!r}"] if a[1] != b[1] else []
        counts = documents.table_counts([table])
        return Content("table", *sizes, (*marks, *said), tables=(table,), counts=counts)
    note = table_writing(old.text, new.text, (a[1], b[1]), said)
    return Content("table", *sizes, (note,))


def _extracted(form: str, old: bytes | None, new: bytes | None, context: int, extract: Extract | None) -> Content:
    present = [d for d in (old, new) if d is not None]
    plain = _bytes(old, new)._replace(kind=documents.KINDS[form])
    if max(map(len, present)) > EXTRACT_BYTES:
        return plain._replace(notes=(f"larger than {EXTRACT_BYTES >> 20} MiB, compared by bytes", *plain.notes))
    answer = extract(form, present) if extract is not None else None
    if answer is None:
        why = "compared by bytes: its content is read in a sandbox alone, and there is none"
        return plain._replace(notes=(why, *plain.notes))
    found = documents.compare_extracted(form, old, new, answer, context)
    return found if isinstance(found, Content) else plain._replace(notes=(found, *plain.notes))


def _bytes(old: bytes | None, new: bytes | None) -> Content:
    """Sizes, and where the bytes part."""
    sizes = (None if old is None else len(old), None if new is None else len(new))
    if old is None or new is None:
        return Content("bytes", *sizes)
    at = first_difference(old, new)
    notes = [f"the first difference is at byte {at}"]
    if at == min(len(old), len(new)):
        size = abs(len(old) - len(new))
        what = f"{size} byte{'s' * (size != 1)}"
        notes = [f"{what} appended" if len(new) > len(old) else f"{what} cut off the end"]
    if max(len(old), len(new)) > TEXT_BYTES:
        notes.append(f"larger than {TEXT_BYTES >> 20} MiB, compared by bytes alone")
    return Content("bytes", *sizes, tuple(notes))


