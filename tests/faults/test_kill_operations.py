"""kill -9 during build, commit, run and repair: no acknowledged commit is lost, nothing is stuck or left behind.

What is looked at after every kill is in tests/kills.py, which does many more of them when it is run by itself.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from boxes import make
from kills import BuildDrill, CommitDrill, Drill, RepairDrill, RunDrill, Stage, prepared

#: a command that is stuck is told by its own bound, not by the bound of the test
pytestmark = pytest.mark.timeout(900)


class SmallBuild(BuildDrill):
    attempts = 1
    families = ("summarise",)


class SmallRun(RunDrill):
    attempts = 5


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    make("bubblewrap").close()  # type: ignore[attr-defined]
    return prepared(tmp_path_factory.mktemp("base"))


@pytest.mark.parametrize(("drill", "kills"), [(CommitDrill, 4), (SmallRun, 3), (SmallBuild, 2), (RepairDrill, 2)])
def test_a_killed_command_goes_on(base: Stage, tmp_path: Path, drill: type[Drill], kills: int) -> None:
    tally = drill(base, tmp_path / "stage", random.Random(11)).run(kills, at_once=kills)
    assert tally.kills == kills
    assert tally.completed >= 1
