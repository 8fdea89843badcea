"""Every file of a Diff with its content, one after the other: memory is that of one file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rover_store.diffs.bounds import EXTRACT_BYTES
from rover_store.diffs.compare import compare
from rover_store.diffs.content import Content, Extract
from rover_store.diffs.sequence import first_difference
from rover_store.errors import NotFound
from rover_store.trees import LINK

if TYPE_CHECKING:
    from rover_store.diffs.diff import Diff, FileDiff, PackageDiff


class Blobs(Protocol):
    def read(self, object_hex: str, /) -> bytes: ...
    def size(self, object_hex: str, /) -> int: ...
    def stream(self, object_hex: str, /) -> Iterator[bytes]: ...


class Changed(NamedTuple):
    """A file that differs, where it belongs, and what differs in it.

    `owner` is a package's name, `resources/KIND/NAME`, or empty; `component` is empty outside a package; `place` is the
    path from the top of its package or resource.
    """

    owner: str
    component: str
    place: str
    file: FileDiff
    content: Content


def contents(blobs: Blobs, found: Diff, *, context: int = 3, extract: Extract | None = None) -> Iterator[Changed]:
    """All files that differ, in the order of the Diff."""
    for owner, component, file in files(found):
        inside = component not in ("", "package")
        place = f"{component}/{file.path}" if inside else file.path
        yield Changed(owner, component, place, file, content(blobs, place, file, context=context, extract=extract))


def files(found: Diff) -> Iterator[tuple[str, str, FileDiff]]:
    """(owner, component, file) of everything that differs."""
    for package in found.packages:
        for component in package.components:
            for file in component.files:
                yield package.name, component.name, file
    for resource in found.resources:
        for file in resource.files:
            yield f"resources/{resource.name}", "", file
    for file in found.other:
        yield "", "", file


def moves(package: PackageDiff) -> dict[str, str]:
    """Files of a package that went from one place and came at another with the same bytes: place -> the other place.

    A blob that several files have is left out: which of them moved where cannot be told.
    """
    gone: dict[str, list[str]] = {}
    came: dict[str, list[str]] = {}
    for part in package.components:
        inside = "" if part.name == "package" else f"{part.name}/"
        for file in part.files:
            if file.status != "changed":
                side, blob = (gone, file.old) if file.status == "removed" else (came, file.new)
                side.setdefault(blob or "", []).append(inside + file.path)
    out = {}
    for blob, places in gone.items():
        if len(places) == len(came.get(blob, ())) == 1:
            out[places[0]], out[came[blob][0]] = came[blob][0], places[0]
    return out


def content(
    blobs: Blobs, place: str, file: FileDiff, *, context: int = 3, extract: Extract | None = None
) -> Content:
    """What differs in one file. A link is compared by its target; a submodule has no content here."""
    if file.path.endswith("/"):
        both = file.old is not None and file.new is not None
        said = "the same entries, written into its tree another way" if both else "a folder without files"
        return Content("bytes", None, None, (said,))
    try:
        sizes = [0 if i is None else blobs.size(i) for i in (file.old, file.new)]
        if max(sizes) > EXTRACT_BYTES:
            return _streamed(blobs, file, sizes)
        sides = [None if i is None else blobs.read(i) for i in (file.old, file.new)]
    except NotFound as error:  # a submodule, or a store that was cloned in part
        return Content("bytes", None, None, (f"its content is not here ({error.message})",))
    if sides[0] is not None and sides[0] == sides[1]:
        return Content("bytes", len(sides[0]), len(sides[0]), (f"only the mode differs: {file.mode}",))
    linked = f"{LINK:o}" in file.mode  # what a link leads to is no record and no table
    found = compare("" if linked else place, *sides, context=context, extract=extract)
    return found._replace(notes=(f"mode: {file.mode}", *found.notes)) if file.mode else found


def _streamed(blobs: Blobs, file: FileDiff, sizes: list[int]) -> Content:
    """A file too large to lie in memory: sizes, and where its bytes part."""
    found = Content("bytes", None if file.old is None else sizes[0], None if file.new is None else sizes[1])
    modes = (f"mode: {file.mode}",) if file.mode else ()
    if file.old is None or file.new is None:
        return found._replace(notes=modes)
    at = _first_difference(blobs.stream(file.old), blobs.stream(file.new)) if file.old != file.new else -1
    said = f"the first difference is at byte {at}" if at >= 0 else f"only the mode differs: {file.mode}"
    size = f"larger than {EXTRACT_BYTES >> 20} MiB, compared by bytes"
    return found._replace(notes=(*modes, size, said))


def _first_difference(old: Iterator[bytes], new: Iterator[bytes]) -> int:
    """Position of the first byte that differs, where one stream may be the beginning of the other."""
    at, left, right = 0, b"", b""
    while True:
        left, right = left or next(filter(None, old), b""), right or next(filter(None, new), b"")
        n = min(len(left), len(right))
        if not n or left[:n] != right[:n]:
            return at + (first_difference(left, right) if n else 0)
        at, left, right = at + n, left[n:], right[n:]
