"""The workspace at /w: laid out from blobs, put back exactly, and listed as a manifest.

Blobs lie once in a store; a start state is a folder of hard links to them and the lower layer of an overlay. What
commands change lands in an upper layer on a tmpfs of bounded size, so a reset throws that tmpfs away and a
snapshot reads it alone. Where the kernel's tmpfs keeps no user attributes (before 6.6) the overlay cannot work:
then the start state is copied, and a snapshot reads everything.

A mapped write changes neither mtime nor ctime on tmpfs, so a snapshot hashes; it never trusts stat.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
from bisect import bisect_left
from typing import Any, NamedTuple

from rover.sandbox.inside import kernel
from rover.sandbox.inside.confine import PRIVATE, WORK

STORE, BASE, LAYER = f"{PRIVATE}/store", f"{PRIVATE}/base", f"{PRIVATE}/layer"
PROBE = f"{PRIVATE}/probe"
#: Bytes of blobs that are kept for later start states besides those in use.
KEEP = 256 << 20
MAX_PATH = 1024
EPOCH = 946684800  # 2000-01-01: the time of every file of a start state
_FLAGS = kernel.MS_NOSUID | kernel.MS_NODEV

#: blob id, size, kind
Found = tuple[str, int, str]


class Workspace:
    """One workspace. `known` holds the ids of blobs that the host has."""

    def __init__(self, mode: str = "") -> None:
        for folder in (STORE, BASE, LAYER, PROBE):
            os.mkdir(folder)
        self.mode = mode or ("overlay" if _overlay_works() else "copy")
        self.known: set[str] = set()
        self._base: dict[str, Found] = {}
        self._paths: list[str] = []
        self._stored: dict[str, int] = {}  # name in the store -> size
        self._generation = 0
        self._mounted = False
        self._size: tuple[int, int] = (1 << 20, 1000)

    # --- start state ---------------------------------------------------------------------------------------
    def missing(self, files: list[list[Any]]) -> list[str]:
        """Ids of blobs that must be sent before these files, [path, id, size], can be laid out."""
        wanted = dict.fromkeys(blob for _, blob, _ in files)
        return [blob for blob in wanted if f"{blob}.0" not in self._stored]

    def put(self, blob: str, data: memoryview) -> None:
        self._write(f"{blob}.0", data)

    def lay_out(self, files: list[list[Any]]) -> None:
        """Make these files the start state. Where that fails (a path is a file and a folder), there is none."""
        self._unmount()
        shutil.rmtree(f"{BASE}/{self._generation}", ignore_errors=True)
        self._generation += 1
        self._base = {path: (blob, size, "file") for path, blob, size in files}
        self._paths = sorted(self._base)
        root = f"{BASE}/{self._generation}"
        os.mkdir(root)
        try:
            uses = self._link(root, files)
        except OSError:
            shutil.rmtree(root)
            raise
        self._forget(uses)

    def _link(self, root: str, files: list[list[Any]]) -> dict[str, int]:
        """Fill a folder with links to blobs; gives how often each is used, less one. The nth path with the same
        bytes gets its own nth copy: two paths that share an inode would be one file to `mv` and `cp`."""
        folders, uses = {""}, dict[str, int]()
        for path, blob, _ in files:
            folder = path.rpartition("/")[0]
            if folder not in folders:
                os.makedirs(f"{root}/{folder}", exist_ok=True)
                while folder not in folders:
                    folders.add(folder)
                    folder = folder.rpartition("/")[0]
            count = uses[blob] = uses.get(blob, -1) + 1
            name = f"{blob}.{count}"
            if name not in self._stored:
                with open(f"{STORE}/{blob}.0", "rb") as stream:
                    self._write(name, memoryview(stream.read()))
            os.link(f"{STORE}/{name}", f"{root}/{path}")
        for folder in sorted(folders, reverse=True):
            os.utime(f"{root}/{folder}", (EPOCH, EPOCH))
        return uses

    def reset(self, disk_bytes: int | None = None, inodes: int | None = None) -> None:
        """Put the workspace back to the start state, with new bounds where given."""
        self._unmount()
        if disk_bytes is not None and inodes is not None:
            self._size = (disk_bytes, inodes)
        self.known = {blob for blob, _, _ in self._base.values()}
        size, inodes = self._size
        if self.mode == "copy":  # the start state counts too, so make room for it
            size += sum(item[1] + 4096 for item in self._base.values())
            inodes += 2 * len(self._base)
        target = WORK if self.mode == "copy" else LAYER
        kernel.mount("tmpfs", target, "tmpfs", _FLAGS, f"size={size},nr_inodes={inodes},mode=755")
        root = f"{BASE}/{self._generation}"
        if self.mode == "copy":
            shutil.copytree(root, WORK, dirs_exist_ok=True)
        else:
            overlay(root, LAYER, WORK)
        self._mounted = True

    def _unmount(self) -> None:
        if self._mounted:
            kernel.unmount(WORK)
            if self.mode != "copy":
                kernel.unmount(LAYER)
        self._mounted = False

    def _write(self, name: str, data: memoryview) -> None:
        path = f"{STORE}/{name}"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            while data:
                data = data[os.write(fd, data) :]
        finally:
            os.close(fd)
        os.utime(path, (EPOCH, EPOCH))
        self._stored[name] = os.stat(path).st_size

    def _forget(self, used: dict[str, int]) -> None:
        """Drop the oldest blobs that this start state does not use, where they are too many."""
        spare = [n for n in self._stored if int(n.partition(".")[2]) > used.get(n.partition(".")[0], -1)]
        over = sum(self._stored[n] for n in spare) - KEEP
        for name in spare:
            if over <= 0:
                break
            over -= self._stored.pop(name)
            os.unlink(f"{STORE}/{name}")

    # --- snapshot ------------------------------------------------------------------------------------------
    def snapshot(self) -> Changes:
        """What differs from the start state."""
        changes = Changes({}, set(self._base) if self.mode == "copy" else set(), {}, {})
        fd = os.open(WORK if self.mode == "copy" else f"{LAYER}/up", os.O_RDONLY | os.O_DIRECTORY)
        try:
            Walk(self, changes).folder(fd, "")
        finally:
            os.close(fd)
        self.known |= set(changes.new)
        return changes

    def below(self, path: str) -> list[str]:
        """Paths of the start state that are `path` or lie in the folder `path`."""
        start = bisect_left(self._paths, f"{path}/")
        end = bisect_left(self._paths, f"{path}0")  # "0" follows "/"
        own = [path] if path in self._base else []
        return own + self._paths[start:end]

    @property
    def start(self) -> dict[str, Found]:
        return self._base

    @property
    def limit(self) -> int:
        return self._size[0]


class Changes(NamedTuple):
    """What a snapshot found: `entries` are new or changed paths, `removed` paths of the start state that are gone
    (a path that was replaced may stand in both), `new` the bytes that the host does not have, `refused` reasons."""

    entries: dict[str, Found]
    removed: set[str]
    new: dict[str, bytes]
    refused: dict[str, str]


class Walk:
    """One pass over the changed layer, by descriptor: paths may be hostile, and links are never followed."""

    def __init__(self, workspace: Workspace, changes: Changes) -> None:
        self._workspace = workspace
        self._changes = changes
        self._read = 0

    def open(self, name: bytes, flags: int, at: int) -> int:
        """Open a file or folder for reading, whatever its mode: here the supervisor may."""
        return os.open(name, flags, dir_fd=at)

    def close(self, fd: int) -> None:
        """Close a folder that `open` gave."""
        os.close(fd)

    def folder(self, fd: int, prefix: str) -> None:
        if prefix and self._workspace.mode != "copy" and _opaque(fd):
            self._remove(prefix[:-1])
        for raw in sorted(map(os.fsencode, os.listdir(fd))):
            try:
                path = prefix + raw.decode()
            except UnicodeDecodeError:
                self._refuse(prefix + raw.decode("utf-8", "backslashreplace"), "its name is not UTF-8")
                continue
            if len(path.encode()) > MAX_PATH:
                self._refuse(f"{path[:100]}...", f"its path is longer than {MAX_PATH} bytes")
                continue
            self._item(fd, raw, path)

    def _item(self, fd: int, raw: bytes, path: str) -> None:
        info = os.lstat(raw, dir_fd=fd)
        if stat.S_ISDIR(info.st_mode):
            if path in self._workspace.start:
                self._changes.removed.add(path)
            inner = self.open(raw, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, fd)
            try:
                self.folder(inner, f"{path}/")
            finally:
                self.close(inner)
            return
        self._remove(path)
        if stat.S_ISCHR(info.st_mode) and info.st_rdev == 0 and self._workspace.mode != "copy":
            return  # a whiteout: the path was removed
        if stat.S_ISLNK(info.st_mode):
            self._keep(path, os.readlink(raw, dir_fd=fd), "link")
        elif not stat.S_ISREG(info.st_mode):
            self._refuse(path, "not a file, folder or link")
        elif self._read + info.st_size > self._workspace.limit:
            self._refuse(path, "over the limit on the size of the workspace")
        else:
            self._read += info.st_size
            inner = self.open(raw, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, fd)
            with os.fdopen(inner, "rb", buffering=0) as stream:
                data = stream.read()
            self._keep(path, data, "executable" if info.st_mode & 0o100 else "file")

    def _keep(self, path: str, data: bytes, kind: str) -> None:
        blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
        self._changes.entries[path] = (blob, len(data), kind)
        if blob not in self._workspace.known:
            self._changes.new[blob] = data

    def _refuse(self, path: str, reason: str) -> None:
        self._changes.refused[path] = reason

    def _remove(self, path: str) -> None:
        if self._workspace.mode != "copy":
            self._changes.removed.update(self._workspace.below(path))


def overlay(lower: str, layer: str, target: str) -> None:
    """Mount an overlay whose upper layer lies in `layer`, a mounted tmpfs."""
    os.mkdir(f"{layer}/up")
    os.utime(f"{layer}/up", (EPOCH, EPOCH))
    os.mkdir(f"{layer}/work")
    options = f"lowerdir={lower},upperdir={layer}/up,workdir={layer}/work,userxattr"
    kernel.mount("overlay", target, "overlay", _FLAGS, options)


def _overlay_works() -> bool:
    """Whether an overlay on tmpfs can hide a folder of its lower layer, which needs user attributes."""
    lower, layer, target = (f"{PROBE}/{n}" for n in ("lower", "layer", "target"))
    for folder in (lower, f"{lower}/a", layer, target):
        os.mkdir(folder)
    kernel.mount("tmpfs", layer, "tmpfs", _FLAGS, "size=1m,nr_inodes=100")
    try:
        overlay(lower, layer, target)
        try:
            os.rmdir(f"{target}/a")
            os.mkdir(f"{target}/a")
            os.setxattr(f"{layer}/up", "user.rover", b"1")
        finally:
            kernel.unmount(target)
    except OSError:
        return False
    finally:
        kernel.unmount(layer)
    return True


def _opaque(fd: int) -> bool:
    with contextlib.suppress(OSError):
        return os.getxattr(fd, "user.overlay.opaque") == b"y"
    return False
