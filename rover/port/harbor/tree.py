"""The files of a task, wherever they were read from: bytes, the executable bit, links that stay inside.

Whoever made the folder is not trusted: nothing is followed out of it, nothing huge is opened, and every name is one
that a package can hold. PackageError names the file and the reason.
"""

from __future__ import annotations

import os
import posixpath
import stat
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rover_store.errors import PackageError
from rover_store.files.safe_names import refusal, shown

#: never part of a task, and not of its digest either
IGNORED = frozenset({"__pycache__", ".DS_Store", ".git"})
IGNORED_ENDS = (".pyc", ".swp", ".swo", "~")


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a task (and what an archive of them) may hold."""

    file_bytes: int = 256 << 20
    task_bytes: int = 1 << 30
    task_files: int = 20_000
    archive_bytes: int = 2 << 30
    archive_files: int = 200_000
    depth: int = 40
    path_bytes: int = 1000


BOUNDS = Bounds()


@dataclass(frozen=True, slots=True)
class Item:
    """One file. `link` is the text of a link; `data` then is what it points at. A file below a link to a folder has
    the link's path and its text there, with a NUL between."""

    data: bytes
    executable: bool = False
    link: str = ""


Tree = Mapping[str, Item]


def ignored(name: str) -> bool:
    """Whether a file or folder of this name is left out: what interpreters and editors leave behind."""
    return name in IGNORED or name.endswith(IGNORED_ENDS)


def check_path(path: str, bounds: Bounds = BOUNDS) -> None:
    """PackageError for a path that no package can hold."""
    parts = path.split("/")
    for part in parts:
        reason = refusal(part)
        if reason:
            raise PackageError(shown(path), "", reason)
    if len(parts) > bounds.depth:
        raise PackageError(shown(path), "", f"nested deeper than {bounds.depth} folders")
    if len(path.encode()) > bounds.path_bytes:
        raise PackageError(shown(path), "", f"the path is longer than {bounds.path_bytes} bytes")


def read_folder(root: Path, bounds: Bounds = BOUNDS) -> dict[str, Item]:
    """All files of a folder, sorted by path."""
    found: dict[str, Item] = {}
    links: dict[str, str] = {}
    total = 0
    for path, info in _walk(root, "", bounds):
        if len(found) + len(links) >= bounds.task_files:
            raise PackageError(root.name, "", f"holds more than {bounds.task_files} files")
        check_path(path, bounds)
        if stat.S_ISLNK(info.st_mode):
            links[path] = _text(root, path)
            continue
        if not stat.S_ISREG(info.st_mode):
            raise PackageError(shown(path), "", "is no plain file")
        total += info.st_size
        if info.st_size > bounds.file_bytes:
            raise PackageError(shown(path), "", f"is larger than {bounds.file_bytes >> 20} MB")
        if total > bounds.task_bytes:
            raise PackageError(root.name, "", f"holds more than {bounds.task_bytes >> 20} MB")
        found[path] = Item(_read(root, path, info.st_size), bool(info.st_mode & 0o111))
    return resolved(found, links, bounds)


def _walk(root: Path, prefix: str, bounds: Bounds) -> Iterator[tuple[str, os.stat_result]]:
    if prefix.count("/") > bounds.depth:
        raise PackageError(shown(prefix), "", f"nested deeper than {bounds.depth} folders")
    try:
        with os.scandir(root / prefix) as listed:
            entries = sorted(listed, key=lambda e: e.name)
    except OSError as error:
        raise PackageError(shown(prefix) or root.name, "", f"cannot be listed ({error.strerror})") from None
    for entry in entries:
        if ignored(entry.name):
            continue
        path = prefix + entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(root, f"{path}/", bounds)
        else:
            try:
                info = entry.stat(follow_symlinks=False)
            except OSError as error:
                raise PackageError(shown(path), "", f"cannot be read ({error.strerror})") from None
            yield path, info


def _text(root: Path, path: str) -> str:
    try:
        text = os.readlink(root / path)
        text.encode()
    except UnicodeEncodeError:
        raise PackageError(shown(path), "", "is a link whose text is not UTF-8") from None
    except OSError as error:
        raise PackageError(shown(path), "", f"cannot be read ({error.strerror})") from None
    return text


