"""Building from a folder: one commit, the same packages for the same seed, every attempt accounted for."""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from packages import runtime, summary_package, summary_resources
from workspaces import shop, shop_workspace

from rover.construct.build import Built, Workspace, attempt, rewritten
from rover.construct.calibrate import Calibration, Row, calibrate
from rover.construct.config import BuildConfig
from rover.construct.families.built_in import BuiltIn
from rover.construct.families.protocol import Draft, Dropped
from rover.construct.families.summarise import FAMILY as SUMMARISE
from rover.construct.profile import Profile
from rover.construct.rebuild import RebuildFailed, rebuild_verifier
from rover.ops.build import BuildRequest, build, workspace_name
from rover.policy.protocol import Plan, PolicyView
from rover.rollout.engine import Engine
from rover.rollout.env import Env, env_from_files, load_env, tree_of
from rover.sandbox.protocol import Runtime
from rover_store.errors import PackageError, UsageError
from rover_store.records import Call, ToolCall
from rover_store.sealed import read_for_audit
from rover_store.store import Store

WHEN = 1_700_000_000


@pytest.fixture(scope="module")
def box() -> Iterator[Runtime]:
    kind = runtime()
    yield kind
    kind.close()


@pytest.fixture(scope="module")
def engine(box: Runtime) -> Iterator[Engine]:
    with Engine(box) as engine:
        yield engine


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shop(tmp_path_factory.mktemp("build") / "shop" / "files")


@pytest.fixture(scope="module")
def stores(folder: Path, box: Runtime, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Store, object]]:
    """Two stores, built from the same folder with the same seed, by one worker and by two."""
    out: list[tuple[Store, object]] = []
    for workers in (1, 2):
        store = Store.init(tmp_path_factory.mktemp(f"store{workers}"), clock=lambda: WHEN)
        request = BuildRequest(folder, 2, seed=5, families=("summarise", "edit"))
        out.append((store, build(store, box, request, workers=workers, time=WHEN)))
    return out


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return shop_workspace(tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="module")
def built(engine: Engine, workspace: Workspace) -> Built:
    for number in range(4):
        outcome = attempt(engine, workspace, SUMMARISE, number, seed=7).outcome
        if isinstance(outcome, Built) and env(outcome).anchors.anchors[0].query.source.path.endswith(".csv"):
            return outcome
    raise AssertionError(outcome)


def env(built: Built) -> Env:
    return env_from_files(built.files, built.resources)


def test_the_same_files_and_seed_give_the_same_commit(stores: list[tuple[Store, object]]) -> None:
    (one, first), (two, second) = stores
    assert first == second
    assert one.resolve() == two.resolve()


def test_all_packages_of_a_call_are_one_commit(stores: list[tuple[Store, object]]) -> None:
    store, report = stores[0]
    names = [p.name for p in store.packages()]
    assert names == sorted(r.package for r in report.admitted)  # type: ignore[attr-defined]
    assert len(names) >= 2
    assert all(name.startswith("shop-") for name in names)
    assert store.revisions.load(store.resolve()).parents == ()


def test_packages_share_one_resource_for_each_source_file(stores: list[tuple[Store, object]]) -> None:
    store, _ = stores[0]
    known = store.resources()
    bound = set()
    for package in store.packages():
        for ref in load_env(store, package.tree).context.resources:
            assert known[f"files/{ref.name}"] == ref.tree
            bound.add(f"files/{ref.name}")
    assert bound == set(known)


def test_a_package_carries_all_that_a_repair_needs(stores: list[tuple[Store, object]]) -> None:
    store, _ = stores[0]
    for package in store.packages():
        found = load_env(store, package.tree)
        record = found.record
        assert record.family == record.provenance.builder
        assert record.provenance.seed == 5
        assert len(record.provenance.sources) == len(found.context.resources)
        assert record.admission is not None
        assert record.admission.components["verifier"] == package.components["verifier"]
        edges = {(e.source, e.target) for e in record.edges}
        assert {("task", "context"), ("harness", "context"), ("verifier", "harness")} <= edges
        for edge in record.edges:
            if edge.target in package.components:
                assert edge.version == package.components[edge.target]
        assert any(e.blobs for e in record.edges if e.source == "verifier")
        assert len(found.cases.negatives) >= 4
        assert "demonstrations/demonstrator.json" in found.files


def test_the_sealed_audit_differs_from_the_cases(stores: list[tuple[Store, object]]) -> None:
    store, _ = stores[0]
    for package in store.packages():
        (audit,) = read_for_audit(store, package.name)
        ids = {m["id"] for m in audit.negatives}
        assert ids
        assert not ids & {m.id for m in load_env(store, package.tree).cases.negatives}
        assert audit.answers


def test_a_verifier_built_again_is_the_same_bytes(engine: Engine, built: Built) -> None:
    assert rebuild_verifier(engine, env(built)) == env(built).verifier_files


