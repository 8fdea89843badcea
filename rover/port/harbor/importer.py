"""`rover import harbor`: task folders, folders of them, datasets, multi-step tasks, and archives of all these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from rover.port.harbor.about import Origin
from rover.port.harbor.archive import read_stream
from rover.port.harbor.carried import changed, is_carrier, unpacked
from rover.port.harbor.find import Place, check_digest, find
from rover.port.harbor.package import InImage, Look, Made, make, nobody
from rover.port.harbor.tree import Tree
from rover.port.protocol import Found, Imported, Options, Refused, Wanted
from rover.sandbox.protocol import Files
from rover_store.errors import PackageError, UsageError
from rover_store.files.safe_names import refusal, shown

#: bytes of all packages of one import: they are held in memory until the commit
MOST_BYTES = 1 << 30


class HarborImporter:
    """Takes every task as it is: what cannot run here comes in with the reason, and nothing of it is run."""

    kind = "harbor"

    def read(self, path: Path, wanted: Wanted) -> Iterable[Found]:
        taken = 0
        look = _look(wanted.options)
        for place in _wanted(path, wanted):
            source = shown(place.path or place.folder)
            try:
                if place.folder and (why := refusal(place.folder)):
                    raise PackageError("", "", why)
                tree = place.read()
                note = check_digest(place, tree)
                made, resources, told = _made(tree, Origin(place.folder, place.dataset), look)
            except PackageError as error:
                yield Refused(source, error.file, error.field, error.reason)
                continue
            except OSError as error:
                yield Refused(source, "", "", f"cannot be read ({error.strerror or error})")
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


def _look(options: Options) -> Look:
    """Whether images are looked into: only where that is asked for, so that a task is the same package anywhere."""
    for key in options:
        if key != "images":
            raise UsageError(f"--set {key}: no such option of harbor", hint="known: images=read")
    if "images" not in options:
        return nobody
    if options["images"] != "read":
        raise UsageError(f"--set images={options['images']}: only read is known")
    return _in_engine


def _in_engine(image: str, folder: str) -> InImage | None:
    from rover.sandbox.docker.image_files import image_folder

    with image_folder(image, folder) as (workdir, chunks):
        if workdir.rstrip("/") == "":
            return None
        files, left = read_stream(chunks, image)
    notes = (f"{left} links and devices of {image} are left out",) if left else ()
    return InImage(workdir.rstrip("/"), files, notes)


def _made(tree: Tree, origin: Origin, look: Look) -> tuple[Made, Mapping[str, Files], tuple[str, ...]]:
    """The package of a task: the one that it carries, where it is one of rover's own that nobody changed since."""
    if not is_carrier(tree):
        return make(tree, origin, look), {}, ()
    if other := changed(tree):
        note = f"{other} is not as rover exported it, so the task is taken as a task, not as the package it carries"
        return make(tree, origin, look), {}, (note,)
    name, files, resources = unpacked(tree)
    return Made(name, files, (), (), ()), resources, ("it carries its package, which is taken as it was",)
