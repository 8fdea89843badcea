"""What may be wrong inside an object, as git judges it: one check a message of git's, with its name and severity.

The severities are those of `git fsck --strict`: what git only informs of is a warning, all else an error.
Common objects take a quick way; what looks odd is looked at entry by entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from rover_store.care.inventory import Entries, entries_of
from rover_store.packs import COMMIT, TAG, TREE


class Finding(NamedTuple):
    """A message of git's: its id, as in `git help fsck-msgids`, and what it says."""

    kind: str
    what: str


#: what git says without failing; everything else that it finds is an error under --strict
WARNINGS = frozenset({
    "badFilemode", "gitmodulesParse", "gitignoreSymlink", "gitattributesSymlink", "mailmapSymlink", "badTagName",
    "missingTaggerEntry", "largePathname", "extraHeaderEntry",
})  # fmt: skip

_NULL = bytes(20)
_MODES = frozenset({b"100644", b"100755", b"120000", b"40000", b"160000"})
_FILES = frozenset({b"100644", b"100755", b"40000"})
_HOSTILE = re.compile(rb"[\x01-\x1f\x7f\\\x80-\xff]|[ .](\0|$)")
_ODD_NAME = re.compile(rb"(?i)^\.|/|\\|^git~|\xe2\x80|\xe2\x81|\xef\xbb|^gi[tr0-9a-f]")
_ID = re.compile(rb"[0-9a-f]{40}\n")
_DATE = re.compile(rb"[0-9]+")
_ZONE = re.compile(rb"[+-][0-9]{4}\n")
_IGNORED = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
_LAST_SECOND = (1 << 63) - 1
_LONGEST_NAME = 4096


def check(kind: int, data: bytes) -> list[Finding]:
    """What is wrong with the bytes of an object."""
    if kind == TREE:
        return check_tree(data, entries_of(data))
    if kind == COMMIT:
        return list(_commit(data))
    if kind == TAG:
        return list(_tag(data))
    return []


# --- trees -----------------------------------------------------------------------------------------------
def check_tree(data: bytes, found: Entries | None) -> list[Finding]:
    """What is wrong with a tree, whose entries are given (None: it cannot be parsed)."""
    return [Finding("badTree", _broken_tree(data))] if found is None else list(_tree(found))


def is_hostile(found: Entries) -> bool:
    """Whether a tree holds links or submodules, or names that not every file system can hold side by side."""
    names = [name for _, name, _ in found]
    return (
        not {mode for mode, _, _ in found} <= _FILES
        or _HOSTILE.search(b"\0".join(names)) is not None
        or len({name.lower() for name in names}) != len(names)
        or max(map(len, names), default=0) > 255
    )


def _tree(found: Entries) -> Iterator[Finding]:
    modes = {mode for mode, _, _ in found}
    names = [name for _, name, _ in found]
    keys = [name + b"/" if mode == b"40000" else name for mode, name, _ in found]
    plain = modes <= _MODES and _NULL not in {item for _, _, item in found}
    if plain and keys == sorted(keys) and not any(map(_ODD_NAME.search, names)):
        if len(set(names)) != len(names):
            yield Finding("duplicateEntries", "contains duplicate file entries")
        if any(len(name) > _LONGEST_NAME for name in names):
            yield Finding("largePathname", f"contains a name longer than {_LONGEST_NAME} bytes")
        return
    yield from _odd_tree(found)


def _odd_tree(found: Entries) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    for mode, name, item in found:
        if item == _NULL:
            seen["nullSha1"] = "contains entries pointing to null sha1"
        for kind, what in _name(name, mode):
            seen.setdefault(kind, what)
        if mode.startswith(b"0"):
            seen["zeroPaddedFilemode"] = "contains zero-padded file modes"
        if mode.lstrip(b"0") not in _MODES:
            seen.setdefault("badFilemode", f"contains bad file modes ({mode.decode()})")
    keys = [(name + b"/" if mode.lstrip(b"0") == b"40000" else name) for mode, name, _ in found]
    names = [name for _, name, _ in found]
    if len(set(names)) != len(names):
        seen["duplicateEntries"] = "contains duplicate file entries"
    if any(a > b for a, b in pairwise(keys)):
        seen["treeNotSorted"] = "not properly sorted"
    yield from (Finding(kind, what) for kind, what in seen.items())


