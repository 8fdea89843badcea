"""`rover import` and `rover export`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import harbor_tasks
import pytest

from rover.cli.main import run

EXAMPLE = Path(__file__).parents[2] / "examples/harbor/hello"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROVER_STORE", raising=False)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert run(["init", "."]) == 0
    return tmp_path


def names(capsys: Capture) -> list[str]:
    capsys.readouterr()
    assert run(["list", "--names"]) == 0
    return capsys.readouterr().out.split()


def test_a_task_comes_in_and_goes_out(project: Path, capsys: Capture) -> None:
    capsys.readouterr()
    assert run(["import", "harbor", str(EXAMPLE), "--dry-run"]) == 0
    assert "nothing is changed: 1 package would be imported" in capsys.readouterr().out
    assert names(capsys) == []
    assert run(["import", "harbor", str(EXAMPLE)]) == 0
    said = capsys.readouterr().out
    assert "examples-hello" in said
    assert "committed" in said
    assert run(["import", "harbor", str(EXAMPLE)]) == 0
    assert "nothing is new; nothing is committed" in capsys.readouterr().out
    assert run(["export", "harbor", "examples-*", "--out", "tasks"]) == 0
    assert "1 package of" in capsys.readouterr().out
    for path in (p for p in EXAMPLE.rglob("*") if p.is_file()):
        assert (project / "tasks/hello" / path.relative_to(EXAMPLE)).read_bytes() == path.read_bytes()


def test_json(project: Path, capsys: Capture) -> None:
    harbor_tasks.write_all(project / "tasks")
    capsys.readouterr()
    assert run(["import", "harbor", "tasks", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {row["outcome"] for row in report["rows"]} == {"added"}
    assert {row["name"]: row["unknown"] for row in report["rows"]}["acme-unknown-keys"] == [
        "odd", "task.mood", "environment.shape", "weird",
    ]  # fmt: skip
    assert run(["export", "harbor", "--out", "out", "--json", "--limit", "2"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 2


def test_globs_limits_and_what_is_named(project: Path, capsys: Capture) -> None:
    harbor_tasks.write_all(project / "tasks")
    assert run(["import", "harbor", "tasks", "--only", "*-only"]) == 0
    assert names(capsys) == ["acme-dockerfile-only", "acme-image-only"]
    assert run(["import", "harbor", "tasks", "--only", "unknown*"]) == 0
    assert "acme-unknown-keys: unknown key, kept: environment.shape" in capsys.readouterr().err
    assert run(["import", "harbor", "tasks", "--limit", "1"]) == 0
    assert "acme-copies" in names(capsys)
    assert run(["import", "harbor", "tasks", "--only", "none"]) == 2


def test_a_bad_task_is_one_line_and_nothing_is_changed(project: Path, capsys: Capture) -> None:
    harbor_tasks.write_all(project / "tasks")
    (project / "tasks/copies/task.toml").write_text("[task]\nname = 3\n")
    capsys.readouterr()
    assert run(["import", "harbor", "tasks"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "rover: copies/task.toml: task.name: 3 is not of type 'string'"
    assert names(capsys) == []
    assert run(["import", "harbor", "tasks", "--keep-going"]) == 1
    out = capsys.readouterr().out
    assert "refused" in out
    assert len(names(capsys)) == len(harbor_tasks.tasks()) - 1


def test_packages_that_differ_are_replaced_only_when_told(project: Path, capsys: Capture) -> None:
    folder = harbor_tasks.write(harbor_tasks.tasks()["copies"], project / "copies")
    assert run(["import", "harbor", "copies"]) == 0
    (folder / "instruction.md").write_text("Something else.\n")
    capsys.readouterr()
    assert run(["import", "harbor", "copies"]) == 2
    assert "packages of these names are here and differ: acme-copies" in capsys.readouterr().err
    assert run(["import", "harbor", "copies", "-y"]) == 0
    assert "replaced" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["import", "odd", "x"],
        ["import", "harbor", "missing"],
        ["import", "harbor", ".", "--set", "x"],
        ["import", "harbor"],
        ["export", "odd", "--out", "x"],
        ["export", "harbor", "none-*", "--out", "x"],
        ["export", "harbor", "--out", "x", "--set", "odd=1"],
        ["export", "harbor"],
    ],
)
def test_requests_that_make_no_sense(words: list[str], project: Path, capsys: Capture) -> None:
    assert run(["import", "harbor", str(EXAMPLE)]) == 0
    capsys.readouterr()
    assert run(words) == 2
    assert capsys.readouterr().err.startswith("rover: ")
    assert not (project / "x").exists()


def test_equal_notes_of_many_are_said_once(project: Path, capsys: Capture) -> None:
    for number in range(6):
        files = {**harbor_tasks.tasks()["no-solution"], "task.toml": f'[task]\nname = "acme/n{number}"\n'}
        harbor_tasks.write(files, project / f"tasks/n{number}")
    capsys.readouterr()
    assert run(["import", "harbor", "tasks"]) == 0
    assert capsys.readouterr().err.count("it brings no solution") == 1


def test_the_worked_example_of_the_page_runs_as_it_stands(project: Path, capsys: Capture) -> None:
    page = (Path(__file__).parents[2] / "rover/docs/harbor.md").read_text()
    example = page[page.index("## A worked example") : page.index("## The way in")]
    (project / "examples/harbor").mkdir(parents=True)
    (project / "examples/harbor/hello").symlink_to(EXAMPLE)
    lines = [line.strip() for line in example.splitlines() if line.startswith("    rover ")]
    assert len(lines) == 4
    for line in lines:
        capsys.readouterr()
        assert run(shlex.split(line)[1:]) == 0, line
        if "--policy" in line:
            assert ("failed" if "null" in line else "passed") in capsys.readouterr().out
    assert (project / "tasks/hello/task.toml").read_bytes() == (EXAMPLE / "task.toml").read_bytes()
