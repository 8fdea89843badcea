"""`rover eval`: tables, JSON, what is reused, and refusals in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from packages import runtime
from refusals import Said, refused, rover

pytest.importorskip("torch")

import tiny_rl


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in `store`, a split beside it, and a model that solves nothing."""
    made = tmp_path_factory.mktemp("eval")
    _, commit = tiny_rl.store(made / "store")
    (made / "split.json").write_text(tiny_rl.split(commit).model_dump_json(exclude_none=True))
    tiny_rl.model_folder(made / "model")
    return made


@pytest.fixture
def ask(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ROVER_STORE", str(folder / "store"))
    boxes = runtime()
    boxes.close()  # type: ignore[attr-defined]

    def call(*words: str) -> Said:
        return rover("eval", *words, "--sandbox", boxes.kind, "-n", "1")

    return call


def test_a_policy_is_measured_once_and_then_read(ask, folder: Path):
    words = ("--policy", "null:nothing", "--split", "split.json", "--part", "train", "-k", "2")
    first = ask(*words, "--out", "found.json")
    assert first.code == 0, first.err
    assert "1 package of 1 workspace, 2 rollouts" in first.out
    assert "pass^2" in first.out
    assert all(len(line) <= 80 for line in first.out.splitlines())
    assert "2 run, 0 reused" in first.err
    again = ask(*words, "--json")
    said = json.loads(again.out)
    assert [row["reused"] for row in said["rows"]] == [True, True]
    assert said["summary"]["success"]["value"] == 0.0
    assert json.loads((folder / "found.json").read_text())["split"] == said["split"]


def test_a_model_is_measured_greedily(ask):
    words = ("--model", "model", "--revision", "main", "--packages", "copy-*", "--set", "rl.max_turn_tokens=4")
    said = ask(*words, "--set", "render.window=300", "--json")
    assert said.code == 0, said.err
    found = json.loads(said.out)
    assert (found["temperature"], found["turn_tokens"], found["attempts"]) == (0.0, 4, 1)
    assert [row["package"] for row in found["rows"]] == ["copy-shop", "copy-yard"]
    assert all(row["outcome"] in ("failed", "policy_error") for row in found["rows"])


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "--model or --policy"),
        (("--model", "model", "--policy", "solver", "--revision", "main"), "--model or --policy"),
        (("--policy", "null:nothing"), "--revision is missing"),
        (("--policy", "null:nothing", "--part", "train"), "none is given"),
        (("--policy", "null:nothing", "--split", "split.json"), "the part held-out of the split is empty"),
        (("--policy", "null:nothing", "--split", "split.json", "--part", "half"), "--part half"),
        (("--policy", "null:nothing", "--split", "split.json", "--packages", "*"), "give one of them"),
        (("--policy", "null:nothing", "--revision", "main", "--packages", "zzz*"), "matches 'zzz*'"),
        (("--policy", "null:nothing", "--revision", "nowhere"), "nowhere"),
        (("--policy", "null:nothing", "--split", "gone.json"), "gone.json"),
        (("--policy", "null:nothing", "--revision", "main", "--out", "gone/x.json"), "--out gone/x.json: no file can"),
        (("--model", "gone", "--revision", "main"), "no such folder or file"),
        (("--model", "model", "--revision", "main", "--set", "render.widow=3"), "did you mean render.window?"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(ask, words: tuple[str, ...], why: str):
    refused(ask(*words), 2, why)


def test_a_split_of_another_revision_is_refused(ask, folder: Path):
    other = json.loads((folder / "split.json").read_text())
    other["revision"] = "5" * 40
    (folder / "other.json").write_text(json.dumps(other))
    words = ("--policy", "null:nothing", "--split", "other.json", "--revision", "main")
    refused(ask(*words), 2, "is of revision 555555555555")