def _name(name: bytes, mode: bytes) -> Iterator[Finding]:
    if b"/" in name:
        yield Finding("fullPathname", f"contains full pathnames ({_shown(name)})")
    if name == b".":
        yield Finding("hasDot", "contains '.'")
    if name == b"..":
        yield Finding("hasDotdot", "contains '..'")
    if any(_is(part, b".git", b"git~1") for part in _parts(name)):
        yield Finding("hasDotgit", f"contains '.git' ({_shown(name)})")
    if mode.lstrip(b"0") == b"120000":
        for kind, plain, short in (
            ("gitmodulesSymlink", b".gitmodules", b"gitmod~1"),
            ("gitattributesSymlink", b".gitattributes", b"gitatt~1"),
            ("gitignoreSymlink", b".gitignore", b"gitign~1"),
            ("mailmapSymlink", b".mailmap", b"mailma~1"),
        ):
            if any(_is(part, plain, short) for part in _parts(name)):
                yield Finding(kind, f"{plain.decode()} is a symbolic link")
    if len(name) > _LONGEST_NAME:
        yield Finding("largePathname", f"contains a name longer than {_LONGEST_NAME} bytes")


def _parts(name: bytes) -> list[bytes]:
    """The name, and what Windows takes for names in it."""
    whole = name.split(b"\\")
    return [name, *whole[1:]] if len(whole) > 1 else [name]


def _is(name: bytes, plain: bytes, short: bytes) -> bool:
    """Whether a file system (of a Mac, of Windows) takes a name for another one."""
    mac = _IGNORED.sub("", name.decode("utf-8", "replace")).lower()
    if mac == plain.decode():
        return True
    windows = re.split(rb"[\\:/]", name, maxsplit=1)[0].lower().rstrip(b". ")
    return windows in (plain, short) or (len(short) > 5 and windows[:6] == short[:6] and windows[6:7] == b"~"
                                         and windows[7:].isdigit())  # fmt: skip


def _broken_tree(data: bytes) -> str:
    at = 0
    while at < len(data):
        zero = data.find(b"\0", at)
        if len(data) - at < 23 or zero < 0 or zero + 21 > len(data):
            return f"cannot be parsed: cut short at byte {at}"
        mode, space, name = data[at:zero].partition(b" ")
        if not space or not mode or mode.strip(b"01234567"):
            return f"cannot be parsed: malformed mode at byte {at}"
        if not name:
            return f"cannot be parsed: empty filename at byte {at}"
        at = zero + 21
    return "cannot be parsed"


# --- commits and tags ------------------------------------------------------------------------------------
def _headers(data: bytes) -> Finding | None:
    end = data.find(b"\n\n")
    zero = data.find(b"\0", 0, end if end >= 0 else len(data))
    if zero >= 0:
        return Finding("nulInHeader", f"unterminated header: NUL at offset {zero}")
    if end < 0 and not data.endswith(b"\n"):
        return Finding("unterminatedHeader", "unterminated header")
    return None


def _commit(data: bytes) -> Iterator[Finding]:
    broken = _headers(data)
    if broken is not None:
        yield broken
        return
    if not data.startswith(b"tree "):
        yield Finding("missingTree", "invalid format - expected 'tree' line")
        return
    if not _ID.match(data, 5):
        yield Finding("badTreeSha1", "invalid 'tree' line format - bad sha1")
        return
    at = 46
    while data.startswith(b"parent ", at):
        if not _ID.match(data, at + 7):
            yield Finding("badParentSha1", "invalid 'parent' line format - bad sha1")
            return
        at += 48
    authors = 0
    while data.startswith(b"author ", at):
        authors += 1
        at, found = _ident(data, at + 7)
        if found is not None:
            yield found
    if authors < 1:
        yield Finding("missingAuthor", "invalid format - expected 'author' line")
    elif authors > 1:
        yield Finding("multipleAuthors", "invalid format - multiple 'author' lines")
    if not data.startswith(b"committer ", at):
        yield Finding("missingCommitter", "invalid format - expected 'committer' line")
        return
    _, found = _ident(data, at + 10)
    if found is not None:
        yield found
    if b"\0" in data:
        yield Finding("nulInCommit", "NUL byte in the commit object body")


