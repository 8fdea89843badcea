"""`rover op show`, `rover op restore`, and what `rover op log` and `rover undo` say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rover.cli.main import run
from rover_store.store import Store


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    for words in (["init"], ["new", "one"], ["commit", "one"], ["tag", "v1"], ["branch", "side"]):
        assert run(words) == 0
    capsys.readouterr()
    return tmp_path


def _ids(capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert run(["op", "log", "--json"]) == 0
    return [row["id"] for row in json.loads(capsys.readouterr().out)]


def test_restore_goes_back_and_undo_forward_again(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = _ids(capsys)[-1]
    assert run(["op", "restore", first[:8]]) == 0
    out = capsys.readouterr().out
    assert "  side is gone" in out
    assert "  tag v1 is gone" in out
    store = Store.open(home)
    assert (list(store.branches()), list(store.tags())) == (["main"], [])
    assert run(["op", "restore", first]) == 0
    assert capsys.readouterr().out.startswith("all is as it was after: ")
    assert run(["op", "log"]) == 0
    assert "op restore (" in capsys.readouterr().out
    assert run(["undo"]) == 0
    assert "tag v1 is back at" in capsys.readouterr().out
    assert (sorted(store.branches()), list(store.tags())) == (["main", "side"], ["v1"])


def test_show_says_all(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ids = _ids(capsys)
    assert run(["op", "show", ids[-1][:10]]) == 0
    out = capsys.readouterr().out
    assert ids[-1] in out
    assert "refs/heads/main\n  from    (nothing)\n  to      " + Store.open(home).resolve() in out
    assert run(["op", "show", ids[0], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["moves"][0]["ref"] == "refs/heads/side"


def test_operations_counted_from_the_newest(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ids = _ids(capsys)
    for words, expected in (([], ids[0]), (["@"], ids[0]), (["@~0"], ids[0]), (["@~2"], ids[2])):
        assert run(["op", "show", *words]) == 0
        assert capsys.readouterr().out.startswith(f"operation {expected}\n"), words
    assert run(["op", "restore", "@~1"]) == 0
    assert "side is gone" in capsys.readouterr().out
    assert run(["undo", "@"]) == 0
    assert "side" in Store.open(home).branches()


@pytest.mark.parametrize("word", ["nonsense", "0" * 40, "", "@~", "@~99", "@~-1"])
@pytest.mark.parametrize("verb", ["show", "restore"])
def test_an_operation_that_is_not_there(
    home: Path, capsys: pytest.CaptureFixture[str], verb: str, word: str
) -> None:
    before = _ids(capsys)
    assert run(["op", verb, word]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"rover: no operation {word}".rstrip())
    assert _ids(capsys) == before
