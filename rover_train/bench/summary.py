"""What the runs of a comparison say: success, area under the curve, and paired differences with intervals.

Two things vary: the seed of a run and the workspaces it is tried on. Intervals draw both with replacement, crossed,
and the same draw for both sides of a difference, which is paired by seed and by package.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rover.bench.intervals import DRAWS, LEVEL, SEED


@dataclass(frozen=True, slots=True)
class Trial:
    """One model tried on held-out packages: success in [0, 1] by package, each with its workspace."""

    success: Mapping[str, float]
    workspaces: Mapping[str, str]

    @property
    def mean(self) -> float:
        return sum(self.success.values()) / len(self.success) if self.success else math.nan


@dataclass(frozen=True, slots=True)
class Arm:
    """One method on one set: a trial for each seed, and the curve of each seed (step, validation success)."""

    method: str
    trials: Mapping[int, Trial]
    curves: Mapping[int, tuple[tuple[int, float], ...]]

    @property
    def mean(self) -> float:
        return _mean([t.mean for t in self.trials.values()])

    @property
    def spread(self) -> float:
        """Standard deviation over seeds (n - 1); nan for one seed."""
        values = [t.mean for t in self.trials.values()]
        if len(values) < 2:
            return math.nan
        middle = _mean(values)
        return math.sqrt(sum((v - middle) ** 2 for v in values) / (len(values) - 1))

    @property
    def area(self) -> float:
        """Mean over seeds of the area under the curve, divided by its length: a success rate."""
        return _mean([area(c) for c in self.curves.values()])


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean of one side minus the other, with its interval. `wins`, `losses`: packages, by their mean over seeds."""

    value: float
    low: float
    high: float
    seeds: int
    workspaces: int
    wins: int
    losses: int
    ties: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def area(curve: Sequence[tuple[int, float]]) -> float:
    """Area under a curve by trapezoids, over its length. One point is its own height."""
    if len(curve) < 2:
        return curve[0][1] if curve else math.nan
    parts = [(b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in itertools.pairwise(curve)]
    return sum(parts) / (curve[-1][0] - curve[0][0])


def difference(ours: Mapping[int, Trial], theirs: Mapping[int, Trial]) -> Difference:
    """Paired by seed and package. ValueError where the two sides have no seed or no package in common.

    A side with one trial for all seeds (the checkpoint that the runs began at) is given under every seed.
    """
    seeds = sorted(set(ours) & set(theirs))
    if not seeds:
        raise ValueError("the two sides share no seed")
    names = sorted(set.intersection(*(set(side[s].success) for side in (ours, theirs) for s in seeds)))
    if not names:
        raise ValueError("the two sides share no package")
    workspaces = sorted({ours[seeds[0]].workspaces[n] for n in names})
    terms = [[ours[s].success[n] - theirs[s].success[n] for n in names] for s in seeds]
    where = [workspaces.index(ours[seeds[0]].workspaces[n]) for n in names]
    low, high = _crossed(terms, where, len(workspaces))
    by_package = [_mean(column) for column in zip(*terms, strict=True)]
    wins, losses = sum(v > 0 for v in by_package), sum(v < 0 for v in by_package)
    return Difference(
        value=_mean(by_package),
        low=low,
        high=high,
        seeds=len(seeds),
        workspaces=len(workspaces),
        wins=wins,
        losses=losses,
        ties=len(names) - wins - losses,
    )


def _crossed(terms: Sequence[Sequence[float]], where: Sequence[int], count: int) -> tuple[float, float]:
    """The interval of the mean of terms[seed][package], seeds and workspaces drawn with replacement."""
    import numpy as np

    values = np.asarray(terms)
    sums, sizes = np.zeros((len(terms), count)), np.zeros(count)
    np.add.at(sizes, list(where), 1.0)
    for row, seed in zip(values, sums, strict=True):
        np.add.at(seed, list(where), row)
    rng = np.random.default_rng(SEED)
    seeds = rng.integers(0, len(terms), (DRAWS, len(terms)))
    places = rng.integers(0, count, (DRAWS, count))
    drawn = [sums[s][:, p].sum() / (len(s) * sizes[p].sum()) for s, p in zip(seeds, places, strict=True)]
    low, high = np.quantile(drawn, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
    return float(low), float(high)


def band(curves: Mapping[int, Sequence[tuple[int, float]]]) -> list[tuple[int, float, float, float]]:
    """(step, mean, lowest, highest) over seeds, at the steps that all curves have."""
    if not curves:
        return []
    by_seed = [dict(c) for c in curves.values()]
    steps = sorted(set.intersection(*(set(c) for c in by_seed)))
    return [(s, _mean([c[s] for c in by_seed]), min(c[s] for c in by_seed), max(c[s] for c in by_seed)) for s in steps]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan
