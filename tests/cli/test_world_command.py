"""`rover world`: what it makes, and that a call that cannot be makes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from refusals import refused, rover


@pytest.fixture(autouse=True)
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_workspaces_are_made_and_named() -> None:
    said = rover("world", "some", "--workspaces", "2", "--seed", "3", "--json")
    assert said.code == 0, said
    assert json.loads(said.out) == {"workspaces": ["some/w0000", "some/w0001"]}
    assert rover("world", "others", "--workspaces", "2", "--seed", "3").out == "others: 2 workspaces\n"
    tables = [(Path(name) / "w0001/main.csv").read_text() for name in ("some", "others")]
    assert tables[0] == tables[1]


def test_a_model_is_made_and_told() -> None:
    pytest.importorskip("torch")
    said = rover("world", "--model", "base", "--steps", "0", "--json")
    assert said.code == 0, said
    made = json.loads(said.out)["model"]
    assert (made["folder"], made["steps"], made["seed"]) == ("base", 0, 0)
    assert Path("base/config.json").is_file()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "nothing to make"),
        (("new", "--model", "full"), "--model full: is there already"),
        (("new", "--model", "full/file"), "--model full/file: is there already"),
        (("full/file",), "full/file"),
    ],
)
def test_a_call_that_cannot_be_makes_nothing(words: tuple[str, ...], why: str) -> None:
    pytest.importorskip("torch")
    Path("full").mkdir()
    Path("full/file").write_text("mine")
    refused(rover("world", *words), 2, why)
    assert sorted(p.name for p in Path().rglob("*")) == ["file", "full"]
