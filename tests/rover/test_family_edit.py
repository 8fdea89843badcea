"""The edit family: rows by a rule, one new value; what the request lacks, no solver guesses."""

from __future__ import annotations

import pytest
from workspaces import proposed, shop_workspace

from rover.construct.build import Workspace
from rover.construct.families.edit import FAMILY, alternative, demonstrator
from rover.construct.families.protocol import Draft
from rover.policy.protocol import PolicyFailure, PolicyView, ToolSpec
from rover_store.records.contract import EditRule


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return shop_workspace(tmp_path_factory.mktemp("shop"))


def drafts(workspace: Workspace, count: int) -> list[Draft]:
    return proposed(FAMILY, workspace, count)


def test_two_parsers_read_every_request_as_it_is_meant(workspace: Workspace) -> None:
    found = drafts(workspace, 100)
    assert len(found) > 80
    members = 0
    for draft in found:
        read, task = demonstrator.read(draft.instruction), alternative.understand(draft.instruction)
        rule = next(r.rule for r in draft.contract.requirements if isinstance(r.rule, EditRule))
        query, target = rule.rows.answer, draft.contract.deliverables[0]
        assert read.target == (target.sheet, target.path) == (task["sheet"], task["path"])
        assert read.column == rule.column == task["column"]
        new = next(g.value for g in draft.contract.givens if g.name == "new_value")
        assert read.value == new == task["value"]
        assert [t.column for t in read.tests] == [f.column for f in query.filters]
        assert bool(read.member) == bool(query.joins) == bool(task["member"])
        members += bool(read.member)
    assert members > 3


def test_all_but_the_edited_file_is_protected(workspace: Workspace) -> None:
    for draft in drafts(workspace, 30):
        target = draft.contract.deliverables[0].path
        editable = {f.path for f in draft.files if f.access == "editable"}
        kept = [r.rule.paths for r in draft.contract.requirements if r.rule.kind == "protected"]
        assert editable == {target}
        assert set(*kept) == {f.path for f in draft.files} - editable


def test_the_edited_column_is_neither_key_nor_condition(workspace: Workspace) -> None:
    for draft in drafts(workspace, 60):
        rule = next(r.rule for r in draft.contract.requirements if isinstance(r.rule, EditRule))
        used = {f.column for f in rule.rows.answer.filters} | set(draft.contract.deliverables[0].key)
        assert rule.column not in used


@pytest.mark.parametrize("read", [demonstrator.read, alternative.understand])
def test_a_missing_code_is_refused(workspace: Workspace, read: object) -> None:
    for draft in drafts(workspace, 30):
        new = next(g.value for g in draft.contract.givens if g.name == "new_value")
        said = f'"{new}"' if isinstance(new, str) else f" {new} "
        text = draft.instruction.replace(said, "the agreed code" if isinstance(new, str) else " the agreed figure ")
        assert text != draft.instruction
        with pytest.raises(PolicyFailure):
            read(text)  # type: ignore[operator]


def test_a_missing_tool_is_named(workspace: Workspace) -> None:
    draft = drafts(workspace, 3)[0]
    bare = PolicyView(draft.instruction, (ToolSpec("list_files", "", {}),))
    with pytest.raises(PolicyFailure, match="read_table"):
        next(demonstrator.plan(bare, 0))
    with pytest.raises(PolicyFailure, match="shell"):
        next(alternative.plan(bare, 0))
