"""`rover check` on tasks from elsewhere: folders that are in no store, what running them shows, levels, exit codes."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from foreign_tasks import CHECK, DIGEST, FILES, INSTRUCTION, SOLVE, TEST, TOML, task, write
from packages import runtime

from rover.cli.main import run as cli
from rover.construct.calibrate import Calibration, Row
from rover.ops.check_task import unrun
from rover_store.store import Store

Rover = Callable[..., tuple[int, str, str]]
Edits = dict[str, str | None]
UNPINNED: Edits = {"environment/Dockerfile": FILES["environment/Dockerfile"].replace(f"@{DIGEST}", "")}


@pytest.fixture(scope="module")
def kind() -> str:
    made = runtime()
    made.close()  # type: ignore[attr-defined]
    if made.kind == "local":
        pytest.skip("the local runtime has no /app")
    return made.kind


@pytest.fixture
def rover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str
) -> Rover:
    """Runs the command line in a folder without a store."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROVER_STORE", raising=False)

    def call(*words: str) -> tuple[int, str, str]:
        more = [] if "--static" in words or words[0] != "check" else ["--sandbox", kind, "-n", "1"]
        code = cli([*words, *more])
        out = capsys.readouterr()
        return code, out.out, out.err

    return call


def findings(out: str) -> list[dict[str, Any]]:
    return [f for line in out.splitlines() for f in json.loads(line)["findings"]]


def state(folder: Path) -> str:
    """What a folder holds, to its last byte."""
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return hashlib.sha256(b"".join(str(p).encode() + p.read_bytes() for p in files)).hexdigest()


def test_a_sound_task_in_a_folder(rover: Rover, tmp_path: Path) -> None:
    folder = write(task(), tmp_path / "orders")
    before = state(tmp_path)
    code, out, err = rover("check", "./orders")
    assert (code, err) == (0, "1 package checked, none wrong\n"), out
    row = out.splitlines()[2].split()
    assert row[:2] == ["acme-orders", "sound"]
    assert state(tmp_path) == before  # nothing is written, and no store is made
    code, out, _ = rover("check", str(folder), "--static", "--json")
    found = json.loads(out)
    assert (code, found["findings"], found["static"], found["cases"]) == (0, [], True, None)


def test_levels_and_what_to_fail_on(rover: Rover, tmp_path: Path) -> None:
    write(task(UNPINNED), tmp_path / "orders")
    code, out, err = rover("check", "orders/", "--static")
    assert (code, err) == (0, "1 package read, none wrong, 1 warning\n")
    assert "  warning: environment/Dockerfile:1: unpinned_image\n" in out
    assert all(len(line) <= 80 for line in out.splitlines())
    assert rover("check", "orders/", "--static", "--fail-on", "warning")[0] == 1
    edits: Edits = {**UNPINNED, "tests/test.sh": TEST + "pip install --no-index pytest\n"}
    write(task(edits), tmp_path / "orders")
    code, out, _ = rover("check", "orders/", "--static", "--json")
    assert [(f["level"], f["kind"]) for f in findings(out)] == [
        ("warning", "unpinned_image"), ("note", "unpinned_package")
    ]  # fmt: skip
    assert rover("check", "orders/", "--static", "--fail-on", "note")[0] == 1
    assert rover("check", "orders/", "--static", "--fail-on", "hint")[0] == 2


#: what is done to the sound task -> level, kind, component and file that a run shows
SHOWN: dict[str, tuple[Edits, tuple[str, str, str, str]]] = {
    "tests that look for a file alone": (
        {"tests/check.py": 'import os\n\nassert os.path.exists("/app/report.json")\n'},
        ("error", "lax_verifier", "verifier", "tests/test.sh"),
    ),
    "tests that pass nothing done": (
        {"tests/test.sh": "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n"},
        ("error", "lax_verifier", "verifier", "tests/test.sh"),
    ),
    "tests that end before the reward": (
        {"tests/test.sh": "#!/bin/bash\nset -e\npython3 /tests/check.py\necho 1 > /logs/verifier/reward.txt\n"},
        ("error", "verifier_crash", "verifier", "tests/test.sh"),
    ),
    "a reward that is none": (
        {"tests/test.sh": "#!/bin/bash\necho 2.5 > /logs/verifier/reward.txt\n"},
        ("error", "verifier_crash", "verifier", "tests/test.sh"),
    ),
    "tests that flip a coin": (
        {"tests/test.sh": "#!/bin/bash\necho 0.$RANDOM > /logs/verifier/reward.txt\n"},
        ("error", "flaky_verifier", "verifier", "tests/test.sh"),
    ),
    "tests that look for a path that nobody is told": (
        {"instruction.md": "Sum up the orders in `/app/orders.csv`.\n",
         "tests/check.py": 'import os\n\nassert os.path.exists("/app/report.json")\n'},
        ("error", "lax_verifier", "verifier", "tests/test.sh"),
    ),
    "a solution that fails": (
        {"solution/solve.sh": "#!/bin/bash\nset -e\ncat /app/order.csv > /app/report.json\n"},
        ("error", "misnamed_input", "context", "solution/solve.sh"),
    ),
    "another name in the request": (
        {"instruction.md": INSTRUCTION.replace("report.json", "reports.json")},
        ("error", "renamed_deliverable", "task", "instruction.md"),
    ),
}


