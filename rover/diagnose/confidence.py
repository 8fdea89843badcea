"""How far a finding can be trusted: how often findings like it were right on suites that may be tuned on.

The table counts, for each probe, kind and status, how often such a finding named a real defect and its component.
It lies beside this module as confidence.json and is made by `fit` from development suites alone. Where a cell has
few cases, the cells of its kind and of its status speak along; where there is no table, the priors alone.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from rover_store.records import Finding

FILE = "confidence.json"
#: what is believed of a finding of which nothing is known. Most flags that nothing confirmed were false.
PRIOR = {"confirmed": 0.9, "hypothesis": 0.15}
VERDICT_PRIOR = {"sound": 0.9, "agent": 0.9, "infrastructure": 0.8, "undecided": 0.5}
#: so many cases weigh as much as what the wider cell says
STRENGTH = 4.0


class Seen(NamedTuple):
    """One finding on a case whose defect is known, and whether it was right."""

    probe: str
    kind: str
    status: str
    right: bool


class Bin(NamedTuple):
    """Findings (or verdicts) whose confidence lies in [low, high): how many, what they claim, what came true."""

    low: float
    high: float
    findings: int
    claimed: float
    right: float


def fit(rows: Iterable[Seen]) -> dict[str, Any]:
    """The table: for each `probe/kind/status`, [right, all]."""
    right: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for row in rows:
        key = f"{row.probe}/{row.kind}/{row.status}"
        total[key] += 1
        right[key] += row.right
    return {"counts": {key: [right[key], total[key]] for key in sorted(total)}}


def reliability(rows: Iterable[tuple[float, bool]], bins: int = 10) -> tuple[Bin, ...]:
    """Claimed confidence against what came true, in bins of equal width; empty ones are left out."""
    held: dict[int, list[tuple[float, bool]]] = {}
    for confidence, right in rows:
        held.setdefault(min(bins - 1, int(confidence * bins)), []).append((confidence, right))
    return tuple(
        Bin(
            at / bins,
            (at + 1) / bins,
            len(mine),
            sum(c for c, _ in mine) / len(mine),
            sum(r for _, r in mine) / len(mine),
        )
        for at, mine in sorted(held.items())
    )


def confidence(finding: Finding, table: Mapping[str, Any] | None = None) -> float:
    """How often such a finding was right: its cell, smoothed by those of its kind and of its status."""
    counts = (fitted() if table is None else table).get("counts", {})
    at = PRIOR[finding.status]
    ends = (f"/{finding.status}", f"/{finding.kind}/{finding.status}")
    cells = [[c for key, c in counts.items() if key.endswith(end)] for end in ends]
    own = counts.get(f"{finding.probe}/{finding.kind}/{finding.status}")
    for group in (*cells, [own] if own else []):
        right, total = sum(c[0] for c in group), sum(c[1] for c in group)
        at = (right + STRENGTH * at) / (total + STRENGTH)
    return round(at, 3)


def in_verdict(verdict: str, findings: Iterable[Finding], table: Mapping[str, Any] | None = None) -> float:
    """How often such a verdict was right; of `environment`, that at least one of the confirmed findings is."""
    wrong = 1.0
    for finding in findings:
        if finding.status == "confirmed":
            wrong *= 1.0 - (finding.confidence if finding.confidence is not None else confidence(finding, table))
    if verdict == "environment":
        return round(1.0 - wrong, 3)
    right, total = (fitted() if table is None else table).get("verdicts", {}).get(verdict, (0, 0))
    known = float(right) + STRENGTH * VERDICT_PRIOR.get(verdict, 0.5)
    return round(known / (float(total) + STRENGTH), 3)


@cache
def fitted() -> dict[str, Any]:
    """The table that comes with rover; empty where none was fitted yet."""
    place = files("rover.diagnose").joinpath(FILE)
    return dict(json.loads(place.read_bytes())) if place.is_file() else {}