def test_a_rebuild_follows_the_context_and_keeps_what_was_authored(engine: Engine, built: Built) -> None:
    """Rows taken from a source change anchors and reference; checks, verifier.json and cases.json stay."""
    before = env(built)
    query = before.anchors.anchors[0].query
    name = next(n for n, files in built.resources.items() if f"files/{query.source.path}" in files)
    data = built.resources[name][f"files/{query.source.path}"]
    lines = data.splitlines(keepends=True)
    shorter = {**built.resources[name], f"files/{query.source.path}": b"".join(lines[: len(lines) * 2 // 3])}
    refs = tuple(
        r.model_copy(update={"tree": tree_of(shorter)}) if f"files/{r.name}" == name else r
        for r in before.context.resources
    )
    context = before.context.model_copy(update={"resources": refs}).dump()
    rebound = {**built.files, "context/context.json": context}
    after = env_from_files(rebound, {**built.resources, name: shorter})
    files = rebuild_verifier(engine, after)
    old = before.verifier_files
    changed = {p for p in old if files.get(p) != old[p]}
    assert "anchors.json" in changed
    assert any(p.startswith("reference/files/") for p in changed)
    assert not any(p.startswith("checks/") or p in ("verifier.json", "cases/cases.json") for p in changed)


def test_a_rebuild_fails_where_the_request_lost_a_value(engine: Engine, built: Built) -> None:
    name = "task/instruction.md"
    broken = {**built.files, name: b"Write a table.\n"}
    with pytest.raises(RebuildFailed, match="demonstrator"):
        rebuild_verifier(engine, env_from_files(broken, built.resources))


def test_a_package_made_by_hand_is_left_alone(engine: Engine) -> None:
    by_hand = env_from_files(summary_package(), summary_resources())
    assert rebuild_verifier(engine, by_hand) == by_hand.verifier_files


def test_an_admitted_package_passes_its_own_check(engine: Engine, built: Built) -> None:
    found = calibrate(engine, env(built), seed=99)
    assert found.ok, found.wrong


class Refused(BuiltIn):
    """A family whose demonstrator goes on after a write that was refused."""

    def demonstrator(self) -> Plan:
        def plan(view: PolicyView, seed: int) -> Generator[ToolCall, Call, str]:
            yield ToolCall(id="c1", tool="write_table", arguments={"path": "x.csv", "columns": ["a"], "rows": [[1, 2]]})
            return (yield from inner(view, seed))

        inner = super().demonstrator()
        return plan


class NoFit(BuiltIn):
    def propose(self, profile: Profile, rng: random.Random, config: BuildConfig) -> Draft | Dropped:
        return Dropped("no fit", "nothing here")


def test_a_refused_write_in_a_reference_run_drops_the_attempt(engine: Engine, workspace: Workspace) -> None:
    config = replace(BuildConfig(), rewrites=0)
    outcome = attempt(engine, workspace, Refused("summarise", "1"), 0, 3, config=config).outcome
    assert isinstance(outcome, Dropped)
    assert outcome.stage == "demonstrator"
    assert "write_table failed" in outcome.reason


def test_an_attempt_without_a_fit_is_dropped_with_the_reason(engine: Engine, workspace: Workspace) -> None:
    assert attempt(engine, workspace, NoFit("summarise", "1"), 0, 3).outcome == Dropped("no fit", "nothing here")


def test_rewriting_leaves_out_cases_but_never_cures_a_verifier(workspace: Workspace) -> None:
    draft = SUMMARISE.propose(workspace.profile, random.Random(1), BuildConfig())
    assert isinstance(draft, Draft)
    gone = next(m for m in draft.negatives if m.requirement == "rows")
    ok = Row("reference", "reference", "accepted", "accepted")
    useless = Row(gone.id, "negative", "rejected", "error", gone.requirement, "changes nothing")
    revised = rewritten(draft, Calibration((ok, useless)), 2)
    assert isinstance(revised, Draft)
    assert gone not in revised.negatives
    assert revised.contract == draft.contract
    assert isinstance(rewritten(draft, Calibration((ok, useless)), 0), Dropped)
    lax = Row("null:echo", "attacker", "rejected", "accepted")
    assert isinstance(rewritten(draft, Calibration((ok, lax)), 2), Dropped)
    assert rewritten(draft, Calibration((ok,)), 2) is draft


def test_bad_requests_change_nothing(box: Runtime, tmp_path: Path) -> None:
    store = Store.init(tmp_path)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(PackageError, match="empty"):
        build(store, box, BuildRequest(empty, 1))
    with pytest.raises(PackageError, match="not a folder"):
        build(store, box, BuildRequest(tmp_path / "none", 1))
    with pytest.raises(UsageError):
        build(store, box, BuildRequest(empty, 0))
    assert store.packages() == []


def test_a_workspace_is_called_after_its_folder() -> None:
    assert workspace_name(Path("/x/My Shop (1)/files")) == "my-shop-1"
    assert workspace_name(Path("/")) == "workspace"
