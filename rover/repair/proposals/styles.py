"""Several drafts a component, and the products of them that a repair tries one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from rover.repair.proposals.protocol import Draft, PackageView, Proposer
from rover.repair.proposals.registry import MOST_PRODUCTS, Tell, asked, drafts
from rover_store.records import Diagnosis


class Products(NamedTuple):
    """Sets of drafts, at most one a component in each; `left_out`: how many sets were not made."""

    sets: list[tuple[Draft, ...]]
    left_out: int


def propose_styles(
    view: PackageView,
    diagnosis: Diagnosis,
    k: int,
    *,
    history: bool = True,
    without: frozenset[str] = frozenset(),
    more: Sequence[Proposer] = (),
    tell: Tell | None = None,
) -> Products:
    """Up to `k` distinct drafts for each component, and every way to take one of each component.

    The first set is what `propose` gives. Then come the sets that leave the first styles least: by the sum of the
    places that their drafts have in the order of styles, then in the order C, T, H, V.
    """
    order = asked(view, history, more, hasty=k > 1)
    found = drafts(view, diagnosis, max(1, k), order, without, tell)
    if not found:
        return Products([], 0)
    every = sorted(product(*(range(len(mine)) for mine in found.values())), key=lambda at: (sum(at), at))
    sets = [tuple(_taken(list(found.values()), places)) for places in every[:MOST_PRODUCTS]]
    return Products(sets, max(0, len(every) - MOST_PRODUCTS))


def _taken(each: list[list[Draft]], places: tuple[int, ...]) -> Iterator[Draft]:
    for mine, at in zip(each, places, strict=True):
        yield mine[at]
