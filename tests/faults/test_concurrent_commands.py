"""Commands beside each other on one store: all succeed, or say plainly why not; no commit and no rollout is lost."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from boxes import make
from kills import Stage, prepared

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    make("bubblewrap").close()  # type: ignore[attr-defined]
    return prepared(tmp_path_factory.mktemp("base"))


@pytest.fixture
def stage(base: Stage, tmp_path: Path) -> Stage:
    return base.copy(tmp_path / "stage")


def sound(stage: Stage) -> None:
    done = stage.rover("fsck")
    assert done.code == 0, done  # evidence on what is in no commit is a warning
    assert stage.left_over() == []


def test_four_commits(stage: Stage) -> None:
    head = stage.store.resolve()
    names = [f"task-{n}" for n in range(4)]
    for name in names:
        shutil.copytree(stage.project / "my-task", stage.project / name)
        record = stage.project / name / "package.json"
        record.write_text(record.read_text().replace('"my-task"', f'"{name}"'))
    done = stage.at_once(*(("commit", name, "-m", name, "--json") for name in names))
    assert [d.code for d in done] == [0] * 4, done
    commits = {json.loads(d.out)["commit"] for d in done}
    log = list(stage.store.log())
    assert [e.id for e in log[4:5]] == [head]
    assert {e.id for e in log[:4]} == commits
    assert {p.name for p in stage.store.packages(pattern="task-*")} == set(names)
    sound(stage)


def test_four_commits_of_one_package(stage: Stage) -> None:
    """Forced, the last one wins; the others are in the history."""
    folders = [f"copy-{n}" for n in range(4)]
    for name in folders:
        shutil.copytree(stage.project / "my-task", stage.project / name)
        (stage.project / name / "context" / "files" / "mine.txt").write_text(name)
    done = stage.at_once(*(("commit", name, "-m", name, "--json", "--force") for name in folders))
    assert [d.code for d in done] == [0] * 4, done
    commits = {json.loads(d.out)["commit"] for d in done}
    assert len(commits) == 4
    assert {e.id for e in list(stage.store.log())[:4]} == commits
    sound(stage)


def test_the_same_run_twice_at_once(stage: Stage) -> None:
    words = ("run", "shop-*", "-k", "6", "-n", "2", "--json")
    done = stage.at_once(words, words)
    assert [d.code for d in done] == [0, 0], done
    first, second = ({row["rollout"]: row["outcome"] for row in d.rows()} for d in done)
    assert first == second
    assert set(first.values()) == {"passed"}
    assert set(first) <= set(stage.store.evidence.ids())
    again = stage.rover(*words)
    assert all(row["reused"] for row in again.rows())
    sound(stage)


def test_build_run_and_repair_beside_each_other(stage: Stage) -> None:
    (package,) = (p.name for p in stage.store.packages(pattern="shop-*"))
    good = stage.store.package(package).tree
    assert stage.rover("inject", package, "lax_verifier", "--seed", "1").code == 0
    head = stage.store.resolve()
    built, ran, repaired, committed = stage.at_once(
        ("build", "--from", "shop", "--count", "1", "--seed", "3", "--family", "summarise", "--json"),
        ("run", package, "-k", "4", "--json"),
        ("repair", package, "--json"),
        ("commit", "my-task", "-m", "Nothing new", "--json"),
    )
    for done in (built, ran, repaired, committed):
        assert done.code == 0, done
    (new,) = json.loads(built.out)["admitted"]
    said = json.loads(repaired.out)
    assert said["promoted"]
    log = [e.id for e in stage.store.log()]
    assert {json.loads(built.out)["commit"], said["promoted"], head} <= set(log)
    assert stage.store.package(new)
    assert stage.store.package(package).tree != good or said["selected"] == 8
    assert len({row["rollout"] for row in ran.rows()}) == 4
    sound(stage)