@pytest.mark.parametrize("what", SHOWN)
def test_what_a_run_shows(rover: Rover, tmp_path: Path, what: str) -> None:
    edits, (level, name, component, file) = SHOWN[what]
    write(task(edits), tmp_path / "orders")
    code, out, err = rover("check", "orders/", "--json")
    assert code == 1, err
    hits = [f for f in findings(out) if (f["level"], f["kind"]) == (level, name)]
    assert hits, findings(out)
    assert (hits[0]["component"], hits[0]["file"], hits[0]["status"]) == (component, file, "confirmed")
    assert hits[0]["evidence"]
    assert not [f for f in findings(out) if f["status"] == "hypothesis" and f["level"] == "error"]


def test_attackers_that_pass_are_named_with_their_rollouts(rover: Rover, tmp_path: Path) -> None:
    write(task(SHOWN["tests that look for a file alone"][0]), tmp_path / "orders")
    _, out, _ = rover("check", "orders/", "--json")
    named = [f for f in findings(out) if f["details"].get("attackers")]
    assert named
    assert "null:empty_files" in named[0]["message"]
    assert "null:nothing" not in named[0]["message"]
    assert {len(e) for e in named[0]["evidence"]} <= {40, 64}
    assert any(len(e) == 64 for e in named[0]["evidence"])


def test_what_a_run_does_not_bear_out_becomes_a_note(rover: Rover, tmp_path: Path) -> None:
    edits: Edits = {"instruction.md": INSTRUCTION + "See also `/app/history.csv`, if it is there.\n"}
    write(task(edits), tmp_path / "orders")
    assert [f["level"] for f in findings(rover("check", "orders/", "--static", "--json")[1])] == ["warning"]
    code, out, _ = rover("check", "orders/", "--json")
    assert code == 0
    assert [(f["level"], f["kind"]) for f in findings(out)] == [("note", "missing_input")]


def test_a_task_that_cannot_run_here(rover: Rover, tmp_path: Path) -> None:
    write(task({"task.toml": TOML + "gpus = 1\n"}), tmp_path / "orders")
    code, out, err = rover("check", "orders/")
    assert code == 3
    assert "not run" in out
    assert err == "1 package checked, none wrong, 1 warning; 1 could not be run here\n"
    assert rover("check", "orders/", "--static")[0] == 0


def test_a_sandbox_that_fails_is_not_the_tasks_fault() -> None:
    rows = (
        Row("start", "start", "rejected", "rejected"),
        Row("null:echo", "attacker", "rejected", "error", None, "infra_error: the box is gone"),
        Row("solution", "reference", "accepted", "error", None, "infra_error: the box is gone"),
    )
    assert unrun(Calibration(rows)) == "2 of 3 cases could not be tried: the box is gone"
    assert unrun(Calibration(rows[:1])) == ""


