"""Packages as a taskset of verifiers: what the folder holds, and what vf-validate makes of it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import exported
import packages
import pytest

from rover.ops.export import ExportReport, ExportRequest, export
from rover_store.errors import UsageError
from rover_store.records import Harness, Package, Reference, Verifier
from rover_store.records.components import Program, Provenance
from rover_store.store import Store

CRASH = "def crash(ev):\n    raise ValueError('no')\n"
LAX = "def lax(ev):\n    return 1.0\n"


def licensed(files: packages.Files, name: str) -> packages.Files:
    record = Package.load(files["package.json"], "package.json")
    changed = record.model_copy(update={"provenance": Provenance(license=name)})
    return {**files, "package.json": changed.dump()}


def made(folder: Path, **some: packages.Files) -> Store:
    store = Store.init(folder)
    with store.write("test") as tx:
        for name, files in packages.summary_resources().items():
            tx.set_resource(name, tx.tree(files))
        for name, files in some.items():
            tx.set_package(name, tx.tree(files))
        tx.commit("Packages", time=1)
    return store


def without_reference(name: str) -> packages.Files:
    files = {p: d for p, d in packages.summary_package(name).items() if not p.startswith("verifier/reference")}
    return {**files, "verifier/reference/reference.json": Reference().dump()}


def program(name: str) -> packages.Files:
    files = packages.summary_package(name)
    verifier = Verifier.load(files["verifier/verifier.json"], "v").model_copy(
        update={"program": Program(argv=("sh", "/tests/test.sh"))}
    )
    return {**files, "verifier/verifier.json": verifier.dump(), "verifier/tests/test.sh": b"true\n"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    rooted = packages.summary_package("rooted") | {
        "harness/harness.json": Harness(tools=packages.TOOLS, requires=("root",)).dump()
    }
    return made(
        tmp_path_factory.mktemp("store"),
        good=licensed(packages.summary_package("good"), "mit"),
        crash=packages.with_checks(CRASH, ("crash",), "crash"),
        lax=packages.with_checks(LAX, ("lax",), "lax"),
        empty=without_reference("empty"),
        program=program("program"),
        rooted=rooted,
        imports=packages.with_checks("import numpy\n\n\n" + LAX, ("lax",), "imports"),
    )


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory, store: Store) -> tuple[Path, ExportReport]:
    folder = tmp_path_factory.mktemp("out") / "tasks"
    return folder, export(store, ExportRequest("verifiers", folder))


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "rover_tasks/data/tasks.jsonl").read_bytes().splitlines()]


def test_what_is_written_and_what_is_left_out(out: tuple[Path, ExportReport], store: Store) -> None:
    folder, report = out
    assert [row.name for row in report.written] == ["crash", "good", "lax"]
    assert {row.name: row.notes[0] for row in report.rows if not row.path} == {
        "empty": "it has no reference, which the gold check plays",
        "imports": "its checks import numpy, which no task brings",
        "program": "its verifier is a program: rover export harbor, which verifiers takes",
        "rooted": "it needs root",
    }
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    assert project["project"]["name"] == "rover-tasks"
    assert project["project"]["version"] == f"0.1.0+g{report.revision[:12]}"
    assert project["project"]["license"] == "MIT"
    assert project["tool"]["rover"] == {"revision": report.revision, "licenses": ["mit"]}
    told = (folder / "README.md").read_text()
    assert "- program: its verifier is a program" in told
    assert "**Grading runs code of this package**" in told
    assert [row["package"] for row in rows(folder)] == ["crash", "good", "lax"]
    good = rows(folder)[1]
    assert good["prompt"] == packages.INSTRUCTION
    assert good["components"] == dict(store.package("good").components)
    assert good["reference"].keys() == {"report.csv"}


def test_blobs_are_named_by_their_digests(out: tuple[Path, ExportReport]) -> None:
    blobs = [p for p in (out[0] / "rover_tasks/data/blobs").rglob("*") if p.is_file()]
    assert all(hashlib.sha256(p.read_bytes()).hexdigest() == p.name for p in blobs)
    named = {d for row in rows(out[0]) for part in ("start", "reference", "verifier") for d in row[part].values()}
    assert {p.name for p in blobs} == named


def test_the_same_bytes_again(out: tuple[Path, ExportReport], store: Store, tmp_path: Path) -> None:
    export(store, ExportRequest("verifiers", tmp_path / "again"))
    paths = sorted(p.relative_to(out[0]) for p in out[0].rglob("*") if p.is_file())
    assert paths == sorted(p.relative_to(tmp_path / "again") for p in (tmp_path / "again").rglob("*") if p.is_file())
    assert all((out[0] / p).read_bytes() == (tmp_path / "again" / p).read_bytes() for p in paths)


def test_nothing_of_the_verifier_is_in_the_start(out: tuple[Path, ExportReport]) -> None:
    for row in rows(out[0]):
        assert set(row["start"]) == {"notes.md", "orders.csv"}
        assert not set(row["start"].values()) & {d for p, d in row["verifier"].items() if not p.startswith("start/")}


def test_the_folder_of_a_task_grades(out: tuple[Path, ExportReport], tmp_path: Path) -> None:
    """Without any library: reference 1, start state 0."""
    row = rows(out[0])[1]

    def lay(files: dict[str, str], folder: Path) -> Path:
        for path, digest in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes((out[0] / "rover_tasks/data/blobs" / digest[:2] / digest).read_bytes())
        return folder

    verifier = lay(row["verifier"], tmp_path / "verifier")
    for name, files, passed in (
        ("start", row["start"], False),
        ("end", row["start"] | row["reference"], True),
    ):
        argv = [sys.executable, "-I", str(verifier / "grade.py"), str(lay(files, tmp_path / name))]
        done = subprocess.run(argv, capture_output=True, check=True)
        assert json.loads(done.stdout)["passed"] is passed


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "Not A Name"}, "name=Not A Name: lowercase words joined by hyphens"),
        ({"name": "textarena"}, "is the name of another taskset"),
        ({"version": "new"}, "version=new: is no version"),
        ({"x": "1"}, "verifiers has no option 'x'"),
    ],
)
def test_bad_options(store: Store, tmp_path: Path, options: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        export(store, ExportRequest("verifiers", tmp_path / "x", options=options))
    assert list(tmp_path.iterdir()) == []


def test_nothing_to_write(store: Store, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no package can be a task of verifiers: rooted: it needs root"):
        export(store, ExportRequest("verifiers", tmp_path / "x", pattern="rooted"))


def validated(python: str, folder: Path, name: str, scratch: Path) -> dict[str, dict[str, Any]]:
    """What vf-validate writes, by task."""
    code = "from verifiers.v1.cli.validate import main; main()"
    argv = [python, "-c", code, name, "--runtime.type", "subprocess", "--rich", "false", "-o", "o", "--run.name", "r"]
    found = {**os.environ, "PYTHONPATH": str(folder), "HOME": str(scratch)}
    done = subprocess.run(argv, capture_output=True, text=True, cwd=scratch, env=found, check=False)
    results = scratch / "o/r/results.jsonl"
    assert results.exists(), done.stderr[-2000:]
    return {row["name"]: row for row in map(json.loads, results.read_text().splitlines())}


def test_vf_validate_tells_right_from_wrong(out: tuple[Path, ExportReport], tmp_path: Path) -> None:
    """Gold passes and doing nothing does not; a check that fails is an error; a task that asks nothing is invalid."""
    found = validated(exported.other_python("ROVER_VERIFIERS_PYTHON"), out[0], "rover-tasks", tmp_path)
    good, crash, lax = (found[name] for name in ("good", "crash", "lax"))
    assert (good["reason"], good["gold"]["valid"], good["noop"]["valid"]) == ("valid", True, True)
    assert good["noop"]["rewards"] == {"passed": 0.0}
    assert (crash["reason"], crash["gold"]["reason"], crash["noop"]["reason"]) == ("error", "error", "error")
    assert crash["noop"]["reward"] is None
    assert "a check failed: crash: the check raised ValueError: no" in crash["gold"]["error"]
    assert (lax["reason"], lax["gold"]["valid"], lax["noop"]["valid"]) == ("invalid", True, False)