def _ident(data: bytes, at: int) -> tuple[int, Finding | None]:
    """Judge `Name <address> seconds zone`. Returns where the next line begins."""
    end = data.find(b"\n", at) + 1 or len(data)
    line = data[at:end]
    return end, _person(line)


def _person(line: bytes) -> Finding | None:
    what = "invalid author/committer line - "
    name = re.match(rb"[^<>\n]*", line)
    at = name.end() if name else 0
    mark = line[at : at + 1]
    if line[:1] == b"<":
        return Finding("missingNameBeforeEmail", what + "missing space before email")
    if mark == b">":
        return Finding("badName", what + "bad name")
    if mark != b"<":
        return Finding("missingEmail", what + "missing email")
    if line[at - 1 : at] != b" ":
        return Finding("missingSpaceBeforeEmail", what + "missing space before email")
    address = re.compile(rb"[^<>\n]*").match(line, at + 1)
    at = address.end() if address else at
    if line[at : at + 1] != b">":
        return Finding("badEmail", what + "bad email")
    if line[at + 1 : at + 2] != b" ":
        return Finding("missingSpaceBeforeDate", what + "missing space before date")
    return _stamp(line, at + 2, what)


def _stamp(line: bytes, at: int, what: str) -> Finding | None:
    if line[at : at + 1] == b"0" and line[at + 1 : at + 2] != b" ":
        return Finding("zeroPaddedDate", what + "zero-padded date")
    date = _DATE.match(line, at)
    if date is not None and int(date[0]) > _LAST_SECOND:
        return Finding("badDateOverflow", what + "date causes integer overflow")
    if date is None or line[date.end() : date.end() + 1] != b" ":
        return Finding("badDate", what + "bad date")
    if not _ZONE.match(line, date.end() + 1):
        return Finding("badTimezone", what + "bad time zone")
    return None


def _tag(data: bytes) -> Iterator[Finding]:
    broken = _headers(data)
    if broken is not None:
        yield broken
        return
    if not data.startswith(b"object "):
        yield Finding("missingObject", "invalid format - expected 'object' line")
        return
    if not _ID.match(data, 7):
        yield Finding("badObjectSha1", "invalid 'object' line format - bad sha1")
        return
    at = 48
    if not data.startswith(b"type ", at):
        yield Finding("missingTypeEntry", "invalid format - expected 'type' line")
        return
    end = data.find(b"\n", at)
    if end < 0:
        yield Finding("missingType", "invalid format - unexpected end after 'type' line")
        return
    if data[at + 5 : end] not in (b"blob", b"tree", b"commit", b"tag"):
        yield Finding("badType", f"invalid 'type' value ({_shown(data[at + 5 : end])})")
        return
    at = end + 1
    if not data.startswith(b"tag ", at):
        yield Finding("missingTagEntry", "invalid format - expected 'tag' line")
        return
    end = data.find(b"\n", at)
    if end < 0:
        yield Finding("missingTag", "invalid format - unexpected end after 'tag' line")
        return
    yield from _tag_rest(data, data[at + 4 : end], end + 1)


def _tag_rest(data: bytes, name: bytes, at: int) -> Iterator[Finding]:
    from rover_store.errors import UsageError
    from rover_store.refs import TAGS, check_ref

    try:
        check_ref(TAGS + name.decode("utf-8", "replace"))
    except UsageError:
        yield Finding("badTagName", f"invalid 'tag' name: {_shown(name)}")
    if not data.startswith(b"tagger ", at):
        yield Finding("missingTaggerEntry", "invalid format - expected 'tagger' line")
        return
    at, found = _ident(data, at + 7)
    if found is not None:
        yield found


def _shown(name: bytes) -> str:
    return ascii(name.decode("utf-8", "replace"))[1:-1][:80]