def test_a_dataset_and_an_archive(rover: Rover, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write(task({"task.toml": TOML.replace("orders", name), **UNPINNED}), tmp_path / "all" / "tasks" / name)
    (tmp_path / "all/tasks/c/task.toml").write_text("[task\n")
    code, out, err = rover("check", "all/", "--static", "--sarif", "x.sarif", "--base", "/suites/")
    assert code == 1
    assert err == "3 packages read, 1 wrong, 2 warnings\n"
    assert "  error: task.toml: broken_record\n    is not valid TOML" in out
    log = json.loads((tmp_path / "x.sarif").read_text())
    places = [r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in log["runs"][0]["results"]]
    assert places == [
        "suites/tasks/c/task.toml", "suites/tasks/a/environment/Dockerfile", "suites/tasks/b/environment/Dockerfile"
    ]  # fmt: skip
    with tarfile.open(tmp_path / "all.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "all/tasks/a", "a")
    code, out, _ = rover("check", "./all.tar.gz", "--static", "--json")
    assert (code, [f["kind"] for f in findings(out)]) == (0, ["unpinned_image"])


def test_parts_of_a_dataset(rover: Rover, tmp_path: Path) -> None:
    for n in range(6):
        edits: Edits = {"task.toml": TOML.replace("orders", f"t{n}"), "instruction.md": INSTRUCTION + f"Task {n}.\n"}
        write(task(edits), tmp_path / "all" / f"t{n}")
    seen = []
    for n in (1, 2, 3):
        code, out, _ = rover("check", "all/", "--static", "--json", "--shard", f"{n}/3")
        assert code == 0
        seen += [json.loads(line)["package"] for line in out.splitlines()]
    assert sorted(seen) == [f"acme-t{n}" for n in range(6)]


def test_imported_packages_and_own_ones_side_by_side(rover: Rover, tmp_path: Path) -> None:
    write(task(UNPINNED), tmp_path / "orders")
    for words in (["init"], ["new", "own"], ["commit", "own"], ["import", "harbor", "orders"]):
        assert cli(words) == 0
    code, out, err = rover("check", "--static", "--sarif", "x.sarif")
    assert code == 0, out + err
    assert "acme-orders" in out
    log = json.loads((tmp_path / "x.sarif").read_text())
    (result,) = log["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "acme-orders/environment/Dockerfile"
    assert result["properties"]["component"] == "context"
    record = json.loads((tmp_path / "own/verifier/verifier.json").read_text())
    record["criteria"][0]["check"] = "checks/report.py:nothing"
    (tmp_path / "own/verifier/verifier.json").write_text(json.dumps(record, indent=2))
    assert cli(["commit", "own"]) == 0
    code, _, _ = rover("check", "own", "--static", "--sarif", "x.sarif")
    log = json.loads((tmp_path / "x.sarif").read_text())
    (result,) = log["runs"][0]["results"]
    assert code == 1
    assert (result["ruleId"], result["level"]) == ("broken_record", "error")
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "own/verifier/verifier.json"
    line = place["region"]["startLine"]
    text = (tmp_path / "own/verifier/verifier.json").read_text().splitlines()
    assert '"check": "checks/report.py:nothing"' in text[line - 1]
    assert [e.name for e in Store.open(tmp_path).packages()] == ["acme-orders", "own"]


def test_the_example_for_code_scanning(rover: Rover, tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "examples/ci/check.yml").read_text()
    folder = re.search(r"TASKS: (\w+)", text)
    assert folder is not None
    write(task(UNPINNED), tmp_path / folder[1] / "orders")
    lines = re.findall(r"- run: rover (check .+)", text)
    assert len(lines) == 2
    for line in lines:
        filled = line.replace("$TASKS", folder[1]).replace("${{ matrix.part }}/3", "1/1")
        code, out, err = rover(*shlex.split(filled))
        assert code == 0, out + err
    for name in ("read", "run"):
        log = json.loads((tmp_path / f"{name}.sarif").read_text())
        (result,) = log["runs"][0]["results"]
        uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert uri == f"{folder[1]}/orders/environment/Dockerfile"
        assert (tmp_path / uri).is_file()


def test_bad_input_changes_nothing(rover: Rover, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.txt").write_text("hello")
    before = state(tmp_path)
    for words, said in (
        (("empty/",), "holds no task.toml"), (("absent/",), "absent"), (("./file.txt",), "neither a folder nor"),
        (("file.txt",), "file.txt lies here: ./file.txt checks that"),
        (("empty/", "--sarif", "nowhere/x.sarif"), "there is no folder nowhere"),
        (("empty/", "--shard", "5/3"), "--shard 5/3"),
    ):  # fmt: skip
        code, out, err = rover("check", *words, "--static")
        assert (code, out) == (2, ""), err
        assert said in err
    assert state(tmp_path) == before


def test_a_folder_called_like_a_package_does_not_stand_for_it(rover: Rover, tmp_path: Path) -> None:
    write(task(UNPINNED), tmp_path / "orders")
    for words in (["init"], ["import", "harbor", "orders"]):
        assert cli(words) == 0
    write(task({"task.toml": "[task\n"}), tmp_path / "acme-orders")
    (tmp_path / "acme-order").write_text("a file")
    code, out, err = rover("check", "acme-orders", "--static")
    assert (code, err) == (0, "1 package read, none wrong, 1 warning\n"), out
    assert rover("check", "./acme-orders", "--static")[0] == 1
    code, _, err = rover("check", "acme-order", "--static")
    assert (code, "acme-order lies here: ./acme-order checks that" in err) == (2, True)


def test_texts_of_a_task_move_no_cursor(rover: Rover, tmp_path: Path) -> None:
    edits: Edits = {"instruction.md": INSTRUCTION + "Also `\x1b[2Jx.csv` and `/app/y\x07.csv` and `/app/z.csv`.\n"}
    write(task({**edits, "tests/check.py": CHECK, "solution/solve.sh": SOLVE}), tmp_path / "orders")
    _, out, _ = rover("check", "orders/", "--static")
    assert "\x1b" not in out
    assert "\x07" not in out
