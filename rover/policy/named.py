"""Files that a text names, as paths of the workspace: absolute below the workdir, or relative to it. Pure."""

from __future__ import annotations

import posixpath
import re

_ABSOLUTE = re.compile(r"(?<![\w./:~-])/[\w.@+-]+(?:/[\w.@+-]+)*")
_MARKED = re.compile(r"`([^`\s]+)`|\"([^\"\s]+)\"|'([^'\s]+)'")
#: a bare word is a file where it ends like one
_BARE = re.compile(
    r"(?<![\w/.:~-])(?:\./)?[\w-][\w./-]*\.(?:csv|tsv|xlsx|jsonl|json|md|txt|log|py|sh|c|h|cpp|js|ts|html|xml|ya?ml|toml"
    r"|ini|cfg|sql|db|sqlite|parquet|out|bin|gz|tar|zip|png|svg|pdf|java|go|rs|rb|r)(?![\w/])",
    re.IGNORECASE,
)
_FILE = re.compile(r"[\w@+-][\w.@+-]*(?:/[\w.@+-]+)*")


def named_paths(text: str, workdir: str = "") -> tuple[str, ...]:
    """Every file that the text names, in order, each once. Folders and words in marks may be among them."""
    found: list[tuple[int, str]] = []
    for match in _ABSOLUTE.finditer(text):
        inner = below(match.group(), workdir)
        if inner:
            found.append((match.start(), inner))
    for match in _MARKED.finditer(text):
        word = next(group for group in match.groups() if group is not None)
        if "." in word and not word.startswith("/"):
            found.append((match.start(), word.removeprefix("./")))
    found += [(match.start(), match.group().removeprefix("./")) for match in _BARE.finditer(text)]
    words = [word.rstrip(".") for _, word in sorted(found)]
    return tuple(dict.fromkeys(word for word in words if _is_path(word)))


def below(path: str, workdir: str) -> str:
    """An absolute path relative to the workdir; empty where it is not below it."""
    root = workdir.rstrip("/")
    path = posixpath.normpath(path.rstrip("."))
    return path[len(root) + 1 :] if root and path.startswith(f"{root}/") else ""


def _is_path(word: str) -> bool:
    return bool(_FILE.fullmatch(word)) and not any(part in ("", ".", "..") for part in word.split("/"))
