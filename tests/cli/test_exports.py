"""rover export and rover import of rollouts and datasets, as a person runs them."""

from __future__ import annotations

import json
from pathlib import Path

import exported
import packages
import pytest
from exported import NAME

from rover.cli.main import run
from rover_store.ids import digest


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two stores of the same package, `one` with evidence and `two` without."""
    folder = tmp_path_factory.mktemp("place")
    runtime = packages.runtime()
    try:
        exported.bare(folder / "two", exported.made(folder / "one", runtime))
    finally:
        runtime.close()  # type: ignore[attr-defined]
    return folder


def said(capsys: pytest.CaptureFixture[str], place: Path, store: str, *words: str) -> tuple[int, str, str]:
    code = run(["--store", str(place / store), *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_out_and_back(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = str(place / "runs")
    code, out, _ = said(capsys, place, "one", "export", "atif", "order-*", "--out", runs)
    assert code == 0
    assert out.splitlines()[-1].startswith("7 rollouts of ")
    code, out, _ = said(capsys, place, "two", "import", "atif", runs)
    assert (code, out.splitlines()[-1]) == (0, "7 rollouts recorded")
    code, out, _ = said(capsys, place, "two", "import", "atif", runs, "--json")
    assert {row["outcome"] for row in json.loads(out)["rows"]} == {"held"}
    code, out, _ = said(capsys, place, "two", "export", "atif", "--out", str(place / "again"))
    assert code == 0
    for path in sorted((place / "runs").rglob("*.json")):
        assert (place / "again" / path.relative_to(runs)).read_bytes() == path.read_bytes()


def test_differences_are_exit_code_1(place: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    policy = f"policy={packages.solution().id}"
    said(capsys, place, "one", "export", "atif", "--out", str(tmp_path / "r"), "--set", policy)
    path = sorted((tmp_path / "r" / NAME).iterdir())[0]
    value = json.loads(path.read_bytes())
    value["steps"][1]["observation"]["results"][0]["content"] = "nothing"
    value["extra"]["rover"]["key"]["seed"] = 12345
    (tmp_path / "forged.json").write_text(json.dumps(value))
    code, out, err = said(capsys, place, "two", "import", "atif", str(tmp_path / "forged.json"))
    assert (code, out) == (2, "")
    assert err.startswith("rover: forged.json: extra.rover.rollout: is not the id that its key gives")
    value["extra"]["rover"]["key"]["seed"] = 0
    value["extra"]["rover"]["key"]["runtime"] = "elsewhere"
    value["extra"]["rover"]["rollout"] = digest(value["extra"]["rover"]["key"])
    (tmp_path / "forged.json").write_text(json.dumps(value))
    code, out, err = said(capsys, place, "two", "import", "atif", str(tmp_path / "forged.json"))
    assert (code, out.splitlines()[-1]) == (1, "0 rollouts recorded, 1 differs")
    assert "recorded as it went here" in err


def test_bad_input_changes_nothing(place: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"agent": {"name": "a", "version": "1"}, "steps": []}')
    before = said(capsys, place, "two", "sql", "SELECT count(*) FROM rollouts")[1]
    code, out, err = said(capsys, place, "two", "import", "atif", str(tmp_path), "--package", NAME)
    assert (code, out) == (2, "")
    assert err.splitlines()[0].startswith("rover: x.json: steps: ")
    for words, reason in (
        (["import", "atif", str(tmp_path / "none")], "not found"),
        (["import", "atif", str(tmp_path), "--set", "x=1"], "atif has no option 'x'"),
        (["export", "atif", "ffff", "--out", str(tmp_path / "o")], "not found: ffff"),
        (["export", "hf", "none-*", "--out", str(tmp_path / "o")], "no package of HEAD matches"),
        (["export", "nonsense", "--out", str(tmp_path / "o")], "no exporter is called 'nonsense'"),
        (["export", "verifiers", "--out", str(tmp_path)], "exists and is not empty"),
        (["run", "*", "--tokens"], "--tokens: solver is no model"),
    ):
        code, out, err = said(capsys, place, "two", *words)
        assert (code, out) == (2, ""), words
        assert reason in err.splitlines()[0]
    assert not (tmp_path / "o").exists()
    assert said(capsys, place, "two", "sql", "SELECT count(*) FROM rollouts")[1] == before


def test_the_other_ways_out(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capsys, place, "one", "export", "hf", "--out", str(place / "data"), "--with-verifiers")
    assert (code, out.splitlines()[-1].startswith("1 package of ")) == (0, True)
    assert (place / "data/verifiers.jsonl").exists()
    tasks = place / "tasks"
    code, out, _ = said(capsys, place, "one", "export", "verifiers", "--out", str(tasks), "--set", "name=shop")
    assert (code, (tasks / "shop/taskset.py").exists()) == (0, True)
    assert max(map(len, out.splitlines()[:-1])) <= 80  # the last one names a folder of this machine
