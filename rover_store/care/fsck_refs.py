"""Checking refs as files: HEAD, names, contents, packed-refs, locks that nobody holds, and alternates."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from rover_store.care.inventory import Inventory, Repository
from rover_store.care.problems import Problem
from rover_store.errors import UsageError
from rover_store.packs import COMMIT, KIND_NAME
from rover_store.plain_file import read_plain
from rover_store.refs import HEADS, check_ref

_ID = re.compile(rb"[0-9a-f]{40}\n?")
_BEGINS = re.compile(rb"[0-9a-f]{40}(\s|\Z)")
_SYMREF = re.compile(rb"ref: (refs/\S+)\n?")
_PACKED = re.compile(rb"([0-9a-f]{40}) (\S+)")
_PEELED = re.compile(rb"\^[0-9a-f]{40}")
STALE_LOCK_S = 600
_UNDO = "point it at a commit of `rover op log`, or delete it"


def check_refs(repository: Repository, inventory: Inventory) -> tuple[list[Problem], dict[str, str]]:
    """Problems, and the refs that name an object: name -> id."""
    problems: list[Problem] = []
    packed, wrong = _packed(repository)
    problems += wrong
    values = dict(packed)
    links: dict[str, str] = {}
    for name in _loose(repository.git):
        value = _content(repository, name, problems)
        if value is None:
            values.pop(name, None)
        elif value.startswith("refs/"):
            links[name] = value
        else:
            values[name] = value
    good: dict[str, str] = {}
    for name, value in sorted(values.items()):
        problem = _judge(repository, name, value, inventory)
        if problem is not None:
            problems.append(problem)
        else:
            good[name] = value
    for name, target in sorted(links.items()):
        if target not in values and target not in links:
            what = f"{name} points to {target}, which does not exist"
            problems.append(Problem(repository.name, what, "warning", "danglingSymref", "delete it"))
    problems += _head(repository, {**values, **links}, inventory)
    problems += _locks(repository)
    problems += _alternates(repository)
    return problems, good


def _judge(repository: Repository, name: str, value: str, inventory: Inventory) -> Problem | None:
    if not _is_name(name):
        what = f"{name!a} is not a name that a ref can have"
        return Problem(repository.name, what, "error", "badRefName", "delete it")
    number = inventory.of(value)
    if value == "0" * 40:
        return Problem(repository.name, f"{name} holds the null id", "error", "nullSha1", _UNDO)
    if number < 0:
        return Problem(repository.name, f"{name} names {value}, which does not exist", "error", "badRefTarget", _UNDO)
    kind = inventory.kinds[number]
    if name.startswith((HEADS, "refs/rover/")) and kind not in (0, COMMIT):
        what = f"{name} names {value}, which is a {KIND_NAME[kind]}, not a commit"
        return Problem(repository.name, what, "error", "refNotCommit", _UNDO)
    return None


def _is_name(name: str) -> bool:
    try:
        check_ref(name)
    except UsageError:
        return False
    return True


def _content(repository: Repository, name: str, problems: list[Problem]) -> str | None:
    """Value of a ref that is a file: an id, or the ref that it points to; None where it is neither."""
    path = repository.git / name
    try:
        if path.is_symlink() and not path.exists():
            raise OSError(0, "a symbolic link to nothing")
        data = read_plain(path)
    except OSError as error:
        problems.append(Problem(repository.name, f"{name}: {error.strerror}", "error", "badRefContent", _UNDO))
        return None
    link = _SYMREF.fullmatch(data)
    if link:
        return link[1].decode("utf-8", "replace")
    if not _BEGINS.match(data):
        what = f"{name} is damaged: it holds no object id"
        problems.append(Problem(repository.name, what, "error", "badRefContent", _UNDO))
        return None
    if not _ID.fullmatch(data):
        what = f"{name} holds something behind its id"
        problems.append(Problem(repository.name, what, "warning", "trailingRefContent", _UNDO))
    return data[:40].decode()


def _loose(git: Path) -> list[str]:
    found = []
    for folder, _, files in os.walk(git / "refs"):
        found += [os.path.relpath(os.path.join(folder, f), git) for f in files if not f.endswith(".lock")]
    return sorted(found)


def _packed(repository: Repository) -> tuple[dict[str, str], list[Problem]]:
    try:
        data = read_plain(repository.git / "packed-refs")
    except FileNotFoundError:
        return {}, []
    except OSError as error:
        return {}, [Problem(repository.name, f"packed-refs: {error.strerror}", kind="badPackedRefs")]
    refs: dict[str, str] = {}
    problems = []
    lines = data.split(b"\n")
    if lines and lines.pop() != b"":
        problems.append(Problem(repository.name, "packed-refs: its last line is cut short", kind="badPackedRefs"))
    is_sorted = bool(lines) and lines[0].startswith(b"# pack-refs") and b" sorted" in lines[0]
    before: bytes | None = None
    for n, line in enumerate(lines, 1):
        match = _PACKED.fullmatch(line)
        if line.startswith(b"#") and n == 1:
            continue
        if match is None and not (_PEELED.fullmatch(line) and before is not None):
            what = f"packed-refs: line {n} is neither a ref nor what a tag names"
            problems.append(Problem(repository.name, what, kind="badPackedRefs", remedy="mend the line by hand"))
        elif match is not None:
            if is_sorted and before is not None and match[2] <= before:
                what = f"packed-refs: line {n} is out of order"
                problems.append(Problem(repository.name, what, kind="badPackedRefs", remedy="git pack-refs --all"))
            before = match[2]
            refs[match[2].decode("utf-8", "surrogateescape")] = match[1].decode()
    return refs, problems


def _head(repository: Repository, refs: dict[str, str], inventory: Inventory) -> Iterator[Problem]:
    remedy = "rover branch NAME makes one the current one"
    try:
        data = read_plain(repository.git / "HEAD")
    except OSError as error:
        yield Problem(repository.name, f"no HEAD ({error.strerror}); not a git repository", "error", "badHead", remedy)
        return
    link = _SYMREF.fullmatch(data)
    if link is None and not _ID.fullmatch(data):
        shown = data[:60].decode("utf-8", "replace").strip()
        yield Problem(repository.name, f"HEAD does not name a branch: {shown!a}", "error", "badHead", remedy)
    elif link is None:
        number = inventory.of(data[:40].decode())
        if number < 0 or inventory.kinds[number] not in (0, COMMIT):
            yield Problem(repository.name, "HEAD names no commit", "error", "badHead", remedy)
        else:
            what = "HEAD does not name a branch: it is detached"
            yield Problem(repository.name, what, "warning", "detachedHead", remedy)
    else:
        target = link[1].decode("utf-8", "replace")
        if not target.startswith(HEADS) or not _is_name(target):
            yield Problem(repository.name, f"HEAD does not name a branch: {target!a}", "error", "badHead", remedy)
        elif target not in refs and any(name.startswith(HEADS) for name in refs):
            what = f"HEAD names {target}, which does not exist, while other branches do"
            yield Problem(repository.name, what, "warning", "unbornHead", remedy)


def _locks(repository: Repository) -> Iterator[Problem]:
    found = [repository.git / name for name in ("HEAD.lock", "packed-refs.lock", "config.lock", "shallow.lock")]
    for folder, _, files in os.walk(repository.git / "refs"):
        found += [Path(folder, f) for f in files if f.endswith(".lock")]
    for path in sorted(found):
        try:
            age = time.time() - path.stat().st_mtime
        except OSError:
            continue
        if age > STALE_LOCK_S:
            what = f"{path.relative_to(repository.git)}: a lock that nobody holds, {int(age // 60)} minutes old"
            yield Problem(repository.name, what, "warning", "staleLock", "rover fsck --repair")


def _alternates(repository: Repository) -> Iterator[Problem]:
    file = repository.git / "objects" / "info" / "alternates"
    try:
        lines = read_plain(file).decode("utf-8", "surrogateescape").splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line and line[0] != "#" and not (repository.git / "objects" / line).is_dir():
            what = f"borrows objects from {line!a}, which does not exist"
            yield Problem(repository.name, what, "error", "badAlternate", "rover fsck --repair")
    store = (repository.git.parent / "store.git" / "objects").resolve()
    there = [(repository.git / "objects" / line).resolve() for line in lines if line]
    if repository.own and repository.name == "evidence.git" and store not in there:
        what = "does not borrow the packages' objects: objects/info/alternates does not name store.git"
        yield Problem(repository.name, what, "error", "missingAlternate", "rover fsck --repair")
