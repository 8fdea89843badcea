"""Moving several refs, and HEAD, together: all locked, compared and written beside first, then renamed.

Whatever can fail for want of space or because another git was quicker fails before the first rename, and leaves
everything as it was. Between the renames a killed writer's successor goes on (`lock`).
Deletions from packed-refs, and a ref that takes the place of a folder of refs or the other way round, go through a
new packed-refs file, which is renamed first.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path

from rover_store.durable import sync_folders, write_files
from rover_store.errors import LostRace, StoreError, UsageError
from rover_store.plain_file import read_plain
from rover_store.refs import Refs, check_ref

Moves = Mapping[str, tuple[str | None, str | None]]
#: seconds: a lock of another git is waited for, and taken for abandoned when it is as old
PATIENCE, ABANDONED = 10.0, 30.0
#: how the packed-refs that we write begin; git names more traits
PACKED_HEAD = "# pack-refs with: sorted \n"


def move(refs: Refs, moves: Moves) -> None:
    """Prepare and commit at once. LostRace if a ref is not where it should be; then none has moved."""
    prepared = Prepared(refs, moves)
    try:
        prepared.commit()
    finally:
        prepared.abort()


class Prepared:
    """Locked and written refs. `commit` moves them; `abort` gives up what is not moved yet.

    Values are ids; of HEAD, a branch (`refs/heads/x`) or an id. None: it does not exist. A damaged ref is absent.
    """

    def __init__(self, refs: Refs, moves: Moves) -> None:
        self._refs = refs
        self._moves = dict(moves)
        self._locks: dict[str, Path] = {}
        self._packed: Path | None = None
        self._rewrite: dict[str, str | None] = {}
        self.begun = False
        try:
            self._prepare()
        except BaseException:
            self.abort()
            raise

    def commit(self) -> None:
        """Rename everything into place and make it durable. What HEAD names is there at any moment."""
        sets = [name for name in self._locks if name != "HEAD" and self._moves[name][1] is not None]
        deletions = [name for name in self._locks if self._moves[name][1] is None]
        head = ["HEAD"] if "HEAD" in self._locks else []
        early = head if head and self._moves["HEAD"][1] not in self._rewrite else []
        for name in sets + early:
            self._rename(name)
        if self._packed is not None:
            self.begun = True
            os.rename(self._packed, self._refs.git / "packed-refs")
            self._packed = None
        for name in [] if early else head:
            self._rename(name)
        for name in deletions:
            path = self._refs.git / name
            self.begun = True
            if path.is_file() or path.is_symlink():
                path.unlink(missing_ok=True)
        touched = [(self._refs.git / name).parent for name in (*sets, *head, *deletions)]
        sync_folders(touched + ([self._refs.git] if self._rewrite else []))

    def _rename(self, name: str) -> None:
        self.begun = True
        os.rename(self._locks[name], self._refs.git / name)
        del self._locks[name]

    def abort(self) -> bool:
        """Let go of the locks. Never raises: False where one stays, which the journal lets the next writer remove."""
        locks = (*self._locks.values(), *([self._packed] if self._packed else []))
        self._locks, self._packed = {}, None
        gone = True
        for lock in locks:
            try:
                lock.unlink(missing_ok=True)
            except OSError:
                gone = False
        return gone

    # --- within ------------------------------------------------------------------------------------------
    def _prepare(self) -> None:
        gone = {name for name, (_, new) in self._moves.items() if new is None}
        packed = self._refs.packed()
        texts: list[tuple[Path, str]] = []
        rewrite = self._rewrite = dict.fromkeys(name for name in gone if name in packed)
        for name, (old, new) in sorted(self._moves.items()):
            path = self._refs.git / (name if name == "HEAD" else check_ref(name))
            if new is not None and self._blocked(name, path, gone):
                self._compare(name, old)
                rewrite[name] = new
                continue
            if new is None and not path.parent.is_dir():  # only packed; its loose folder is gone
                self._compare(name, old)
                continue
            lock = take_lock(path)
            self._locks[name] = lock
            self._compare(name, old)
            if new is not None:
                texts.append((lock, _line(new)))
        if rewrite:
            self._packed = take_lock(self._refs.git / "packed-refs")
            texts.append((self._packed, self._rewritten(rewrite)))
        write_files(texts)

    def _compare(self, name: str, old: str | None) -> None:
        refs = self._refs
        if name == "HEAD":
            found: str | None = refs.head_text()
        else:
            target = refs.symbolic(name)
            if target is not None:
                raise UsageError(f"{name} is an alias of {target}; name that instead")
            found = refs.peek(name)
        if found != old:
            raise LostRace(name, old, found)

    def _blocked(self, name: str, path: Path, gone: set[str]) -> bool:
        """Make room for a ref. True where a ref deleted here is still in its way on the disk."""
        if path.is_dir():
            _remove_empty(path)
        below = set(self._refs.all(name + "/", damaged=True)) if path.is_dir() else set()
        below |= {n for n in self._refs.packed() if n.startswith(name + "/")}
        if below - gone:
            raise UsageError(f"{name} cannot exist beside refs below {name}/")
        if path.is_dir():
            if not below:  # a file that is no ref
                raise UsageError(f"{name} cannot exist: {path} is a folder that is not empty")
            return True
        parents = ["/".join(name.split("/")[:n]) for n in range(2, name.count("/") + 1)]
        taken = [p for p in parents if (self._refs.git / p).is_file() or p in self._refs.packed()]
        if set(taken) - gone:
            raise UsageError(f"{name} cannot exist beside a ref that is its folder")
        if any((self._refs.git / p).is_file() for p in taken):
            return True
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
        return False

    def _rewritten(self, changes: Mapping[str, str | None]) -> str:
        """packed-refs with some refs gone or set."""
        path = self._refs.git / "packed-refs"
        text = path.read_text("utf-8", "surrogateescape") if path.exists() else ""
        rows: dict[str, str] = {}
        name = ""
        for line in text.splitlines(keepends=True):
            if line.startswith("#"):
                continue
            if not line.startswith("^"):
                name = line.rstrip("\n").partition(" ")[2]
                rows[name] = ""
            rows[name] = rows.get(name, "") + line
        for name, new in changes.items():
            rows.pop(name, None)
            if new is not None:
                rows[name] = f"{new} {name}\n"
        # without "peeled" git looks for itself where a tag leads
        return PACKED_HEAD + "".join(
            rows[n] for n in sorted(rows, key=lambda n: n.encode("utf-8", "surrogateescape"))
        )


def take_lock(path: Path) -> Path:
    """Take PATH.lock as git does. A lock of another git is waited for, an abandoned one removed.

    StoreError when one is held for too long.
    """
    lock = path.with_name(path.name + ".lock")
    end = time.monotonic() + PATIENCE
    while True:
        try:
            os.close(os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
            return lock
        except FileNotFoundError:  # another git has just removed the folder, which was empty
            path.parent.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            with contextlib.suppress(FileNotFoundError):
                if time.time() - lock.stat().st_mtime > ABANDONED:
                    lock.unlink(missing_ok=True)
                    continue
            if time.monotonic() > end:
                hint = "if no git is at work there, remove that file"
                raise StoreError(f"another git holds {lock} for too long", hint=hint) from None
            time.sleep(0.02)


def drop_lock(path: Path, value: str | None = None) -> None:
    """Remove PATH.lock if a killed writer of ours left it: it begins as we would, or is empty and nobody fills it."""
    lock = path.with_name(path.name + ".lock")
    ours = PACKED_HEAD if path.name == "packed-refs" else _line(value) if value else ""
    for _ in range(25):
        try:
            text = read_plain(lock).decode("utf-8", "surrogateescape")
        except OSError:
            return
        if text:
            if text[: len(ours)] == ours[: len(text)] and ours:
                break
            return
        time.sleep(0.02)
    lock.unlink(missing_ok=True)


def _line(value: str) -> str:
    return f"ref: {value}\n" if value.startswith("refs/") else f"{value}\n"


def _remove_empty(path: Path) -> None:
    for folder, _, _ in os.walk(path, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(folder)
