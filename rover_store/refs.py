"""Refs of a bare repository: read (loose and packed), and compare-and-swap. Many at once: `ref_moves`.

A ref is changed by taking NAME.lock, comparing, writing, and renaming: any git does the same, so both are safe
beside each other. Our own writers hold the store's flock as well (`lock`), which makes waiting fair.
A ref that holds no id is damaged: `get` says so, `peek` and the operation log take it for absent, so that a write
can put it right.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from pathlib import Path

from rover_store.errors import NotFound, StoreError, UsageError
from rover_store.plain_file import open_plain, read_plain

HEADS, TAGS, ROVER = "refs/heads/", "refs/tags/", "refs/rover/"
#: what was last seen of the branches of other stores
REMOTES = "refs/remotes/"
RELEASES, MERGES = "refs/rover/releases/", "refs/rover/merges/"
SEALED, OPS, EVIDENCE, CASES = "refs/rover/sealed", "refs/rover/ops", "refs/rover/evidence", "refs/rover/cases/"

_HEX = re.compile(r"[0-9a-f]{40}")
_BAD = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)
_DEPTH = 5  # git follows so many symbolic refs
#: a file younger than this may have changed again without a new time
RACY_NS = 50_000_000


def check_ref(name: str) -> str:
    """Return a full ref name, or raise UsageError where git would refuse it."""
    parts = name.split("/")
    bad = _BAD.search(name) or any(
        not p or p.startswith((".", "-")) or p.endswith((".lock", ".")) or p == "@" for p in parts
    )
    if bad or not name.startswith("refs/") or len(name) > 250:
        raise UsageError(f"{name.removeprefix(HEADS).removeprefix(TAGS)!r} is not a name that a ref can have")
    return name


class Refs:
    """The refs of one repository."""

    def __init__(self, git: Path) -> None:
        self.git = git
        self._packed: tuple[tuple[int, ...], dict[str, str]] = ((), {})
        self._folders: dict[str, tuple[tuple[int, ...], dict[str, str]]] = {}

    def get(self, name: str) -> str | None:
        """Id that a ref holds, None if there is no such ref. StoreError where it is damaged."""
        last, value = self._follow(name)
        if value is None:
            return self.packed().get(last)
        if not _HEX.fullmatch(value):
            raise StoreError(f"{last} is damaged: it holds no object id", hint=DAMAGED_HINT)
        return value

    def peek(self, name: str) -> str | None:
        """The same, None also where it is damaged."""
        try:
            return self.get(name)
        except StoreError:
            return None

    def all(self, prefix: str = "refs/", *, damaged: bool = False) -> dict[str, str]:
        """Refs below a prefix, sorted by name. With `damaged`, those that hold no id are left out, not an error."""
        read = self.peek if damaged else self.get
        # loose ones first: what another git packs meanwhile is then found among the packed
        names = self.loose(prefix)
        out = {name: value for name in names if (value := read(name)) is not None}
        seen = set(names)
        out.update((n, v) for n, v in self.packed().items() if n.startswith(prefix) and n not in seen)
        return dict(sorted(out.items()))

    def remembered(self, prefix: str) -> dict[str, str]:
        """Refs below a folder of refs, of which there may be thousands: only folders that changed are read again.

        A file written in place, which no git does, goes unnoticed until its folder changes.
        """
        loose: dict[str, str] = {}
        waiting = [prefix.rstrip("/")]
        while waiting:
            folder = waiting.pop()
            inner, found = self._listing(folder)
            waiting += inner
            loose.update(found)
        packed = {n: v for n, v in self.packed().items() if n.startswith(prefix)}
        return {**packed, **loose}

    def loose(self, prefix: str = "refs/") -> list[str]:
        """Names of the refs that are files of their own."""
        base = self.git / prefix.rpartition("/")[0]
        found = []
        for folder, _, files in os.walk(base):
            for file in files:
                name = os.path.relpath(os.path.join(folder, file), self.git)
                if name.startswith(prefix) and not name.endswith(".lock"):
                    found.append(name)
        return sorted(found)

    def head(self) -> str:
        """Ref that HEAD points to, or an id where HEAD is detached. StoreError where it is neither."""
        last, value = self._follow("HEAD")
        if last != "HEAD":
            return last
        if value is None:
            raise StoreError(f"{self.git}: no HEAD; not a git repository")
        if not _HEX.fullmatch(value):
            raise StoreError(f"HEAD does not name a branch or a commit: {value[:60]!r}", hint=DAMAGED_HINT)
        return value

    def head_text(self) -> str:
        """What HEAD holds, whatever it is: for the operation log."""
        try:
            return self.head()
        except StoreError:
            return "(damaged)"

    def head_id(self) -> str | None:
        """Commit that HEAD names, None before the first one."""
        head = self.head()
        return self.get(head) if head.startswith("refs/") else head

    def symbolic(self, name: str) -> str | None:
        """The ref that a ref is an alias of, None if it is none."""
        try:
            last, _ = self._follow(name)
        except StoreError:
            return None
        return last if last != name else None

    def packed(self) -> dict[str, str]:
        """Refs that a git packed into one file."""
        path = self.git / "packed-refs"
        stamp, known = self._packed
        try:
            state = os.stat(path)
            now = (state.st_mtime_ns, state.st_size, state.st_ino)
            if now == stamp:
                return known
            lines = read_plain(path).decode("utf-8", "surrogateescape").splitlines()
        except FileNotFoundError:
            return {}
        rows = (line.split(" ", 1) for line in lines if line and line[0] not in "#^")
        found = {row[1]: row[0] for row in rows if len(row) == 2 and _HEX.fullmatch(row[0])}
        self._packed = (now if _settled(state) else (), found)
        return found

    # --- within ------------------------------------------------------------------------------------------
    def _follow(self, name: str) -> tuple[str, str | None]:
        """The last of a chain of symbolic refs, and what its file holds (None: no file)."""
        for _ in range(_DEPTH + 1):
            value = self._text(name)
            if value is None or not value.startswith("ref:"):
                return name, value
            target = value[4:].strip()
            if not target.startswith("refs/") or ".." in target.split("/"):
                return name, value
            name = target
        raise StoreError(f"{name} is damaged: symbolic refs go in a circle", hint=DAMAGED_HINT)

    def _text(self, name: str) -> str | None:
        path = f"{self.git}/{name}"
        try:
            with os.fdopen(open_plain(path), "rb") as file:
                value = file.read(4096).decode("utf-8", "replace").strip()
        except OSError as error:
            if error.errno in _ABSENT:
                # a link to a branch that is not born yet is a symbolic ref, as old gits made them
                return _linked(path) if error.errno == errno.ENOENT else None
            if error.errno == errno.ELOOP:
                raise StoreError(f"{name} is damaged: a loop of symbolic links", hint=DAMAGED_HINT) from None
            raise
        if _HEX.fullmatch(value) and os.path.islink(path):
            return _linked(path) or value
        return value

    def _listing(self, folder: str) -> tuple[list[str], dict[str, str]]:
        """Folders in a folder of refs, and the refs in it."""
        path = f"{self.git}/{folder}"
        try:
            state = os.stat(path)
        except OSError:
            return [], {}
        stamp = (state.st_mtime_ns, state.st_ino)
        known = self._folders.get(folder)
        if known is None or known[0] != stamp:
            found: dict[str, str] = {}
            with contextlib.suppress(OSError), os.scandir(path) as entries:
                for entry in entries:
                    name = f"{folder}/{entry.name}"
                    if entry.is_dir(follow_symlinks=False):
                        found[name + "/"] = ""
                    elif not name.endswith(".lock") and (value := self.peek(name)) is not None:
                        found[name] = value
            known = (stamp if _settled(state) else (), found)
            self._folders[folder] = known
        inner = [name[:-1] for name in known[1] if name[-1] == "/"]
        return inner, {name: value for name, value in known[1].items() if value} if inner else known[1]


#: what to do about a ref that somebody moved by hand
DAMAGED_HINT = "`rover undo` takes back what was done to it from outside; `rover op log` shows where it was"


def _settled(state: os.stat_result) -> bool:
    return time.time_ns() - state.st_mtime_ns > RACY_NS


def _linked(path: str) -> str | None:
    try:
        target = os.readlink(path)
    except OSError:
        return None
    return f"ref: {target}" if target.startswith("refs/") else None


def require(refs: Refs, name: str, what: str) -> str:
    """Id of a ref that must exist."""
    value = refs.get(name)
    if value is None:
        raise NotFound(what, name.removeprefix(HEADS).removeprefix(TAGS))
    return value
