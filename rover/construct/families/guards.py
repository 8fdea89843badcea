"""What every family asks beside its own demands: other files stay as they are, and none comes or goes.

Also the pieces of a draft that families share: the harness, the head of a check file, criteria by requirement.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

from rover.construct.config import BuildConfig
from rover_store.records import Budget, ContextFile, Contract, Criterion, Harness, Requirement, Sameness
from rover_store.records.contract import NoExtraRule, ProtectedRule

SAME = Sameness()
#: every tool that H can offer, in the order in which H lists them
TOOLS = (
    "list_files", "read_file", "read_table", "read_workbook", "write_file", "write_table", "edit_table",
    "edit_workbook", "delete_file", "shell",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Guards:
    """Two requirements, `protected` and `no-extra`, and the functions that check them."""

    requirements: tuple[Requirement, ...]
    source: str


def guards(files: Iterable[ContextFile], targets: Iterable[str]) -> Guards:
    """Guards for a workspace: all its files but the targets are protected, nothing but the targets is new."""
    allowed = sorted(set(targets))
    kept = sorted(f.path for f in files if f.path not in allowed)
    requirements: list[Requirement] = []
    source = ""
    if kept:
        requirements.append(
            Requirement(
                id="protected", statement="all other files are byte for byte as they were", role="invariant",
                rule=ProtectedRule(paths=tuple(kept)), critical=True,
            )
        )  # fmt: skip
        source += f"\n\ndef protected(ev):\n    return rc.protected(ev, {kept!r})\n"
    requirements.append(
        Requirement(
            id="no-extra", statement="no other file was created, none was deleted", role="constraint",
            rule=NoExtraRule(),
        )
    )  # fmt: skip
    source += f"\n\ndef no_extra(ev):\n    return rc.no_extra(ev, {allowed!r})\n"
    return Guards(tuple(requirements), source)


def criteria(contract: Contract, anchors: dict[str, tuple[str, ...]]) -> tuple[Criterion, ...]:
    """One criterion for each requirement, checked by the function of the same name in checks/main.py.

    `anchors`: requirement id -> ids of the anchors that stand for its answers, in the order of the rule.
    """
    paths = {d.id: d.path for d in contract.deliverables}
    out = []
    for need in contract.requirements:
        state = need.rule.kind in ("protected", "no_extra", "rest")
        read = (paths[need.deliverable],) if need.deliverable else ()
        out.append(
            Criterion(
                id=need.id, requirement=need.id, layer="state" if state else "function",
                evidence="state_difference" if state else "file", paths=read,
                check=f"checks/main.py:{need.id.replace('-', '_')}", anchors=anchors.get(need.id, ()),
                weight=need.weight, critical=need.critical,
            )
        )  # fmt: skip
    return tuple(out)


def harness(needed: Iterable[str], config: BuildConfig, rng: random.Random, turns: int = 0) -> Harness:
    """The tools that the solvers need and some more, with a budget of at least `turns` turns."""
    wanted = set(needed)
    more = [t for t in TOOLS if t not in wanted]
    wanted |= set(rng.sample(more, k=min(len(more), rng.randint(1, 4))))
    return Harness(
        tools=tuple(t for t in TOOLS if t in wanted), budget=Budget(turns=max(config.turns, turns), seconds=300.0)
    )
