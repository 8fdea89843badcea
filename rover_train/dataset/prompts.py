"""Prompts of a pinned commit: the packages that RL rolls out on, and what a policy is told of each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from rover.harness.tools.specs import offered
from rover.policy.protocol import PolicyView, ToolSpec
from rover_store.errors import NotFound, PackageError
from rover_store.records import Harness

if TYPE_CHECKING:
    from rover_store.layout import PackageEntry
    from rover_store.store import Store

_INSTRUCTION, _HARNESS = "task/instruction.md", "harness/harness.json"
#: packages that are read at the same time
_BATCH = 256


def prompts(store: Store, commit: str, names: Collection[str] | None = None) -> list[PackageEntry]:
    """The named packages of a commit (None: all), sorted by name. NotFound names one that is not there."""
    found = {entry.name: entry for entry in store.packages(store.resolve(commit))}
    wanted = sorted(found if names is None else set(names))
    for name in wanted:
        if name not in found:
            raise NotFound("package", name, hint=f"in {commit[:12]}")
    return [found[name] for name in wanted]


def views(store: Store, entries: Iterable[PackageEntry]) -> Iterator[PolicyView]:
    """What a policy is told of each package, in the given order. PackageError where a file of it is no good."""
    waiting = iter(entries)
    while some := list(islice(waiting, _BATCH)):
        places = [(_blob(store, e, _INSTRUCTION), _blob(store, e, _HARNESS)) for e in some]
        data = dict(store.objects.read_many(blob for pair in places for blob in pair))
        for entry, (instruction, harness) in zip(some, places, strict=True):
            yield PolicyView(_text(data[instruction], entry.name), _tools(data[harness], entry.name))


def _blob(store: Store, entry: PackageEntry, path: str) -> str:
    item = store.objects.subtree(entry.tree, path)
    if item is None or item.is_folder:
        raise PackageError(f"{entry.name}/{path}", "", "the file is missing")
    return item.id


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise PackageError(f"{name}/{_INSTRUCTION}", "", f"not UTF-8 at byte {error.start}") from None


@lru_cache(maxsize=512)
def _tools(data: bytes, name: str) -> tuple[ToolSpec, ...]:
    return offered(Harness.load(data, f"{name}/{_HARNESS}").tools)
