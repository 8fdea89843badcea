"""Rover's own packages as Harbor tasks: what is written, that it grades by itself, and that it comes back the same."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path

import packages
import pytest
import tomli_w

from rover.construct.solved import solution_of
from rover.ops.export import ExportReport, ExportRequest, export
from rover.ops.import_ import ImportRequest, import_
from rover.policy.null import NullPolicy
from rover.port.harbor.about import Origin
from rover.port.harbor.native import IMAGE, MESSAGE, sentence
from rover.port.harbor.package import make
from rover.port.harbor.tree import Item, Tree, read_folder
from rover.rollout.engine import Engine, RolloutRequest
from rover.rollout.env import Env, env_from_files, load_env
from rover_store.errors import PackageError, UsageError
from rover_store.records import Package, Reference, Verifier
from rover_store.store import Store


def with_message(name: str = "told") -> dict[str, bytes]:
    """The package with one more criterion, which reads the final message."""
    check = "import rover_checks as rc\n\ndef said(ev):\n    return rc.figure_near(ev.message, 'regions', 4)\n"
    files = {**packages.summary_package(name), "verifier/checks/message.py": check.encode()}
    verifier = json.loads(files["verifier/verifier.json"])
    verifier["criteria"].append({"id": "said", "requirement": "rows", "evidence": "message", "check":
                                 "checks/message.py:said", "critical": True})  # fmt: skip
    files["verifier/verifier.json"] = Verifier.model_validate(verifier).dump()
    reference = Reference.load(files["verifier/reference/reference.json"], "")
    told = reference.model_copy(update={"final_message": "The file has rows for these regions: 4"})
    return {**files, "verifier/reference/reference.json": told.dump()}


def store_of(folder: Path, *contents: Mapping[str, bytes]) -> Store:
    store = Store.init(folder, clock=lambda: 1)
    with store.write("test") as tx:
        for name, files in packages.summary_resources().items():
            tx.set_resource(name, tx.tree(files))
        for one in contents:
            tx.set_package(Package.load(one["package.json"], "").name, tx.tree(one))
        tx.commit("packages")
    return store


def exported(tmp_path: Path, *contents: Mapping[str, bytes], **options: str) -> tuple[Store, Path, ExportReport]:
    store = store_of(tmp_path / "s", *contents)
    report = export(store, ExportRequest("harbor", tmp_path / "out", options=options))
    return store, tmp_path / "out", report


def test_the_settings_say_what_the_package_is(tmp_path: Path) -> None:
    store, out, report = exported(tmp_path, packages.summary_package())
    (row,) = report.rows
    assert (row.path, row.notes) == ("order-summary", ())
    config = tomllib.loads((out / "order-summary/task.toml").read_text())
    entry = store.package("order-summary")
    assert config["metadata"]["rover"] == {
        "package": "order-summary", "revision": store.resolve(), "components": entry.components, "workspace": "shop",
    }  # fmt: skip
    assert config["environment"]["docker_image"] == IMAGE
    assert config["environment"]["network_mode"] == "no-network"
    assert config["verifier"]["environment_mode"] == "separate"
    assert config["artifacts"] == [config["environment"]["workdir"]]
    assert config["agent"]["user"] not in (0, "root")
    dataset = tomllib.loads((out / "dataset.toml").read_text())
    assert [t["name"] for t in dataset["tasks"]] == ["rover/order-summary"]


def test_the_folder_holds_no_dockerfile_and_shows_no_answer(tmp_path: Path) -> None:
    tree = read_folder(exported(tmp_path, packages.summary_package())[1] / "order-summary")
    assert {p for p in tree if p.startswith("environment/")} == {"environment/orders.csv", "environment/notes.md"}
    shown = [item.data for path, item in tree.items() if not path.startswith("solution/")]
    assert not any(packages.REPORT in data for data in shown)
    assert tree["tests/test.sh"].executable
    assert tree["solution/solve.sh"].executable


def test_the_same_revision_gives_the_same_bytes(tmp_path: Path) -> None:
    store, out, _ = exported(tmp_path, packages.summary_package(), with_message())
    export(store, ExportRequest("harbor", tmp_path / "again"))
    assert {p.relative_to(out): p.read_bytes() for p in out.rglob("*") if p.is_file()} == {
        p.relative_to(tmp_path / "again"): p.read_bytes() for p in (tmp_path / "again").rglob("*") if p.is_file()
    }


def test_a_criterion_that_reads_the_message_asks_for_a_file(tmp_path: Path) -> None:
    _, out, report = exported(tmp_path, with_message())
    assert sentence() in (out / "told/instruction.md").read_text()
    assert MESSAGE in report.rows[0].notes[0]
    assert tomllib.loads((out / "told/task.toml").read_text())["metadata"]["rover"]["final_message"] == MESSAGE
    assert (out / "told/solution/message.md").read_text() == "The file has rows for these regions: 4"


@pytest.mark.parametrize("name", ["..", ".", "dataset.toml", "a/b", ".git"])
def test_no_task_is_written_beside_the_export(name: str, tmp_path: Path) -> None:
    made = make({"task.toml": Item(b""), "instruction.md": Item(b"Do it.\n"), "tests/test.sh": Item(b"echo 1\n"),
                 "environment/Dockerfile": Item(b"FROM debian\nWORKDIR /app\n")}, Origin("one"))  # fmt: skip
    record = json.loads(made.files["package.json"])
    record["provenance"]["config"]["folder"] = name
    _, out, report = exported(tmp_path, {**made.files, "package.json": json.dumps(record).encode()})
    assert [row.path for row in report.rows] == [made.name]
    assert [p.name for p in tmp_path.iterdir() if p.name != "s"] == ["out"]
    assert (out / made.name / "task.toml").is_file()


# --- it runs by itself -----------------------------------------------------------------------------------------
def as_foreign(folder: Path) -> Env:
    """The exported task without what it carries, as any other Harbor task: run by its own scripts."""
    tree = {p: i for p, i in read_folder(folder).items() if not p.startswith("solution/rover/")}
    config = tomllib.loads(tree["task.toml"].data.decode())
    del config["environment"]["healthcheck"]  # makes a user, which no sandbox of ours needs
    made = make({**tree, "task.toml": Item(tomli_w.dumps(config).encode())}, Origin(folder.name))
    return env_from_files(made.files, {})


@pytest.mark.needs_bwrap
@pytest.mark.parametrize("name", ["order-summary", "told"])
def test_its_own_scripts_pass_the_solution_and_fail_who_does_nothing(name: str, tmp_path: Path) -> None:
    out = exported(tmp_path, packages.summary_package(), with_message())[1]
    env = as_foreign(out / name)
    policy = solution_of(env)
    assert policy is not None
    with Engine(packages.runtime(), None) as engine:
        results = engine.rollouts([RolloutRequest(env, policy, 1), RolloutRequest(env, NullPolicy("nothing"), 1)])
        verdicts = engine.grade([(result, env) for result in results])
    # a message lies outside of the workspace, where Harbor collects it, and a grading of ours does not look
    assert [v.outcome for v in verdicts] == ["failed" if name == "told" else "passed", "failed"]


def test_a_failing_check_leaves_no_reward(tmp_path: Path) -> None:
    broken = packages.with_checks("def f(ev):\n    raise RuntimeError('x')\n", ("f",), name="broken")
    out = exported(tmp_path, broken)[1] / "broken"
    done = subprocess.run(
        ["python3", str(out / "tests/grader/grade.py"), str(out / "environment"), "--reward", str(tmp_path / "logs")],
        capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert os.listdir(tmp_path / "logs") == ["verdict.json"]


# --- and back --------------------------------------------------------------------------------------------------
def test_it_comes_back_as_the_same_package(tmp_path: Path) -> None:
    store, out, _ = exported(tmp_path, packages.summary_package(), with_message())
    other = Store.init(tmp_path / "b", clock=lambda: 2)
    import_(other, ImportRequest("harbor", out))
    for entry in store.packages():
        assert other.package(entry.name).components == entry.components
        back = load_env(other, other.package(entry.name).tree)
        assert back.start == load_env(store, entry.tree).start
    assert other.resources() == store.resources()
    assert import_(store, ImportRequest("harbor", out)).count("unchanged") == 2


def changed_task(tmp_path: Path, path: str, data: bytes) -> tuple[Store, Tree, str]:
    _, out, _ = exported(tmp_path, packages.summary_package())
    (out / "order-summary" / path).write_bytes(data)
    (out / "dataset.toml").unlink()
    other = Store.init(tmp_path / "b", clock=lambda: 2)
    report = import_(other, ImportRequest("harbor", out))
    return other, read_folder(out / "order-summary"), report.rows[0].notes[-1]


@pytest.mark.parametrize("path", ["instruction.md", "tests/grader/checks/main.py", "environment/orders.csv", "new.txt"])
def test_one_that_was_changed_comes_back_as_the_task_that_it_is(path: str, tmp_path: Path) -> None:
    store, tree, note = changed_task(tmp_path, path, b"changed\n")
    assert note.startswith(f"{path} is not as rover exported it")
    env = load_env(store, store.packages()[0].tree)
    assert env.verifier.program is not None
    assert tree[path].data == b"changed\n"


def test_an_admission_is_not_taken_from_outside(tmp_path: Path) -> None:
    files = packages.summary_package()
    record = Package.load(files["package.json"], "")
    env = env_from_files(files, packages.summary_resources())
    ids = {"context": env.context_id, "task": env.task_id, "harness": env.harness_id, "verifier": env.verifier_id}
    admission = {"components": ids, "cases": 3, "digest": "x"}
    claimed = record.model_validate({**record.model_dump(), "admission": admission})
    store, out, _ = exported(tmp_path, {**files, "package.json": claimed.dump()})
    other = Store.init(tmp_path / "b", clock=lambda: 2)
    import_(other, ImportRequest("harbor", out))
    back = load_env(other, other.package("order-summary").tree).record
    assert (back.admission, load_env(store, store.package("order-summary").tree).record.admission) == (
        None, claimed.admission,
    )  # fmt: skip
    assert import_(store, ImportRequest("harbor", out)).count("unchanged") == 1


# --- requests that make no sense -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "options",
    [{"odd": "1"}, {"workdir": "app"}, {"workdir": "/a b"}, {"network": "some"}, {"environment": "docker"},
     {"org": "a/b"}, {"dataset": "x"}],
)  # fmt: skip
def test_options_that_make_no_sense(options: dict[str, str], tmp_path: Path) -> None:
    store = store_of(tmp_path / "s", packages.summary_package())
    with pytest.raises(UsageError, match=r"--set"):
        export(store, ExportRequest("harbor", tmp_path / "out", options=options))
    assert not (tmp_path / "out").exists()


def test_what_harbor_has_no_form_for_is_left_out_with_the_reason(tmp_path: Path) -> None:
    files = {**packages.summary_package("docker-like"), "context/files/Dockerfile": b"FROM scratch\n"}
    _, out, report = exported(tmp_path, files, packages.summary_package())
    left = {row.name: row for row in report.rows}["docker-like"]
    assert (left.path, "Harbor would build from it" in left.notes[0]) == ("", True)
    assert sorted(p.name for p in out.iterdir()) == ["dataset.toml", "order-summary"]


def test_a_folder_that_holds_anything_is_not_written_to(tmp_path: Path) -> None:
    store = store_of(tmp_path / "s", packages.summary_package())
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine").write_text("x")
    with pytest.raises(UsageError, match="exists and is not empty"):
        export(store, ExportRequest("harbor", tmp_path / "out"))
    with pytest.raises(UsageError, match="no exporter is called 'odd'"):
        export(store, ExportRequest("odd", tmp_path / "other"))
    with pytest.raises(UsageError, match="no package of HEAD matches"):
        export(store, ExportRequest("harbor", tmp_path / "other", pattern="none-*"))
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["mine"]


def test_a_package_whose_parts_do_not_fit_is_refused(tmp_path: Path) -> None:
    out = exported(tmp_path, packages.summary_package())[1] / "order-summary"
    manifest = json.loads((out / "solution/rover/package.json").read_bytes())
    (out.parent / "dataset.toml").unlink()
    less = {path: name for path, name in manifest["files"].items() if path != "harness/harness.json"}
    for wrong, said in (
        ({"files": {**manifest["files"], "../up": "0" * 64}}, r"is no name"),
        ({"files": {**manifest["files"], "context/context.json": "0" * 64}}, "its bytes are not in the task"),
        ({"files": less}, "harness.json: missing"),
        ({"resources": {}}, "resource files/orders is missing"),
        ({"resources": {**manifest["resources"], "files/orders": {}}}, "is not of the version bound"),
    ):
        (out / "solution/rover/package.json").write_text(json.dumps({**manifest, **wrong}))
        other = Store.init(tmp_path / f"b{len(list(tmp_path.iterdir()))}", clock=lambda: 2)
        with pytest.raises(PackageError, match=said):
            import_(other, ImportRequest("harbor", out))
        assert other.packages() == []
