"""Commits and annotated tags: encode, parse, trailers. What is encoded passes `git fsck --strict`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rover_store.errors import StoreError, UsageError

AUTHOR = "rover <rover@localhost>"
TRAILER_LINE = re.compile(r"^([A-Za-z][A-Za-z0-9-]*): (.*)$")
_PERSON = re.compile(r"[^<>\0-\x1f\x7f]+ <[^<>\0-\x1f\x7f]*>")
_TRAILER_KEY = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_TAG_NAME = re.compile(r"[^\0-\x20\x7f]+")
#: end of the year 9999: later times have no date
_LAST_SECOND = 253_402_300_799


class Commit(NamedTuple):
    """A commit as stored. `time` in integer seconds since 1970, UTC."""

    id: str
    tree: str
    parents: tuple[str, ...]
    author: str
    time: int
    message: str

    @property
    def subject(self) -> str:
        return self.message.partition("\n")[0]

    @property
    def trailers(self) -> dict[str, str]:
        """`Key: value` lines of the last paragraph, as git reads them."""
        paragraphs = self.message.strip().split("\n\n")
        if len(paragraphs) < 2:
            return {}
        matches = [TRAILER_LINE.match(line) for line in paragraphs[-1].splitlines()]
        return {m[1]: m[2] for m in matches if m} if all(matches) else {}


def encode_commit(
    tree: str, parents: Sequence[str], message: str, author: str, time: int, trailers: Mapping[str, str] | None = None
) -> bytes:
    """Bytes of a commit. The committer is the author, the zone UTC: the same inputs give the same id.

    UsageError for an author, a time or a trailer that git refuses. NUL bytes of a message are replaced.
    """
    text = message.strip() or "(no message)"
    if trailers:
        for key in trailers:
            if not _TRAILER_KEY.fullmatch(key):
                raise UsageError(f"{key!r} is no key of a trailer (letters, digits and '-')")
        text += "\n\n" + "\n".join(f"{key}: {' '.join(value.split())}" for key, value in trailers.items())
    stamp = f"{check_person(author)} {check_time(time)} +0000"
    lines = [f"tree {tree}", *(f"parent {p}" for p in parents), f"author {stamp}", f"committer {stamp}"]
    return ("\n".join(lines) + f"\n\n{_clean(text)}\n").encode("utf-8", "replace")


def encode_tag(target: str, name: str, message: str, tagger: str, time: int) -> bytes:
    """Bytes of an annotated tag on a commit. UsageError as for a commit, and for a name of more than one word."""
    if not _TAG_NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name of a tag")
    head = f"object {target}\ntype commit\ntag {name}\ntagger {check_person(tagger)} {check_time(time)} +0000\n"
    return f"{head}\n{_clean(message.strip() or name)}\n".encode("utf-8", "replace")


def check_person(person: str) -> str:
    """The person. UsageError unless it is `Name <address>`, in one line, with a name that can be seen."""
    if not _PERSON.fullmatch(person) or not person.rpartition("<")[0].strip():
        raise UsageError(f"{person!r} is not of the form 'Name <address>'")
    return person


def check_time(time: int) -> int:
    """Whole seconds since 1970. UsageError outside the years that have a date."""
    if not 0 <= time <= _LAST_SECOND:  # also what is no number
        raise UsageError(f"{time} is not a number of seconds from 1970 to the year 9999")
    return int(time)


def _clean(text: str) -> str:
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def parse_commit(commit_hex: str, data: bytes) -> Commit:
    """A commit of ours or of any git."""
    fields, message = _split(commit_hex, data)
    trees = [v for k, v in fields if k == "tree"]
    authors = [v for k, v in fields if k == "author"]
    if len(trees) != 1 or not authors:
        raise StoreError(f"commit {commit_hex} is damaged")
    person, _, rest = authors[0].rpartition("> ")
    stamp = rest.split()
    committed = [v for k, v in fields if k == "committer"]
    if committed:
        stamp = committed[0].rpartition("> ")[2].split()
    seconds = int(stamp[0]) if stamp and stamp[0].lstrip("-").isdigit() else 0
    parents = tuple(v for k, v in fields if k == "parent")
    return Commit(commit_hex, trees[0], parents, person + ">", seconds, message.rstrip("\n"))


def parse_tag(tag_hex: str, data: bytes) -> tuple[str, str, str]:
    """Target id, target kind and message of an annotated tag."""
    fields, message = _split(tag_hex, data)
    values = dict(reversed(fields))
    if "object" not in values:
        raise StoreError(f"tag {tag_hex} is damaged")
    return values["object"], values.get("type", "commit"), message.rstrip("\n")


def _split(name: str, data: bytes) -> tuple[list[tuple[str, str]], str]:
    head, _, message = data.decode("utf-8", "replace").partition("\n\n")
    fields = []
    for line in head.split("\n"):
        if line.startswith(" "):  # continues a signature
            continue
        key, space, value = line.partition(" ")
        if not space:
            raise StoreError(f"object {name} is damaged")
        fields.append((key, value))
    return fields, message
