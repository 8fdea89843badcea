"""A suite is made the same again, tells nobody what it did, and is refused where somebody changed it."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packages import runtime
from workspaces import shop

from rover.bench.suites.decoys import play
from rover.bench.suites.make import WORK, SuiteReport, SuiteRequest, make
from rover.bench.suites.manifest import read, write
from rover.bench.suites.open import open_suite
from rover.bench.suites.spec import load
from rover.diagnose.diagnosis import diagnose
from rover.diagnose.inject.registry import singles
from rover.diagnose.kinds import KINDS
from rover.diagnose.protocol import ProbeContext
from rover.ops.diagnose import diagnose_package
from rover.rollout.engine import Engine
from rover.sandbox.protocol import Runtime
from rover_store.commits import AUTHOR, encode_commit
from rover_store.errors import NotFound, PackageError, UsageError
from rover_store.ids import digest
from rover_store.packs import COMMIT
from rover_store.store import Store

SPEC = """
name = "tiny"
packages = 2
families = ["summarise"]
kinds = ["wrong_anchor", "tool_removed", "missing_given", "leaked_answer"]
decoys = 0.3
unfixable = 0
agents = 0.5
[workspaces]
development = ["shop"]
"""
COUNT = 6


@pytest.fixture(scope="module")
def box() -> Iterator[Runtime]:
    made = runtime()
    yield made
    made.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("suites")
    shop(folder / "shop")
    (folder / "tiny.toml").write_text(SPEC)
    return folder


def asked(place: Path, out: str, **more: object) -> SuiteRequest:
    spec, beside = load(str(place / "tiny.toml"))
    return SuiteRequest(spec, place / out, COUNT, 3, "development", beside=beside, **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def made(box: Runtime, place: Path) -> SuiteReport:
    return make(box, asked(place, "one", work=place / "work"))


@pytest.fixture
def suite(made: SuiteReport, place: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    shutil.copytree(place / "one", tmp_path / "suite", symlinks=True)
    return tmp_path / "suite"


def test_what_was_asked_for_is_made(made: SuiteReport, place: Path) -> None:
    cases = open_suite(place / "one").manifest.cases
    assert [c.id for c in cases] == [f"{n:04}" for n in range(1, COUNT + 1)]
    assert sum(c.label == "decoy" for c in cases) == 2
    assert {len(c.kinds) for c in cases} >= {0, 1}
    for case in cases:
        assert case.witness["before"]["solved_by"] == ["demonstrator", "alternative"]
        assert bool(case.witness["after"]) == (case.label == "defect")
        shown = {p["component"] for p in case.witness["after"]}
        assert set(case.components) <= shown
        assert case.right or case.label == "decoy"


def test_interrupted_and_with_other_workers_it_is_the_same(made: SuiteReport, box: Runtime, place: Path) -> None:
    """The bytes of the manifest, and with them every commit id, are those of the first run."""
    done: list[str] = []

    def stop(stage: str, number: int, total: int, name: str) -> None:
        done.append(stage)
        if stage == "case" and number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(box, asked(place, "two"), 2, stop)
    assert not (place / "two/manifest.json").exists()
    kept = len(list((place / "two" / WORK).rglob("cases-*/*.json")))
    assert kept >= 2
    before = {p: p.stat().st_mtime_ns for p in (place / "two" / WORK).rglob("*.json")}
    make(box, asked(place, "two", work=None), 2)
    assert (place / "two/manifest.json").read_bytes() == (place / "one/manifest.json").read_bytes()
    assert len(before) == kept + 2
    assert not (place / "two" / WORK).exists()
    assert Store.open(place / "two").branches() == Store.open(place / "one").branches()


def test_with_history_the_sound_version_is_the_parent(made: SuiteReport, box: Runtime, place: Path) -> None:
    """It is made of the pieces that the first suite kept: nothing is run for it but the agents."""
    told: list[str] = []
    make(box, asked(place, "past", work=place / "work", history=True), 1, lambda *a: told.append(a[0]))
    past = open_suite(place / "past")
    for case, plain in zip(past.manifest.cases, made.manifest.cases, strict=True):
        assert (case.package, case.kinds, case.witness) == (plain.package, plain.kinds, plain.witness)
        commit = past.store.commit(case.commit)
        sound = past.store.package(case.package, commit.parents[0])
        now = past.store.package(case.package, case.commit)
        assert sound.tree != now.tree
        assert (sound.components == now.components) == (case.label == "decoy")
    assert len({past.store.commit(c.commit).message.split()[0] for c in past.manifest.cases}) == 1


def test_nothing_in_the_store_tells_what_was_done(made: SuiteReport, place: Path) -> None:
    """Commits, refs, and every blob that differs from the sound package: none names a kind or a label."""
    suite = open_suite(place / "one")
    words = {k.kind for k in singles()} | {k.name for k in KINDS}
    words |= {"decoy", "unfixable", "defect", "injected", "witness"}
    telling = re.compile("|".join(sorted(map(re.escape, words))))
    store = suite.store
    decoys = [store.commit(c.commit).tree for c in suite.manifest.cases if c.label == "decoy"]
    sound = {item.id for tree in decoys for item in store.objects.read_tree(tree).values()}
    for case in suite.manifest.cases:
        commit = store.commit(case.commit)
        assert commit.parents == ()
        said = f"{commit.message} {dict(commit.trailers)} {commit.author} {case.branch}"
        assert not telling.search(said)
        for path, item in store.objects.read_tree(commit.tree).items():
            assert not telling.search(path)
            if item.id not in sound:
                assert not telling.search(store.objects.read(item.id).decode("utf-8", "replace")), path
    times = {store.commit(c.commit).time for c in suite.manifest.cases}
    assert len(times) == 1
    assert not [name for name in store.refs.all() if telling.search(name)]
    assert not [op for op in store.op_log() if telling.search(op.command)]


def test_a_diagnosis_never_opens_the_manifest(suite: Path, box: Runtime) -> None:
    """Every file that is opened is watched while a case is diagnosed; and no code below benches knows the file."""
    opened: list[str] = []
    watching = [True]

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if watching[0] and event in ("open", "os.listdir", "os.scandir"):
            opened.append(str(arguments[0]))

    found = open_suite(suite)
    case = next(c for c in found.manifest.cases if c.kinds == ("wrong_anchor",) or c.kinds)
    sys.addaudithook(watch)
    with Engine(box, found.store.evidence) as engine:
        result = diagnose(ProbeContext(found.env(case), engine))
    watching[0] = False
    assert result.verdict == "environment"
    assert not [p for p in opened if p.endswith("manifest.json") or Path(p) == suite]
    root = Path(sys.modules["rover"].__file__ or "").parent
    for layer in ("diagnose", "repair", "construct", "rollout", "harness", "verify", "policy", "sandbox"):
        for path in (root / layer).rglob("*.py"):
            assert not re.search(r"rover\.bench|manifest\.json", path.read_text()), path


def test_the_agents_of_a_decoy_fail_and_are_on_record(made: SuiteReport, place: Path, box: Runtime) -> None:
    suite = open_suite(place / "one")
    decoys = [c for c in suite.manifest.cases if c.label == "decoy"]
    with Engine(box, suite.store.evidence) as engine:
        for case in decoys:
            assert case.runs
            assert not any(r.policy.startswith("null") for r in case.runs)
            for result, verdict in play(engine, suite.env(case), case.runs):
                assert result.reused or engine.runtime_id != result.trajectory.key.runtime
                assert verdict.outcome in ("failed", "policy_error")
    found = diagnose_package(suite.store, box, decoys[0].package, rev=decoys[0].commit)
    assert found.verdict == "agent"


def test_another_suite_is_not_written_over(made: SuiteReport, box: Runtime, place: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds a suite already"):
        make(box, asked(place, "one"))
    (place / "full").mkdir()
    (place / "full" / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        make(box, asked(place, "full"))


def test_an_edited_manifest_is_refused(suite: Path) -> None:
    path = suite / "manifest.json"
    value = json.loads(path.read_text())
    value["cases"][0]["label"] = "decoy" if value["cases"][0]["label"] != "decoy" else "defect"
    path.write_text(json.dumps(value))
    with pytest.raises(PackageError, match="digest: the manifest was edited"):
        open_suite(suite)


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        ({"id": "../../elsewhere"}, "cases.0.id: "),
        ({"id": "a\0b"}, "cases.0.id: "),
        ({"id": "x" * 300}, "cases.0.id: "),
        ({"right": [99]}, "cases.0.right.0: "),
        ({"id": "0002"}, "cases.0002: two cases have this id"),
        ({"branch": "suite/0002"}, "cases.0002: another case is on suite/0002 too"),
        ({"label": "defect", "kinds": []}, "cases.0001: kinds: defect without kinds"),
        ({"label": "decoy", "kinds": ["wrong_anchor"]}, "cases.0001: a decoy has no kinds"),
    ],
)
def test_an_edit_with_its_digest_made_again_is_refused_too(suite: Path, edit: dict[str, object], line: str) -> None:
    """Results are kept under the ids of cases: one that is a path would be written anywhere."""
    path = suite / "manifest.json"
    value = json.loads(path.read_text())
    value["cases"][0] |= edit
    del value["digest"]
    value["digest"] = digest(read(suite).model_dump(mode="json", exclude={"digest"}) | {"cases": value["cases"]})
    path.write_text(json.dumps(value))
    with pytest.raises(PackageError) as refused:
        read(suite)
    assert line in str(refused.value)


def test_what_vanished_from_the_store_is_named(suite: Path) -> None:
    store = Store.open(suite)
    case = read(suite).cases[1]
    with store.write() as tx:
        tx.move_ref(f"refs/heads/{case.branch}", case.commit, read(suite).cases[2].commit)
    with pytest.raises(PackageError, match=rf"cases.{case.id}: {case.branch} is at"):
        open_suite(suite)
    with store.write() as tx:
        tx.move_ref(f"refs/heads/{case.branch}", read(suite).cases[2].commit, None)
    with pytest.raises(PackageError, match=rf"the branch {case.branch} is not in the store"):
        open_suite(suite)
    with store.write() as tx:  # another program wrote a commit whose parent is not there
        orphan = tx.add(COMMIT, encode_commit(store.commit(case.commit).tree, ["1" * 40], "Add", AUTHOR, 1, None))
        tx.move_ref(f"refs/heads/{case.branch}", None, orphan)
    found = read(suite)
    moved = tuple(c.model_copy(update={"commit": orphan}) if c.id == case.id else c for c in found.cases)
    write(suite, found.model_copy(update={"cases": moved}))
    with pytest.raises(PackageError, match=f"cases.{case.id}: .*not found: {'1' * 40}"):
        open_suite(suite)
    shutil.rmtree(suite / ".rover")
    with pytest.raises(NotFound, match="store"):
        open_suite(suite)
    with pytest.raises(NotFound, match="suite"):
        open_suite(suite / "nowhere")
