"""The reconcile family: requests that two parsers read alike, errors that the engines find, solvers that refuse."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from packages import runtime
from workspaces import proposed, shop_workspace

from rover.construct.build import Built, Workspace, attempt
from rover.construct.config import BuildConfig
from rover.construct.families.protocol import Draft, Dropped
from rover.construct.families.reconcile import FAMILY, alternative, demonstrator
from rover.construct.profile import profile_folder
from rover.construct.query import duck, frames
from rover.construct.query.agree import agree
from rover.policy.protocol import PolicyFailure, PolicyView, ToolSpec
from rover.rollout.engine import Engine
from rover_store.records import Query
from rover_store.records.contract import Answer, FieldRule, RecordsRule


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return shop_workspace(tmp_path_factory.mktemp("shop"))


def drafts(workspace: Workspace, count: int) -> list[Draft]:
    return proposed(FAMILY, workspace, count)


def answer(draft: Draft, name: str) -> Query:
    rule = next(r.rule for r in draft.contract.requirements if r.id == name)
    assert isinstance(rule, FieldRule | RecordsRule)
    assert isinstance(rule.value, Answer)
    return rule.value.answer


def test_two_parsers_read_every_request_as_it_is_meant(workspace: Workspace) -> None:
    found = drafts(workspace, 120)
    assert len(found) > 100
    for draft in found:
        read = demonstrator.read(draft.instruction)
        task = alternative.understand(draft.instruction)
        query = answer(draft, "findings")
        sums = query.joins[0].right
        assert isinstance(sums, Query)
        assert read.details == (sums.source.sheet, sums.source.path) == (task["sheet"], task["path"])
        assert read.totals == (query.source.sheet, query.source.path) == (task["totals_sheet"], task["totals"])
        measure = sums.measures[0]
        assert (read.amount, read.places) == (measure.column, measure.decimals) == (task["amount"], task["places"])
        assert (read.group,) == sums.group_by == (task["group"],)
        assert [t.op for t in read.tests] == [f.op for f in sums.filters] == [t["op"] for t in task["tests"]]
        assert query.select == (read.group, read.recorded, read.computed, read.difference)
        assert query.select == tuple(task[k] for k in ("group", "recorded", "computed", "difference"))
        assert bool(read.lookup) == bool(sums.joins) == bool(task["lookup"])
        if read.lookup:
            assert read.lookup[1:] == sums.joins[0].on[0] == (task["lookup"]["left"], task["lookup"]["right"])
        givens = {g.name: g.value for g in draft.contract.givens}
        assert float(read.tolerance or 0) == givens["tolerance"] == float(task["tolerance"])
        rules = {r.id: r.rule for r in draft.contract.requirements}
        for part in ("findings", "count", "checked", "largest"):
            rule = rules[part]
            assert isinstance(rule, FieldRule | RecordsRule)
            assert getattr(read, part) == rule.field == task[part]
        assert read.path == draft.contract.deliverables[0].path == task["output"]


def test_the_totals_have_errors_that_both_engines_find(workspace: Workspace, tmp_path: Path) -> None:
    endings: set[str] = set()
    for number, draft in enumerate(drafts(workspace, 14)):
        root = tmp_path / str(number)
        for path, data in ({p: workspace.sources[p] for p in draft.sources()} | dict(draft.own)).items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(data)
        givens = {g.name: g.value for g in draft.contract.givens}
        one, two = duck.Session(root, givens), frames.Session(root, givens)
        for name in ("findings", "count", "checked", "largest"):
            left = one.evaluate(answer(draft, name))
            assert agree(left, two.evaluate(answer(draft, name))) == ""
            if name == "findings":
                wrong = left
            elif name == "count":
                assert left.rows == ((len(wrong.rows),),)
            elif name == "largest":
                worst = max(wrong.rows, key=lambda row: abs(float(row[3] or 0)))
                assert left.rows == ((worst[0],),)
        assert 1 <= len(wrong.rows) <= 5
        assert all(abs(float(row[3] or 0)) > float(givens["tolerance"]) for row in wrong.rows)
        endings |= {path.rsplit(".", 1)[-1] for path in draft.own}
    assert endings >= {"csv", "xlsx"}


def test_equal_seeds_give_equal_drafts(workspace: Workspace) -> None:
    assert drafts(workspace, 10) == drafts(workspace, 10)


def test_each_requirement_has_a_criterion_and_a_negative(workspace: Workspace) -> None:
    for draft in drafts(workspace, 30):
        needs = {r.id for r in draft.contract.requirements}
        assert {c.requirement for c in draft.criteria} == {m.requirement for m in draft.negatives} == needs
        for criterion in draft.criteria:
            assert f"def {criterion.check.partition(':')[2]}(ev):" in draft.checks["main.py"]
        roles = {f.path: (f.role, f.access) for f in draft.files}
        assert {roles[path] for path in draft.own} == {("starter", "protected")}


@pytest.mark.parametrize("read", [demonstrator.read, alternative.understand])
def test_a_missing_quantity_is_refused(workspace: Workspace, read: object) -> None:
    refused = 0
    for draft in drafts(workspace, 30):
        text = re.sub(r"(up to|more than) \d+(\.\d+)?", r"\1 the usual", draft.instruction)
        without = [text, draft.instruction.replace(f"`{draft.contract.deliverables[0].path}`", "the usual file")]
        for changed in without:
            assert changed != draft.instruction
            with pytest.raises(PolicyFailure):
                read(changed)  # type: ignore[operator]
            refused += 1
    assert refused > 40


@pytest.mark.parametrize(
    ("family_plan", "offered", "missing"),
    [
        (demonstrator.plan, ("read_table", "shell"), "write_file"),
        (demonstrator.plan, ("write_file",), "read_table"),
        (alternative.plan, ("read_table", "write_file"), "shell"),
    ],
)
def test_a_missing_tool_is_named(
    workspace: Workspace, family_plan: object, offered: tuple[str, ...], missing: str
) -> None:
    tools = tuple(ToolSpec(t, "", {}) for t in offered)
    with pytest.raises(PolicyFailure, match=missing):
        next(family_plan(PolicyView(drafts(workspace, 3)[0].instruction, tools), 0))  # type: ignore[operator]


def test_no_amounts_is_no_fit(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n" + "".join(f"a{i % 3},b{i % 5}\n" for i in range(40)))
    found = FAMILY.propose(profile_folder(tmp_path), random.Random(0), BuildConfig())
    assert isinstance(found, Dropped)
    assert "amounts" in found.reason


def test_admitted_end_to_end(workspace: Workspace) -> None:
    box = runtime()
    with Engine(box) as engine:
        found = attempt(engine, workspace, FAMILY, 1, 3).outcome
    assert isinstance(found, Built), found
    path = json.loads(found.files["task/contract.json"])["deliverables"][0]["path"]
    one = found.files[f"verifier/reference/files/{path}"]
    two = found.files[f"verifier/cases/alternative/files/{path}"]
    assert one != two
    assert len(json.loads(one)) == len(json.loads(two)) == 4
