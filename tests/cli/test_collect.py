"""`rover collect`, `dataset`, `split` and `pilot`: from packages to training data, and every refusal in one line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from packages import runtime, solution_calls, summary_package, summary_resources

from rover.cli.main import run as cli
from rover_store.records import Package
from rover_store.store import Store

PLAN = [{"tool": c.tool, "arguments": c.arguments} for c in solution_calls()]
Rover = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def kind() -> str:
    made = runtime()
    made.close()  # type: ignore[attr-defined]
    return made.kind


def packages(store: Store, places: dict[str, str]) -> None:
    """The order summary under these names, as of these workspaces, each with a resource of its own."""
    with store.write("test") as tx:
        tx.set_resource("files/orders", tx.tree(summary_resources()["files/orders"]))
        for name, workspace in places.items():
            files = summary_package(name)
            record = Package.load(files["package.json"], "package.json")
            edges = tuple(e for e in record.edges if not e.target.startswith("resources/"))
            files["package.json"] = record.model_copy(update={"workspace": workspace, "edges": edges}).dump()
            tx.set_package(name, tx.tree(files))
        tx.commit("packages")


@pytest.fixture
def rover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str
) -> Rover:
    """Runs the command line on a store with three packages; gives exit code, stdout and stderr."""
    packages(Store.init(tmp_path, clock=lambda: 0), {"orders-a": "x", "orders-b": "y", "orders-c": "z"})
    (tmp_path / "plan.json").write_text(json.dumps({"calls": PLAN, "message": "Wrote report.csv."}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROVER_STORE", raising=False)

    def call(*words: str) -> tuple[int, str, str]:
        more = ["--sandbox", kind] if words[0] in ("run", "collect", "pilot") else []
        code = cli([*words, *more])
        out = capsys.readouterr()
        return code, out.out, out.err

    return call


def test_what_passes_is_kept_in_one_commit(rover: Rover) -> None:
    before = Store.open()
    parts = {e.name: e.components for e in before.packages()}
    code, out, err = rover("collect", "orders-[ab]", "--policy", "scripted:plan.json", "-k", "2")
    assert code == 0, err
    assert [line.split() for line in out.splitlines()[2:4]] == [
        [name, "2/2", "1", "1", "1", "duplicate"] for name in ("orders-a", "orders-b")
    ]
    assert "4 rollouts, 0 reused; 2 demonstrations kept" in err
    store = Store.open()
    assert {e.name: e.components for e in store.packages()} == parts
    assert store.commit().message.startswith("Collect 2 demonstrations of 2 packages")
    assert len(list(store.log())) == 2
    level = store.objects.subtree(store.package("orders-a").tree, "demonstrations")
    assert level is not None
    names = sorted(store.objects.list_tree(level.id))
    assert names[-1] == "pilot.json"
    said = json.loads(store.objects.read(store.objects.list_tree(level.id)[names[0]].id))
    assert said["components"] == parts["orders-a"]
    assert said["rollout"].startswith(names[0].removesuffix(".json"))
    assert (said["verdict"]["outcome"], said["policy"][:9]) == ("passed", "scripted:")


def test_a_second_call_adds_and_undo_takes_back(rover: Rover, tmp_path: Path) -> None:
    rover("collect", "orders-a", "--policy", "scripted:plan.json")
    first = Store.open().resolve()
    _, out, err = rover("collect", "orders-a", "--policy", "scripted:plan.json")
    assert "1 reused; 0 demonstrations kept" in err
    assert Store.open().resolve() == first
    (tmp_path / "other.json").write_text(json.dumps({"calls": PLAN[1:], "message": "There."}))
    _, out, _ = rover("collect", "orders-*", "--policy", "scripted:other.json", "--json")
    report = json.loads(out)
    assert (report["kept"], [row["held"] for row in report["rows"]]) == (3, [2, 1, 1])
    _, out, _ = rover("collect", "orders-a", "--policy", "scripted:plan.json", "--seed", "9", "--keep", "2")
    assert "1 duplicate" in out
    (tmp_path / "third.json").write_text(json.dumps({"calls": PLAN, "message": "Third."}))
    _, out, err = rover("collect", "orders-a", "--policy", "scripted:third.json", "--keep", "2")
    assert "1 full" in out
    last = Store.open().resolve()
    rover("collect", "orders-b", "--policy", "scripted:third.json")
    assert Store.open().resolve() != last
    assert rover("undo")[0] == 0
    assert Store.open().resolve() == last


def test_failures_are_counted_and_not_kept(rover: Rover) -> None:
    code, out, err = rover("collect", "orders-*", "--policy", "null:nothing")
    assert code == 0
    store = Store.open()
    for entry in store.packages():
        item = store.objects.subtree(entry.tree, "demonstrations/pilot.json")
        (count,) = json.loads(store.objects.read(item.id))["counts"]
        assert (count["policy"], count["attempts"], count["passed"]) == ("null:nothing:1", 1, 0)
        assert list(store.objects.list_tree(store.objects.subtree(entry.tree, "demonstrations").id)) == ["pilot.json"]
    assert out.count("1 failed") == 3
    assert "not kept: 3 failed (did not pass)" in err
    _, out, _ = rover("collect", "orders-a", "--policy", "scripted:plan.json+stop_early", "-k", "3", "--json")
    (row,) = json.loads(out)["rows"]
    assert row["attempts"] == 3
    assert row["passed"] < 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("collect", "zz*"), "no package of HEAD matches 'zz*'"),
        (("collect", "orders-a", "--policy", "nonsense"), "no policy is called 'nonsense'"),
        (("collect", "orders-a"), "orders-a: the package names no family, so it has no solver"),
        (("collect", "orders-a", "--rev", "nothing"), "nothing"),
        (("dataset", "orders-a", "--out", "data"), "has no verified demonstrations"),
        (("dataset", "zz*", "--out", "data"), "matches 'zz*'"),
        (("dataset", "--out", "data", "--revision", "nothing"), "nothing"),
        (("dataset", "--out", "data", "--set", "x=1"), "curation: x: no such key"),
        (("dataset", "--out", "data", "--all", "--set", "several=1"), "--all keeps everything"),
        (("dataset", "--out", "data", "--policy", "x"), "--from-evidence"),
        (("dataset", "--out", "data", "--split", "none.json"), "none.json: no split can be read there"),
        (("split", "--shares", "1,2"), "shares are three numbers"),
        (("split", "*", "--tag", "level:3"), "has level:3"),
        (("split", "orders-[ab]"), "2 packages in 2 clusters of workspaces cannot fill"),
        (("split", "--train", "orders-a", "--shares", "1,1,1"), "named by globs"),
        (("split", "--train", "orders-*", "--held-out", "orders-a"), "orders-a is in both"),
        (("pilot", "--out", "x.json"), "give both or none"),
        (("pilot", "orders-a"), "names no family"),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(
    rover: Rover, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    before, files = Store.open().resolve(), sorted(p.name for p in tmp_path.iterdir())
    code, out, err = rover(*words)
    assert (code, out) == (2, "")
    line, *hint = err.splitlines()
    assert line.startswith("rover: ")
    assert said in line
    assert all(h.startswith("  hint: ") for h in hint)
    assert (Store.open().resolve(), sorted(p.name for p in tmp_path.iterdir())) == (before, files)


def test_another_version_on_the_branch_gets_no_demonstration(rover: Rover) -> None:
    store = Store.open()
    old = store.resolve()
    with store.write("test") as tx:
        entry = store.package("orders-a")
        tx.set_package("orders-a", tx.edit_tree(entry.tree, {"task/instruction.md": b"Do less.\n"}))
        tx.commit("Edit")
    _, out, _ = rover("collect", "orders-[ab]", "--policy", "scripted:plan.json", "--rev", old, "--json")
    rows = json.loads(out)["rows"]
    assert [(row["package"], len(row["kept"]), row["dropped"]) for row in rows] == [
        ("orders-a", 0, {"moved": 1}), ("orders-b", 1, {}),
    ]  # fmt: skip


def test_dataset_of_a_part_of_a_split(rover: Rover, tmp_path: Path) -> None:
    rover("collect", "orders-*", "--policy", "scripted:plan.json")
    code, out, err = rover("split", "--shares", "1,1,1", "--seed", "3", "--out", "split.json")
    assert code == 0, err
    assert "3 packages of" in err
    made = json.loads((tmp_path / "split.json").read_text())
    code, out, err = rover("dataset", "--out", "data", "--split", "split.json", "--part", "held-out")
    assert (code, "kept" in out) == (0, True), err
    said = json.loads((tmp_path / "data/report.json").read_text())
    assert [line["package"] for line in said["lines"]] == made["held_out"]["packages"]
    assert said["revision"] == made["revision"] == Store.open().resolve()
    code, _, err = rover("dataset", "--out", "all", "--from-evidence", "--json")
    assert code == 0, err
    code, _, err = rover("dataset", "--out", "data")
    assert (code, "exists and is not empty" in err) == (2, True)
    rover("collect", "orders-a", "--policy", "scripted:plan.json+perturb_number", "-k", "2", "--seed", "5")
    if Store.open().resolve() != made["revision"]:
        code, _, err = rover("dataset", "--out", "late", "--split", "split.json")
        assert (code, "a split of" in err) == (2, True)


def test_pilot_keeps_what_varies(rover: Rover, tmp_path: Path) -> None:
    rover("split", "--shares", "1,1,1", "--out", "split.json")
    code, out, err = rover(
        "pilot", "orders-*", "--policy", "scripted:plan.json+perturb_number", "-k", "4", "--report", "report.json"
    )  # fmt: skip
    assert code == 0, err
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["attempts"], len(report["tasks"])) == (4, 3)
    assert all(task["kept"] == (not task["reason"]) for task in report["tasks"])
    code, out, err = rover(
        "pilot", "--policy", "scripted:plan.json", "-k", "2", "--split", "split.json", "--out", "rl.json"
    )  # fmt: skip
    assert code == 2
    assert "always" in out
    assert "no task was kept" in err
    assert not (tmp_path / "rl.json").exists()


def test_an_interrupt_keeps_what_ran(tmp_path: Path, kind: str) -> None:
    packages(Store.init(tmp_path, clock=lambda: 0), {f"orders-{n:02}": f"w{n}" for n in range(40)})
    slow = [{"tool": "shell", "arguments": {"command": "sleep 0.1"}}, *PLAN]
    (tmp_path / "plan.json").write_text(json.dumps({"calls": slow, "message": "Wrote report.csv."}))
    words = ["collect", "*", "--policy", "scripted:plan.json", "--sandbox", kind, "-n", "2"]
    first = subprocess.Popen(
        [sys.executable, "-m", "rover.cli.entry", *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )  # fmt: skip
    store = Store.open(tmp_path)
    deadline = time.monotonic() + 60
    while not list(store.evidence.ids()) and time.monotonic() < deadline and first.poll() is None:
        time.sleep(0.05)
    first.send_signal(signal.SIGINT)
    _, err = first.communicate(timeout=60)
    ran = len(list(store.evidence.ids()))
    if first.returncode == 0:  # a machine on which all of it was over before the signal came
        return
    assert first.returncode == 130, err
    assert "nothing is committed" in err
    assert ran > 0
    assert len(list(Store.open(tmp_path).log())) == 1
    again = subprocess.run(
        [sys.executable, "-m", "rover.cli.entry", *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert again.returncode == 0, again.stderr
    assert "40 demonstrations kept" in again.stderr
    assert f"{ran} reused" in again.stderr
