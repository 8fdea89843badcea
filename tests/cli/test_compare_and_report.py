"""rover compare, rover report: what they print, write and refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from run_folders import run_folder

from rover.cli.main import run


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs, `grpo` and `vtca`, in the folder where commands run."""
    monkeypatch.chdir(tmp_path)
    run_folder(tmp_path / "grpo", method="grpo", gain=0.0, seed=1)
    run_folder(tmp_path / "vtca", gain=0.4, seed=2)
    return tmp_path


def test_compare(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "grpo", "vtca", "--page", "page.html"]) == 0
    said = capsys.readouterr()
    lines = [line.split() for line in said.out.splitlines()]
    assert next(line for line in lines if line[:1] == ["grpo"])[:4] == ["grpo", "grpo", "48", "0"]
    assert "vtca against grpo: 48 pairs" in said.out
    whole = next(line for line in lines if line[:1] == ["all"])
    assert sum(map(int, whole[1:4])) == 48
    assert whole[4].startswith("+")
    assert "page written to page.html" in said.err
    assert "<h1>vtca against grpo</h1>" in (runs / "page.html").read_text()


def test_compare_json(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "grpo", "vtca", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [s["name"] for s in found["sides"]] == ["grpo", "vtca"]
    (against,) = found["against"]
    assert against["success"]["wins"] + against["success"]["losses"] + against["success"]["ties"] == against["pairs"]
    assert found["unequal"] == []


def test_compare_refuses_unequal_budgets(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_folder(runs / "longer", steps=50)
    assert run(["compare", "grpo", "longer"]) == 2
    said = capsys.readouterr()
    assert "unequal: rollouts of training (grpo: 2560, longer: 3200)" in said.err
    assert said.out == ""
    assert run(["compare", "grpo", "longer", "--unequal"]) == 0
    assert "unequal: rollouts of training" in capsys.readouterr().err
    assert run(["compare", "--help"]) == 0
    assert "--unequal lets every inequality pass" in " ".join(capsys.readouterr().out.split())


def test_compare_refuses_one_and_none(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "grpo"]) == 2
    assert "nothing to compare with" in capsys.readouterr().err
    assert run(["compare", "grpo", "nowhere"]) == 2
    assert "not found: nowhere" in capsys.readouterr().err


def test_report(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "vtca"]) == 0
    assert capsys.readouterr().out.startswith("vtca/report.html: ")
    assert run(["report", "vtca", "-o", "vtca.html", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"page": "vtca.html", "bytes": (runs / "vtca.html").stat().st_size}
    assert (runs / "vtca.html").read_bytes() == (runs / "vtca/report.html").read_bytes()


def test_report_refuses_what_is_no_run(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "."]) == 2
    assert "run not found" in capsys.readouterr().err
    assert run(["report", "vtca", "-o", "grpo/config.toml/page.html"]) == 2
    assert "cannot be written" in capsys.readouterr().err
