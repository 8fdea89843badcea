"""Three-way merge of one file: by field for JSON, by line for text, else a conflict of the whole."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Literal, NamedTuple

from rover_store.diffs.fields import same
from rover_store.errors import PackageError
from rover_store.files.package_records import OPTIONAL, REQUIRED
from rover_store.merging.fields import ABSENT, STORED, FieldConflict, Style, decode, merge_values, style_of
from rover_store.merging.text import Chunk, clean, merge_text, text_of
from rover_store.records import Record, Resource
from rover_store.records.merge import Conflict, Side

#: which side a conflict is settled for without asking; None: it stays a conflict, and ours stands meanwhile
Favour = Literal["base", "ours", "theirs"] | None

RECORDS: dict[str, type[Record]] = {p: r for p, r in {**REQUIRED, **OPTIONAL}.items() if r is not None}
RECORDS["resource.json"] = Resource


class Place(NamedTuple):
    """Where a file lies: a package, a resource or neither, and its path there."""

    package: str = ""
    resource: str = ""
    file: str = ""

    @property
    def component(self) -> str:
        """Component that the file lies in; empty beside the four."""
        first, slash, _ = self.file.partition("/")
        return first if self.package and slash and first in ("context", "task", "harness", "verifier") else ""

    def below(self, name: str) -> Place:
        """A file or folder in this place."""
        return self._replace(file=f"{self.file}/{name}" if self.file else name)


class Merged(NamedTuple):
    """Bytes of the merged file, and what in it is in conflict."""

    data: bytes
    conflicts: list[Conflict]


def conflict(
    place: Place, kind: Literal["package", "resource", "file", "text", "field"], reason: str,
    sides: tuple[Side, Side, Side] = (Side(), Side(), Side()), field: tuple[str, ...] = (),
) -> Conflict:  # fmt: skip
    base, ours, theirs = sides
    return Conflict(
        kind=kind, package=place.package, component=place.component, resource=place.resource, file=place.file,
        field=field, base=base, ours=ours, theirs=theirs, reason=reason,
    )  # fmt: skip


def merge_file(place: Place, base: bytes | None, ours: bytes, theirs: bytes, favour: Favour = None) -> Merged:
    """Merge contents that differ on all three sides. `base` is None where both sides added the file."""
    record = RECORDS.get(place.file) if place.package or place.resource else None
    chunks = chunks_of(base, ours, theirs)
    if record is not None or place.file.endswith(".json"):
        with suppress(RecursionError):  # nested too deep for fields
            done = _json(place, record, (base, ours, theirs), chunks, favour)
            if done is not None:
                return done
    if chunks is None:
        return Merged(_favoured(base, ours, theirs, favour), _whole(place, favour, "both sides changed it"))
    text = clean(chunks)
    if text is None and favour is not None:
        text = "".join(line for c in chunks for line in _side(c, favour))
    if text is not None:
        return Merged(text.encode(), [])
    return Merged(ours, [conflict(place, "text", "both sides changed the same lines")])


def field_side(value: Any) -> Side:
    """A side of a conflict in a field."""
    return Side() if value is ABSENT else Side(value=json.dumps(value, ensure_ascii=False))


def of_side(side: Side) -> Any:
    """The value of a field as a side has it."""
    return ABSENT if side.value is None else json.loads(side.value)


def decide(favour: Favour) -> Any:
    """What stands for a conflict in a field: the favoured side, else ours."""
    return lambda c: {"base": c.base, "theirs": c.theirs}.get(favour or "ours", c.ours)


def field_conflicts(place: Place, found: list[FieldConflict]) -> list[Conflict]:
    """Conflicts of fields as they are recorded."""
    return [
        conflict(place, "field", f.reason, (field_side(f.base), field_side(f.ours), field_side(f.theirs)), f.path)
        for f in found
    ]


# --- within ----------------------------------------------------------------------------------------------
def _json(
    place: Place, record: type[Record] | None, sides: tuple[bytes | None, bytes, bytes],
    chunks: list[Chunk] | None, favour: Favour,
) -> Merged | None:  # fmt: skip
    """By field; None where the bytes are not JSON, or their layout could not be kept."""
    try:
        base, ours, theirs = (ABSENT if data is None else decode(data) for data in sides)
    except ValueError:
        return None
    value, found = merge_values(base, ours, theirs, decide(favour))
    data = None if found else _by_line(chunks, value)
    if data is None:
        style: Style | None = STORED if record is not None else _style(sides, (base, ours, theirs))
        if style is None:
            return None
        data = style.encode(value)
    if favour is not None:
        found = []
    if record is not None and not found:
        try:
            record.load(data, place.file)
        except PackageError as error:
            reason = f"merged field by field it is no valid record: {error.message}"
            return Merged(sides[1], _whole(place, None, reason))
    return Merged(data, field_conflicts(place, found))


def _by_line(chunks: list[Chunk] | None, value: Any) -> bytes | None:
    """The merge by line, where it says the same as the merge by field: it keeps the layout of both."""
    text = clean(chunks) if chunks is not None else None
    try:
        return text.encode() if text is not None and same(decode(text.encode()), value) else None
    except ValueError:
        return None


def _style(sides: tuple[bytes | None, ...], values: tuple[Any, ...]) -> Style | None:
    """The layout of ours, where every side's layout can be made again from its values."""
    found = [style_of(data, value) for data, value in zip(sides, values, strict=True) if data is not None]
    return found[-2] if None not in found else None


def chunks_of(base: bytes | None, ours: bytes, theirs: bytes) -> list[Chunk] | None:
    """The merge by line; None where a side is no text."""
    texts = [text_of(data) for data in (base or b"", ours, theirs)]
    if texts[0] is None or texts[1] is None or texts[2] is None:
        return None
    return merge_text(texts[0], texts[1], texts[2])


def _side(chunk: Chunk, favour: Favour) -> list[str]:
    if chunk.theirs is None or favour == "ours":
        return chunk.ours
    return chunk.theirs if favour == "theirs" else chunk.base or []


def _favoured(base: bytes | None, ours: bytes, theirs: bytes, favour: Favour) -> bytes:
    return theirs if favour == "theirs" else base if favour == "base" and base is not None else ours


def _whole(place: Place, favour: Favour, reason: str) -> list[Conflict]:
    return [conflict(place, "file", reason)] if favour is None else []
