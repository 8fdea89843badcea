"""What needs attention in a revision: stale components, packages without evidence, open repair cases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rover_store.refs import MERGES

if TYPE_CHECKING:
    from rover_store.cases import OpenCase
    from rover_store.graph import Stale
    from rover_store.store import Store


@dataclass(frozen=True, slots=True)
class Status:
    """`without_evidence`: packages whose present C, T and H no recorded rollout used. `open_merges`: by branch."""

    branch: str
    head: str
    packages: int
    stale: tuple[Stale, ...]
    without_evidence: tuple[str, ...]
    open_cases: tuple[OpenCase, ...]
    open_merges: tuple[str, ...] = ()


def status(store: Store, pattern: str = "*") -> Status:
    """The state of the current branch. UsageError where a glob matches nothing in a store that has commits.

    Three queries, whatever the number of packages; no object of a package is read.
    """
    from rover_store.cases import open_cases
    from rover_store.errors import NotFound, UsageError
    from rover_store.graph_at import GraphAt, ask

    try:
        head = store.resolve("HEAD")
    except NotFound:
        return Status(store.current_branch() or "main", "", 0, (), (), ())

    def question(graph: GraphAt) -> tuple[int, list[Stale], list[str]]:
        return graph.count(pattern), graph.stale(pattern), graph.without_evidence(pattern)

    packages, stale, bare = ask(store, head, question)
    if not packages and pattern != "*":
        raise UsageError(f"no package of HEAD matches {pattern!r}", hint="`rover list` shows all names")
    cases = tuple(open_cases(store, head, pattern))
    branch = store.current_branch() or "(detached)"
    merges = tuple(ref.removeprefix(MERGES) for ref in store.refs.all(MERGES))
    return Status(branch, head, packages, tuple(stale), tuple(bare), cases, merges)
