"""Properties of the pure part of FCR on random lattices and random verdicts."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rover.bench.lattices import measure
from rover.repair import fcr
from rover_store.errors import StoreError
from rover_store.graph import Dependency, closure

NODES = [f"n{i}" for i in range(8)]


@dataclass(frozen=True)
class Lattice:
    depends_on: dict[str, frozenset[str]]
    changes: dict[str, bool]
    costs: dict[int, int]
    passes: frozenset[int]

    @property
    def edges(self) -> list[Dependency]:
        return [Dependency(node, target, "") for node, targets in self.depends_on.items() for target in targets]

    def options(self) -> list[fcr.Option]:
        made = []
        for mask in range(1, 16):
            roots = frozenset(NODES[i] for i in range(4) if mask >> i & 1)
            expansion = fcr.expand(roots, self.edges, self.changes.__getitem__)
            made.append(fcr.Option(mask, expansion, self.costs[mask]))
        return made


@st.composite
def lattices(draw: st.DrawFn) -> Lattice:
    depends_on = {n: frozenset(draw(st.sets(st.sampled_from(NODES[:i]))) if i else ()) for i, n in enumerate(NODES)}
    changes = {n: draw(st.booleans()) for n in NODES}
    costs = {m: draw(st.integers(0, 3)) for m in range(16)}
    return Lattice(depends_on, changes, costs, frozenset(draw(st.sets(st.integers(1, 15)))))


@given(lattices())
def test_lazy_selects_what_exhaustive_selects(lattice: Lattice) -> None:
    options = lattice.options()
    lazy = fcr.select(options, lambda o: o.mask in lattice.passes)
    full = fcr.select(options, lambda o: o.mask in lattice.passes, lazy=False)
    assert lazy.selected == full.selected
    assert full.evaluated[: len(lazy.evaluated)] == lazy.evaluated
    assert set(full.passed) == lattice.passes
    assert lazy.joint in (None, full.joint)


@given(lattices())
def test_the_selected_passes_and_is_minimal(lattice: Lattice) -> None:
    options = lattice.options()
    chosen = fcr.select(options, lambda o: o.mask in lattice.passes).selected
    assert (chosen is None) == (not lattice.passes)
    if chosen is not None:
        assert chosen.mask in lattice.passes
        assert all(chosen.rank <= o.rank for o in options if o.mask in lattice.passes)


@given(lattices())
def test_joint_means_no_smaller_part_passes(lattice: Lattice) -> None:
    run = fcr.select(lattice.options(), lambda o: o.mask in lattice.passes, lazy=False)
    if run.selected is not None:
        mask = run.selected.mask
        parts = [m for m in lattice.passes if m != mask and m & mask == m]
        assert run.joint == (mask.bit_count() > 1 and not parts)


@given(lattices(), st.integers(1, 15))
def test_expansion_stays_in_the_closure(lattice: Lattice, mask: int) -> None:
    asked: list[str] = []

    def rebuild(node: str) -> bool:
        asked.append(node)
        return lattice.changes[node]

    roots = frozenset(NODES[i] for i in range(4) if mask >> i & 1)
    made = fcr.expand(roots, lattice.edges, rebuild)
    assert roots <= made.changed <= made.closure
    assert made.rebuilt <= made.closure
    assert sorted(asked) == sorted(made.rebuilt)  # each once
    for node in made.rebuilt:
        assert made.changed & lattice.depends_on[node]
    for node in made.closure - made.rebuilt:
        assert not made.changed & lattice.depends_on[node]


@given(lattices(), st.integers(1, 15), st.integers(1, 15))
def test_closure_distributes_over_union(lattice: Lattice, one: int, other: int) -> None:
    def close(mask: int) -> set[str]:
        return set(closure([NODES[i] for i in range(4) if mask >> i & 1], lattice.edges))

    assert close(one | other) == close(one) | close(other)


def test_control_that_passes_drops_the_finding() -> None:
    empty = fcr.Expansion(frozenset(), frozenset(), frozenset())
    seen: list[int] = []

    def evaluate(option: fcr.Option) -> bool:
        seen.append(option.mask)
        return True

    run = fcr.select([fcr.Option(1, empty), fcr.Option(0, empty)], evaluate)
    assert run.control_passed
    assert run.selected is None
    assert seen == [0]


def test_control_that_fails_is_never_selected() -> None:
    empty = fcr.Expansion(frozenset(), frozenset(), frozenset())
    run = fcr.select([fcr.Option(0, empty), fcr.Option(3, empty)], lambda o: o.mask == 3)
    assert run.selected == fcr.Option(3, empty)
    assert run.evaluated == (0, 3)


def test_ties_go_to_cost_then_to_the_lowest_mask() -> None:
    same = fcr.Expansion(frozenset("a"), frozenset("a"), frozenset())
    options = [fcr.Option(8, same, 5), fcr.Option(4, same, 5), fcr.Option(1, same, 9)]
    assert fcr.select(options, lambda _: True, lazy=False).evaluated == (4, 8, 1)


def test_a_cycle_is_named() -> None:
    with pytest.raises(StoreError, match="cycle"):
        fcr.expand(frozenset("a"), [Dependency("a", "b", ""), Dependency("b", "a", "")], lambda _: True)


def test_conflicts_keep_their_reason() -> None:
    kept, dropped = fcr.combinations(0b1010, lambda m: "two writers" if m == 10 else None)
    assert kept == (2, 8)
    assert dropped == {10: "two writers"}


def test_letters() -> None:
    assert [fcr.letters(m) for m in (0, 1, 10, 15)] == ["-", "C", "TV", "CTHV"]


def test_bench_holds_its_bars() -> None:
    rows = {row.name: row for row in measure(cases=60, seed=3)}
    assert rows["lazy differs"].value == 0
    assert rows["rollouts a seed+policy"].met
    assert rows["lazy/exhaustive, all"].value < 1
    assert measure(cases=6, seed=1) == measure(cases=6, seed=1)
