"""Injected defects: each kind breaks a sound package in the way it says, and diagnosis finds what is at fault."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from packages import runtime, summary_package, summary_resources
from workspaces import shop_workspace

from rover.construct.build import Built, attempt
from rover.construct.families.registry import family
from rover.diagnose.diagnosis import diagnose
from rover.diagnose.inject.protocol import Injector, Truth, Unfit, truth
from rover.diagnose.inject.registry import injector, injectors
from rover.diagnose.inject.task import without as _replaced
from rover.diagnose.protocol import ProbeContext
from rover.diagnose.registry import probes
from rover.ops.diagnose import diagnose_package
from rover.ops.inject import TRAILER, inject
from rover.policy.null import NULL_POLICIES
from rover.rollout.engine import Engine
from rover.rollout.env import Env, env_from_files
from rover.sandbox.protocol import Files
from rover_store.errors import NotFound, UsageError
from rover_store.store import Store

#: kinds that few probes tell; the others are tried in the benches
KINDS = (
    "missing_input", "changed_data", "leaked_answer", "missing_given", "renamed_deliverable", "tool_removed",
    "budget_too_small", "lax_verifier", "strict_verifier", "wrong_anchor", "unscored_requirement", "extra_demand",
    "flaky_verifier", "code_missing_and_tool_missing", "leak_and_lax",
)  # fmt: skip
SEEDS = (0, 1)
STATIC = tuple(p.name for p in probes() if p.cost == 0)
#: what has to run for a kind to show; the whole diagnosis runs for those in WHOLE
RUNNING = {
    "changed_data": ("anchors",),
    "leaked_answer": ("leaks",),
    "budget_too_small": ("replay", "room"),
    "lax_verifier": ("cases",),
    "strict_verifier": ("cases",),
    "wrong_anchor": ("anchors",),
    "flaky_verifier": ("repeated",),
    "leak_and_lax": ("leaks", "cases"),
}
WHOLE = ("missing_input", "strict_verifier", "code_missing_and_tool_missing", "leak_and_lax")


@dataclass(frozen=True)
class Package:
    """A package of the real builder."""

    files: Files
    resources: dict[str, Files]

    @property
    def env(self) -> Env:
        return env_from_files(self.files, self.resources)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    box = runtime()
    with Engine(box, workers=2) as made:
        yield made
    box.close()


@pytest.fixture(scope="module")
def built(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Package:
    workspace = shop_workspace(tmp_path_factory.mktemp("shop"))
    for number in range(12):
        made = attempt(engine, workspace, family("summarise"), number, 1).outcome
        if isinstance(made, Built) and len(env_from_files(made.files, made.resources).contract.givens) > 1:
            return Package(made.files, dict(made.resources))
    raise AssertionError("no attempt was admitted")


def broken(package: Package, kind: str, seed: int) -> tuple[Env, Truth]:
    how = injector(kind)
    damage = how.inject(package.env, seed)
    env = env_from_files(damage.applied(package.files), {**package.resources, **damage.resources})
    return env, truth(how, damage)


def test_the_package_is_sound_before(engine: Engine, built: Package) -> None:
    found = diagnose(ProbeContext(built.env, engine))
    assert (found.verdict, found.findings) == ("sound", ())
    assert found.rollouts_run >= 2 + len(NULL_POLICIES)  # both solvers and the attackers


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_defect_is_found_where_it_is(engine: Engine, built: Package, kind: str, seed: int) -> None:
    env, known = broken(built, kind, seed)
    ctx = ProbeContext(env, engine)
    whole = seed == 0 and kind in WHOLE
    found = diagnose(ctx, only=() if whole else (*STATIC, *RUNNING.get(kind, ())))
    assert found.verdict == "environment"
    confirmed = [f for f in found.findings if f.status == "confirmed"]
    for finding, component in known.expects:
        named = [f for f in confirmed if f.kind == finding]
        assert named, [(f.kind, f.message) for f in confirmed]
        assert any(f.components[0] == component for f in named)
        assert all(f.evidence and f.message for f in named)


def test_each_kind_is_an_injector_of_its_own() -> None:
    assert all(isinstance(i, Injector) and i.summary and i.repair for i in injectors())
    broken = {component for i in injectors() for _, component in i.expects}
    assert broken == {"context", "task", "harness", "verifier"}
    assert sum(len(i.expects) > 1 for i in injectors()) >= 2
    with pytest.raises(NotFound, match="kind of defect"):
        injector("gremlins")


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_breaks_the_same_way(kind: str) -> None:
    env = env_from_files(summary_package(), summary_resources())
    try:
        first, again = injector(kind).inject(env, 4), injector(kind).inject(env, 4)
    except Unfit:
        assert kind in ("missing_given", "code_missing_and_tool_missing")  # this request tells no value
        return
    assert (first.files, first.resources, first.note) == (again.files, again.resources, again.note)
    assert first.applied(env.files) != dict(env.files)


def test_renaming_meets_both_sides(built: Package) -> None:
    touched = {next(iter(injector("renamed_deliverable").inject(built.env, s).files)) for s in range(8)}
    assert touched == {"task/instruction.md", "verifier/verifier.json"}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.init(tmp_path, clock=lambda: 1_700_000_000)
    with store.write(command="build") as tx:
        for name, files in summary_resources().items():
            tx.set_resource(name, tx.tree(dict(files)))
        tx.set_package("order-summary", tx.tree(dict(summary_package())))
        tx.commit("Add order-summary")
    return store


def test_an_injection_is_one_commit_that_does_not_say_what_it_did(store: Store) -> None:
    before = store.package("order-summary")
    done = inject(store, "order-summary", "lax_verifier", 3)
    after = store.package("order-summary")
    changed = [c for c in before.components if before.components[c] != after.components[c]]
    assert changed == ["verifier"]
    entry = next(iter(store.log("HEAD", package="order-summary")))
    assert entry.id == done.commit
    commit = store.commit(done.commit)
    assert commit.message.splitlines()[0] == "Edit order-summary"
    assert commit.trailers == {TRAILER: "yes"}
    stored = b"".join(store.objects.read(item.id) for item in store.objects.read_tree(after.tree).values())
    assert b"lax" not in stored
    assert done.manifest()["expects"] == [{"finding": "lax_verifier", "component": "verifier"}]


def test_changed_data_moves_the_shared_resource(store: Store) -> None:
    old = store.resources()["files/orders"]
    done = inject(store, "order-summary", "changed_data", 0)
    assert done.resources == ("files/orders",)
    assert store.resources()["files/orders"] != old


def test_a_dry_run_changes_nothing(store: Store) -> None:
    head = store.resolve("HEAD")
    done = inject(store, "order-summary", "leaked_answer", 0, dry_run=True)
    assert (done.commit, store.resolve("HEAD")) == ("", head)
    assert done.paths


@pytest.mark.parametrize(("name", "kind", "error"), [
    ("order-summary", "gremlins", NotFound),
    ("nobody", "lax_verifier", NotFound),
    ("order-summary", "missing_given", UsageError),
])  # fmt: skip
def test_what_cannot_be_injected_is_refused(store: Store, name: str, kind: str, error: type[Exception]) -> None:
    head = store.resolve("HEAD")
    with pytest.raises(error):
        inject(store, name, kind)
    assert store.resolve("HEAD") == head


def test_diagnosis_of_a_stored_package_reuses_what_it_ran(store: Store, engine: Engine) -> None:
    inject(store, "order-summary", "wrong_anchor", 0)
    first = diagnose_package(store, engine.runtime, "order-summary")
    again = diagnose_package(store, engine.runtime, "order-summary")
    assert [f.kind for f in first.findings if f.status == "confirmed"] == ["wrong_anchor"]
    assert [(f.kind, f.message) for f in again.findings] == [(f.kind, f.message) for f in first.findings]
    assert again.rollouts_run == 0
    assert again.rollouts_reused == first.rollouts_run > 0


def test_a_number_is_left_out_where_it_tells_the_value_alone() -> None:
    text = "Keep rows where `n` is at least 2, in 2 parts. Round `m` to 2 decimals."
    first, second, every = _replaced(text, "2", "the limit")
    assert first == "Keep rows where `n` is at least the limit, in 2 parts. Round `m` to 2 decimals."
    assert second == "Keep rows where `n` is at least 2, in the limit parts. Round `m` to 2 decimals."
    assert every == "Keep rows where `n` is at least the limit, in the limit parts. Round `m` to 2 decimals."
