"""`rover merge`, `clone`, `pull`, `push` and `remote` as commands: exit codes, JSON, refusals in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from rover.cli.main import run

Capture = pytest.CaptureFixture[str]


class Said(NamedTuple):
    code: int
    out: str
    err: str


Rover = Callable[..., Said]


@pytest.fixture
def rover(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Rover:
    monkeypatch.delenv("ROVER_STORE", raising=False)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> Said:
        capsys.readouterr()
        code = run([*words])
        return Said(code, *capsys.readouterr())

    for words in (["init"], ["new", "one"], ["commit", "one"], ["branch", "trial"]):
        assert call(*words).code == 0
    return call


def change(rover: Rover, branch: str, title: str) -> None:
    assert rover("branch", branch, "--switch").code == 0
    folder = f"edit-{title}"
    assert rover("checkout", "one", folder).code == 0
    task = Path(folder, "task/task.json")
    value = json.loads(task.read_text())
    task.write_text(json.dumps({**value, "title": title}))
    assert rover("commit", folder, "-m", title).code == 0


def conflict(rover: Rover) -> None:
    change(rover, "trial", "Theirs")
    change(rover, "main", "Ours")


def test_a_conflict_is_a_finding_and_is_settled(rover: Rover) -> None:
    conflict(rover)
    said = rover("merge", "trial")
    assert said.code == 1
    assert "c1 Ours Theirs both sides changed it one/task/task.json title" in " ".join(said.out.split())
    assert all(len(line) <= 80 for line in said.out.splitlines())
    assert "main has not moved" in said.err
    assert "a merge into main waits for you" in rover("status").out
    assert json.loads(rover("status", "--json").out)["open_merges"] == ["main"]
    assert json.loads(rover("merge", "--list", "--json").out)[0]["conflicts"][0]["field"] == ["title"]
    assert rover("merge", "--resolve", "r").code == 0
    said = rover("merge", "--continue", "r")
    line = "rover: conflicts.json: c1.choose: nothing is chosen for one/task/task.json title\n"
    assert (said.code, said.err) == (2, line)
    assert rover("merge", "--theirs", "one").out == "1 conflict settled for theirs; 0 left\n"
    assert rover("merge", "--continue").out.startswith("merged trial into main: ")
    assert rover("merge", "trial").out == "main holds trial already\n"
    assert rover("fsck").code == 0
    assert rover("undo").code == 0
    assert "trial into main" in rover("merge", "--list").out
    assert rover("merge", "--abort").out == "dropped the merge of trial into main; main never moved\n"
    assert rover("merge", "--list").err == "no merge is open\n"


def test_json_of_a_merge(rover: Rover) -> None:
    change(rover, "trial", "Theirs")
    assert rover("branch", "main", "--switch").code == 0
    done = json.loads(rover("merge", "trial", "--json").out)
    assert (done["status"], done["conflicts"]) == ("fast-forward", [])
    done = json.loads(rover("merge", "trial", "--json").out)
    assert done["status"] == "up to date"


@pytest.mark.parametrize(("words", "text"), [
    (["merge"], "name what to merge"),
    (["merge", "nowhere"], "revision not found: nowhere"),
    (["merge", "--abort"], "no merge into main is open"),
    (["merge", "--continue", "nowhere"], "no merge into main is open"),
    (["merge", "--resolve"], "name a folder to write"),
    (["merge", "--ours", "--theirs"], "at a time"),
    (["merge", "trial", "-X", "mine"], "neither ours nor theirs"),
    (["pull"], "name a remote: there is none yet"),
    (["push", "nowhere"], "remote not found: nowhere"),
    (["push", "ext::sh"], "a URL that runs a program is refused"),
    (["clone", "--", "--upload-pack=x", "x"], "is not a place to clone from"),
    (["clone", ".", "."], ".rover exists already"),
    (["clone", ".", "x", "--package", "zzz*"], "no package of . matches 'zzz*'"),
    (["clone", ".", "x", "--branch", "zzz"], "has no branch zzz"),
    (["remote", "remove", "x"], "remote not found: x"),
    (["remote", "add", "fetched", "."], "exists already"),
])  # fmt: skip
def test_refusals(rover: Rover, words: list[str], text: str) -> None:
    said = rover(*words)
    lines = said.err.splitlines()
    assert said.code == 2, said.err
    assert text in lines[0]
    assert len(lines) <= 2
    assert not Path("x").exists()


def test_clone_push_and_pull(rover: Rover, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert json.loads(rover("clone", ".", "bob", "--json").out)["packages"] == 1
    monkeypatch.chdir("bob")
    assert rover("push").out.endswith("has everything already\n")
    change(rover, "main", "Bob")
    said = rover("push")
    assert said.out.startswith("pushed to ")
    assert "  main  " in said.out
    monkeypatch.chdir(tmp_path)
    assert '"title": "Bob"' in rover("show", "main:one/task/task.json").out
    change(rover, "main", "Alice")
    monkeypatch.chdir("bob")
    assert "origin/main" in rover("pull", "--fetch").out
    assert "fast-forward" in rover("pull").out
    assert rover("remote", "list").out.splitlines()[2].split()[:2] == ["origin", "all"]
    assert json.loads(rover("pull", "--json").out)["merged"]["status"] == "up to date"


def test_secrets_stay_out_of_the_operation_log_and_the_terminal(rover: Rover, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["rover", "push", "https://me:secret@127.0.0.1:9/x.git"])
    said = rover("remote", "add", "far", "https://me:secret@127.0.0.1:9/x.git")
    assert "secret" not in said.out
    assert "secret" not in rover("remote", "list").out
    for words in (("push", "far"), ("pull", "far"), ("clone", "https://me:secret@127.0.0.1:9/x.git", "y")):
        said = rover(*words)
        assert said.code in (2, 3)
        assert "secret" not in said.out + said.err
    assert "secret" not in rover("op", "log").out
