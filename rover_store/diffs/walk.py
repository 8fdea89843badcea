"""Every file of a Diff with its content, one after the other: memory is that of one file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rover_store.diffs.compare import compare
from rover_store.diffs.content import Content, Extract
from rover_store.errors import NotFound
from rover_store.trees import LINK

if TYPE_CHECKING:
    from rover_store.diff import Diff, FileDiff


class Blobs(Protocol):
    def read(self, object_hex: str, /) -> bytes: ...


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


def content(
    blobs: Blobs, place: str, file: FileDiff, *, context: int = 3, extract: Extract | None = None
) -> Content:
    """What differs in one file. A link is compared by its target; a submodule has no content here."""
    try:
        sides = [None if i is None else blobs.read(i) for i in (file.old, file.new)]
    except NotFound as error:  # a submodule, or a store that was cloned in part
        return Content("bytes", None, None, (f"its content is not here ({error.message})",))
    if sides[0] is not None and sides[0] == sides[1]:
        return Content("bytes", len(sides[0]), len(sides[0]), (f"only the mode differs: {file.mode}",))
    linked = f"{LINK:o}" in file.mode  # what a link leads to is no record and no table
    found = compare("" if linked else place, *sides, context=context, extract=extract)
    return found._replace(notes=(f"mode: {file.mode}", *found.notes)) if file.mode else found
