"""A comparison: two sides, what of them is asked for, and what differs, each part when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from rover_store.diffs import diff as trees
from rover_store.diffs.content import Content, Extract
from rover_store.diffs.diff import ComponentDiff, FileDiff, PackageDiff, ResourceDiff
from rover_store.diffs.walk import content
from rover_store.objects import Objects


@dataclass(frozen=True, slots=True)
class Side:
    """One side: what a word named. `kind`: commit, tree, blob or folder; `tree` is its tree, or the blob itself.
    `left`: a rollout left it, and the packages do not have it."""

    word: str
    kind: str
    id: str
    tree: str
    path: str = ""
    left: bool = False


@dataclass(frozen=True, slots=True)
class Narrow:
    """What of a comparison is asked for: packages by a glob, components, paths."""

    package: str = "*"
    components: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    def file(self, owner: str, component: str, place: str) -> bool:
        if self.components and component not in self.components:
            return False
        return not self.paths or any(_fits(p, owner, place) for p in self.paths)

    def __bool__(self) -> bool:
        return bool(self.package != "*" or self.components or self.paths)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sides and what differs between them, each part when it is asked for."""

    objects: Objects
    old: Side
    new: Side
    narrow: Narrow = field(default_factory=Narrow)
    #: a comparison of single packages or files is known whole
    known: tuple[PackageDiff, ...] | None = None
    known_files: tuple[FileDiff, ...] = ()
    skipped: tuple[str, ...] = ()

    def packages(self) -> Iterator[PackageDiff]:
        """Packages that differ in what is asked for."""
        found: Iterable[PackageDiff] | None = self.known
        if found is None:
            found = trees.packages_diff(self.objects, self.old.tree, self.new.tree, self.narrow.package)
        for package in found:
            kept = self._kept(package)
            if kept is not None:
                yield kept

    def resources(self) -> Iterator[ResourceDiff]:
        if self.known is not None or self.narrow.package != "*" or self.narrow.components:
            return
        for resource in trees.resources_diff(self.objects, self.old.tree, self.new.tree):
            files = tuple(f for f in resource.files if self.narrow.file(f"resources/{resource.name}", "", f.path))
            if files:
                yield resource._replace(files=files)

    def others(self) -> Iterator[FileDiff]:
        """Files outside packages and resources, or the two files that were named."""
        if self.narrow.package != "*" or self.narrow.components:
            return
        found = self.known_files
        if self.known is None:
            found = trees.other_files(self.objects, self.old.tree, self.new.tree)
        yield from (f for f in found if self.narrow.file("", "", f.path))

    def content(self, place: str, file: FileDiff, context: int, extract: Extract | None) -> Content:
        """What differs in one file; `place` is its path in its package or resource."""
        return content(self.objects, place, file, context=context, extract=extract)

    def _kept(self, package: PackageDiff) -> PackageDiff | None:
        if not (self.narrow.components or self.narrow.paths):
            return package
        parts: list[ComponentDiff] = []
        for part in package.components:
            inside = "" if part.name == "package" else f"{part.name}/"
            files = tuple(f for f in part.files if self.narrow.file(package.name, part.name, inside + f.path))
            if files:
                parts.append(part._replace(files=files, items=part.items if files == part.files else ()))
        return package._replace(components=tuple(parts)) if parts else None


def _fits(pattern: str, owner: str, place: str) -> bool:
    """Whether a path or glob names a file, a folder above it or its package; with or without the package's name."""
    whole = f"{owner}/{place}" if owner else place
    for text in (whole, place):
        if text == pattern or text.startswith(f"{pattern}/") or fnmatchcase(text, pattern):
            return True
    return owner == pattern or fnmatchcase(place.rsplit("/", 1)[-1], pattern)
