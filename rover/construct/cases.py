"""Calibration cases from a contract alone: for each kind of rule, mutations of the reference that break it.

The same table gives the draft's negatives, the fresh ones of the admission test and those of the sealed audit:
each takes its own random stream. Alternatives change the form and break nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
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
    Rule,
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
    sheet: dict[str, Any] = {"sheet": target.sheet} if target.sheet else {}
    for op, arguments in _of_rule(contract, rule, target, rng):
        yield op, target.path, {**arguments, **sheet}


def _of_rule(
    contract: Contract, rule: Rule, target: Deliverable, rng: random.Random
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Ops on the deliverable that break one rule."""
    if isinstance(rule, FormatRule):
        yield rng.choice(("delete", "empty")), {}
        if target.columns and (target.type != "json" or target.key):
            yield "rename_column", {"column": rng.choice(target.columns).name}
    elif isinstance(rule, RowsRule):
        for op in rng.sample(("drop_row", "add_row", "duplicate_row"), 2):
            yield op, {"key": list(target.key)} if op == "add_row" else {}
    elif isinstance(rule, CellsRule):
        yield "change_cell", {"column": rule.column}
    elif isinstance(rule, OrderRule):
        yield "unsort", {"column": rule.column}
    elif isinstance(rule, FieldRule):
        yield rng.choice(("change_field", "drop_field")), {"field": rule.field}
    elif isinstance(rule, SetRule):
        yield "drop_row", {"field": rule.field}
    elif isinstance(rule, RecordsRule):
        values = [c.name for c in rule.columns if c.name not in rule.key]
        yield rng.choice(("drop_row", "duplicate_row")), {"field": rule.field}
        if values:
            yield "change_cell", {"field": rule.field, "column": rng.choice(values)}
    elif isinstance(rule, FigureRule):
        yield rng.choice(("change_figure", "drop_figure")), {"label": rule.label}
    elif isinstance(rule, CiteRule):
        yield "drop_mention", {"text": rng.choice(rule.paths)}
    elif isinstance(rule, EditRule):
        yield "change_cell", {"column": rule.column, "edited": True}
        yield "revert", {}
    elif isinstance(rule, RestRule):
        edited = [r.rule.column for r in contract.requirements if isinstance(r.rule, EditRule)]
        spared = [*edited, *target.key]
        if {c.name for c in target.columns} - set(spared):
            yield "change_other_cell", {"except": spared}
        yield "duplicate_row", {}


def _forms(
    contract: Contract, target: Deliverable, ordered: bool, rng: random.Random
) -> Iterator[tuple[str, dict[str, Any]]]:
    sheet: dict[str, Any] = {"sheet": target.sheet} if target.sheet else {}
    if target.type == "xlsx":
        yield "rewrite_xlsx", {}
    elif target.type == "json":
        if not target.path.endswith("l"):  # of a file with one object a line, the lines are the form
            yield "reindent_json", {}
    else:
        yield "trailing_newline", {}
    if not target.key or target.in_place or target.type in ("markdown", "text"):
        return
    if not ordered and not contract.same.row_order:
        yield "shuffle_rows", sheet
    if not contract.same.column_order:
        yield "reorder_columns", sheet
    if contract.same.extra_columns:
        yield "extra_column", sheet
    numbers = [c.name for c in target.columns if c.type == "number" and c.name not in target.key]
    if numbers and target.type in ("csv", "tsv") and not contract.same.number_format:
        yield "reformat_numbers", {"columns": numbers, **sheet}


def _target(contract: Contract, need: Requirement) -> Deliverable | None:
    return next((d for d in contract.deliverables if d.id == need.deliverable), None)
