"""Checks written from a contract and the oracle are two readings of it: on every mutant they say the same."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest
from packages import runtime

from rover.construct import cases
from rover.construct.anchors import derive
from rover.construct.calibrate import mutants
from rover.construct.families.protocol import Dropped
from rover.repair.oracle import Oracle, state_of
from rover.repair.proposals.checks import FILE, written
from rover.rollout.engine import Engine
from rover.rollout.env import Env, env_from_files, reference_state
from rover_store.records import (
    Anchors,
    Context,
    ContextFile,
    Contract,
    Deliverable,
    Given,
    GivenValue,
    Harness,
    Mutation,
    Package,
    Query,
    Reference,
    Requirement,
    Source,
    StateFile,
    Task,
    Verifier,
)
from rover_store.records.contract import (
    Answer,
    CellsRule,
    CiteRule,
    Column,
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
from rover_store.records.query import Filter, Measure

START = {
    "ledger.csv": b"id,region,status,amount\n1,North,open,10.50\n2,South,open,20.25\n3,North,paid,1.25\n"
    b"4,West,open,8\n",
    "notes.md": b"Nothing to be done here.\n",
}
DONE = {
    "ledger.csv": START["ledger.csv"].replace(b"2,South,open", b"2,South,CHECK"),
    "totals.csv": b"region,total\nSouth,20.25\nNorth,11.75\nWest,8\n",
    "report.json": json.dumps(
        {"count": 3, "ids": [1, 2, 4], "regions": [{"region": r, "rows": n} for r, n in (("North", 2), ("South", 1))]
         + [{"region": "West", "rows": 1}]}
    ).encode(),
    "memo.md": b"# Memo\n\nLargest amount: 20.25\nSource: ledger.csv\n",
}  # fmt: skip


def contract() -> Contract:
    """Every kind of rule once, over one table."""
    ledger = Source(path="ledger.csv")
    high = Query(
        source=ledger, filters=(Filter(column="amount", op="gt", value=Given(given="limit")),), select=("id",)
    )
    totals = Query(
        source=ledger, group_by=("region",), measures=(Measure(name="total", fn="sum", column="amount", decimals=2),)
    )
    is_open = (Filter(column="status", op="eq", value=Given(given="open")),)
    still = Query(source=ledger, filters=is_open, select=("id",))
    count = Query(source=ledger, filters=is_open, measures=(Measure(name="n", fn="count"),))
    rows = Query(source=ledger, group_by=("region",), measures=(Measure(name="rows", fn="count"),))
    largest = Query(source=ledger, measures=(Measure(name="m", fn="max", column="amount"),))
    text, number = Column(name="region", type="text"), Column(name="total", type="number", tolerance=0.01)
    members = (text, Column(name="rows", type="integer"))
    deliverables = (
        Deliverable(
            id="t", path="ledger.csv", type="csv", key=("id",), in_place=True,
            columns=(
                Column(name="id", type="integer"), text, Column(name="status", type="text"),
                Column(name="amount", type="number"),
            ),
        ),
        Deliverable(id="s", path="totals.csv", type="csv", key=("region",), columns=(text, number)),
        Deliverable(id="j", path="report.json", type="json", columns=(Column(name="count", type="integer"),)),
        Deliverable(id="m", path="memo.md", type="markdown"),
    )  # fmt: skip
    rules: tuple[tuple[str | None, Rule], ...] = (
        ("t", FormatRule()),
        ("t", EditRule(column="status", rows=Answer(answer=high), value=Given(given="code"))), ("t", RestRule()),
        ("s", FormatRule()), ("s", RowsRule(value=Answer(answer=totals))),
        ("s", CellsRule(column="total", value=Answer(answer=totals))),
        ("s", OrderRule(column="total", descending=True)),
        ("j", FormatRule()), ("j", FieldRule(field="count", value=Answer(answer=count))),
        ("j", SetRule(field="ids", value=Answer(answer=still))),
        ("j", RecordsRule(field="regions", key=("region",), columns=members, value=Answer(answer=rows))),
        ("m", FormatRule()), ("m", FigureRule(label="Largest amount", value=Answer(answer=largest), tolerance=0.005)),
        ("m", CiteRule(paths=("ledger.csv",))),
        (None, ProtectedRule(paths=("notes.md",))), (None, NoExtraRule()),
    )  # fmt: skip
    givens = (
        GivenValue(name="limit", value=20), GivenValue(name="code", value="CHECK"),
        GivenValue(name="open", value="open"),
    )  # fmt: skip
    needs = tuple(
        Requirement(id=f"{rule.kind}-{number}", statement=rule.kind, deliverable=about, rule=rule)
        for number, (about, rule) in enumerate(rules)
    )
    return Contract(givens=givens, deliverables=deliverables, requirements=needs)


def package(engine: Engine) -> Env:
    """The package whose verifier is written from the contract alone."""
    made = contract()
    new = written(made, Verifier(criteria=()), Anchors())
    anchors = derive(engine, made, new.queries, START)
    assert not isinstance(anchors, Dropped)
    changes = tuple(StateFile(path=p) for p in sorted(DONE))
    files: dict[str, bytes] = {
        "package.json": Package(name="every-rule", title="Every rule").dump(),
        "context/context.json": Context(
            files=(ContextFile(path="ledger.csv", access="editable"), ContextFile(path="notes.md"))
        ).dump(),
        **{f"context/files/{p}": d for p, d in START.items()},
        "task/task.json": Task(title="Every rule").dump(),
        "task/instruction.md": b"Do it.\n",
        "task/contract.json": made.dump(),
        "harness/harness.json": Harness(tools=("shell",)).dump(),
        "verifier/verifier.json": new.verifier.dump(),
        f"verifier/{FILE}": new.source.encode(),
        "verifier/anchors.json": anchors.dump(),
        "verifier/reference/reference.json": Reference(changes=changes).dump(),
        **{f"verifier/reference/files/{p}": d for p, d in DONE.items()},
    }
    return env_from_files(files, {})


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    box = runtime()
    with Engine(box) as made:
        yield made
    box.close()


def test_both_accept_the_reference_and_differ_on_no_mutant(engine: Engine) -> None:
    env = package(engine)
    rules: list[Mutation] = []
    for seed in range(3):
        rng = random.Random(seed)
        rules += [*cases.negatives(env.contract, rng, prefix=f"{seed}-"), *cases.alternatives(env.contract, rng)]
    made = [m for m in mutants(engine, env, rules, 5) if not isinstance(m, str)]
    assert len(made) > 60
    states = [reference_state(env), env.start, *made]
    verdicts = engine.grade_states([(env, state, "") for state in states])
    opinions = Oracle(engine, env.contract, env.start).judge([state_of(env.start, state) for state in states])
    assert opinions[0].accepts
    assert [s for s in verdicts[0].scores if s.score < 1] == []
    seen: set[str] = set()
    for verdict, opinion in zip(verdicts, opinions, strict=True):
        assert verdict.outcome in ("passed", "failed")
        scored = {s.requirement: s.score == 1 for s in verdict.scores}
        assert scored == dict(opinion.satisfied), (verdict.scores, opinion)
        seen |= {name for name, good in scored.items() if not good}
    assert seen == {need.id for need in env.contract.requirements}  # each rule was broken at least once
