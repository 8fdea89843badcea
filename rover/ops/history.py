"""What the words of `rover log` mean: ranges, packages, files, revisions. Nothing is guessed in silence."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from rover_store.errors import NotFound, RoverError, UsageError
from rover_store.graph_at import glob
from rover_store.history.log_select import Filter, exact, indexed
from rover_store.names import COMPONENTS

if TYPE_CHECKING:
    from rover_store.store import Store


def read_words(store: Store, words: Sequence[str], wanted: Filter, rev: str = "HEAD") -> tuple[str, Filter]:
    """Revisions (as one text) and the filter that words ask for.

    A word is, in this order: a range (`A..B`, `^A`), a path with a `/` in a package or resource, a package or glob
    of the history, a revision, a file at the top of the tree. NotFound for what is none of them. `rev` is where the
    log begins if no word says it.
    """
    revs: list[str] = []
    nodes, paths = list(wanted.nodes), list(wanted.paths)
    for word in (rev, *words):  # a package may be known on another branch alone
        if word != "HEAD" and not _known(store, word.partition("/")[0]):
            with suppress(RoverError):
                indexed(store, store.revisions.range(word))
    for word in words:
        if not word:
            continue
        if _is_range(store, word):
            revs.append(word)
        elif word.startswith(("packages/", "resources/")) or _known(store, word.partition("/")[0]):
            (paths if "/" in word else nodes).append(word)
        elif exact(word) and _is_revision(store, word):
            revs.append(word)
        elif exact(word) and _is_top(store, word):
            paths.append(f"/{word}")
        else:
            raise NotFound("package", word, hint="`rover list` shows all names")
    return " ".join(revs), wanted._replace(nodes=tuple(nodes), paths=tuple(paths))


def narrow(wanted: Filter, component: str, resource: str) -> Filter:
    """The filter with its packages narrowed to a component, and with a resource (KIND/NAME or its glob)."""
    nodes = wanted.nodes
    if component:
        if component not in COMPONENTS:
            raise UsageError(f"--component: {component!r} is not context, task, harness or verifier")
        nodes = tuple(f"{n}/{component}" for n in nodes) or (() if wanted.paths else (f"*/{component}",))
    if resource:
        nodes = (*nodes, f"resources/{resource}" if "/" in resource else f"resources/*/{resource}")
    return wanted._replace(nodes=nodes)


def _is_range(store: Store, word: str) -> bool:
    if not exact(word.replace("[", "")) or not (".." in word or word.startswith("^")):
        return False
    return not _known(store, word)


def _known(store: Store, name: str) -> bool:
    """Whether the history that the index holds has such a package."""
    if not name:
        return False
    clause, value = ("node = ?", name) if exact(name) else ("package GLOB ? AND package <> ''", glob(name))
    sql = f"SELECT EXISTS (SELECT 1 FROM change WHERE {clause})"
    return bool(store.index.ask(lambda db: db.execute(sql, (value,)).fetchone()[0]))


def _is_revision(store: Store, word: str) -> bool:
    try:
        store.resolve(word)
    except NotFound:
        return False
    return True


def _is_top(store: Store, word: str) -> bool:
    try:
        return store.objects.subtree(store.commit().tree, word) is not None
    except RoverError:
        return False
