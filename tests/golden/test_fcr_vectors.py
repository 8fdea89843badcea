"""rover.repair.fcr agrees exactly with the lattices of fcr-vectors.json, worked out apart from the project."""

from __future__ import annotations

import json
from itertools import combinations as pairs
from pathlib import Path
from typing import Any

import pytest

from rover.repair import fcr
from rover_store.graph import Dependency

VECTORS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("fcr-vectors.json").read_text())
BITS = {"C": 1, "T": 2, "H": 4, "V": 8}


def options(case: dict[str, Any]) -> tuple[list[fcr.Option], tuple[int, ...]]:
    clashes = [{BITS[a], BITS[b]} for a, b in case["conflicts"]]

    def conflict(mask: int) -> str | None:
        parts = [bit for bit in BITS.values() if mask & bit]
        return "clash" if any(set(p) in clashes for p in pairs(parts, 2)) else None

    proposed = sum(BITS[letter] for letter, there in case["proposals"].items() if there)
    kept, _ = fcr.combinations(proposed, conflict)
    edges = [Dependency(node, target, "") for node, targets in case["depends_on"].items() for target in targets]
    made = []
    for mask in kept:
        roots = {f"{case['package']}/{letter}" for letter in fcr.letters(mask)}
        if mask & 1:
            roots.update(case["context_replaces"])
        expansion = fcr.expand(frozenset(roots), edges, case["rebuild_changes"].__getitem__)
        made.append(fcr.Option(mask, expansion, case["cost"][str(mask)]))
    return made, kept


@pytest.mark.parametrize("case", VECTORS, ids=range(len(VECTORS)))
def test_lattice(case: dict[str, Any]) -> None:
    expected = case["expected"]
    made, kept = options(case)
    assert list(kept) == expected["combinations"]
    for option in made:
        want = expected["expansion"][str(option.mask)]
        got = option.expansion
        assert sorted(got.closure) == want["closure"]
        assert sorted(got.changed) == want["changed"]
        assert sorted(got.rebuilt) == want["rebuilt"]
    lazy = fcr.select(made, lambda o: o.mask in case["passes"])
    assert list(lazy.evaluated) == expected["lazy_order"]
    full = fcr.select(made, lambda o: o.mask in case["passes"], lazy=False)
    assert len(full.evaluated) == len(kept)
    for run in (lazy, full):
        assert (run.selected.mask if run.selected else None) == expected["selected"]
    assert full.joint == expected["joint"]
    assert lazy.joint in (None, full.joint)
