"""Finding commits and objects for a revision: by text of a message, among several with one short id."""

from __future__ import annotations

import heapq
import re
import time
from collections.abc import Callable, Iterable

from rover_store.commits import Commit, parse_commit, parse_tag
from rover_store.errors import Ambiguous, NotFound, StoreError
from rover_store.objects import Objects
from rover_store.packs import COMMIT, KIND_NAME, TAG

#: in the order in which git names them
_ORDER = ("tag", "commit", "tree", "blob")


def first_with_text(load: Callable[[str], Commit], start: Iterable[str], text: str, rev: str) -> str | None:
    """The youngest commit, by its time, whose message matches a regular expression (`!-TEXT`: does not match).

    Looked for among the commits of `start` and their ancestors. NotFound where the expression is none.
    """
    negative = text.startswith("!-")
    if text.startswith("!") and not text.startswith(("!-", "!!")):
        raise NotFound("revision", rev, hint="behind ! stands - (does not match) or a second ! (itself)")
    try:
        pattern = re.compile(text[2:] if negative else text[1:] if text.startswith("!!") else text)
    except (re.error, RecursionError, OverflowError) as error:
        raise NotFound("revision", rev, hint=f"not a regular expression: {error}") from None
    seen: set[str] = set()
    waiting: list[tuple[int, int, Commit]] = []
    for commit in start:
        _push(load, commit, seen, waiting)
    while waiting:
        here = heapq.heappop(waiting)[2]
        if bool(pattern.search(here.message)) != negative:
            return here.id
        for parent in here.parents:
            _push(load, parent, seen, waiting)
    return None


def _push(
    load: Callable[[str], Commit], commit: str, seen: set[str], waiting: list[tuple[int, int, Commit]]
) -> None:
    if commit not in seen:
        seen.add(commit)
        here = load(commit)
        heapq.heappush(waiting, (-here.time, len(seen), here))


def ambiguous(objects: Objects, text: str, ids: Iterable[str]) -> Ambiguous:
    """The error that names every candidate: kind, date and subject, tags and commits first."""
    rows = sorted((_described(objects, i) for i in ids), key=lambda row: (_ORDER.index(row[0]), row[2]))
    return Ambiguous(text, tuple(row[2] for row in rows), tuple(row[1] for row in rows))


def _described(objects: Objects, object_hex: str) -> tuple[str, str, str]:
    try:
        number, data = objects.get(object_hex)
    except StoreError:
        return "blob", f"{object_hex[:12]} (damaged)", object_hex
    kind = KIND_NAME[number]
    words = [kind]
    if number == COMMIT:
        commit = parse_commit(object_hex, data)
        words += [_day(commit.time), f'"{commit.subject[:50]}"']
    elif number == TAG:
        words.append(f'"{parse_tag(object_hex, data)[2].partition(chr(10))[0][:50]}"')
    return kind, f"{object_hex[:12]} ({' '.join(words)})", object_hex


def _day(seconds: int) -> str:
    try:
        return time.strftime("%Y-%m-%d", time.gmtime(seconds))
    except (ValueError, OverflowError, OSError):
        return f"{seconds} s"


def sealed_objects(objects: Objects, head: str) -> frozenset[str]:
    """Every object that the chain of sealed audits reaches."""
    found: set[str] = set()
    waiting = [head]
    while waiting:
        here = waiting.pop()
        if here in found:
            continue
        found.add(here)
        commit = parse_commit(here, objects.read_commit(here))
        waiting += commit.parents
        trees = [commit.tree]
        while trees:
            tree = trees.pop()
            if tree not in found:
                found.add(tree)
                items = objects.list_tree(tree).values()
                trees += [item.id for item in items if item.is_folder]
                found.update(item.id for item in items if not item.is_folder)
    return frozenset(found)
