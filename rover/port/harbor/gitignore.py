"""What a task's .gitignore leaves out of its digest, as Harbor reads it: the last rule that names a file, or a folder
above it, decides.

A rule is matched part by part, so that no rule can keep a matcher busy; more rules, or files for them, than a task has
are not judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from rover.port.harbor.patterns import matches

MOST_RULES = 1_000
#: characters of a rule; no path is longer
MOST_RULE = 1_000
#: rules times paths
MOST_WORK = 2_000_000


class Rule(NamedTuple):
    """A line. `parts` are globs of single names; ** stands for any number of them."""

    parts: tuple[str, ...]
    #: it names folders alone
    folder: bool
    #: it takes back what another one left out
    keeps: bool
    #: a/* is what lies in a, not below that
    here: bool = False


def rules_of(text: str) -> tuple[Rule, ...] | None:
    """The rules of a file; None where they are too many, or too long."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if len(lines) > MOST_RULES or any(len(line) > MOST_RULE for line in lines):
        return None
    return tuple(rule for rule in map(_rule, lines) if rule is not None)


def left_out(rules: Sequence[Rule], paths: Iterable[str]) -> set[str] | None:
    """The paths that are left out; None where there are too many to judge."""
    files = list(paths)
    if len(files) * len(rules) > MOST_WORK:
        return None
    return {path for path in files if _out(rules, tuple(path.split("/")))}


def _rule(line: str) -> Rule | None:
    line = line[:-1].rstrip() + " " if re.search(r"\\ +$", line) else line.rstrip()
    keeps = line.startswith("!")
    line = line[1:] if keeps else line
    folder = line.endswith("/")
    parts = line.strip("/").split("/") if folder else line.lstrip("/").split("/")
    if not any(parts):
        return None
    if len(parts) == 1 and not line.startswith("/"):  # of any folder
        parts = ["**", *parts]
    while folder and len(parts) > 1 and parts[-1] == "**":
        parts.pop()
    here = "/" in line and not folder and parts[-1] == "*" and parts != ["**", "*"]
    if parts[-1] == "**" and (len(parts) > 1 or folder):  # all that lies there, at least one name
        parts = [*parts, "*"]
    return Rule(tuple(part if part == "**" else _plain(part) for part in parts), folder, keeps, here)


def _plain(part: str) -> str:
    """A glob of one name in the form that `patterns` reads: no ** in it, and a class for an escaped letter."""
    once = re.sub(r"\*{2,}", "*", part)
    return re.sub(r"\\(.)", lambda m: f"[{m[1]}]" if m[1] in "*?[" else m[1], once)


def _out(rules: Sequence[Rule], names: tuple[str, ...]) -> bool:
    for rule in reversed(rules):
        if _names(rule, names):
            return not rule.keeps
    return False


def _names(rule: Rule, names: tuple[str, ...]) -> bool:
    """Whether a rule names the file, or a folder above it."""
    reached = {0}  # how many names the parts so far may stand for
    for part in rule.parts:
        if part == "**":
            reached = set(range(min(reached), len(names) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(names) and _fits(part, names[at])}
        if not reached:
            return False
    if rule.here:
        return len(names) in reached
    return not rule.folder or min(reached) < len(names)


@lru_cache(maxsize=1 << 16)
def _fits(part: str, name: str) -> bool:
    return part == "*" or matches(part, name)
