"""A verifier's checks written from the contract: one criterion and one function for each requirement.

What a V proposal by rule puts in place of checks that are too lax, too strict, fickle, or look at another file. It
reads the contract alone; anchors are asked for by the ids that the present verifier uses where they fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rover.construct.anchors import answers
from rover_store.records import Anchors, Contract, Criterion, Deliverable, Given, Query, Requirement, Verifier
from rover_store.records.contract import (
    Answer,
    CellsRule,
    CiteRule,
    EditRule,
    FieldRule,
    FigureRule,
    NoExtraRule,
    OrderRule,
    ProtectedRule,
    RecordsRule,
    RestRule,
    RowsRule,
    SetRule,
)

FILE = "checks/main.py"
_STATE = ("protected", "no_extra", "rest")


@dataclass(frozen=True, slots=True)
class Written:
    """A verifier as the contract has it: criteria, the check file, and the query of each anchor it reads."""

    verifier: Verifier
    source: str
    queries: dict[str, Query]


def written(contract: Contract, verifier: Verifier, anchors: Anchors) -> Written:
    """The verifier of a contract. Ids of criteria and anchors are kept where requirement and query are the same."""
    known = {c.requirement: c for c in reversed(verifier.criteria)}
    ids = {_key(a.query): a.id for a in reversed(anchors.anchors)}
    queries: dict[str, Query] = {}
    names: dict[str, list[str]] = {}
    for need in contract.requirements:
        for number, query in enumerate(answers(need.rule)):
            name = ids.setdefault(_key(query), _free(f"{need.id}-{number}", {*ids.values(), *queries}))
            queries[name] = query
            names.setdefault(need.id, []).append(name)
    criteria: list[Criterion] = []
    functions: list[str] = []
    writer = _Writer(contract, names)
    for need in contract.requirements:
        function = re.sub(r"\W", "_", f"check_{need.id}")
        anchors_of = tuple(names.get(need.id, ()))
        criteria.append(_criterion(need, known.get(need.id), writer.deliverable(need), anchors_of, function))
        functions.append(f"def {function}(ev):\n{writer.body(need)}")
    head = '"""Checks written from the contract: one function for each requirement."""\n\nimport rover_checks as rc'
    source = "\n\n\n".join([head, *functions]) + "\n"
    return Written(verifier.model_copy(update={"criteria": tuple(criteria)}), source, queries)


def _criterion(
    need: Requirement, old: Criterion | None, target: Deliverable | None, anchors: tuple[str, ...], function: str
) -> Criterion:
    state = need.rule.kind in _STATE
    return Criterion(
        id=old.id if old else need.id,
        requirement=need.id,
        layer="state" if state else "function",
        evidence="state_difference" if state else "file",
        paths=(target.path,) if target else (),
        check=f"{FILE}:{function}",
        anchors=anchors,
        weight=need.weight,
        critical=need.critical,
        progress=old.progress if old else not isinstance(need.rule, NoExtraRule),
    )


class _Writer:
    """Bodies of check functions for the rules of one contract."""

    def __init__(self, contract: Contract, names: dict[str, list[str]]) -> None:
        self.contract = contract
        self.names = names
        self.by_id = {d.id: d for d in contract.deliverables}
        self.givens = {g.name: g.value for g in contract.givens}

    def deliverable(self, need: Requirement) -> Deliverable | None:
        return self.by_id.get(need.deliverable or "")

    def body(self, need: Requirement) -> str:
        """The lines of the function, indented."""
        rule = need.rule
        anchors = self.names.get(need.id, [])
        if isinstance(rule, ProtectedRule):
            return f"    return rc.protected(ev, {list(rule.paths)!r})"
        if isinstance(rule, NoExtraRule):
            return f"    return rc.no_extra(ev, {sorted({d.path for d in self.contract.deliverables})!r})"
        target = self.deliverable(need)
        if target is None:
            return '    return 0.0, "the contract names no deliverable for this"'
        if isinstance(rule, RowsRule | CellsRule | OrderRule):
            return self._table(target, rule, anchors)
        if isinstance(rule, EditRule | RestRule):
            return self._edit(target, rule, anchors)
        if isinstance(rule, FieldRule | SetRule | RecordsRule):
            return self._object(target, rule, anchors)
        if isinstance(rule, FigureRule):
            expected = self._value(rule.value, anchors)
            return (
                f"    found = rc.text(ev.end({target.path!r}))\n"
                f"    return rc.figure_near(found, {rule.label!r}, {expected}, tolerance={rule.tolerance!r})"
            )
        if isinstance(rule, CiteRule):
            return f"    return rc.cites(rc.text(ev.end({target.path!r})), {list(rule.paths)!r})"
        return self._format(target)

    def _format(self, target: Deliverable) -> str:
        if target.type in ("csv", "tsv", "xlsx") or self._tabular(target):
            names = [c.name for c in target.columns]
            how = f"extra={self.contract.same.extra_columns!r}, order={self.contract.same.column_order!r}"
            return f"    found = {_table(target)}\n    return rc.has_columns(found, {names!r}, {how})"
        if target.type == "json":
            return f"    return rc.has_fields(rc.json_object(ev.end({target.path!r})), {self._fields(target)!r})"
        return f'    return (1.0, "") if rc.text(ev.end({target.path!r})).strip() else (0.0, "the text is empty")'

    def _tabular(self, target: Deliverable) -> bool:
        """Whether the rules read a JSON deliverable as a table: a list of objects, one a row."""
        mine = [n.rule for n in self.contract.requirements if n.deliverable == target.id]
        return target.type == "json" and any(
            isinstance(r, RowsRule | CellsRule | OrderRule | EditRule | RestRule) for r in mine
        )

    def _table(self, target: Deliverable, rule: RowsRule | CellsRule | OrderRule, anchors: list[str]) -> str:
        found = f"    found = {_table(target)}\n"
        if isinstance(rule, OrderRule):
            kind = self._kinds(target).get(rule.column)
            return (
                f"{found}    return rc.in_order(found, {rule.column!r}, descending={rule.descending!r}, kind={kind!r})"
            )
        keys = {k: v for k, v in self._kinds(target).items() if k in target.key}
        if isinstance(rule, RowsRule):
            expected = f"ev.anchor({anchors[0]!r})"
            return f"{found}    return rc.rows_match(found, {expected}, {list(target.key)!r}, kind={keys!r})"
        column = next((c for c in target.columns if c.name == rule.column), None)
        tolerance, kind = (column.tolerance, column.type) if column else (0.0, None)
        return (
            f"{found}    return rc.cells_match(\n"
            f"        found, ev.anchor({anchors[0]!r}), {list(target.key)!r}, {rule.column!r},\n"
            f"        tolerance={tolerance!r}, kind={kind!r}, key_kind={keys!r},\n    )"
        )

    def _edit(self, target: Deliverable, rule: EditRule | RestRule, anchors: list[str]) -> str:
        path, sheet, key = target.path, target.sheet, list(target.key)
        if isinstance(rule, EditRule):
            column = next((c for c in target.columns if c.name == rule.column), None)
            tolerance, kind = (column.tolerance, column.type) if column else (0.0, None)
            rows, value = f"ev.anchor({anchors[0]!r})", self._value(rule.value, anchors[1:])
            return (
                f"    before, after = rc.table(ev.start({path!r}), {sheet!r}), rc.table(ev.end({path!r}), {sheet!r})\n"
                f"    return rc.edited(\n        before, after, {key!r}, {rule.column!r}, {rows}, {value},\n"
                f"        tolerance={tolerance!r}, kind={kind!r},\n    )"
            )
        edits = ", ".join(f"{column!r}: {rows}" for column, rows in self._edited(target))
        return f"    return rc.rest_unchanged(ev, {path!r}, sheet={sheet!r}, key={key!r}, edits={{{edits}}})"

    def _object(self, target: Deliverable, rule: FieldRule | SetRule | RecordsRule, anchors: list[str]) -> str:
        found = f"    found = rc.json_object(ev.end({target.path!r}))\n"
        columns = {c.name: c for c in target.columns}
        if isinstance(rule, SetRule):
            return f"{found}    return rc.set_is(found, {rule.field!r}, ev.anchor({anchors[0]!r}))"
        if isinstance(rule, FieldRule):
            column = columns.get(rule.field)
            how = f"tolerance={column.tolerance!r}, kind={column.type!r}" if column else "tolerance=0.0"
            return f"{found}    return rc.field_is(found, {rule.field!r}, {self._value(rule.value, anchors)}, {how})"
        names = [c.name for c in rule.columns if c.name not in rule.key]
        return (
            f"{found}    return rc.records_match(\n"
            f"        found, {rule.field!r}, ev.anchor({anchors[0]!r}), {list(rule.key)!r}, {names!r},\n"
            f"        tolerances={ {c.name: c.tolerance for c in rule.columns}!r},\n"
            f"        kind={ {c.name: c.type for c in rule.columns}!r},\n    )"
        )

    def _edited(self, target: Deliverable) -> Iterable[tuple[str, str]]:
        for need in self.contract.requirements:
            if isinstance(need.rule, EditRule) and need.deliverable == target.id:
                yield need.rule.column, f"ev.anchor({self.names[need.id][0]!r})"

    def _fields(self, target: Deliverable) -> list[str]:
        names = [c.name for c in target.columns]
        asked = [
            n.rule.field
            for n in self.contract.requirements
            if n.deliverable == target.id and isinstance(n.rule, FieldRule | SetRule | RecordsRule)
        ]
        return list(dict.fromkeys([*(n for n in names if n in asked or not asked), *asked]))

    def _kinds(self, target: Deliverable) -> dict[str, str]:
        return {c.name: c.type for c in target.columns}

    def _value(self, value: Given | Answer, anchors: list[str]) -> str:
        """Python for an expected value: an anchor, or the given's literal."""
        if isinstance(value, Answer):
            return f"ev.anchor({anchors[0]!r})"
        return repr(self.givens[value.given])


def _table(target: Deliverable) -> str:
    return f"rc.table(ev.end({target.path!r}), {target.sheet!r})"


def _key(query: Query) -> str:
    return query.model_dump_json()


def _free(name: str, taken: set[str]) -> str:
    number = 2
    found = name
    while found in taken:
        found, number = f"{name}-{number}", number + 1
    return found
