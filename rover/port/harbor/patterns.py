"""Which files a COPY takes: .dockerignore, and the globs of a source."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache


@lru_cache(maxsize=512)
def _expression(pattern: str) -> re.Pattern[str]:
    """A glob as Docker reads it: * and ? stay in one folder, ** crosses folders, [..] is a class."""
    out, at = [], 0
    while at < len(pattern):
        letter = pattern[at]
        if pattern.startswith("**/", at):
            out.append("(?:[^/]+/)*")
            at += 3
            continue
        if pattern.startswith("**", at):
            out.append(".*")
            at += 2
            continue
        end = pattern.find("]", at + 2) if letter == "[" else -1
        if end > 0:
            inner = pattern[at + 1 : end].replace("\\", "\\\\")
            out.append(f"[{'^' + inner[1:] if inner[0] in '!^' else inner}]")
            at = end + 1
            continue
        out.append({"*": "[^/]*", "?": "[^/]"}.get(letter, re.escape(letter)))
        at += 1
    try:
        return re.compile("".join(out))
    except re.error:
        return re.compile(re.escape(pattern))


def matches(pattern: str, path: str) -> bool:
    """Whether a glob names this path."""
    return _expression(pattern).fullmatch(path) is not None


def is_glob(pattern: str) -> bool:
    return any(letter in pattern for letter in "*?[")


class Ignore:
    """The rules of a .dockerignore; the last one that matches a path or a folder above it decides."""

    def __init__(self, text: str) -> None:
        self._rules: list[tuple[str, bool]] = []
        for line in text.splitlines():
            rule = line.strip()
            if not rule or rule.startswith("#"):
                continue
            keep = rule.startswith("!")
            rule = rule.lstrip("!").strip().strip("/")
            while rule.startswith("./"):
                rule = rule[2:]
            if rule:
                self._rules.append((rule, keep))

    def __call__(self, path: str) -> bool:
        """Whether a path of the build context is left out."""
        parts = path.split("/")
        above = ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
        out = False
        for rule, keep in self._rules:
            if any(matches(rule, one) for one in above):
                out = not keep
        return out


def chosen(source: str, paths: Iterable[str]) -> dict[str, str]:
    """What a source of COPY names: path -> its path below what was named. A folder stands for its content."""
    source = source.strip("/")
    while source.startswith("./"):
        source = source[2:]
    if source in ("", "."):
        return {path: path for path in paths}
    out: dict[str, str] = {}
    depth = source.count("/") + 1
    for path in paths:
        parts = path.split("/")
        if "**" in source:
            if matches(source, path):
                out[path] = parts[-1]
            continue
        head = "/".join(parts[:depth])
        if len(parts) < depth or not (matches(source, head) if is_glob(source) else head == source):
            continue
        out[path] = "/".join(parts[depth:]) or parts[-1]
    return out
