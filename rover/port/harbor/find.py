"""Finds the tasks below a path: one task, a folder of them, a dataset, or an archive of any of these."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rover.port.harbor import config as configs
from rover.port.harbor.archive import is_archive, read_archive
from rover.port.harbor.digest import content_digest
from rover.port.harbor.tree import Item, check_bounds, ignored, read_folder
from rover_store.errors import PackageError
from rover_store.files.safe_names import shown

DATASET = "dataset.toml"
#: how far below the path a task may lie, and how many entries are looked at
MOST_DEPTH = 6
MOST_ENTRIES = 200_000
#: bytes of a dataset.toml
MOST_LISTED = 16 << 20
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Place:
    """A task that was found: its path below the root, and how its files are read."""

    path: str
    folder: str
    read: Callable[[], dict[str, Item]]
    #: its task.toml alone; empty where only reading all of it can tell
    settings: Callable[[], bytes]
    dataset: str = ""
    #: what the dataset says of it
    name: str = ""
    digest: str = ""
    note: str = ""


def find(path: Path) -> Iterator[Place]:
    """The tasks in a fixed order. PackageError where there is none, or what lists them cannot be read."""
    if path.is_dir():
        found = list(_in_folder(path))
        listed = path / DATASET
        manifest = _listed(listed) if listed.is_file() and not listed.is_symlink() else None
    elif is_archive(path):
        files = read_archive(path)
        found, manifest = _in_archive(files, path.name)
    else:
        raise PackageError(path.name, "", "is neither a folder nor a tar or zip archive")
    if manifest is not None:
        yield from _of_dataset(manifest, found)
    elif not found:
        raise PackageError(path.name or str(path), "", "holds no task.toml, and no dataset.toml that lists tasks")
    else:
        yield from found


def _listed(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(MOST_LISTED + 1)


def _in_folder(root: Path) -> Iterator[Place]:
    seen = 0
    closed: list[OSError] = []
    for folder, inner, names in os.walk(root, onerror=closed.append):
        here = Path(folder)
        relative = here.relative_to(root).as_posix()
        seen += len(inner) + len(names)
        if seen > MOST_ENTRIES:
            raise PackageError(root.name, "", f"holds more than {MOST_ENTRIES} files; name the folder of the tasks")
        if configs.FILE in names:
            inner[:] = []
            name = here.resolve().name if relative == "." else here.name
            path = "" if relative == "." else relative
            yield Place(path, name, partial(read_folder, here), partial(_settings, here / configs.FILE))
            continue
        deep = relative != "." and relative.count("/") + 1 >= MOST_DEPTH
        inner[:] = [] if deep else sorted(n for n in inner if not ignored(n) and not (here / n).is_symlink())
    for error in closed:  # each may hold tasks
        place = Path(os.fsdecode(error.filename))
        path = "" if place == root else place.relative_to(root).as_posix()
        yield _none(path, place.name, PackageError("", "", f"cannot be listed ({error.strerror})"))


def _none(path: str, name: str, error: PackageError) -> Place:
    """A place of which nothing more is to be had."""

    def read() -> dict[str, Item]:
        raise error

    return Place(path, name, read, bytes)


def _in_archive(files: Mapping[str, Item], name: str) -> tuple[list[Place], bytes | None]:
    tops = {path.partition("/")[0] for path in files}
    if len(tops) == 1 and all("/" in path for path in files):  # one folder that holds all
        only = next(iter(tops))
        inner = _inside(files, list(files), f"{only}/")
        if configs.FILE not in inner:
            return _in_archive(inner, only)
        return [Place("", only, partial(_bounded, inner), partial(bytes, inner[configs.FILE].data))], None
    paths = sorted(files)
    roots = sorted(path[: -len(configs.FILE)] for path in paths if path.rpartition("/")[2] == configs.FILE)
    found: list[Place] = []
    last = None
    for root in roots:
        if last is not None and root.startswith(last):
            continue  # inside of another task
        data = files[root + configs.FILE]
        linked, mark, _ = data.link.rpartition("\0")
        if mark and root.startswith(f"{linked}/"):
            continue  # a link to a task or to what holds it, which is taken where it lies
        last = root
        folder = root.strip("/").rpartition("/")[2] or name.partition(".")[0]
        read = partial(_below, files, paths, root)
        found.append(Place(root.strip("/"), folder, read, partial(bytes, data.data)))
    manifest = files.get(DATASET)
    return found, manifest.data if manifest else None


def _below(files: Mapping[str, Item], paths: Sequence[str], root: str) -> dict[str, Item]:
    return _bounded(_inside(files, paths, root))


def _bounded(files: dict[str, Item]) -> dict[str, Item]:
    check_bounds(files)
    return files


def _inside(files: Mapping[str, Item], paths: Sequence[str], root: str) -> dict[str, Item]:
    """What lies below a folder of an archive. A link to a folder is named by where it lies there."""
    out = {}
    first = bisect_left(paths, root)
    for path in paths[first : bisect_left(paths, f"{root[:-1]}0", first)] if root else paths:
        item = files[path]
        folder, mark, text = item.link.rpartition("\0")
        if mark:  # of a link that lies above, what is here are copies
            link = f"{folder[len(root) :]}\0{text}" if folder.startswith(root) else ""
            item = Item(item.data, item.executable, link)
        out[path[len(root) :]] = item
    return out


def _settings(file: Path) -> bytes:
    plain = not file.is_symlink() and file.is_file() and file.stat().st_size <= configs.MOST_BYTES
    return file.read_bytes() if plain else b""


def _of_dataset(data: bytes, found: list[Place]) -> Iterator[Place]:
    """The tasks that a dataset lists, each beside it and of the digest that it names; then what else lies there."""
    manifest = configs.parse(data, DATASET, MOST_LISTED)
    about = manifest.get("dataset")
    name = about.get("name", "") if isinstance(about, dict) else ""
    tasks = manifest.get("tasks", [])
    if not isinstance(tasks, list) or not all(isinstance(t, dict) for t in tasks):
        raise PackageError(DATASET, "tasks", "must be a list of tables")
    if not tasks:
        raise PackageError(DATASET, "tasks", "lists no task")
    names = {_name_of(place): place for place in found}
    folders = {place.folder: place for place in found}
    seen, listed = set(), set()
    for number, task in enumerate(tasks):
        wanted = _text(task, "name", number)
        digest = _text(task, "digest", number)
        if wanted in seen:
            raise PackageError(DATASET, f"tasks.{number}.name", f"{wanted!r} is there twice")
        seen.add(wanted)
        if not _DIGEST.fullmatch(digest):
            raise PackageError(DATASET, f"tasks.{number}.digest", f"{shown(digest)!r} is not sha256: and 64 digits")
        place = names.get(wanted) or folders.get(wanted.rpartition("/")[2])
        if place is None:
            reason = f"{wanted!r} does not lie beside it; `harbor download` fetches a dataset with its tasks"
            yield replace(_none("", "", PackageError(DATASET, f"tasks.{number}.name", reason)), name=wanted)
            continue
        listed.add(place.path)
        yield replace(place, dataset=name, name=wanted, digest=digest)
    for place in found:
        if place.path not in listed:
            yield replace(place, note=f"{DATASET} does not list it")


def _text(task: dict[str, Any], key: str, number: int) -> str:
    value = task.get(key)
    if not isinstance(value, str) or not value:
        raise PackageError(DATASET, f"tasks.{number}.{key}", "is missing" if value is None else "is no text")
    return value


def _name_of(place: Place) -> str:
    """The name that a task gives itself; empty where it has none, or cannot be read."""
    try:
        about = configs.parse(place.settings()).get("task")
    except (PackageError, OSError):
        return ""
    return str(about.get("name", "")) if isinstance(about, dict) else ""


def check_digest(place: Place, tree: dict[str, Item]) -> str:
    """PackageError where a task is not the one that its dataset names. What cannot be judged is said."""
    if not place.digest:
        return place.note
    found = content_digest(tree)
    if not found:
        return "its digest is not checked: it has ignore rules of its own"
    if found != place.digest:
        raise PackageError("", "digest", f"is {found[:19]}..., and the dataset names {place.digest[:19]}...")
    return ""
