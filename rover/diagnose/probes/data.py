"""Probes that ask what became of the data: another unit, another spelling, a second copy, work that was half done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rover.construct.query.agree import agree
from rover.diagnose.demands import asked, contract_sources, parts, sources
from rover.diagnose.protocol import ProbeContext
from rover.rollout.env import Env
from rover_store.ids import blob_id
from rover_store.records import Anchor, Finding, Given, Query, Source, Table
from rover_store.records.contract import EditRule
from rover_store.records.query import Derived, Filter, Measure

_TABLES = (".csv", ".tsv", ".xlsx", ".json", ".jsonl")


class Spelling:
    """Columns that answers calculate with or compare are written as numbers and as dates."""

    name = "spelling"
    written_for = frozenset({"wrong_unit"})
    cost = 1

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        broken = off(ctx)
        if not broken:
            return ()
        found = ctx.runs.call("rover.diagnose.inside_data:spellings", {"columns": used_columns(ctx.env)})
        return tuple(
            _unit(
                self.name,
                one,
                f"{one['column']} of {one['path']} is written {one['how']} ({one['found'][:40]}), no {one['sort']}",
                [a.id for a in broken],
            )
            for one in found
        )


class Unit:
    """No column has to be multiplied for the expected values to be what their queries give."""

    name = "unit"
    written_for = frozenset({"wrong_unit"})
    cost = 1

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        broken = off(ctx)
        if not broken:
            return ()
        job = {
            "columns": [c for c in used_columns(ctx.env) if c["sort"] == "number"],
            "queries": {a.id: a.query.model_dump(mode="json") for a in broken},
            "givens": {g.name: g.value for g in ctx.env.contract.givens},
            "anchors": {a.id: [list(row) for row in a.value.rows] for a in broken},
        }
        one = ctx.runs.call("rover.diagnose.inside_data:undone", job)
        if one is None:
            return ()
        text = f"{one['column']} of {one['path']} is in another unit: divided by {one['factor']:g}, every answer fits"
        return (_unit(self.name, one, text, [a.id for a in broken]),)


class Copies:
    """No two files hold the same records and disagree."""

    name = "copies"
    written_for = frozenset({"conflicting_copies"})
    cost = 1

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        env = ctx.env
        files = [p for p in env.start if p.endswith(_TABLES)]
        needed = [p for p in contract_sources(env.contract) if p in env.start]
        kinds = {p.rpartition(".")[2] for p in needed}
        if not needed or len([p for p in files if p.rpartition(".")[2] in kinds]) < 2:
            return ()
        found = ctx.runs.call("rover.diagnose.inside_data:copies", {"files": files, "needed": needed})
        built_on = {blob for edge in env.record.edges if edge.source == "verifier" for blob in edge.blobs}
        return tuple(self._finding(ctx, one, built_on) for one in found)

    def _finding(self, ctx: ProbeContext, one: dict[str, Any], built_on: set[str]) -> Finding:
        path, other = one["path"], one["found"]
        mine, theirs = blob_id(ctx.env.start[path]), blob_id(ctx.env.start[other])
        former = theirs in built_on and mine not in built_on
        sure = former or (bool(off(ctx)) and _fits(ctx, path, other))
        text = f"{path} and {other} hold the same records and disagree"
        if sure:
            text += f"; the verifier goes by those of {other}"
        return Finding(
            probe=self.name,
            kind="conflicting_copies",
            message=text,
            components=("context", "verifier"),
            status="confirmed" if sure else "hypothesis",
            evidence=(mine, theirs),
            details={"subject": path, "path": path, "found": other, "paths": sorted((path, other)),
                     **({"column": one["column"]} if one["column"] else {})},
            excludes=("an agent's mistake: who reads either file cannot know of the other",),
        )  # fmt: skip


class HalfDone:
    """No row that is to be edited holds the new value already."""

    name = "half_done"
    written_for = frozenset({"leftover_output"})
    cost = 1

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        return tuple(self._found(ctx))

    def _found(self, ctx: ProbeContext) -> Iterator[Finding]:
        env = ctx.env
        by_id = {d.id: d for d in env.contract.deliverables}
        broken = {a.query: a for a in off(ctx)}
        for need in env.contract.requirements:
            rule, target = need.rule, by_id.get(need.deliverable or "")
            if not isinstance(rule, EditRule) or not isinstance(rule.value, Given) or target is None:
                continue
            anchor = broken.get(rule.rows.answer)
            now = ctx.runs.derive({"rows": rule.rows.answer})["rows"] if anchor else None
            if anchor is None or not isinstance(now, Table):
                continue
            held = Query(
                source=Source(path=target.path, sheet=target.sheet),
                filters=(Filter(column=rule.column, op="eq", value=rule.value),),
                select=anchor.value.columns,
            )
            done = ctx.runs.derive({"done": held})["done"]
            gone = set(anchor.value.rows) - set(now.rows)
            new = set(now.rows) - set(anchor.value.rows)
            if isinstance(done, Table) and gone and gone <= set(done.rows) and not new:
                yield Finding(
                    probe=self.name,
                    kind="leftover_output",
                    message=f"{len(gone)} rows of {target.path} hold the new {rule.column} before anything is done",
                    components=("context",),
                    requirement=need.id,
                    evidence=("verifier/anchors.json", blob_id(env.start[target.path])),
                    details={"subject": target.path, "path": target.path, "column": rule.column, "anchor": anchor.id,
                             "requirements": [need.id]},
                )  # fmt: skip


def off(ctx: ProbeContext) -> list[Anchor]:
    """Anchors that the present files no longer give, or give otherwise."""
    known = [a for a in ctx.env.anchors.anchors if all(s.path in ctx.env.start for s in sources(a.query))]
    derived = ctx.runs.derive({a.id: a.query for a in known}) if known else {}
    return [a for a in known if isinstance(now := derived[a.id], str) or agree(a.value, now)]


def used_columns(env: Env) -> list[dict[str, Any]]:
    """Columns that some answer needs as numbers or dates, for each table that it reads."""
    found: dict[tuple[str, str | None, str], str] = {}
    values = {g.name: g.value for g in env.contract.givens}
    for one in asked(env.contract):
        sorts = _sorts(one.query, values)
        for source in sources(one.query):
            for column, sort in sorts.items():
                found.setdefault((source.path, source.sheet, column), sort)
    return [{"path": p, "sheet": s, "column": c, "sort": sort} for (p, s, c), sort in sorted(found.items(), key=str)]


def _sorts(query: Query, values: dict[str, Any]) -> dict[str, str]:
    out: dict[str, str] = {}
    for part in parts(query):
        if isinstance(part, Measure) and part.column and part.fn in ("sum", "mean"):
            out[part.column] = "number"
        elif isinstance(part, Derived) and part.op in ("year", "month"):
            out[part.left] = "date"
        elif isinstance(part, Derived):
            out |= {c: "number" for c in (part.left, part.right) if isinstance(c, str)}
        elif isinstance(part, Filter) and part.value is not None and part.op != "contains":
            value = values.get(part.value.given)
            if isinstance(value, int | float) and not isinstance(value, bool):
                out.setdefault(part.column, "number")
            elif isinstance(value, str) and len(value) == 10 and value[4:5] == value[7:8] == "-":
                out.setdefault(part.column, "date")
    for part in parts(query):
        if isinstance(part, Measure) and part.column and part.fn in ("min", "max"):
            out.setdefault(part.column, "number")
    return out


def _fits(ctx: ProbeContext, path: str, other: str) -> bool:
    """Whether the anchors that are off are what their queries give on the other copy."""
    queries = {a.id: _read_from(a.query, path, other) for a in off(ctx)}
    derived = ctx.runs.derive(queries)
    return all(
        isinstance(now := derived[a.id], Table) and not agree(a.value, now) for a in off(ctx) if a.id in queries
    )


def _read_from(query: Query, path: str, other: str) -> Query:
    text = query.model_dump(mode="json")

    def moved(value: Any) -> Any:
        if isinstance(value, list):
            return [moved(v) for v in value]
        if isinstance(value, dict):
            return {k: other if k == "path" and v == path else moved(v) for k, v in value.items()}
        return value

    return Query.model_validate(moved(text))


def _unit(probe: str, one: dict[str, Any], text: str, anchors: list[str]) -> Finding:
    return Finding(
        probe=probe,
        kind="wrong_unit",
        message=text,
        components=("context", "verifier"),
        evidence=(one["path"], "verifier/anchors.json"),
        details={"subject": one["path"], "path": one["path"], "column": one["column"], "stated_in": one["path"],
                 "anchors": anchors, **{k: one[k] for k in ("found", "factor") if k in one}},
        excludes=("another question or a wrong expected value: it is the one column that is off",),
    )  # fmt: skip

