"""Harbor tasks of all shapes as packages, and back: nothing is lost, and what cannot run here is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import harbor_tasks
import pytest
import tomli_w

from rover.ops.export import ExportRequest, export
from rover.ops.import_ import ImportRequest, import_
from rover.policy.solution import SETTINGS, variables_of
from rover.port.harbor import config as configs
from rover.port.harbor.about import Origin, slug
from rover.port.harbor.layout import CONFIG
from rover.port.harbor.package import Made, make
from rover.port.harbor.restore import restore
from rover.port.harbor.tree import Item, read_folder
from rover.rollout.env import Env, env_from_files
from rover_store.errors import PackageError
from rover_store.names import check_name
from rover_store.records import Harness, Verifier
from rover_store.store import Store

SHAPES = sorted(harbor_tasks.tasks())


def made(name: str, tmp_path: Path) -> tuple[Made, dict[str, Item]]:
    tree = read_folder(harbor_tasks.write(harbor_tasks.tasks()[name], tmp_path / name))
    return make(tree, Origin(name)), tree


def env_of(name: str, tmp_path: Path) -> tuple[Made, Env]:
    found = made(name, tmp_path)[0]
    return found, env_from_files(found.files, {})


@pytest.mark.parametrize("name", SHAPES)
def test_in_and_out_and_in_again_gives_the_same(name: str, tmp_path: Path) -> None:
    first, tree = made(name, tmp_path)
    out = restore(first.files)
    assert out == tree
    assert make(out, Origin(name)).files == first.files
    env_from_files(first.files, {})  # it is a sound package


def test_a_folder_of_tasks_goes_into_a_store_in_one_commit_and_comes_out_the_same(tmp_path: Path) -> None:
    tasks = harbor_tasks.write_all(tmp_path / "tasks")
    store = Store.init(tmp_path / "a", clock=lambda: 1)
    report = import_(store, ImportRequest("harbor", tasks))
    assert report.count("added") == len(SHAPES)
    assert report.commit == store.resolve()
    assert import_(store, ImportRequest("harbor", tasks)).count("unchanged") == len(SHAPES)
    export(store, ExportRequest("harbor", tmp_path / "out"))
    other = Store.init(tmp_path / "b", clock=lambda: 2)
    import_(other, ImportRequest("harbor", tmp_path / "out"))
    assert [(p.name, p.components) for p in other.packages()] == [(p.name, p.components) for p in store.packages()]
    for name in SHAPES:
        assert read_folder(tmp_path / "out" / name) == read_folder(tasks / name), name


START = {
    "copies": {"run.sh", "data/a.csv", "data/b.csv", "data/secret-not.csv", "notes/with space.txt", "made.txt",
               "settings.ini"},
    "image-uploads": {"data/in.csv", "notes.md"},
    "modes-and-bytes": {"Dockerfile", "bin/tool", "deep/er/and/deeper/x.bin", "latest", "folder-link/and/deeper/x.bin"},
    "名前-ünïcode": {"дані/файл 1.txt"},
    "dockerfile-only": set(),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(START))
def test_the_start_state_is_what_a_build_puts_into_the_working_folder(name: str, tmp_path: Path) -> None:
    env = env_of(name, tmp_path)[1]
    assert set(env.start) == START[name]
    assert env.context.environment is not None
    assert env.context.environment.workdir == "/app"


def test_variables_come_from_the_dockerfile_and_the_settings(tmp_path: Path) -> None:
    place = env_of("copies", tmp_path)[1].context.environment
    assert place is not None
    assert place.env == {"DATA": "/app/data", "MODE": "slow", "EXTRA": "none"}
    secrets = env_of("secrets", tmp_path)[1]
    assert secrets.context.environment is not None
    assert secrets.context.environment.env == {"MODE": "plain", "PLAIN": "yes"}
    assert secrets.verifier.program is not None
    assert secrets.verifier.program.env == {"JUDGE": "${JUDGE_KEY}"}


REQUIRES = {
    "dockerfile-only": ("workdir",),
    "image-only": ("workdir",),
    "image-of-its-own": ("image",),
    "copies": ("workdir",),
    "run-lines": ("workdir", "image", "root", "network"),
    "network": ("workdir", "root", "network"),
    "two-steps": ("workdir", "steps", "prior trajectory"),
    "separate-verifier": ("workdir", "verifier image", "collect hooks"),
    "healthcheck": ("workdir", "healthcheck"),
    "tool-servers": ("workdir", "image", "network"),
    "secrets": ("workdir", "host variables"),
    "no-solution": ("workdir", "prior trajectory"),
    "python-tests": ("workdir", "root"),
    "services": ("workdir", "image", "services", "gpu"),
}


@pytest.mark.parametrize("name", sorted(REQUIRES))
def test_what_a_task_needs_is_named_with_a_reason(name: str, tmp_path: Path) -> None:
    found, env = env_of(name, tmp_path)
    assert env.harness.requires == REQUIRES[name]
    assert [line.partition(":")[0] for line in found.needs] == list(REQUIRES[name])
    assert all(line.partition(": ")[2] for line in found.needs)


def test_unknown_keys_are_kept_and_named(tmp_path: Path) -> None:
    found, tree = made("unknown-keys", tmp_path)
    assert found.unknown == ("odd", "task.mood", "environment.shape", "weird")
    config = configs.parse(restore(found.files)["task.toml"].data)
    assert config == configs.parse(tree["task.toml"].data)
    assert str(config["metadata"]["free"]["at"]) == "2026-11-30 09:00:00+00:00"


def test_settings_go_to_the_records_that_have_a_field(tmp_path: Path) -> None:
    env = env_of("image-only", tmp_path)[1]
    assert env.context.environment is not None
    assert env.context.environment.image == harbor_tasks.PINNED
    assert (env.harness.limits.memory_bytes, env.harness.limits.disk_bytes) == (4096 << 20, 512 << 20)
    servers = env_of("tool-servers", tmp_path)[1].harness.mcp_servers
    assert servers is not None
    assert [(s.name, s.command, s.url) for s in servers] == [
        ("files", ("python3", "/opt/server.py"), ""), ("web-search", (), "http://search:8080/mcp"),
    ]  # fmt: skip


def test_rewards_are_criteria_and_the_reward_alone_counts(tmp_path: Path) -> None:
    several = env_of("several-rewards", tmp_path)[1]
    assert [(c.id, c.weight, c.check) for c in several.verifier.criteria] == [
        ("accuracy", 1.0, "program"), ("format", 1.0, "program"),
    ]  # fmt: skip
    one = env_of("python-tests", tmp_path)[1]
    assert [(c.id, c.weight) for c in one.verifier.criteria] == [("reward", 1.0), ("tokens", 0.0)]
    assert one.verifier.program is not None
    assert one.verifier.program.argv == ("python3", "/tests/test.sh")
    assert [r.id for r in several.contract.requirements] == ["accuracy", "format"]


def test_lines_that_no_agent_sees_are_no_part_of_the_instruction(tmp_path: Path) -> None:
    found, env = env_of("no-solution", tmp_path)
    assert env.instruction == "Write out.txt.\n"
    assert restore(found.files)["instruction.md"].data.startswith(b"<!-- canary")


def test_a_task_of_steps_shows_the_text_of_each(tmp_path: Path) -> None:
    env = env_of("two-steps", tmp_path)[1]
    assert env.instruction == "# plan\n\nPlan.\n\n# build it\n\nBuild.\n"
    assert "steps/build it/tests/test.sh" in env.verifier_files


# --- components ------------------------------------------------------------------------------------------------
def changed(name: str, tmp_path: Path, edit: Any) -> set[str]:
    """Components that differ after `edit` of the settings."""
    first, tree = made(name, tmp_path)
    config = configs.parse(tree["task.toml"].data)
    edit(config)
    again = make({**tree, "task.toml": Item(tomli_w.dumps(config).encode())}, Origin(name))
    a, b = env_from_files(first.files, {}), env_from_files(again.files, {})
    ids = ("context_id", "task_id", "harness_id", "verifier_id")
    return {i.removesuffix("_id") for i in ids if getattr(a, i) != getattr(b, i)}


@pytest.mark.parametrize(
    ("section", "key", "value", "component"),
    [
        ("verifier", "timeout_sec", 61.0, "verifier"),
        ("verifier", "user", "root", "verifier"),
        ("solution", "later", {"A": "1"}, "verifier"),
        ("agent", "timeout_sec", 61.0, "harness"),
        ("environment", "memory_mb", 512, "harness"),
        ("environment", "cpus", 4, "harness"),
        ("environment", "build_timeout_sec", 1.0, "context"),
        ("metadata", "difficulty", "hard", "task"),
        ("task", "description", "other words", "task"),
    ],
)
def test_a_setting_is_about_one_component(
    section: str, key: str, value: object, component: str, tmp_path: Path
) -> None:
    found = changed("dockerfile-only", tmp_path, lambda c: c.setdefault(section, {}).update({key: value}))
    # what root would need is a matter of the harness
    assert found - ({"harness"} if value == "root" else set()) == {component}


def test_only_a_file_that_cannot_be_run_here_is_named(tmp_path: Path) -> None:
    _, tree = made("dockerfile-only", tmp_path)
    more = {"environment/Dockerfile": Item(b"FROM debian\nWORKDIR /app\nCOPY x/ .\n"),
            "environment/x/a.sh": Item(b"#!/bin/sh\n", True), "environment/x/b.txt": Item(b"echo\n", True)}  # fmt: skip
    notes = [note for note in make({**tree, **more}, Origin("x")).notes if "modes" in note]
    assert notes == ["a workspace keeps no modes: b.txt may be run there, and here by its interpreter alone"]
    del more["environment/x/b.txt"]
    assert not any("modes" in note for note in make({**tree, **more}, Origin("x")).notes)


def test_variables_of_the_solution_are_of_no_component(tmp_path: Path) -> None:
    give = {"env": {"B": "2", "A": "${HOME:-/root}"}}
    assert changed("dockerfile-only", tmp_path, lambda c: c.update(solution=give)) == set()
    _, tree = made("dockerfile-only", tmp_path)
    config = {**configs.parse(tree["task.toml"].data), "solution": {**give, "later": 3}}
    there = {**tree, "task.toml": Item(tomli_w.dumps(config).encode())}
    files = make(there, Origin("x")).files
    assert variables_of(files) == give["env"]
    assert b"HOME" not in files["verifier/harbor.json"]
    other = {**files, SETTINGS: b'{"env": {"C": "3"}}'}
    assert configs.parse(restore(other)["task.toml"].data)["solution"] == {"env": {"C": "3"}, "later": 3}
    assert restore(files) == there
    for odd in ({"env": {}}, {"later": 1}, {}):
        there = {**tree, "task.toml": Item(tomli_w.dumps({**config, "solution": odd}).encode())}
        files = make(there, Origin("x")).files
        assert SETTINGS not in files
        again = configs.parse(restore({p: d for p, d in files.items() if p != CONFIG})["task.toml"].data)
        assert again.get("solution") == odd
    with pytest.raises(PackageError, match=r"solution.json: env"):
        restore({**files, SETTINGS: b'{"env": {"A": 1}}'})


def edited(files: Mapping[str, bytes], path: str, record: Any) -> dict[str, bytes]:
    return {**files, path: record.dump()}


def test_a_record_that_was_changed_since_wins(tmp_path: Path) -> None:
    files = made("dockerfile-only", tmp_path)[0].files
    verifier = Verifier.load(files["verifier/verifier.json"], "")
    assert verifier.program is not None
    slower = verifier.model_copy(update={"program": verifier.program.model_copy(update={"seconds": 77.0})})
    harness = Harness.load(files["harness/harness.json"], "")
    longer = harness.model_copy(update={"budget": harness.budget.model_copy(update={"seconds": 99.0})})
    after = edited(edited(files, "verifier/verifier.json", slower), "harness/harness.json", longer)
    config = configs.parse(restore(after)["task.toml"].data)
    assert config["verifier"]["timeout_sec"] == 77.0
    assert config["agent"]["timeout_sec"] == 99.0
    assert config["environment"] == {"cpus": 2, "build_timeout_sec": 600.0}


def test_an_old_memory_setting_gives_way_to_a_changed_record(tmp_path: Path) -> None:
    files = made("unknown-keys", tmp_path)[0].files
    harness = Harness.load(files["harness/harness.json"], "")
    assert harness.limits.memory_bytes == 4 << 30
    smaller = harness.model_copy(update={"limits": harness.limits.model_copy(update={"memory_bytes": 1 << 30})})
    place = configs.parse(restore(edited(files, "harness/harness.json", smaller))["task.toml"].data)["environment"]
    assert (place.get("memory"), place["memory_mb"]) == (None, 1024)


def test_an_instruction_that_was_repaired_goes_out_with_its_head(tmp_path: Path) -> None:
    files = dict(made("no-solution", tmp_path)[0].files)
    files["task/instruction.md"] = b"Write out.txt, in UTF-8.\n"
    assert restore(files)["instruction.md"].data == b"<!-- canary GUID 123 -->\n# CANARY 456\n\n" + files[
        "task/instruction.md"
    ]


# --- names -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("original", "begins"),
    [("acme/do-it", "acme-do-it"), ("Acme/Do_It.2", "acme-do_it.2"), ("plain", "plain"), ("a/b.lock", "a-b-"),
     ("名", "task-"), ("naïve one", "naive-one-"), ("x" * 120 + "/y", "x" * 93 + "-")],
)  # fmt: skip
def test_names_are_legal_and_told_apart(original: str, begins: str) -> None:
    found = slug(original)
    assert check_name(found).startswith(begins)
    # six digits of the original stand behind what lost more than case
    assert len(found) == len(begins) + (6 if begins.endswith("-") else 0)
    assert found != slug(original + "!")


def test_two_tasks_of_one_name_are_refused(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        harbor_tasks.write(harbor_tasks.tasks()["copies"], tmp_path / "tasks" / folder)
    store = Store.init(tmp_path / "s", clock=lambda: 1)
    with pytest.raises(PackageError, match="acme-copies is also the name of one"):
        import_(store, ImportRequest("harbor", tmp_path / "tasks"))
    assert store.packages() == []
    rows = import_(store, ImportRequest("harbor", tmp_path / "tasks", keep_going=True)).rows
    assert [(row.source, row.outcome) for row in rows] == [("one", "added"), ("two", "refused")]
    assert (rows[1].file, rows[1].field, rows[1].reason) == ("", "name", "acme-copies is also the name of one")
    assert rows[1].line() == "two: name: acme-copies is also the name of one"


# --- datasets --------------------------------------------------------------------------------------------------
def test_a_dataset_verifies_its_digests(tmp_path: Path) -> None:
    store = Store.init(tmp_path / "s", clock=lambda: 1)
    import_(store, ImportRequest("harbor", harbor_tasks.write_all(tmp_path / "tasks")))
    out = tmp_path / "out"
    export(store, ExportRequest("harbor", out, pattern="acme-[cd]*", options={"dataset": "acme/some"}))
    other = Store.init(tmp_path / "b", clock=lambda: 1)
    rows = import_(other, ImportRequest("harbor", out)).rows
    assert {row.name for row in rows} == {"acme-copies", "acme-dockerfile-only"}
    record = json.loads(other.objects.read(_package(other, "acme-copies")))
    assert record["provenance"]["config"]["dataset"] == "acme/some"
    (out / "copies/instruction.md").write_text("Something else.\n")
    with pytest.raises(PackageError, match=r"copies: digest: is sha256:.* and the dataset names"):
        import_(other, ImportRequest("harbor", out))
    kept = import_(other, ImportRequest("harbor", out, keep_going=True, dry_run=True))
    assert {row.outcome for row in kept.rows} == {"refused", "unchanged"}
    shutil.rmtree(out / "copies")
    with pytest.raises(PackageError, match=r"dataset.toml: tasks.0.name: 'acme/copies' does not lie beside it"):
        import_(other, ImportRequest("harbor", out))


def _package(store: Store, name: str) -> str:
    item = store.objects.subtree(store.package(name).tree, "package.json")
    assert item is not None
    return item.id


def test_what_a_dataset_does_not_list_is_taken_and_said(tmp_path: Path) -> None:
    store = Store.init(tmp_path / "s", clock=lambda: 1)
    import_(store, ImportRequest("harbor", harbor_tasks.write_all(tmp_path / "tasks")))
    export(store, ExportRequest("harbor", tmp_path / "out", pattern="unicode*"))
    export(store, ExportRequest("harbor", tmp_path / "more", pattern="acme-copies"))
    shutil.move(tmp_path / "out" / "名前-ünïcode", tmp_path / "more")
    report = import_(store, ImportRequest("harbor", tmp_path / "more"))
    assert [asdict(r)["notes"][-1:] for r in report.rows if r.name.startswith("unicode")] == [
        ("dataset.toml does not list it",)
    ]
