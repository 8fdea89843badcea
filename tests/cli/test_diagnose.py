"""`rover inject` and `rover diagnose`: what they print, JSON, the manifest, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from packages import runtime

from rover.cli.main import run
from rover.diagnose.inject.registry import injectors


@pytest.fixture(scope="module")
def sandbox() -> str:
    kind = runtime()
    kind.close()  # type: ignore[attr-defined]
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


def test_kinds_are_listed_without_a_store(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inject", "--list"]) == 0
    out = capsys.readouterr().out
    said = " ".join(out.split())
    assert all(i.kind in said and i.repair in said for i in injectors())
    assert max(map(len, out.splitlines())) <= 80
    assert run(["inject", "--list", "--json"]) == 0
    listed = [k["kind"] for k in json.loads(capsys.readouterr().out)]
    assert listed[: len(injectors())] == [i.kind for i in injectors()]  # pairs and triples follow


def test_broken_and_diagnosed(store: Path, sandbox: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inject", "pk", "lax_verifier", "--seed", "1", "--manifest", "made.json"]) == 0
    out = capsys.readouterr().out
    made = json.loads((store / "made.json").read_text())
    assert made["commit"].startswith(out.split("commit ")[1][:12])
    assert (made["kind"], made["seed"], made["package"]) == ("lax_verifier", 1, "pk")
    assert run(["diagnose", "pk", "--sandbox", sandbox]) == 1
    out, _ = capsys.readouterr()
    assert out.startswith("pk: environment\n")
    assert "next: rover repair pk --fcr" in out
    assert all(len(line) <= 80 for line in out.splitlines())
    assert run(["diagnose", "pk", "--json", "--sandbox", sandbox]) == 1
    found = json.loads(capsys.readouterr().out)
    assert {f["kind"] for f in found["findings"] if f["status"] == "confirmed"} == {"lax_verifier"}
    assert run(["undo"]) == 0
    capsys.readouterr()
    assert run(["diagnose", "pk", "--explain", "--sandbox", sandbox]) == 0
    assert capsys.readouterr().out.startswith("pk: sound")
    assert run(["diagnose", "p*", "--sandbox", sandbox]) == 0
    out = capsys.readouterr().out
    assert "1 package: 1 sound" in out
    assert all(len(line) <= 80 for line in out.splitlines())
    assert run(["diagnose", "p*", "--json", "--sandbox", sandbox]) == 0
    assert [json.loads(line)["verdict"] for line in capsys.readouterr().out.splitlines()] == ["sound"]
    assert run(["diagnose", "q*", "--sandbox", sandbox]) == 2


@pytest.mark.parametrize("argv", ["diagnose nobody", "inject nobody lax_verifier", "inject pk gremlins", "inject pk"])
def test_bad_requests_change_nothing(store: Path, argv: str, capsys: pytest.CaptureFixture[str]) -> None:
    head = (store / ".rover/store.git/refs/heads/main").read_bytes()
    assert run(argv.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("rover: ")
    assert (store / ".rover/store.git/refs/heads/main").read_bytes() == head
