"""A verifier as a folder grades as rover does: same scores, same reasons, same pass, by any Python that is there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import packages
import pytest
from workspaces import shop_workspace

from rover.construct.build import Built, attempt
from rover.construct.families.registry import family
from rover.port.standalone import folder
from rover.port.standalone.make import imports
from rover.rollout.engine import Engine
from rover.rollout.env import Env, env_from_files, reference_state
from rover_store.errors import PackageError
from rover_store.records import Verdict, Verifier

#: without what is installed beside this interpreter: the folder brings all that it needs
BARE = [sys.executable, "-I", "-S", "-B"]


def lay(files: Mapping[str, bytes], root: Path) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    for path, data in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return root


def graded(grader: Path, end: Path, message: str = "", reward: Path | None = None) -> tuple[int, dict[str, object]]:
    (end.parent / "message").write_text(message)
    argv = [*BARE, str(grader / "grade.py"), str(end), "--message", str(end.parent / "message")]
    done = subprocess.run([*argv, *(["--reward", str(reward)] if reward else [])], capture_output=True, check=False)
    return done.returncode, json.loads(done.stdout)


def same(verdict: Verdict, said: Mapping[str, object]) -> bool:
    scores = said["scores"]
    assert isinstance(scores, dict)
    told = {name: (one["score"], one["reason"]) for name, one in scores.items()}
    return (
        (verdict.outcome == "passed", verdict.score, verdict.gate) == (said["passed"], said["share"], said["gate"])
        and told == {s.criterion: (s.score, s.reason) for s in verdict.scores}
    )  # fmt: skip


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> Env:
    """A package that was built on files with a workbook among them."""
    workspace = shop_workspace(tmp_path_factory.mktemp("shop"))
    with Engine(packages.runtime(), None) as engine:
        for number in range(9):
            found = attempt(engine, workspace, family("edit"), number, 3).outcome
            if isinstance(found, Built) and any(path.endswith(".xlsx") for path in found.files | found.resources):
                return env_from_files(found.files, found.resources)
    raise AssertionError("no package with a workbook was admitted")


def summary() -> Env:
    return env_from_files(packages.summary_package(), packages.summary_resources())


@pytest.mark.parametrize("name", ["summary", "books"])
def test_it_scores_as_the_sandbox_does(name: str, books: Env, tmp_path: Path) -> None:
    env = books if name == "books" else summary()
    grader = lay(folder(env).files, tmp_path / "grader")
    reference = reference_state(env)
    states: dict[str, tuple[dict[str, bytes], str]] = {
        "start": (dict(env.start), ""),
        "reference": (reference, env.reference.final_message),
        "nothing": ({}, "done"),
        "extra": ({**reference, "more/extra.txt": b"x"}, env.reference.final_message),
    }
    for change in env.reference.changes:
        data = reference[change.path]
        states[f"half of {change.path}"] = ({**reference, change.path: data[: len(data) // 2]}, "")
        states[f"noise for {change.path}"] = ({**reference, change.path: b"\x00noise"}, "")
    with Engine(packages.runtime(), None) as engine:
        for label, (state, message) in states.items():
            verdict = engine.grade_state(env, state, message)
            code, said = graded(grader, lay(state, tmp_path / label.replace("/", "-")), message)
            assert code == 0, label
            assert same(verdict, said), label
    assert graded(grader, lay(reference, tmp_path / "again"), env.reference.final_message)[1]["passed"] is True


def test_the_reward_lies_where_it_is_asked_for(tmp_path: Path) -> None:
    env = summary()
    grader = lay(folder(env).files, tmp_path / "grader")
    out = tmp_path / "out"
    assert graded(grader, lay(reference_state(env), tmp_path / "a"), reward=out)[0] == 0
    assert json.loads((out / "reward.json").read_bytes()) == {"reward": 1, "share": 1.0}
    (out / "reward.txt").write_text("0.5")
    assert graded(grader, lay(env.start, tmp_path / "b"), reward=out)[0] == 0
    found = json.loads((out / "reward.json").read_bytes())
    assert (found["reward"], 0 <= found["share"] < 1, (out / "reward.txt").exists()) == (0, True, False)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def f(ev):\n    raise RuntimeError('broken')\n", "f: the check raised RuntimeError: broken (line 2)"),
        ("def f(ev):\n    return 2.5\n", "f: the check returned 2.5, which is not in [0, 1]"),
        ("import os\ndef f(ev):\n    os._exit(0)\n", "f: the check ended without a result"),
        ("def f(ev):\n    ev.end('x').write_text('x')\n    return 1.0\n", "f: the check changed the workspace"),
        ("x = (\n", "f: the check raised SyntaxError"),
    ],
)
def test_a_check_that_fails_is_no_reward(source: str, said: str, tmp_path: Path) -> None:
    env = env_from_files(packages.with_checks(source, ("f",)), packages.summary_resources())
    grader = lay(folder(env).files, tmp_path / "grader")
    out = lay({"reward.json": b'{"reward": 1}'}, tmp_path / "out")
    code, verdict = graded(grader, lay(env.start, tmp_path / "a"), reward=out)
    assert code == 3
    assert str(verdict["error"]).startswith(said)
    assert not (out / "reward.json").exists()
    assert json.loads((out / "verdict.json").read_bytes()) == verdict


def test_what_is_no_plain_file_is_never_followed(tmp_path: Path) -> None:
    env = summary()
    grader = lay(folder(env).files, tmp_path / "grader")
    end = lay(env.start, tmp_path / "end")
    lay({"real.csv": packages.REPORT}, tmp_path)
    os.symlink(tmp_path / "real.csv", end / "report.csv")
    os.mkfifo(end / "pipe")
    code, verdict = graded(grader, end)
    assert (code, verdict["passed"]) == (0, False)
    assert "report.csv: is a link, not a file" in json.dumps(verdict)


def test_it_holds_what_checks_see_and_no_reference(books: Env) -> None:
    env = summary()
    found = folder(env)
    assert {path.partition("/")[0] for path in found.files} == {"grade.py", "plan.json", "checks", "start", "lib"}
    assert folder(env).files == found.files
    assert not any(packages.REPORT in data for data in found.files.values())
    assert "vendor/openpyxl.zip" in folder(books).files


def test_what_checks_import_is_named() -> None:
    checks = {"checks/a.py": b"import json, numpy.linalg\nfrom pandas import x\nimport rover_checks as rc\n",
              "checks/b.py": b"from . import c\nimport openpyxl\nbroken(\n"}  # fmt: skip
    assert imports(checks) == {"numpy", "pandas", "rover_checks"}


def test_a_verifier_that_is_a_program_is_none(tmp_path: Path) -> None:
    files = dict(packages.summary_package())
    record = Verifier.load(files["verifier/verifier.json"], "").model_dump(mode="json", exclude_none=True)
    files["verifier/verifier.json"] = json.dumps({**record, "program": {"argv": ["true"]}}).encode()
    with pytest.raises(PackageError, match="is a program already"):
        folder(env_from_files(files, packages.summary_resources()))
