"""Which files a COPY takes: .dockerignore, and the globs of a source."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from rover_store.errors import PackageError

#: wildcards that cross folders, in one glob, and of these such as may end anywhere: each tries every place of a path
MOST_CROSSING, MOST_FREE = 3, 2
#: rules of a .dockerignore
MOST_RULES = 1_000
#: a * takes as little as it can and is not tried again: it cannot leave its folder, so that what fits after it
#: earliest leaves most to the rest
_STAR = "(?>[^/]*?"


@lru_cache(maxsize=2 * MOST_RULES)
def _expression(pattern: str) -> re.Pattern[str]:
    """A glob as Docker reads it: * and ? stay in one folder, ** crosses folders, [..] is a class.

    PackageError for one that could keep a matcher busy for ever.
    """
    free = pattern.removesuffix("**").replace("**/", "").count("**")
    if pattern.count("**") > MOST_CROSSING or free > MOST_FREE:
        raise PackageError("environment/", "", f"a glob has too many ** ({pattern[:60]})")
    out: list[str] = []
    open_at = -1  # the * after which what follows is still to come
    at = 0
    while at < len(pattern):
        if pattern.startswith("**", at):
            open_at = _tried_again(out, open_at)
            into = pattern.startswith("**/", at)
            out.append("(?:[^/]+/)*" if into else ".*")
            at += 3 if into else 2
            continue
        end = pattern.find("]", at + 2) if pattern[at] == "[" else -1
        if pattern[at] == "*":
            out.append(f"){_STAR}" if open_at >= 0 else _STAR)
            open_at = len(out) - 1
        elif end > 0:
            inner = pattern[at + 1 : end].replace("\\", "\\\\")
            out.append(f"[{'^' + inner[1:] if inner[0] in '!^' else inner}]")
            at = end
        else:
            out.append("[^/]" if pattern[at] == "?" else re.escape(pattern[at]))
        at += 1
    _tried_again(out, open_at)
    try:
        return re.compile("".join(out))
    except re.error:
        return re.compile(re.escape(pattern))


def _tried_again(out: list[str], open_at: int) -> int:
    """Before an end, or what may be nothing, a * takes whatever is left to it."""
    if open_at >= 0:
        out[open_at] = out[open_at].replace(_STAR, "[^/]*")
    return -1


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
        if len(self._rules) > MOST_RULES:
            raise PackageError("environment/.dockerignore", "", f"has more than {MOST_RULES} rules")

    def __len__(self) -> int:
        return len(self._rules)

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
