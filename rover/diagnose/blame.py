"""Which component is at fault, as a probability for each that is suspected, the likeliest first.

What the findings say comes first: each confirmed one lays its confidence on its first suspect and a share of it on
the others. Where several components are suspected, or none by a cause of its own, neighbours are tried: the package
with one component changed. A component without whose change the symptom stays is at fault; one whose change moves
nothing is hardly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rover_store.ids import COMPONENTS, ComponentName
from rover_store.records import Finding

#: share of a finding's confidence that its second, third, ... suspect gets
OTHERS = (1.0, 0.25, 0.1, 0.05)


def from_findings(findings: Iterable[Finding]) -> dict[ComponentName, float]:
    """How likely each component is at fault by what the confirmed findings say alone."""
    innocent: dict[ComponentName, float] = {}
    for finding in findings:
        if finding.status != "confirmed":
            continue
        for component, share in zip(finding.components, OTHERS, strict=False):
            weight = share * (0.9 if finding.confidence is None else finding.confidence)
            innocent[component] = innocent.get(component, 1.0) * (1.0 - min(weight, 0.99))
    return ordered({component: 1.0 - left for component, left in innocent.items()})


def ordered(blame: Mapping[ComponentName, float]) -> dict[ComponentName, float]:
    """The likeliest first; of equals in the order C, T, H, V."""
    known = sorted(blame.items(), key=lambda item: (-round(item[1], 6), COMPONENTS.index(item[0])))
    return {component: round(value, 3) for component, value in known}
