"""The summarise family: requests that two parsers read alike, and solvers that refuse what they cannot know."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from workspaces import proposed, shop_workspace

from rover.construct.build import Workspace
from rover.construct.config import BuildConfig
from rover.construct.families.protocol import Draft, Dropped
from rover.construct.families.summarise import FAMILY, alternative, demonstrator
from rover.policy.protocol import PolicyFailure, PolicyView, ToolSpec
from rover_store.records import GivenValue
from rover_store.records.contract import Answer, RowsRule


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return shop_workspace(tmp_path_factory.mktemp("shop"))


def drafts(workspace: Workspace, count: int) -> list[Draft]:
    return proposed(FAMILY, workspace, count)


def view(instruction: str, *tools: str) -> PolicyView:
    return PolicyView(instruction, tuple(ToolSpec(t, "", {}) for t in tools))


def written(value: GivenValue) -> str:
    number = isinstance(value.value, float) and value.value.is_integer()
    return str(int(value.value) if number else value.value)


def test_two_parsers_read_every_request_as_it_is_meant(workspace: Workspace) -> None:
    found = drafts(workspace, 120)
    assert len(found) > 100
    for draft in found:
        read = demonstrator.read(draft.instruction)
        task = alternative.understand(draft.instruction)
        query = next(
            r.rule.value.answer
            for r in draft.contract.requirements
            if isinstance(r.rule, RowsRule) and isinstance(r.rule.value, Answer)
        )
        assert read.source == (query.source.sheet, query.source.path) == (task["sheet"], task["path"])
        assert [t.column for t in read.tests] == [f.column for f in query.filters]
        assert [t.op for t in read.tests] == [f.op for f in query.filters] == [t["op"] for t in task["tests"]]
        assert list(read.groups) == list(query.group_by) == task["groups"]
        assert [m[:2] for m in read.measures] == [(m.name, m.fn) for m in query.measures]
        assert [(m["fn"], m["places"]) for m in task["measures"]] == [(m.fn, m.decimals) for m in query.measures]
        assert len(read.lookups) == len(query.joins) == len(task["joins"])
        target = draft.contract.deliverables[0]
        assert read.output == (target.sheet, target.path) == (task["output_sheet"], task["output"])


def test_every_given_value_and_path_stands_in_the_request(workspace: Workspace) -> None:
    seen = 0
    for draft in drafts(workspace, 60):
        for given in draft.contract.givens:
            assert written(given) in draft.instruction
            seen += 1
        assert f"`{draft.contract.deliverables[0].path}`" in draft.instruction
    assert seen > 20


def test_requests_are_phrased_in_many_ways(workspace: Workspace) -> None:
    lines = {line.split("`")[0] for d in drafts(workspace, 60) for line in d.instruction.splitlines()}
    assert len(lines) > 40


def test_equal_seeds_give_equal_drafts(workspace: Workspace) -> None:
    assert drafts(workspace, 10) == drafts(workspace, 10)


def test_each_requirement_has_a_criterion_and_a_negative(workspace: Workspace) -> None:
    for draft in drafts(workspace, 30):
        needs = {r.id for r in draft.contract.requirements}
        assert {c.requirement for c in draft.criteria} == needs
        assert {m.requirement for m in draft.negatives} == needs
        assert len(draft.negatives) >= 4
        for criterion in draft.criteria:
            assert f"def {criterion.check.partition(':')[2]}(ev):" in draft.checks["main.py"]


@pytest.mark.parametrize("read", [demonstrator.read, alternative.understand])
def test_a_missing_quantity_is_refused(workspace: Workspace, read: object) -> None:
    refused = 0
    for draft in drafts(workspace, 40):
        for given in draft.contract.givens:
            text = re.sub(
                rf'"?(?<![\w.]){re.escape(written(given))}(?![\w.]*\w)"?', "the usual value", draft.instruction
            )
            assert text != draft.instruction
            with pytest.raises(PolicyFailure):
                read(text)  # type: ignore[operator]
            refused += 1
    assert refused > 10


@pytest.mark.parametrize(
    ("family_plan", "offered", "missing"),
    [
        (demonstrator.plan, ("read_table", "shell"), "write_table"),
        (demonstrator.plan, ("write_table",), "read_table"),
        (alternative.plan, ("read_table", "write_table"), "shell"),
    ],
)
def test_a_missing_tool_is_named(
    workspace: Workspace, family_plan: object, offered: tuple[str, ...], missing: str
) -> None:
    draft = drafts(workspace, 3)[0]
    with pytest.raises(PolicyFailure, match=missing):
        next(family_plan(view(draft.instruction, *offered), 0))  # type: ignore[operator]


def test_no_table_to_group_by_is_no_fit(tmp_path: Path) -> None:
    from rover.construct.profile import profile_folder

    (tmp_path / "a.csv").write_text("x\n" + "".join(f"{i * 1.5}\n" for i in range(20)))
    found = FAMILY.propose(profile_folder(tmp_path), random.Random(0), BuildConfig())
    assert isinstance(found, Dropped)
    assert "group by" in found.reason
