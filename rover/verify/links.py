"""Links of an end state that stay inside it, resolved as a kernel would, with nothing followed on a disk."""

from __future__ import annotations

import posixpath
from collections.abc import Container, Iterable, Mapping

#: links in a row, as the kernel has it
MOST = 40


def inside(targets: Mapping[str, bytes], files: Iterable[str], workdir: str = "") -> dict[str, str]:
    """The links among `targets` (path -> what it points to) that end at a file or folder of the end state.

    An absolute target below `workdir` is one inside; it is given relative, so that it stays so wherever the end state
    is laid out. All others are left out: they would show what the agent never had, or stand for a reward.
    """
    known = set(files)
    folders = {path[:i] for path in (*known, *targets) for i, c in enumerate(path) if c == "/"} | {""}
    links = {path: _relative(path, target, workdir) for path, target in targets.items()}
    out: dict[str, str] = {}
    for path, target in sorted(links.items()):
        end = _resolve(path, links, folders, MOST) if target is not None else None
        if target is not None and end is not None and (end in known or end in folders):
            out[path] = target
    return out


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


def _resolve(path: str, links: Mapping[str, str | None], folders: Container[str], left: int) -> str | None:
    """Where a path of the end state ends; None where it leaves it, or at nothing."""
    at: list[str] = []
    parts = path.split("/")
    while parts:
        part = parts.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            if not at:
                return None
            at.pop()
            continue
        at.append(part)
        here = "/".join(at)
        if here in links:
            target, left = links[here], left - 1
            if target is None or left < 0:
                return None
            at.pop()
            parts = target.split("/") + parts
        elif parts and here not in folders:
            return None
    return "/".join(at)
