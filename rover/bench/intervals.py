"""95 % intervals that respect clusters: packages of one workspace fail together, so workspaces are drawn, not cases.

The bootstrap draws as many clusters as there are, with replacement, and takes the ratio of sums; its seed is fixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

DRAWS = 4000
SEED = 20_231
LEVEL = 0.95
#: clusters below which no interval is given: two that agree would look like certainty
LEAST = 3


@dataclass(frozen=True, slots=True)
class Estimate:
    """A ratio with its interval; the bounds are None where there are too few clusters to tell."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    clusters: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def mean(values: Sequence[float], clusters: Sequence[str]) -> Estimate:
    """The mean of values, one a case, with the cluster of each."""
    return ratio(values, [1.0] * len(values), clusters)


def ratio(over: Sequence[float], under: Sequence[float], clusters: Sequence[str]) -> Estimate:
    """sum(over) / sum(under), one term of each a case.

    Where all cases of a share agree (0 or all of n) resampling shows no spread; the exact binomial bound for n cases
    stands in: 1 - 0.025^(1/n) above 0, and its mirror below 1. It takes the cases for independent, which those of one
    workspace are not: it is the narrowest that can be meant.
    """
    n = len(over)
    names = sorted(set(clusters))
    whole = sum(under)
    if not n or not whole:
        return Estimate(None, None, None, n, len(names))
    value = sum(over) / whole
    if all(u == 1 for u in under) and value in (0.0, 1.0):
        bound = 1 - (0.5 - LEVEL / 2) ** (1 / n)
        low, high = (0.0, bound) if value == 0 else (1 - bound, 1.0)
        return Estimate(value, low, high, n, len(names))
    if len(names) < LEAST:
        return Estimate(value, None, None, n, len(names))
    low, high = _bootstrap(over, under, [names.index(c) for c in clusters], len(names))
    return Estimate(value, low, high, n, len(names))


def _bootstrap(
    over: Sequence[float], under: Sequence[float], cluster: Sequence[int], count: int
) -> tuple[float | None, float | None]:
    import numpy as np

    sums, sizes = np.zeros(count), np.zeros(count)
    np.add.at(sums, list(cluster), list(over))
    np.add.at(sizes, list(cluster), list(under))
    drawn = np.random.default_rng(SEED).integers(0, count, (DRAWS, count))
    below = sizes[drawn].sum(axis=1)
    found = (sums[drawn].sum(axis=1)[below > 0]) / below[below > 0]
    if not len(found):
        return None, None
    low, high = np.quantile(found, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
    return float(low), float(high)


@dataclass(frozen=True, slots=True)
class Paired:
    """One method against another on the same cases."""

    wins: int
    losses: int
    ties: int
    difference: Estimate

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "difference": self.difference.to_json()}


def paired(ours: Sequence[bool], theirs: Sequence[bool], clusters: Sequence[str]) -> Paired:
    """Wins, losses, ties, and the difference of the two rates, which is the mean of the differences."""
    terms = [float(a) - float(b) for a, b in zip(ours, theirs, strict=True)]
    wins, losses = sum(t > 0 for t in terms), sum(t < 0 for t in terms)
    return Paired(wins, losses, len(terms) - wins - losses, differences(terms, clusters))


def differences(terms: Sequence[float], clusters: Sequence[str]) -> Estimate:
    """The mean of paired differences, which lie in -1..1: the bound for agreement of a share does not fit them."""
    names = sorted(set(clusters))
    if not terms:
        return Estimate(None, None, None, 0, 0)
    value = sum(terms) / len(terms)
    if len(names) < LEAST:
        return Estimate(value, None, None, len(terms), len(names))
    low, high = _bootstrap(terms, [1.0] * len(terms), [names.index(c) for c in clusters], len(names))
    return Estimate(value, low, high, len(terms), len(names))
