"""`rover run --policy command:...`: options, files, rows, what is reused, what `rover show` tells, bad input."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from boxes import make
from chat_server import ChatServer, call
from packages import REPORT, summary_package, summary_resources

from rover.cli.main import run as cli
from rover_store.store import Store

AGENTS = Path(__file__).parents[1] / "agents"
STEPS = (call("cat orders.csv"), call(f"cat > report.csv <<'X'\n{REPORT.decode()}X"), "Wrote report.csv.")
COMMAND = "command:python3 -S {agent}/tool_agent.py {instruction}"
Rover = Callable[..., tuple[int, str, str]]


@pytest.fixture
def rover(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Rover:
    make("bubblewrap").close()  # type: ignore[attr-defined]
    store = Store.init(tmp_path, clock=lambda: 0)
    with store.write("test") as tx:
        tx.set_package("orders", tx.tree(summary_package("orders")))
        tx.set_resource("files/orders", tx.tree(summary_resources()["files/orders"]))
        tx.commit("a package")
    monkeypatch.chdir(tmp_path)
    for name in ("ROVER_STORE", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: str) -> tuple[int, str, str]:
        code = cli(list(words))
        out = capsys.readouterr()
        return code, out.out, out.err

    return run


def test_a_program_runs_is_kept_and_shown(rover: Rover, tmp_path: Path) -> None:
    with ChatServer(*STEPS) as server:
        asked = ("run", "orders", "--agent", str(AGENTS), "--server", server.url, "--model", "m", "--record", "r.jsonl")
        code, out, err = rover(*asked, "--policy", COMMAND, "--json")
        assert code == 0, err
        row = json.loads(out)
        assert (row["outcome"], row["turns"], row["tokens"], row["retried"]) == ("passed", 3, 330, None)
        assert row["policy"].startswith("command:python3:")
        assert len((tmp_path / "r.jsonl").read_text().splitlines()) == 3
        _, out, _ = rover(*asked, "--policy", COMMAND)
        assert "reused" in out
        (tmp_path / "same.toml").write_text(
            f'argv = ["python3", "-S", "{{agent}}/tool_agent.py", "{{instruction}}"]\nagent = "{AGENTS}"\n'
        )
        code, out, _ = rover("run", "orders", "--policy", "command:same.toml", "--model", "m", "--json")
        assert (code, json.loads(out)["reused"], len(server.asked)) == (0, True, 3)
    code, text, _ = rover("show", row["rollout"][:12])
    assert code == 0
    assert max(map(len, text.splitlines())) <= 80
    ended = "program  exit code 0; asked for some-model"
    for part in (ended, "> bash", "wrote report.csv", "workspace is now", "passed"):
        assert part in text
    assert rover("fsck")[0] == 0
    _its_workspaces_can_be_looked_at(rover, text)


def _its_workspaces_can_be_looked_at(rover: Rover, text: str) -> None:
    """What `rover show ROLLOUT` names can be shown: trees, files in them and blobs."""
    (tree,) = re.findall("workspace is now ([0-9a-f]{12})", text)
    (blob,) = re.findall("wrote report.csv ([0-9a-f]{8})", text)
    assert all(line in rover("show", tree)[1] for line in ("notes.md", "orders.csv", f"report.csv  {blob}"))
    for word in (blob, f"{tree}:report.csv"):
        assert rover("show", word) == (0, REPORT.decode(), "")
    start = json.loads(rover("show", text.split()[1], "--json")[1])["data"]["trajectory"]["start"]
    code, said, _ = rover("diff", start, tree)
    assert code == 0
    assert "A report.csv" in said
    assert "notes.md" not in said
    code, said, _ = rover("diff", f"{start}:orders.csv", f"{tree}:report.csv", "--name-only")
    assert (code, said) == (0, "report.csv\n")
    for words in (("show", f"{tree}:gone"), ("show", "0123456789ab"), ("diff", tree), ("diff", "HEAD", tree)):
        code, out, err = rover(*words)
        assert (code, out) == (2, ""), words
        assert len(err.splitlines()) <= 2


def test_a_run_that_was_tried_again_says_so(rover: Rover) -> None:
    with ChatServer(("status", 401, "a moment"), *STEPS) as server:
        asked = ("run", "orders", "--agent", str(AGENTS), "--server", server.url, "--policy", COMMAND)
        code, out, err = rover(*asked, "--json")
        assert code == 0, err
        row = json.loads(out)
        assert (row["outcome"], row["reused"]) == ("passed", False)
        assert row["retried"] == f"ProviderError: {server.url}: HTTP 401: a moment"
        _, out, _ = rover(*asked)
        assert "reused, 2nd try" in out
    assert "tried once more; the try before was given up" in rover("show", row["rollout"][:12])[1]


def test_a_program_that_asks_no_model_needs_no_server(rover: Rover) -> None:
    code, out, _ = rover("run", "orders", "--policy", "command:sh -c 'echo nothing done'")
    assert code == 0
    assert "failed" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--policy", "command:"), "command: needs a program"),
        (("--policy", "command:x 'y"), "no closing quotation"),
        (("--policy", "command:gone.toml"), "gone.toml: no such file or directory"),
        (("--policy", "command:x", "--agent", "gone"), "--agent gone: not a folder"),
        (("--policy", "command:x", "--agent", "."), "it holds a store, whose verifiers no agent may see"),
        (("--policy", "command:x", "--agent", "/"), "too much would be shown to the agent"),
        (("--policy", "openai:m", "--agent", "x"), "--agent: openai is no program"),
        (("--policy", "command:python3 {agent}/x.py"), "{agent} is the folder of --agent, and there is none"),
        (("--policy", "command:x", "--server", "nowhere"), "server 'nowhere': not an address"),
    ],
)
def test_bad_input(rover: Rover, words: tuple[str, ...], said: str) -> None:
    code, out, err = rover("run", "orders", *words)
    assert (code, out) == (2, "")
    assert said in err
    assert Store.open(Path.cwd()).evidence.root() is None
