"""Calibration cases from a contract alone: for each kind of rule, mutations of the reference that break it.

The same table gives the draft's negatives, the fresh ones of the admission test and those of the sealed audit:
each takes its own random stream. Alternatives change the form and break nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from rover_store.records import Contract, Deliverable, Mutation, Requirement
from rover_store.records.contract import (
    CellsRule,
    CiteRule,
    EditRule,
    FieldRule,
    FigureRule,
    FormatRule,
    NoExtraRule,
    OrderRule,
    ProtectedRule,
    RecordsRule,
    RestRule,
    RowsRule,
    SetRule,
)

#: op, path, arguments
Breakage = tuple[str, str, dict[str, Any]]
EXTRA = ("notes.txt", "draft/old.csv", "backup.bak", "out/scratch.txt", "tmp_results.csv")


def negatives(contract: Contract, rng: random.Random, *, prefix: str = "") -> tuple[Mutation, ...]:
    """At least one rule for each requirement, each breaking it."""
    out = []
    for need in contract.requirements:
        target = _target(contract, need)
        for number, (op, path, arguments) in enumerate(_breakages(contract, need, target, rng), 1):
            name = f"{prefix}{need.id}-{op.replace('_', '-')}-{number}"
            out.append(Mutation(id=name, requirement=need.id, op=op, path=path, arguments=arguments))
    return tuple(out)


def alternatives(contract: Contract, rng: random.Random, *, prefix: str = "") -> tuple[Mutation, ...]:
    """Other forms of the same deliverables."""
    out = []
    ordered = {n.deliverable for n in contract.requirements if isinstance(n.rule, OrderRule)}
    for target in contract.deliverables:
        for op, arguments in _forms(contract, target, target.id in ordered, rng):
            name = f"{prefix}{target.id}-{op.replace('_', '-')}"
            out.append(Mutation(id=name, op=op, path=target.path, arguments=arguments))
    return tuple(out)


def _breakages(
    contract: Contract, need: Requirement, target: Deliverable | None, rng: random.Random
) -> Iterator[Breakage]:
    rule = need.rule
    if isinstance(rule, ProtectedRule):
        yield "touch", rng.choice(rule.paths), {}
        return
    if isinstance(rule, NoExtraRule):
        yield "extra_file", rng.choice(EXTRA), {}
        return
    if target is None:
        return
    sheet = {"sheet": target.sheet} if target.sheet else {}
    path = target.path
    if isinstance(rule, FormatRule):
        yield rng.choice(("delete", "empty")), path, {}
        if target.columns and target.type != "json" and not target.in_place:
            yield "rename_column", path, {"column": rng.choice(target.columns).name, **sheet}
    elif isinstance(rule, RowsRule):
        first, second = rng.sample(("drop_row", "add_row", "duplicate_row"), 2)
        yield first, path, {"key": list(target.key), **sheet}
        yield second, path, {"key": list(target.key), **sheet}
    elif isinstance(rule, CellsRule):
        yield "change_cell", path, {"column": rule.column, **sheet}
    elif isinstance(rule, OrderRule):
        yield "unsort", path, {"column": rule.column, **sheet}
    elif isinstance(rule, FieldRule):
        yield rng.choice(("change_field", "drop_field")), path, {"field": rule.field}
    elif isinstance(rule, SetRule | RecordsRule):
        yield "change_field", path, {"field": rule.field}
    elif isinstance(rule, FigureRule):
        yield rng.choice(("change_figure", "drop_figure")), path, {"label": rule.label}
    elif isinstance(rule, CiteRule):
        yield "drop_mention", path, {"text": rng.choice(rule.paths)}
    elif isinstance(rule, EditRule):
        yield "change_cell", path, {"column": rule.column, "edited": True, **sheet}
    elif isinstance(rule, RestRule):
        edited = [r.rule.column for r in contract.requirements if isinstance(r.rule, EditRule)]
        yield "change_other_cell", path, {"columns": edited, **sheet}


def _forms(
    contract: Contract, target: Deliverable, ordered: bool, rng: random.Random
) -> Iterator[tuple[str, dict[str, Any]]]:
    sheet = {"sheet": target.sheet} if target.sheet else {}
    if target.type in ("markdown", "text"):
        yield "trailing_newline", {}
    elif target.type == "xlsx":
        yield "rewrite_xlsx", {}
    elif target.type == "json" and not target.key:
        yield "reindent_json", {}
    else:
        if target.type == "json":
            yield "reindent_json", {}
        if not target.in_place:
            if not ordered and not contract.same.row_order:
                yield "shuffle_rows", dict(sheet)
            if not contract.same.column_order:
                yield "reorder_columns", dict(sheet)


def _target(contract: Contract, need: Requirement) -> Deliverable | None:
    return next((d for d in contract.deliverables if d.id == need.deliverable), None)


Maker = Callable[[Contract, random.Random], tuple[Mutation, ...]]
