"""`rover import harbor`: task folders, folders of them, datasets, multi-step tasks, and archives of all these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from rover.port.harbor.carried import changed, is_carrier, unpacked
from rover.port.harbor.find import Place, check_digest, find
from rover.port.harbor.package import Made, Origin, make
from rover.port.harbor.tree import Tree
from rover.port.protocol import Found, Imported, Refused, Wanted
from rover.sandbox.protocol import Files
from rover_store.errors import PackageError

#: bytes of all packages of one import: they are held until the commit
MOST_BYTES = 4 << 30


class HarborImporter:
    """Takes every task as it is: what cannot run here comes in with the reason, and nothing of it is run."""

    kind = "harbor"

    def read(self, path: Path, wanted: Wanted) -> Iterable[Found]:
        taken = 0
        for place in _wanted(path, wanted):
            source = place.path or place.folder
            try:
                tree = place.read()
                note = check_digest(place, tree)
                made, resources, told = _made(tree, Origin(place.folder, place.dataset))
            except PackageError as error:
                yield Refused(source, error.file, error.field, error.reason)
                continue
            taken += sum(map(len, made.files.values()))
            if taken > MOST_BYTES:
                raise PackageError(source, "", f"all together hold more than {MOST_BYTES >> 30} GB; use --only")
            notes = tuple(text for text in (*made.notes, *told, note) if text)
            yield Imported(made.name, made.files, source, resources, made.unknown, made.needs, notes)


def _wanted(path: Path, wanted: Wanted) -> Iterator[Place]:
    number = 0
    for place in find(path):
        if any(fnmatchcase(name, wanted.pattern) for name in (place.folder, place.path, place.name) if name):
            yield place
            number += 1
        if number == wanted.limit > 0:
            return


def _made(tree: Tree, origin: Origin) -> tuple[Made, Mapping[str, Files], tuple[str, ...]]:
    """The package of a task: the one that it carries, where it is one of rover's own that nobody changed since."""
    if not is_carrier(tree):
        return make(tree, origin), {}, ()
    if other := changed(tree):
        note = f"{other} is not as rover exported it, so the task is taken as a task, not as the package it carries"
        return make(tree, origin), {}, (note,)
    name, files, resources = unpacked(tree)
    return Made(name, files, (), (), ()), resources, ("it carries its package, which is taken as it was",)
