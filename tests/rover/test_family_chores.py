"""Chores: small graded tasks on small tables; two solvers, a hasty third, and what a pass needs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from rover.construct.build import Built, Workspace, attempt
from rover.construct.families.chores import FAMILY, STRICT, alternative, demonstrator, hasty, propose, spec
from rover.construct.families.protocol import Draft, Dropped
from rover.construct.families.registry import families, family, names
from rover.ops.build import BuildRequest, read_workspace
from rover.policy.registry import get_policy
from rover.rollout.engine import Engine
from rover.rollout.env import Env, env_from_files
from rover.rollout.records import RolloutRequest
from rover.sandbox.registry import open_runtime
from rover_store.errors import UsageError
from rover_train.world import workspaces as world
from rover_train.world.workspaces import write


@pytest.fixture(scope="module")
def workspaces(tmp_path_factory: pytest.TempPathFactory) -> list[Workspace]:
    made = write(tmp_path_factory.mktemp("world"), 6, 4)
    return [read_workspace(BuildRequest(folder, 1)) for folder in made]


def drafts(workspaces: list[Workspace], which: object, count: int) -> list[Draft]:
    """Drafts of many seeds. A ledger that names no item twice can be taken for the table to look up in: then no draft
    with a cell to change fits, and another one is drawn."""
    found = []
    for workspace in workspaces:
        for seed in range(count):
            draft = which.propose(workspace.profile, random.Random(seed), None)  # type: ignore[attr-defined]
            if isinstance(draft, Dropped):
                assert draft.reason == "there is no ledger"
            else:
                found.append(draft)
    assert len(found) >= 0.8 * count * len(workspaces)
    return found


def test_levels_are_of_the_family_and_criticality_too(workspaces: list[Workspace]) -> None:
    for which, levels in ((FAMILY, {1, 2, 3, 4}), (STRICT, {4, 5, 6})):
        found = drafts(workspaces, which, 12)
        assert {d.notes["level"] for d in found} == levels
        for draft in found:
            assert draft.pass_weight == 1.0
            assert draft.notes["parts"] in {"".join(p) for p in _orders(propose.LEVELS[int(draft.notes["level"])])}
            critical = {c.id for c in draft.criteria if c.critical} - {"protected"}
            reports = {c.id for c in draft.criteria if c.id.startswith("report")}
            assert critical == (reports if which is STRICT else set())


def _orders(kinds: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    from itertools import permutations

    return (order for kind in kinds for order in permutations(kind))


def test_two_parsers_read_every_request_alike(workspaces: list[Workspace]) -> None:
    for draft in drafts(workspaces, FAMILY, 12):
        steps, jobs = demonstrator.read(draft.instruction), alternative.understand(draft.instruction)
        assert len(steps) == len(jobs) == len(str(draft.notes["parts"]))
        for step, job in zip(steps, jobs, strict=True):
            assert step.path == job["path"]
            if isinstance(step, demonstrator.Report):
                assert (step.source, step.column, step.wanted) == (job["source"], job["by"], job["wanted"])
                assert (step.key, step.value) == (job["key"], job["value"])
            else:
                assert (step.column, step.key, step.row, step.value) == (
                    job["column"], job["key"], job["row"], job["value"],
                )  # fmt: skip
            found = step.found
            assert job["lookup"] == (found and {"path": found.path, "value": found.value, "key": found.key})


def test_the_contract_alone_gives_the_request_back(workspaces: list[Workspace]) -> None:
    for draft in drafts(workspaces, FAMILY, 8) + drafts(workspaces, STRICT, 8):
        assert FAMILY.request(draft.contract, draft.instruction) == draft.instruction


def test_files_without_a_table_that_explains_another_carry_none(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,n\n1,2\n2,3\n3,4\n4,5\n5,6\n")
    profile = read_workspace(BuildRequest(tmp_path, 1)).profile
    assert isinstance(FAMILY.propose(profile, random.Random(0), None), Dropped)  # type: ignore[arg-type]


def test_chores_are_built_only_where_they_are_named() -> None:
    assert {"chores", "strict_chores"} <= set(names())
    assert not {"chores", "strict_chores"} & {f.name for f in families()}
    assert family("strict_chores") is STRICT
    assert [f.name for f in families("chores")] == ["chores"]


def test_only_a_family_with_habits_has_a_hasty_solver() -> None:
    assert get_policy("solver:hasty", family=FAMILY).id == "solver:chores:hasty:1"
    with pytest.raises(UsageError, match="has no hasty solver"):
        get_policy("solver:hasty", family=family("edit"))  # type: ignore[arg-type]


# --- built and run -------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine(open_runtime(None), None) as made:
        yield made


@pytest.fixture(scope="module")
def env(engine: Engine, workspaces: list[Workspace]) -> Env:
    for number in range(12):
        built = attempt(engine, workspaces[0], STRICT, number, 7).outcome
        assert isinstance(built, Built), built
        env = env_from_files(built.files, built.resources)
        if "of its" in env.instruction:
            return env
    raise AssertionError("no package with a look-up")


def test_the_careful_solver_passes_and_a_guess_fails_whole(engine: Engine, env: Env) -> None:
    careful, hurried = (get_policy(spec, family=STRICT) for spec in ("solver", "solver:hasty"))
    runs = engine.rollouts([RolloutRequest(env, careful, 0), *(RolloutRequest(env, hurried, s) for s in range(8))])
    verdicts = engine.grade([(run, env) for run in runs])
    assert verdicts[0].outcome == "passed"
    assert {v.outcome for v in verdicts[1:]} <= {"passed", "failed"}
    assert any(v.gate == 0 for v in verdicts[1:])
    assert {c.critical for c in env.verifier.criteria if c.id.startswith("report")} == {True}
    turns = len(runs[0].trajectory.turns)
    assert 7 <= turns <= 24
    assert runs[0].trajectory.turns[-1].calls == ()


def test_habits_follow_from_the_seed(engine: Engine, env: Env) -> None:
    hurried = get_policy("solver:hasty", family=STRICT)
    ran = engine.rollouts([RolloutRequest(env, hurried, s) for s in (3, 3, 4, 5, 6, 7)])
    said = [[(c.tool, c.arguments) for t in run.trajectory.turns for c in t.calls] for run in ran]
    assert said[0] == said[1]
    assert any(s != said[0] for s in said[2:])
    assert spec.GUARD[0] in env.instruction or spec.GUARD[1] in env.instruction
    assert str(world.USUAL) == hasty.USUAL
