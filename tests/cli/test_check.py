"""`rover check`: a table, JSON, exit codes, and what is said of a package that is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from packages import runtime

from rover.cli.main import run


@pytest.fixture
def sandbox() -> str:
    kind = runtime()
    close = getattr(kind, "close", None)
    if close is not None:
        close()
    return kind.kind


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A store with one sound package, `pk`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROVER_STORE", raising=False)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    for argv in (["init"], ["new", "pk"], ["commit", "pk"]):
        assert run(argv) == 0
    capsys.readouterr()
    return tmp_path


def test_sound_and_resumed(store: Path, sandbox: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--sandbox", sandbox]) == 0
    out, err = capsys.readouterr()
    assert "pk       sound" in out
    assert "1 package checked, none wrong" in err
    assert all(len(line) <= 80 for line in out.splitlines())
    assert run(["check", "p*", "--json", "--sandbox", sandbox]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["package"], found["ok"], found["problems"], found["run"]) == ("pk", True, [], 0)
    assert found["reused"] >= 8
    assert all(case["ok"] for case in found["cases"])


def test_wrong(store: Path, sandbox: str, capsys: pytest.CaptureFixture[str]) -> None:
    checks = store / "pk/verifier/checks/report.py"
    checks.write_text(checks.read_text() + "\n\ndef rows(ev):\n    return 1.0\n")
    record = json.loads((store / "pk/verifier/verifier.json").read_text())
    record["criteria"][0]["check"] = "checks/report.py:nothing"
    (store / "pk/verifier/verifier.json").write_text(json.dumps(record))
    assert run(["commit", "pk"]) == 0
    assert run(["check", "--sandbox", sandbox]) == 1
    out, err = capsys.readouterr()
    assert "wrong" in out
    flat = " ".join(out.split())
    assert "defines no function nothing" in flat
    assert "negative row-missing" in flat
    assert all(len(line) <= 80 for line in out.splitlines())
    assert "1 package checked, 1 wrong" in err


def test_glob_that_matches_nothing(store: Path, sandbox: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "zz*", "--sandbox", sandbox]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "no package of HEAD matches 'zz*'" in err
