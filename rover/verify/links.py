"""Links of an end state that stay inside it, resolved as a kernel would, with nothing followed on a disk.

Whoever made the state chose the links, so what they cost is bounded: how many are taken, and how many steps all of them
together may need.
"""

from __future__ import annotations

import posixpath
from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

#: links in a row, as the kernel has it
MOST = 40
#: links of one state that are laid out, and names that are looked at to see where all of them end
MOST_LINKS, MOST_STEPS = 5_000, 1_000_000


class Inside(NamedTuple):
    """`links` stay inside: path -> relative target. `left` counts those that were not even looked at; `why` says it."""

    links: dict[str, str]
    left: int = 0
    why: str = ""


def inside(targets: Mapping[str, bytes], files: Iterable[str], workdir: str = "") -> Inside:
    """The links among `targets` (path -> what it points to) that end at a file or folder of the end state.

    An absolute target below `workdir` is one inside; it is given relative, so that it stays so wherever the end state
    is laid out. All others are left out: they would show what the agent never had, or stand for a reward.
    """
    known = set(files)
    folders = folders_of((*known, *targets)) | {""}
    links = {path: _relative(path, target, workdir) for path, target in targets.items()}
    out: dict[str, str] = {}
    steps = _Steps(MOST_STEPS)
    for number, (path, target) in enumerate(sorted(links.items())):
        why = "" if len(out) < MOST_LINKS else f"a state may have {MOST_LINKS}"
        if why or steps.left <= 0:
            return Inside(out, len(links) - number, why or "they lead too far around")
        end = _resolve(path, links, folders, steps) if target is not None else None
        if target is not None and end is not None and (end in known or end in folders):
            out[path] = target
    return Inside(out)


def folders_of(paths: Iterable[str]) -> set[str]:
    """Every folder that some paths lie in."""
    found: set[str] = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return found


class _Steps:
    """How many names may still be looked at."""

    def __init__(self, left: int) -> None:
        self.left = left


def _relative(path: str, target: bytes, workdir: str) -> str | None:
    """A target as a relative one; None where it is absolute and elsewhere, or no text."""
    try:
        text = target.decode()
    except UnicodeDecodeError:
        return None
    if "\0" in text or not text:
        return None
    if not text.startswith("/"):
        return text
    root = workdir.rstrip("/")
    if not root or not (text == root or text.startswith(root + "/")):
        return None
    rest = text[len(root) :].strip("/")
    return posixpath.join("../" * path.count("/"), rest) or "."


def _resolve(path: str, links: Mapping[str, str | None], folders: Container[str], steps: _Steps) -> str | None:
    """Where a path of the end state ends; None where it leaves it, at nothing, or after too many steps."""
    at: list[str] = []  # the folders on the way, each by its whole path
    parts = path.split("/")[::-1]  # the next one is the last
    left = MOST
    while parts:
        steps.left -= 1
        if steps.left < 0:
            return None
        part = parts.pop()
        if part in ("", "."):
            continue
        if part == "..":
            if not at:
                return None
            at.pop()
            continue
        here = f"{at[-1]}/{part}" if at else part
        if here in links:
            target, left = links[here], left - 1
            if target is None or left < 0:
                return None
            parts += target.split("/")[::-1]
            continue
        at.append(here)
        if parts and here not in folders:
            return None
    return at[-1] if at else ""
