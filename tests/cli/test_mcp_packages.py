"""A package with tool servers through the command line: committed, checked, run, exported again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from packages import runtime
from tool_servers import hand

from rover.cli.main import run
from rover_store.store import Store

FAR = {"name": "far", "url": "https://example.org/mcp"}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A store with one sound package, `pk`, in whose harness no server is named yet."""
    kind = runtime()
    kind.close()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROVER_STORE", raising=False)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    monkeypatch.setenv("ROVER_SANDBOX", kind.kind)
    for argv in (["init"], ["new", "pk"]):
        assert run(argv) == 0
    capsys.readouterr()
    return tmp_path


def name_servers(store: Path, servers: list[object], source: str = "") -> None:
    path = store / "pk/harness/harness.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "mcp_servers": servers}))
    if source:
        (store / "pk/harness/mcp").mkdir(exist_ok=True)
        (store / "pk/harness/mcp/own.py").write_text(source)


def test_a_package_with_servers_is_committed_checked_and_run(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name_servers(store, [{"name": "own", "command": ["python3", "{mcp}/own.py"]}, FAR], hand())
    assert run(["commit", "pk"]) == 0
    assert run(["check"]) == 0
    out, err = capsys.readouterr()
    assert "tool server far needs network (https://example.org/mcp): not offered" in " ".join(out.split())
    assert "1 package checked, none wrong, 1 note" in err
    (store / "plan.json").write_text(json.dumps([{"tool": "own__go"}]))
    assert run(["run", "pk", "--policy", "scripted:plan.json", "--json"]) == 0
    out, err = capsys.readouterr()
    assert "far needs network" in err
    row = json.loads(out)
    assert run(["show", row["rollout"]]) == 0
    shown = capsys.readouterr().out
    assert "own__go" in shown
    assert run(["checkout", "pk", "again"]) == 0
    assert (store / "again/harness/mcp/own.py").read_text() == hand()


def test_a_server_that_does_not_start_is_named(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name_servers(store, [{"name": "own", "command": ["python3", "{mcp}/own.py"]}], "raise SystemExit('no luck')")
    assert run(["commit", "pk"]) == 0
    assert run(["check"]) != 0
    out, err = capsys.readouterr()
    assert "tool server own ended with exit code 1: no luck" in " ".join((out + err).split())


def test_servers_that_cannot_start_are_wrong_records(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["commit", "pk"]) == 0
    name_servers(store, [{"name": "own", "command": ["python3", "{mcp}/none.py"]}, FAR, FAR])
    assert run(["commit", "pk"]) == 2
    assert "harness/harness.json: mcp_servers: 'far' is there 2 times" in capsys.readouterr().err
    opened = Store.open(store)
    with opened.write("test") as tx:  # as it may come from elsewhere
        record = (store / "pk/harness/harness.json").read_bytes()
        tx.set_package("pk", tx.edit_tree(opened.package("pk").tree, {"harness/harness.json": record}))
        tx.commit("by another hand")
    assert run(["check"]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "harness/mcp/none.py is not in the package" in out
    assert "'far' is there 2 times" in out
    assert run(["run", "pk", "--policy", "null:nothing"]) == 2
    assert "pk/harness/harness.json: mcp_servers: 'far' is there 2 times" in capsys.readouterr().err