def _read(root: Path, path: str, size: int) -> bytes:
    try:
        fd = os.open(root / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            data = file.read(size + 1)
    except OSError as error:
        raise PackageError(shown(path), "", f"cannot be read ({error.strerror})") from None
    if len(data) != size:
        raise PackageError(shown(path), "", "changed while it was read; try again")
    return data


def resolved(files: Mapping[str, Item], links: Mapping[str, str], bounds: Bounds = BOUNDS) -> dict[str, Item]:
    """The files with every link as a copy of what it points at. PackageError for a link that leaves the tree.

    A link to a folder stands for copies of all its files; the first of them carries its text. What copies hold counts
    as what the files hold: a package keeps each.
    """
    out = dict(files)
    names = sorted(files)
    total = sum(len(item.data) for item in files.values())
    most = max(bounds.task_bytes, total)
    for path in links:
        target = _target(path, links)
        inner = _below(names, target)
        if not (target in files or inner):
            raise PackageError(shown(path), "", f"is a link to {shown(links[path])}, where no plain file is")
        total += sum(len(files[name].data) for name in ([target] if target in files else inner))
        if total > most:
            raise PackageError(shown(path), "", f"its links stand for more than {bounds.task_bytes >> 20} MB")
        _copy(out, files, path, target, inner, links[path])
        if len(out) > max(bounds.task_files, len(files)):
            raise PackageError(shown(path), "", f"its links stand for more than {bounds.task_files} files")
    _check_kinds(out)
    return dict(sorted(out.items()))


def inner_links(files: Mapping[str, Item], links: Mapping[str, str]) -> dict[str, str]:
    """The links that stay inside and point at something."""
    names = sorted(files)

    def inside(path: str) -> bool:
        try:
            target = _target(path, links)
        except PackageError:
            return False
        return target in files or bool(_below(names, target))

    return {path: text for path, text in links.items() if inside(path)}


def check_links(tree: Tree) -> None:
    """PackageError for a link that leaves the tree, or that others would be written through."""
    links = links_of(tree)
    for path in links:
        _target(path, links)
        above = posixpath.dirname(path)
        while above:
            if above in links:
                raise PackageError(shown(path), "", f"lies below the link {shown(above)}")
            above = posixpath.dirname(above)


def _below(names: Sequence[str], folder: str) -> Sequence[str]:
    """Of sorted paths those below a folder."""
    return names[bisect_left(names, f"{folder}/") : bisect_left(names, f"{folder}0")]  # 0 comes after the slash


def _target(path: str, links: Mapping[str, str]) -> str:
    """Where a link ends, through other links. It must stay inside, at every step."""
    at = path
    for _ in range(16):
        text = links[at]
        if "\0" in text:
            raise PackageError(shown(path), "", "is a link whose text has a NUL")
        joined = posixpath.normpath(posixpath.join(posixpath.dirname(at), text))
        if text.startswith("/") or not text or joined.startswith("../") or joined in ("..", "."):
            raise PackageError(shown(path), "", f"is a link out of the task ({shown(text)})")
        if path.startswith(f"{joined}/"):
            raise PackageError(shown(path), "", "is a link to a folder that holds it")
        if joined not in links:
            return joined
        at = joined
    raise PackageError(shown(path), "", "is a link in a circle")


def _copy(
    out: dict[str, Item], files: Mapping[str, Item], path: str, target: str, inner: Sequence[str], text: str
) -> None:
    if target in files:
        out[path] = replace(files[target], link=text)
        return
    for name in inner:
        out[path + name[len(target) :]] = replace(files[name], link=f"{path}\0{text}")


def _check_kinds(files: Mapping[str, Item]) -> None:
    for path in files:
        above = posixpath.dirname(path)
        while above:
            if above in files:
                raise PackageError(shown(above), "", "is both a file and a folder")
            above = posixpath.dirname(above)


def links_of(tree: Tree) -> dict[str, str]:
    """The links of a tree: path -> text. A link to a folder stands once."""
    out = {}
    for path, item in tree.items():
        if item.link:
            folder, _, text = item.link.rpartition("\0")
            out[folder or path] = text
    return dict(sorted(out.items()))


def relinked(tree: Mapping[str, Item], links: Mapping[str, str]) -> dict[str, Item]:
    """A tree of copies with the links among them named again: the reverse of `links_of`."""
    out = dict(tree)
    names = sorted(out)
    for path, text in links.items():
        if path in out:
            out[path] = replace(out[path], link=text)
            continue
        for inner in _below(names, path):
            out[inner] = replace(out[inner], link=f"{path}\0{text}")
    return out


def check_bounds(tree: Tree, bounds: Bounds = BOUNDS) -> None:
    """PackageError for what is more than one task may hold."""
    if len(tree) > bounds.task_files:
        raise PackageError("", "", f"holds more than {bounds.task_files} files")
    if sum(len(item.data) for item in tree.values()) > bounds.task_bytes:
        raise PackageError("", "", f"holds more than {bounds.task_bytes >> 20} MB")


def below(tree: Tree, folder: str) -> dict[str, Item]:
    """What lies below a folder (it ends in a slash), by its path in it."""
    return {path[len(folder) :]: item for path, item in tree.items() if path.startswith(folder)}


def write(tree: Tree, folder: Path) -> None:
    """Write a tree into a new folder: modes, and links as links. Times are not set."""
    made: set[Path] = set()
    links = links_of(tree)
    for path, item in tree.items():
        if item.link:
            continue
        target = folder / path
        if target.parent not in made:
            target.parent.mkdir(parents=True, exist_ok=True)
            made.add(target.parent)
        target.write_bytes(item.data)
        target.chmod(0o755 if item.executable else 0o644)
    for path, text in links.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        os.symlink(text, target)
