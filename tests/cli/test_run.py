"""`rover run` and what `rover show` makes of a rollout: tables, JSON, exit codes, what is reused, interrupts."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from packages import runtime, solution_calls, summary_package, summary_resources

from rover.cli.main import run as cli
from rover_store.store import Store

PLAN = [{"tool": c.tool, "arguments": c.arguments} for c in solution_calls()]


@pytest.fixture(scope="module")
def kind() -> str:
    made = runtime()
    made.close()  # type: ignore[attr-defined]
    return made.kind


Rover = Callable[..., tuple[int, str, str]]


@pytest.fixture
def rover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str
) -> Rover:
    """Runs the command line on a store with two packages; gives exit code, stdout and stderr."""
    store = Store.init(tmp_path, clock=lambda: 0)
    with store.write("test") as tx:
        for name in ("orders-a", "orders-b"):
            tx.set_package(name, tx.tree(summary_package(name)))
        tx.set_resource("files/orders", tx.tree(summary_resources()["files/orders"]))
        tx.commit("two packages")
    (tmp_path / "plan.json").write_text(json.dumps({"calls": PLAN, "message": "Wrote report.csv."}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROVER_STORE", raising=False)

    def call(*words: str) -> tuple[int, str, str]:
        more = ["--sandbox", kind] if words[0] == "run" else []
        code = cli([*words, *more])
        out = capsys.readouterr()
        return code, out.out, out.err

    return call


def test_a_table_and_what_was_reused(rover: Rover) -> None:
    code, out, err = rover("run", "orders-*", "--policy", "scripted:plan.json", "-k", "2")
    assert code == 0, err
    assert err == "4 rollouts: 4 passed; 4 run, 0 reused\n"
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split()[:4] for line in lines[2:]] == [
        [name, k, "passed", "1.00"] for name in ("orders-a", "orders-b") for k in ("1", "2")
    ]
    _, again, err = rover("run", "orders-*", "--policy", "scripted:plan.json", "-k", "3", "-n", "1")
    assert err == "6 rollouts: 6 passed; 2 run, 4 reused\n"
    assert "reused" in again


def test_failing_agents_are_data(rover: Rover) -> None:
    code, out, err = rover("run", "orders-a", "--policy", "null:nothing")
    assert (code, err) == (0, "1 rollout: 1 failed; 1 run, 0 reused\n")
    assert "report.csv" in out


def test_json_lines(rover: Rover) -> None:
    code, out, _ = rover("run", "*", "--policy", "scripted:plan.json", "--json", "--limit", "1", "--seed", "7")
    (row,) = [json.loads(line) for line in out.splitlines()]
    assert (code, row["package"], row["outcome"], row["reused"]) == (0, "orders-a", "passed", False)
    code, text, _ = rover("show", row["rollout"][:12])
    assert code == 0, text
    assert max(map(len, text.splitlines())) <= 80
    assert f"rollout  {row['rollout']}" in text
    for part in ("> read_table orders.csv", "wrote report.csv", "Wrote report.csv.", "verdict  passed, 1.00"):
        assert part in text


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("nothing-*",), 2, "no package of HEAD matches 'nothing-*'"),
        (("*",), 2, "orders-a: the package names no family, so it has no solver"),
        (("*", "--policy", "magic"), 2, "no policy is called 'magic'"),
        (("*", "--policy", "scripted:gone.json"), 2, "gone.json: no such file or directory"),
        (("*", "--policy", "replay:abcd"), 2, "rollout not found: abcd"),
        (("*", "--rev", "nowhere"), 2, "nowhere"),
        (("*", "--policy", "null:echo", "-k", "0"), 2, "greater than or equal to 1"),
    ],
)
def test_bad_requests(rover: Rover, words: tuple[str, ...], code: int, said: str) -> None:
    found, out, err = rover("run", *words)
    assert (found, out) == (code, "")
    assert said in err
    assert Store.open(Path.cwd()).evidence.root() is None


def test_replay_by_a_short_id(rover: Rover) -> None:
    _, out, _ = rover("run", "orders-a", "--policy", "scripted:plan.json", "--json")
    code, again, _ = rover("run", "orders-b", "--policy", f"replay:{json.loads(out)['rollout'][:10]}", "--json")
    assert (code, json.loads(again)["outcome"]) == (0, "passed")


def test_a_server_that_is_not_there_is_infrastructure(rover: Rover, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncio.sleep", _at_once)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        model = ("--policy", "openai", "--model", "m", "--server", url)
        code, out, err = rover("run", "orders-a", *model)
        assert (code, err) == (3, "1 rollout: 1 infra_error; 1 run, 0 reused\n")
        assert "infra_error" in out
        code, _, err = rover("run", "orders-*", *model, "-k", "10", "-n", "1")
    assert code == 3
    assert "8 rollouts in a row failed, the last: ProviderError" in err


async def _at_once(seconds: float) -> None:
    """Pauses between tries take no time here."""


def test_an_interrupt_keeps_finished_work(rover: Rover, kind: str) -> None:
    slow = [{"tool": "shell", "arguments": {"command": "sleep 0.2"}}] * 4
    Path("slow.json").write_text(json.dumps(slow))
    words = ["run", "orders-*", "--policy", "scripted:slow.json", "--json", "-k", "20", "-n", "2", "--sandbox", kind]
    start = [sys.executable, "-c", "from rover.cli.main import main; main()", *words]
    process = subprocess.Popen(start, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    rows = [json.loads(process.stdout.readline()) for _ in range(2)]
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    rest, err = process.communicate(timeout=30)
    assert time.monotonic() - begin < 10
    assert process.returncode == 130, err
    assert "rover: interrupted; finished work is kept" in err
    finished = {row["rollout"] for row in rows} | {json.loads(line)["rollout"] for line in rest.splitlines()}
    kept = set(Store.open(Path.cwd()).evidence.ids())
    assert {row["rollout"] for row in rows} <= kept
    assert finished <= kept
    assert len(kept) < 40


def test_who_else_can_act_is_named(rover: Rover) -> None:
    said = rover("run", "*")[2].splitlines()
    assert said[1] == "  hint: --policy null:nothing, openai:MODEL; `rover help policies`"
