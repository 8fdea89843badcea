"""`rover train` as a person calls it: a run from a revision to a model, and every way to call it wrong."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")

import tiny_rl
from refusals import Said, refused, rover

from rover_train.config import loads
from rover_train.train import checkpoint

GOOD = ("--revision", "main", "--method", "sft", "--model", "tiny", "--config", "run.toml")
PLAN = {"calls": [{"tool": c.tool, "arguments": c.arguments} for c in tiny_rl.answers()], "message": "done"}
SETTINGS = """
[data]
split = "split.json"
[render]
window = 400
observation_tokens = 64
[optim]
name = "muon"
lr = 3e-3
[sft]
steps = 40
[rl]
steps = 1
tasks = 1
group = 3
max_turn_tokens = 24
[eval]
every = 20
[checkpoint]
every = 20
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two packages and a demonstration of each, a model, a split, settings, and a finished run."""
    folder = tmp_path_factory.mktemp("project")
    tiny_rl.store(folder)
    tiny_rl.model_folder(folder / "tiny")
    (folder / "plan.json").write_text(json.dumps(PLAN))
    (folder / "run.toml").write_text(SETTINGS)
    with inside(folder):
        said = rover("collect", "*", "--policy", "scripted:plan.json", "--sandbox", "local", "--json")
        assert said.code == 0, said
        (folder / "split.json").write_bytes(tiny_rl.split(json.loads(said.out)["commit"]).dump())
        said = train("sft", *GOOD)
        assert said.code == 0, said
    return folder


class inside:  # noqa: N801  (read as a word)
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> None:
        self.before = os.getcwd()
        os.chdir(self.folder)

    def __exit__(self, *error: object) -> None:
        os.chdir(self.before)


@pytest.fixture(autouse=True)
def there(project: Path) -> Iterator[None]:
    with inside(project):
        yield


def train(out: str, *words: str) -> Said:
    return rover("train", "--out", out, "--sandbox", "local", *words)


def head() -> str:
    return tiny_rl.Store.open(Path()).resolve("main")


def test_fine_tuning_makes_a_whole_run() -> None:
    run = Path("sft")
    config = loads((run / "config.toml").read_text())
    assert config.revision == head()
    state = checkpoint.check(checkpoint.latest(run) or run, revision=head(), config=config.digest())
    assert (state.step, state.finished, state.method) == (40, True, "sft")
    assert len(state.evidence) == 1
    assert json.loads((run / "split.json").read_text())["revision"] == head()
    facts = json.loads((run / "run.json").read_text())
    assert facts["demonstrations"]["train"]["demonstrations"] == 1
    assert facts["packages"] == {"train": 1, "validation": 1, "held_out": 0}
    assert head() in (run / "README.md").read_text()
    assert (run / "report.html").stat().st_size > 1000
    kinds = [json.loads(line)["kind"] for line in (run / "log.jsonl").read_text().splitlines()]
    assert (kinds.count("train"), kinds.count("eval")) == (40, 2)
    assert "main" not in (run / "config.toml").read_text() + (run / "run.json").read_text()


def test_rl_starts_from_a_run_and_renders_as_it_does() -> None:
    said = train("rl", "--revision", "main", "--method", "vtca-grpo", "--from", "sft", "--config", "run.toml", "--json")
    assert said.code == 0, said
    shown = json.loads(said.out)
    assert (shown["revision"], shown["method"], shown["step"]) == (head(), "vtca-grpo", 1)
    assert {"README.md", "report.html", "log.jsonl", "split.json"} <= set(os.listdir("rl"))
    own, first = (loads((Path(name) / "config.toml").read_text()) for name in ("rl", "sft"))
    assert (own.render, own.data, own.model.spec) == (first.render, first.data, "sft")


def test_what_a_run_scored_is_in_its_model_card() -> None:
    shutil.copytree("sft", "scored")
    said = rover("eval", "--model", "scored", "--part", "validation", "-k", "2", "--sandbox", "local", "--json")
    assert said.code == 0, said
    passed = json.loads(said.out)["summary"]["success"]["value"]
    before, card = ((Path(name) / "README.md").read_text() for name in ("sft", "scored"))
    row = f"| 1 validation | greedy, 2 each, seed 1, step 20 | {passed:.1%} "
    assert row in card, card
    assert row not in before
    assert card.replace(card[card.index("## Evaluations") : card.index("## Use")], "") == before


def test_a_run_hands_its_rendering_on_without_a_file() -> None:
    said = rover("train", "--from", "sft/checkpoints/step-000040", "--method", "grpo", "--print-config")
    assert said.code == 0
    config = loads(said.out)
    assert (config.render.window, config.data.split, config.optim.name) == (400, "split.json", "adamw")


def test_a_finished_run_has_nothing_left_to_do() -> None:
    before = {p: p.read_bytes() for p in Path("sft/checkpoints").rglob("*") if p.is_file()}
    said = train("sft", "--resume")
    assert said.code == 0
    assert "40" in said.out
    assert before == {p: p.read_bytes() for p in Path("sft/checkpoints").rglob("*") if p.is_file()}


def test_ctrl_c_saves_and_resume_ends_as_if_nothing_had_been() -> None:
    def strike() -> None:
        log = Path("stopped/log.jsonl")
        while not log.exists() or log.read_bytes().count(b"\n") < 5:
            time.sleep(0.002)
        os.kill(os.getpid(), signal.SIGINT)

    striking = threading.Thread(target=strike)
    striking.start()
    said = train("stopped", *GOOD)
    striking.join()
    assert said.code == 130, said
    assert "stopping after this step" in said.err
    assert "which is saved; go on with: rover train --out stopped --resume" in said.err
    assert said.err.endswith("rover: interrupted; finished work is kept\n")
    newest = checkpoint.latest(Path("stopped"))
    assert newest is not None
    assert 5 <= checkpoint.check(newest).step < 40
    facts = json.loads(Path("stopped/run.json").read_text())
    facts["versions"]["torch"] = "1.0"
    Path("stopped/run.json").write_text(json.dumps(facts))
    said = train("stopped", "--resume", *GOOD)
    assert said.code == 0
    assert f"warning at step {int(newest.name[5:])}: torch was 1.0, is " in said.err
    assert files_of("stopped") == files_of("sft")


def files_of(run: str) -> object:
    files = checkpoint.check(Path(run) / "checkpoints/step-000040").files
    return {name: sha for name, sha in files.items() if name != "README.md"}  # it names the versions


def test_a_dry_run_tells_all_and_writes_nothing() -> None:
    said = train("dry", *GOOD, "--dry-run", "--json")
    assert said.code == 0
    shown = json.loads(said.out)
    assert shown["packages"] == {"train": 1, "validation": 1, "held_out": 0}
    assert shown["demonstrations"]["train"] == {"packages": 1, "demonstrations": 1, "rows": 0}
    assert shown["revision"] == head()
    assert not Path("dry").exists()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--revision", "nowhere", "--model", "tiny"), "revision not found: nowhere"),
        (("--model", "tiny"), "--revision is missing"),
        (("--revision", "main"), "--model is missing"),
        ((*GOOD, "--model", "absent"), "model 'absent': no such folder or file"),
        ((*GOOD, "--from", "sft"), "--model and --from both say what to start from"),
        (("--revision", "main", "--from", "tiny"), "tiny: neither a run nor a checkpoint of one"),
        ((*GOOD, "--method", "ppo"), "method: no such method; there are sft, "),
        ((*GOOD, "--set", "optim.lrate=1"), "optim.lrate: no such key; did you mean"),
        ((*GOOD, "--config", "absent.toml"), "absent.toml: no such file"),
        ((*GOOD, "--set", "data.split=absent.json"), "absent.json"),
        ((*GOOD, "--revision", "main~1"), "split.json: the split is of revision"),
        ((*GOOD, "--method", "grpo", "--set", "rl.group=1"), "rl.group is 1: a group of one has"),
        ((*GOOD, "--method", "opd"), "rl.teacher names none"),
        ((*GOOD, "--method", "opd", "--set", "rl.teacher=absent"), "model 'absent': no such folder or file"),
        ((*GOOD, "--model", "run.toml"), "model 'run.toml': neither a folder nor a GGUF file"),
        ((*GOOD, "--set", "render.window=64"), "a turn that is longer than the window"),
        ((*GOOD, "--set", "curation.turns=[9, 10]"), "curation leaves none of 1 demonstrations"),
        ((*GOOD, "--set", 'log.trackers=["wandb"]'), "log.trackers.0: input should be"),
        ((*GOOD, "--resume"), "no run is there"),
    ],
)
def test_a_call_that_cannot_be_is_one_line_and_leaves_nothing(words: tuple[str, ...], line: str) -> None:
    before = tiny_rl.Store.open(Path()).resolve("main")
    refused(train("never", *words), 2, line)
    assert not Path("never").exists()
    assert head() == before


@pytest.mark.parametrize("more", [GOOD, ("--resume",)])
def test_what_is_no_place_for_a_run_is_one_line(more: tuple[str, ...]) -> None:
    before = sorted(Path(".rover").rglob("*"))
    refused(train(os.fsdecode(b"never\xff"), *more), 2, "never\\xff: the name is not UTF-8")
    Path("link").unlink(missing_ok=True)
    Path("link").symlink_to(".rover/store.git")
    for out in (".rover", ".rover/never", "link/never", "sft/../.rover/never"):
        refused(train(out, *more), 2, f"{out}: within the store ")
    assert sorted(Path(".rover").rglob("*")) == before
    assert not [name for name in os.listdir() if name.startswith("never")]


@pytest.mark.parametrize("words", [("dataset",), ("split", "--train", "*"), ("world", "--model"), ("pilot", "--split",
                                   "split.json"), ("eval", "--policy", "solver", "--revision", "main")])  # fmt: skip
def test_other_places_that_are_none_are_one_line(words: tuple[str, ...]) -> None:
    named = words if words[-1].startswith("--m") else (*words, "--out")
    refused(rover(*named, os.fsdecode(b"never\xff")), 2, "never\\xff: the name is not UTF-8")
    refused(rover(*named, ".rover/never"), 2, ".rover/never: within the store ")


def test_a_folder_that_cannot_be_made_is_one_line() -> None:
    refused(train("run.toml/never", *GOOD), 2, "run.toml/never: cannot be made: Not a directory")


def test_a_revision_without_demonstrations_is_one_line(project: Path) -> None:
    first = tiny_rl.Store.open(Path()).resolve("main~1")
    Path("first.json").write_bytes(tiny_rl.split(first).dump())
    said = train("never", *GOOD, "--revision", "main~1", "--set", "data.split=first.json")
    refused(said, 2, f"{first[:12]} has no verified demonstrations")
    assert not Path("never").exists()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (GOOD, "a run is there already"),
        (("--resume", "--revision", "main~1"), "the run is on revision"),
        (("--resume", "--seed", "5"), "the run has seed = 0, not 5"),
        (("--resume", "--set", "optim.lr=1.0"), "the run has optim.lr = 0.003, not 1.0"),
        (("--resume", "--method", "grpo"), 'the run has method = "sft", not "grpo"'),
    ],
)
def test_a_run_stays_what_it_is(words: tuple[str, ...], line: str) -> None:
    before = {p: p.read_bytes() for p in Path("sft").rglob("*") if p.is_file()}
    refused(train("sft", *words), 2, line)
    assert before == {p: p.read_bytes() for p in Path("sft").rglob("*") if p.is_file()}


def test_without_the_extra_it_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    said = train("never", *GOOD)
    refused(said, 2, "training needs torch, which is not installed")
    assert "pip install 'workrover[train]'" in said.err


def test_a_damaged_checkpoint_is_one_line() -> None:
    shutil.copytree("sft", "damaged")
    newest = checkpoint.latest(Path("damaged"))
    assert newest is not None
    (newest / "trainer.pt").write_bytes(b"")
    refused(train("damaged", "--resume"), 2, "corrupt: trainer.pt is not as it was written")


class Foreign:
    """What a pickle would make a process do."""

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, ("ran",)


@pytest.mark.parametrize("content", [Foreign(), [], {"weights": 1}, {"weights": {}, "optimiser": {}, "rng": {}}])
def test_a_checkpoint_of_something_else_is_one_line_and_runs_nothing(content: object) -> None:
    import torch

    shutil.rmtree("foreign", ignore_errors=True)
    shutil.copytree("sft", "foreign")
    newest = checkpoint.latest(Path("foreign"))
    assert newest is not None
    torch.save(content, newest / "trainer.pt")
    state = json.loads((newest / "state.json").read_bytes())
    state["files"]["trainer.pt"] = checkpoint.sha256_of(newest / "trainer.pt")
    state["finished"] = False
    text = json.dumps(state).encode()
    (newest / "state.json").write_bytes(text)
    (newest / "DONE").write_text(hashlib.sha256(text).hexdigest() + "\n")
    refused(train("foreign", "--resume"), 2, f"{newest}: ")
    assert not Path("ran").exists()


def test_help_and_settings_import_no_torch() -> None:
    code = (
        "import sys; from rover.cli.main import run\n"
        "assert run(['--help']) == run(['train', '--help']) == run(['train', '--print-config']) == 0\n"
        "print(sorted({'torch', 'transformers', 'peft', 'rich'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
