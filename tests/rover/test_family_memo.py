"""The memo family: requests that two parsers read alike, labels that cannot be mixed up, solvers that refuse."""

from __future__ import annotations

import json
import random
import re
from itertools import permutations
from pathlib import Path

import pytest
from packages import runtime
from workspaces import proposed, shop_workspace

from rover.construct.build import Built, Workspace, attempt
from rover.construct.config import BuildConfig
from rover.construct.families.memo import FAMILY, alternative, demonstrator
from rover.construct.families.protocol import Draft, Dropped
from rover.construct.profile import profile_folder
from rover.construct.query import duck, frames
from rover.construct.query.agree import agree
from rover.policy.protocol import PolicyFailure, PolicyView, ToolSpec
from rover.rollout.engine import Engine
from rover_store.errors import PackageError
from rover_store.records import Query
from rover_store.records.contract import Answer, CiteRule, FigureRule


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return shop_workspace(tmp_path_factory.mktemp("shop"))


def drafts(workspace: Workspace, count: int) -> list[Draft]:
    return proposed(FAMILY, workspace, count)


def figures(draft: Draft) -> list[tuple[FigureRule, Query]]:
    rules = [r.rule for r in draft.contract.requirements if isinstance(r.rule, FigureRule)]
    return [(rule, rule.value.answer) for rule in rules if isinstance(rule.value, Answer)]


#: how the demonstrator, the alternative and the query name a function
SAME = {
    "count": ("count", "count"), "count_distinct": ("different", "count_distinct"), "sum": ("sum", "sum"),
    "mean": ("average", "mean"), "min": ("smallest", "min"), "max": ("largest", "max"), "earliest": ("earliest", "min"),
    "latest": ("latest", "max"), "most_rows": ("most rows", "count"), "largest_sum": ("largest sum", "sum"),
}  # fmt: skip


def test_two_parsers_read_every_request_as_it_is_meant(workspace: Workspace) -> None:
    found = drafts(workspace, 120)
    assert len(found) > 100
    kinds, partners = set(), 0
    for draft in found:
        read = demonstrator.read(draft.instruction)
        task = alternative.understand(draft.instruction)
        assert read.path == draft.contract.deliverables[0].path == task["output"]
        meant = figures(draft)
        assert len(read.figures) == len(meant) == len(task["figures"]) >= 3
        for (rule, query), one, two in zip(meant, read.figures, task["figures"], strict=True):
            measure = query.measures[0]
            assert one.label == rule.label == two["label"]
            assert (two["fn"], measure.fn) == SAME[one.fn]
            assert one.place == (query.source.sheet, query.source.path) == (two["sheet"], two["path"])
            named = (*query.group_by, *((measure.column,) if measure.column else ()))
            assert one.names == named == tuple(two["names"])
            assert one.decimals == measure.decimals == two["places"]
            assert [t.column for t in one.tests] == [f.column for f in query.filters]
            assert [t.op for t in one.tests] == [f.op for f in query.filters] == [t["op"] for t in two["tests"]]
            assert bool(one.partner) == bool(query.joins) == bool(two["partner"])
            if one.partner:
                right = query.joins[0].right
                assert isinstance(right, Query)
                assert one.partner[:2] == query.joins[0].on[0] == (two["partner"]["left"], two["partner"]["right"])
                assert [t.op for t in one.partner[3]] == [f.op for f in right.filters]
                assert [t["op"] for t in two["partner"]["tests"]] == [f.op for f in right.filters]
                partners += 1
            kinds.add(one.fn)
        cited = next(r.rule.paths for r in draft.contract.requirements if isinstance(r.rule, CiteRule))
        assert sorted(task["files"]) == sorted(cited)
    assert kinds == set(SAME)
    assert partners > 5


def test_every_figure_is_one_value_on_which_both_engines_agree(workspace: Workspace, tmp_path: Path) -> None:
    for path, data in workspace.sources.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    seen = 0
    for draft in drafts(workspace, 14):
        givens = {g.name: g.value for g in draft.contract.givens}
        one, two = duck.Session(tmp_path, givens), frames.Session(tmp_path, givens)
        for _, query in figures(draft):
            try:
                found = one.evaluate(query)
            except PackageError:  # a tie: such a draft is dropped by the builder
                with pytest.raises(PackageError, match="tie"):
                    two.evaluate(query)
                continue
            assert (len(found.columns), len(found.rows)) == (1, 1)
            assert agree(found, two.evaluate(query)) == ""
            seen += 1
    assert seen > 30


def test_no_label_holds_another(workspace: Workspace) -> None:
    for draft in drafts(workspace, 60):
        labels = [rule.label.casefold() for rule, _ in figures(draft)]
        assert not [a for a, b in permutations(labels, 2) if re.search(rf"\b{re.escape(a)}\b", b)]
        assert not any(letter.isdigit() for label in labels for letter in label)


def test_equal_seeds_give_equal_drafts(workspace: Workspace) -> None:
    assert drafts(workspace, 10) == drafts(workspace, 10)


def test_each_requirement_has_a_criterion_and_a_negative(workspace: Workspace) -> None:
    for draft in drafts(workspace, 30):
        needs = {r.id for r in draft.contract.requirements}
        assert {c.requirement for c in draft.criteria} == {m.requirement for m in draft.negatives} == needs
        for criterion in draft.criteria:
            assert f"def {criterion.check.partition(':')[2]}(ev):" in draft.checks["main.py"]


@pytest.mark.parametrize("read", [demonstrator.read, alternative.understand])
def test_a_missing_quantity_is_refused(workspace: Workspace, read: object) -> None:
    refused = 0
    for draft in drafts(workspace, 60):
        for given in draft.contract.givens:
            whole = isinstance(given.value, float) and given.value.is_integer()
            value = str(int(given.value) if whole else given.value)
            text = re.sub(rf'"?(?<![\w.]){re.escape(value)}(?![\w.]*\w)"?', "the usual value", draft.instruction)
            assert text != draft.instruction
            with pytest.raises(PolicyFailure):
                read(text)  # type: ignore[operator]
            refused += 1
    assert refused > 20


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


def test_a_table_with_little_to_say_is_no_fit(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n" + "".join(f"b{i}\n" for i in range(40)))
    found = FAMILY.propose(profile_folder(tmp_path), random.Random(0), BuildConfig())
    assert isinstance(found, Dropped)
    assert "figures" in found.reason


def test_admitted_end_to_end(workspace: Workspace) -> None:
    box = runtime()
    with Engine(box) as engine:
        found = attempt(engine, workspace, FAMILY, 1, 3).outcome
    assert isinstance(found, Built), found
    path = json.loads(found.files["task/contract.json"])["deliverables"][0]["path"]
    one = found.files[f"verifier/reference/files/{path}"].decode()
    two = found.files[f"verifier/cases/alternative/files/{path}"].decode()
    assert "Sources: `" in one
    assert "| Figure | Value |" in two
