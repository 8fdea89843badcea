"""Splits of any packages: everything goes somewhere, nothing that is tied goes apart, no part stays empty."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rover_store.layout import PackageEntry
from rover_train.selection import Described
from rover_train.split import PARTS, _assigned, _clusters

TIES = st.sets(st.sampled_from([f"resources/files/{c}" for c in "abcdefgh"] + [f"workspace:{n}" for n in range(8)]),
               min_size=1, max_size=3)  # fmt: skip
PACKAGES = st.lists(TIES, min_size=1, max_size=30).map(
    lambda every: [
        Described(PackageEntry(f"p{n:02}", "", {}), "", frozenset(), frozenset(ties)) for n, ties in enumerate(every)
    ]
)
SHARES = st.tuples(st.floats(0.05, 1), st.floats(0, 1), st.floats(0, 1))


@given(PACKAGES, SHARES, st.integers(0, 99))
@settings(deadline=None)
def test_laws(found: list[Described], shares: tuple[float, float, float], seed: int) -> None:
    clusters = _clusters(found)
    parts = _assigned(clusters, shares, seed)
    assert sorted(one.entry.name for some in parts.values() for one in some) == [one.entry.name for one in found]
    ties = [{tie for one in parts[part] for tie in one.ties} for part in PARTS]
    assert all(not ties[a] & ties[b] for a, b in ((0, 1), (0, 2), (1, 2)))
    asked = [part for part, share in zip(PARTS, shares, strict=True) if share > 0]
    if len(clusters) >= len(asked):
        assert all(parts[part] for part in asked)
    assert all(not parts[part] for part in PARTS if part not in asked)
    assert _assigned(_clusters(found[::-1]), shares, seed) == parts
