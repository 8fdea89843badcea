"""What a benchmark gives: rows with a figure, a unit, what it is held against, and the samples behind it.

Ratios are measured side by side in one run: machines differ, ratios less so.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `bar` is what it must not exceed (or reach, where `at_least`); None: no bar."""

    name: str
    value: float
    unit: str
    bar: float | None = None
    at_least: bool = False
    note: str = ""
    samples: tuple[float, ...] = field(default=(), repr=False)

    @property
    def met(self) -> bool | None:
        if self.bar is None:
            return None
        return self.value >= self.bar if self.at_least else self.value <= self.bar

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "met": self.met}


def median_row(
    name: str, samples: Sequence[float], unit: str, *, bar: float | None = None, note: str = ""
) -> Row:
    """A row from samples: their median, with the middle half in the note."""
    ordered = sorted(samples)
    low, high = ordered[len(ordered) // 4], ordered[(3 * len(ordered)) // 4]
    spread = f"n={len(ordered)}, middle half {low:.3g}..{high:.3g}"
    return Row(name, statistics.median(ordered), unit, bar, False, f"{note}; {spread}" if note else spread,
               tuple(ordered))  # fmt: skip
