"""The natural suite: each case is what it says, sealed, frozen beside, and the same on every machine.

Four cases are built here, one of each family and with each component at fault; the whole suite takes minutes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from rover.bench.natural.case import Natural
from rover.bench.natural.make import cases, make
from rover.bench.natural.pack import Pack
from rover.bench.natural.page import page, rows
from rover.bench.natural.witness import seen
from rover.bench.suites.manifest import Manifest, read
from rover.diagnose.kinds import kind
from rover.rollout.engine import Engine
from rover.rollout.env import load_env
from rover.sandbox.protocol import Runtime
from rover.sandbox.registry import open_runtime
from rover_store.errors import PackageError, SandboxError, UsageError
from rover_store.ids import BIT
from rover_store.records import Cases
from rover_store.sealed import read_for_audit
from rover_store.store import Store

BUILT = ("access-log", "closing-goal", "two-copies", "goal-at-start")
#: described faults
LINES = 17


@pytest.fixture(scope="module")
def runtime() -> Iterator[Runtime]:
    try:
        found = open_runtime()
    except SandboxError as error:
        pytest.skip(error.message)
    yield found
    found.close()


@pytest.fixture(scope="module")
def suite(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Manifest]:
    folder = tmp_path_factory.mktemp("natural") / "suite"
    return folder, make(folder, runtime, only=BUILT)


def test_every_line_has_a_case_and_every_key_is_its_own() -> None:
    found = cases()
    assert {c.line for c in found} == set(range(1, LINES + 1))
    assert len({c.key for c in found}) == len(found) >= 20
    assert 0 < sum(c.outcome != "right" for c in found) < len(found)


@pytest.mark.parametrize("case", cases(), ids=lambda c: c.key)
def test_what_a_case_says_of_itself_fits_together(case: Natural) -> None:
    """Findings are of known kinds, and every right repair touches what is at fault."""
    assert {c for _, c in case.expects} == set(case.components)
    assert all(kind(name).name == name for name, _ in case.expects)
    at_fault = sum(BIT[c] for c in case.components)
    assert all(mask & at_fault for mask in case.right)
    assert any(before != after for before, after in case.shows.values())
    named = {w.partition(":")[2] for w in case.shows if w.startswith(("state:", "marks:"))}
    assert named == set(case.states or {})


def test_drafts_are_the_same_each_time() -> None:
    for case in cases():
        assert case.sound() == case.sound(), case.key


def test_the_page_is_what_the_cases_say() -> None:
    assert (files("rover") / "docs" / "natural.md").read_text(encoding="utf-8") == page()
    assert [row[0] for row in rows()] == [c.key for c in cases()]


def test_the_manifest_tells_what_ran(suite: tuple[Path, Manifest]) -> None:
    folder, manifest = suite
    assert read(folder) == manifest
    assert {c.kinds[0] for c in manifest.cases} == set(BUILT)
    by_key = {c.key: c for c in cases()}
    for row in manifest.cases:
        shows = by_key[row.kinds[0]].shows
        assert row.witness["sound"] == {what: before for what, (before, _) in shows.items()}
        assert row.witness["case"] == {what: after for what, (_, after) in shows.items()}
        assert row.note.startswith(f"line {by_key[row.kinds[0]].line}, ")


def test_a_case_has_a_history_that_tells_nothing_and_is_no_admitted_package(suite: tuple[Path, Manifest]) -> None:
    folder, manifest = suite
    store = Store.open(folder)
    for row in manifest.cases:
        case = store.commit(row.commit)
        first = store.commit(case.parents[0])
        assert first.parents == ()
        for commit in (case, first):
            env = load_env(store, store.package(row.package, commit.id).tree)
            assert env.record.admission is None
            assert not commit.trailers
            assert not any(p.startswith("demonstrations/") for p in env.files)
        assert store.package(row.package, first.id).tree != store.package(row.package, case.id).tree


def test_the_contract_of_a_case_is_the_sealed_one(suite: tuple[Path, Manifest]) -> None:
    """Faults lie in what was made of the contract: what the task means can be known from the package."""
    folder, manifest = suite
    store = Store.open(folder)
    for row in manifest.cases:
        sealed = read_for_audit(store, row.package)[0]
        broken = load_env(store, store.package(row.package, row.commit).tree)
        assert broken.contract.model_dump(mode="json", exclude_none=True) == sealed.contract


def test_each_package_is_sealed_and_its_author_adds_what_he_knows(suite: tuple[Path, Manifest]) -> None:
    folder, manifest = suite
    store = Store.open(folder)
    for row in manifest.cases:
        audit = read_for_audit(store, row.package)
        assert len(audit) == 1
        assert audit[0].negatives
        assert audit[0].alternatives
        assert audit[0].answers
    register = next(c.package for c in manifest.cases if c.kinds == ("access-log",))
    assert "sealed-signed" in [a["id"] for a in read_for_audit(store, register)[0].alternatives]


def test_historical_repairs_lie_beside_as_whole_components(suite: tuple[Path, Manifest]) -> None:
    folder, manifest = suite
    for row in manifest.cases:
        below = folder / "proposals" / row.id
        frozen = sorted(p.name for p in below.iterdir())
        assert frozen
        for component in frozen:
            record = {"task": "task", "verifier": "verifier", "harness": "harness", "context": "context"}[component]
            assert (below / component / f"{record}.json").is_file()
    paths = [p for p in (folder / ".rover").rglob("*") if "proposals" in p.name]
    assert paths == []


def test_the_same_cases_have_the_same_bytes(
    suite: tuple[Path, Manifest], runtime: Runtime, tmp_path: Path
) -> None:
    _, manifest = suite
    again = make(tmp_path / "again", runtime, only=("two-copies",))
    known = next(c for c in manifest.cases if c.kinds == ("two-copies",))
    assert again.cases == (known,)


def test_cases_keep_their_number_whatever_is_built(suite: tuple[Path, Manifest]) -> None:
    numbers = {c.key: f"{n:04}" for n, c in enumerate(cases(), 1)}
    assert {c.kinds[0]: c.id for c in suite[1].cases} == {key: numbers[key] for key in BUILT}


def test_most_suites_know_no_other_valid_state(suite: tuple[Path, Manifest]) -> None:
    folder, manifest = suite
    store = Store.open(folder)
    for row in manifest.cases:
        env = load_env(store, store.package(row.package, row.commit).tree)
        kept: Cases = env.cases
        assert kept.states == ()
        assert kept.negatives


def test_a_folder_in_use_and_an_unknown_case_are_refused(tmp_path: Path, runtime: Runtime) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="holds something"):
        make(tmp_path, runtime, only=("exactly",))
    with pytest.raises(UsageError, match="no natural case"):
        make(tmp_path / "new", runtime, only=("nobody",))
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


def test_a_case_that_is_not_what_it_says_is_an_error(suite: tuple[Path, Manifest], runtime: Runtime) -> None:
    """A witness that does not show stops the making: no case is taken on trust."""
    folder, manifest = suite
    row = next(c for c in manifest.cases if c.kinds == ("two-copies",))
    store = Store.open(folder)
    env = load_env(store, store.package(row.package, row.commit).tree)
    pack = Pack(env.package, env.files, env.resources)
    case = next(c for c in cases() if c.key == "two-copies")
    boast = dataclasses.replace(case, shows={"start": ("failed", "passed")})
    with Engine(runtime) as engine, pytest.raises(PackageError, match="is failed, not passed"):
        seen(engine, boast, pack, pack)


def test_an_edit_that_finds_nothing_to_edit_is_an_error() -> None:
    pack = Pack("one", {"task/instruction.md": b"Add up `a`.\n", "verifier/checks/main.py": b"def a(ev):\n    pass\n"})
    with pytest.raises(ValueError, match="0 times"):
        pack.request("Add up `b`", "")
    with pytest.raises(ValueError, match="no check b"):
        pack.check("b", "    return 1.0\n")
    with pytest.raises(ValueError, match="to take away"):
        pack.put({"nothing": None})
    assert pack.check("a", "    return 1.0\n").text("verifier/checks/main.py") == "def a(ev):\n    return 1.0\n"
