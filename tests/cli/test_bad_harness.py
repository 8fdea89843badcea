"""A harness that offers or needs what cannot be: refused at the commit, and named by the run that meets one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from packages import summary_package, summary_resources
from pydantic import ValidationError
from refusals import refused, rover, state

from rover.port.harbor.needs import OTHERS
from rover.sandbox import local
from rover.sandbox.protocol import FEATURES, GUARANTEES
from rover_store.records import Harness
from rover_store.store import Store

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "tool": ({"tools": ["teleport"]}, "harness/harness.json: tools.0: no tool is called 'teleport'"),
    "twice": ({"mcp_servers": [{"name": "a", "command": ["x"]}] * 2}, "harness/harness.json: mcp_servers: 'a' is"),
    "nul": ({"mcp_servers": [{"name": "a", "command": ["x", "a\0b"]}]}, "mcp_servers.0.command.1: holds a NUL byte"),
    "env": ({"mcp_servers": [{"name": "a", "command": ["x"], "env": {"A=B": "c"}}]}, "mcp_servers.0.env: 'A=B' is no"),
    "out": ({"mcp_servers": [{"name": "a", "command": ["{mcp}/../x"]}]}, "harness/mcp/../x is not in the package"),
}  # fmt: skip
NEEDS: dict[str, tuple[list[str], str]] = {
    "empty": ([""], "requires.0: "), "breaks": (["two\nlines"], "requires.0: "), "ends": (["root\n"], "requires.0: "),
    "long": (["x" * 5000], "requires.0: "), "spaces": (["a  b"], "requires.0: "), "capitals": (["Up"], "requires.0: "),
    "twice": (["root", "image", "root"], "requires: 'root' is there twice"),
    "many": ([f"need {n}" for n in range(21)], "requires: "),
}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROVER_STORE", raising=False)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    for words in (("init",), ("new", "pk")):
        assert rover(*words).code == 0
    return tmp_path


def spoilt(stored: bytes, change: dict[str, Any]) -> bytes:
    return json.dumps(json.loads(stored) | change).encode()


@pytest.mark.parametrize("name", [*BAD, *(f"needs {name}" for name in NEEDS)])
def test_a_commit_refuses_it(name: str, home: Path) -> None:
    before, file = state(home), home / "pk/harness/harness.json"
    asked, why = NEEDS[name.removeprefix("needs ")] if name.startswith("needs ") else ((), "")
    change, why = BAD.get(name, ({"requires": asked}, f"harness/harness.json: {why}"))
    file.write_bytes(spoilt(file.read_bytes(), change))
    refused(rover("commit", "pk"), 2, why)
    assert state(home) == before


def test_what_is_carried_and_what_is_well_named_is_taken(home: Path) -> None:
    (home / "pk/harness/mcp").mkdir()
    (home / "pk/harness/mcp/s.py").write_text("")
    file = home / "pk/harness/harness.json"
    change = {"mcp_servers": [{"name": "a", "command": ["python3", "{mcp}/s.py"]}], "requires": ["teleport"]}
    file.write_bytes(spoilt(file.read_bytes(), change))
    assert rover("commit", "pk").code == 0


@pytest.mark.parametrize("name", [*GUARANTEES, *FEATURES, *OTHERS, *local.UNMET, "teleport", "gpu-2"])
def test_every_known_need_is_well_named(name: str) -> None:
    assert Harness(tools=(), requires=(name,)).requires == (name,)


def test_needs_are_bounded() -> None:
    most = tuple(f"need {n}" for n in range(20))
    assert Harness(tools=(), requires=most).requires == most
    with pytest.raises(ValidationError):
        Harness(tools=(), requires=(*most, "one more"))


@pytest.mark.parametrize("name", BAD)
def test_a_run_of_many_packages_names_the_one(name: str, tmp_path: Path) -> None:
    store = Store.init(tmp_path, clock=lambda: 0)
    bad = summary_package("bad")
    bad = {**bad, "harness/harness.json": spoilt(bad["harness/harness.json"], BAD[name][0])}
    with store.write("test") as tx:
        for package, files in {"a-good": summary_package("a-good"), "bad": bad}.items():
            tx.set_package(package, tx.tree(files))
        tx.set_resource("files/orders", tx.tree(summary_resources()["files/orders"]))
        tx.commit("packages")
    words = ("run", "*", "--policy", "null:nothing", "--sandbox", "local")
    refused(rover("--store", str(tmp_path), *words), 2, "bad/harness/harness.json: ", BAD[name][1])
