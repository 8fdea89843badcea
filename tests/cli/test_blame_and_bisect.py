"""`rover blame`, `rover bisect`, and `rover commit` and `checkout` of a folder in a store that has moved on."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from rover.cli.main import run
from rover_store.store import Store


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    for words in (["init"], ["new", "one"], ["commit", "one", "-m", "A first task"]):
        assert run(words) == 0
    capsys.readouterr()
    return tmp_path


def _title(folder: Path, title: str) -> None:
    path = folder / "package.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "title": title}))


def test_blame_follows_a_rename(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store.open(home)
    first = store.resolve()
    with store.write("rename") as tx:
        tree = store.package("one").tree
        tx.remove_package("one")
        tx.set_package("uno", tree)
        renamed = tx.commit("Rename")
    for words, commit in (([], renamed), (["--follow"], first)):
        assert run(["blame", "uno/task/instruction.md", "--json", *words]) == 0
        assert {json.loads(line)["commit"] for line in capsys.readouterr().out.splitlines()} == {commit}


def test_blame(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = Store.open(home).resolve()
    _title(home / "one", "Another title")
    assert run(["commit", "one", "-m", "Title"]) == 0
    capsys.readouterr()
    assert run(["blame", "one", "--field", "title", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert tuple(rows[0][k] for k in ("file", "value", "subject")) == ("package.json", "Another title", "Title")
    assert rows[1]["commit"] == first
    assert run(["blame", "one"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "task/contract.json\n" in out
    assert run(["blame", "one/task/instruction.md"]) == 0
    assert first[:10] in capsys.readouterr().out
    for words, message in (
        (["blame", "nope"], "package not found: nope"), (["blame", "one", "--field", "zzz"], "field not found: zzz"),
        (["blame", "one/context/files"], "is a folder without records"),
    ):  # fmt: skip
        assert run(words) == 2
        assert message in capsys.readouterr().err


def test_bisect(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    for n in range(12):
        _title(home / "one", f"Title {n}")
        assert run(["commit", "one", "-m", f"Title {n}"]) == 0
    store = Store.open(home)
    head = store.resolve()
    capsys.readouterr()
    judge = "test $ROVER_REV = {rev} && rover show {rev}:one/package.json | grep -Eq 'Title [0-6]\"'"
    assert run(["bisect", "HEAD~11", "--run", judge]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[0] == f"first bad commit {store.resolve('HEAD~4')}"
    assert "Title 7" in said.out
    assert "1 commit left" in said.err
    assert run(["bisect", "HEAD~11", "--json", "--run", "exit 125"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["commit"], len(found["skipped"]), len(found["tried"])) == (head, 10, 10)
    for words, message in (
        (["HEAD", "HEAD~2", "--run", "true"], "first-parent line"), (["HEAD", "HEAD", "--run", "true"], "both good"),
        (["HEAD~5", "--run", "no-such-command-at-all"], "ended with 127"), (["HEAD~5", "--run", "kill -9 $$"], "ended"),
        (["nope", "--run", "true"], "revision not found"),
    ):  # fmt: skip
        assert run(["bisect", *words]) == 2
        assert message in capsys.readouterr().err
    assert store.resolve() == head


def test_a_folder_in_a_store_that_moved_on(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["checkout", "one", "mine"]) == 0
    (home / "one/task/instruction.md").write_text("Theirs.\n")
    assert run(["commit", "one"]) == 0
    _title(home / "mine", "Mine")
    capsys.readouterr()
    assert run(["commit", "mine"]) == 0
    said = capsys.readouterr()
    assert "merged: the store has newer task" in said.err
    assert said.out.startswith("one: committed ")
    (home / "mine/task/instruction.md").write_text("Mine.\n")
    assert run(["commit", "mine"]) == 2
    said = capsys.readouterr()
    assert "task/instruction.md: changed here and in the store since the checkout (by rover, " in said.err
    assert run(["checkout", "one", "mine"]) == 2
    assert "has changes that are not committed" in capsys.readouterr().err
    assert run(["commit", "mine", "--force"]) == 0
    assert run(["checkout", "one", "mine"]) == 0
    assert run(["show", "HEAD:one/task/instruction.md"]) == 0
    assert capsys.readouterr().out.endswith("Mine.\n")


def test_a_large_file_is_taken_when_it_is_meant(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open(home / "one/context/files/big.bin", "wb") as file:
        file.truncate((256 << 20) + 1)
    assert run(["commit", "one"]) == 2
    said = capsys.readouterr().err
    assert "context/files/big.bin: 256 MiB; a file may have 256 MiB" in said
    assert "rover commit --large" in said


def test_the_author_of_a_call(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ROVER_AUTHOR", "Ada <ada@example.org>")
    _title(home / "one", "Another")
    assert run(["commit", "one"]) == 0
    capsys.readouterr()
    assert run(["blame", "one/package.json", "--field", "title", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["author"] == "Ada <ada@example.org>"
    monkeypatch.setenv("ROVER_AUTHOR", "Ada")
    assert run(["log"]) == 2
    assert "'Ada' is not of the form 'Name <address>'" in capsys.readouterr().err


def test_files_that_no_record_names_are_told(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in "abcd":
        (home / f"one/context/files/{name}.txt").write_text("new\n")
    assert run(["commit", "one"]) == 0
    assert "context.json says nothing of a.txt, b.txt, c.txt and 1 more" in capsys.readouterr().err
