"""Anchors: the answers of a contract, derived by DuckDB inside the sandbox and again by pandas.

A disagreement, an error, an empty or a trivial answer drops the draft. The i-th anchor id of a criterion stands
for the i-th answer in the rule of the requirement that it scores; equal ids must stand for equal queries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rover.construct.families.protocol import Dropped
from rover.construct.query.agree import agree
from rover.rollout.engine import Engine
from rover.sandbox.protocol import Files
from rover_store.errors import PackageError, SandboxError
from rover_store.records import Anchors, Contract, Criterion, Query, Table
from rover_store.records.components import Anchor
from rover_store.records.contract import Answer, Rule

DERIVE = "rover.construct.query.inside:derive"
MOST_ROWS = 2000


def answers(rule: Rule) -> tuple[Query, ...]:
    """The queries in a rule, in the order of its fields."""
    values = (getattr(rule, name) for name in type(rule).model_fields)
    return tuple(v.answer for v in values if isinstance(v, Answer))


def queries(contract: Contract, criteria: tuple[Criterion, ...]) -> dict[str, Query]:
    """The query of each anchor id. PackageError where a criterion and its requirement do not fit."""
    rules = {r.id: r.rule for r in contract.requirements}
    out: dict[str, Query] = {}
    for number, criterion in enumerate(criteria):
        where = f"criteria.{number}"
        if criterion.requirement not in rules:
            reason = f"the contract has no requirement {criterion.requirement!r}"
            raise PackageError("verifier/verifier.json", f"{where}.requirement", reason)
        found = answers(rules[criterion.requirement])
        if criterion.anchors and len(found) != len(criterion.anchors):
            reason = f"{len(criterion.anchors)} anchors for {len(found)} answers of {criterion.requirement}"
            raise PackageError("verifier/verifier.json", f"{where}.anchors", reason)
        for name, query in zip(criterion.anchors, found, strict=False):
            if out.setdefault(name, query) != query:
                reason = f"{name} stands for two different queries"
                raise PackageError("verifier/verifier.json", f"{where}.anchors", reason)
    return out


def derive(engine: Engine, contract: Contract, wanted: Mapping[str, Query], files: Files) -> Anchors | Dropped:
    """The anchors, in the order of their ids, from both engines."""
    tables: list[dict[str, Any]] = []
    for kind in ("duckdb", "pandas"):
        payload = {
            "queries": {name: query.model_dump(mode="json") for name, query in wanted.items()},
            "givens": {g.name: g.value for g in contract.givens},
            "engine": kind,
        }
        result = engine.call(DERIVE, payload, files)
        if result.breach:
            return Dropped("anchors", f"{kind} reached a limit: {result.breach}")
        if result.error:
            raise SandboxError(f"deriving anchors failed: {result.error}")
        tables.append(result.value)
    out = []
    for name in sorted(wanted):
        found = _agreed(name, wanted[name], tables[0][name], tables[1][name])
        if isinstance(found, Dropped):
            return found
        out.append(Anchor(id=name, query=wanted[name], value=found))
    return Anchors(anchors=tuple(out))


def _agreed(name: str, query: Query, first: dict[str, Any], second: dict[str, Any]) -> Table | Dropped:
    for kind, table in (("duckdb", first), ("pandas", second)):
        if "error" in table:
            return Dropped("anchors", f"{name}: {kind}: {table['error']}")
    left, right = Table.model_validate(first), Table.model_validate(second)
    difference = agree(left, right, ordered=bool(query.order_by))
    return Dropped("anchors", f"{name}: the engines disagree: {difference}") if difference else left


def trivial(anchors: Anchors, contract: Contract, sizes: Mapping[str, tuple[int, int]]) -> Dropped | None:
    """Why an answer is not worth asking for: no rows, too many, empty cells, keys that differ in case alone."""
    for anchor in anchors.anchors:
        rows = anchor.value.rows
        least, most = sizes.get(anchor.id, (1, MOST_ROWS))
        if not least <= len(rows) <= most:
            return Dropped("trivial answer", f"{anchor.id} has {len(rows)} rows, wanted {least} to {most}")
        if any(cell is None for row in rows for cell in row):
            return Dropped("trivial answer", f"{anchor.id} has an empty cell")
        keys = {k for d in contract.deliverables for k in d.key if k in anchor.value.columns}
        at = [i for i, c in enumerate(anchor.value.columns) if c in keys] or range(len(anchor.value.columns))
        folded = {tuple(" ".join(str(row[i]).split()).casefold() for i in at) for row in rows}
        if len(folded) != len(rows):
            return Dropped("trivial answer", f"{anchor.id} has keys that differ in nothing but case or blanks")
    return None
