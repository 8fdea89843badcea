"""The engine: nothing runs twice, a changed verifier grades again, interrupts keep finished work."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packages import REPORT, runtime, solution_calls, summary_package, summary_resources, with_checks

from rover.harness.loop import Stopped
from rover.policy.protocol import Action, PolicyFailure, PolicyView
from rover.policy.scripted import ScriptedPolicy
from rover.rollout.engine import Engine
from rover.rollout.env import Env, env_from_files, load_env, reference_state
from rover.rollout.records import MemoryEvidence, Progress, RolloutRequest, seed_for
from rover.sandbox.protocol import Runtime
from rover_store.errors import PackageError, ProviderError, SandboxError
from rover_store.records import Budget, Call, Harness
from rover_store.store import Store

FILES, RESOURCES = summary_package(), summary_resources()
ENV = env_from_files(FILES, RESOURCES)
SOLVER = ScriptedPolicy([(c,) for c in solution_calls()], "Wrote report.csv.")


@pytest.fixture(scope="module")
def box_runtime() -> Iterator[Runtime]:
    made = runtime()
    yield made
    made.close()  # type: ignore[attr-defined]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store.init(tmp_path, clock=lambda: 0)
    with made.write("test") as tx:
        tx.set_package("order-summary", tx.tree(FILES))
        tx.set_resource("files/orders", tx.tree(RESOURCES["files/orders"]))
        tx.commit("a package")
    return made


class Acting:
    """A policy that counts its rollouts and does in each turn what a function says."""

    attacker = False

    def __init__(self, act: Any = None, name: str = "acting") -> None:
        self.id = name
        self.started = 0
        self._act = act or (lambda: Action())
        self._lock = threading.Lock()

    def start(self, view: PolicyView, seed: int) -> Acting:
        with self._lock:
            self.started += 1
        return self

    def act(self, results: tuple[Call, ...], *, deadline_s: float) -> Action:
        return self._act()  # type: ignore[no-any-return]

    def close(self) -> None:
        pass


def requests(policy: Any, count: int = 1, env: Env = ENV) -> list[RolloutRequest]:
    return [RolloutRequest(env, policy, seed) for seed in range(count)]


# --- environments ----------------------------------------------------------------------------------------
def test_an_env_is_the_same_from_memory_and_from_a_store(store: Store) -> None:
    entry = store.package("order-summary")
    loaded = load_env(store, entry.tree)
    assert loaded == ENV
    ids = {"context": ENV.context_id, "task": ENV.task_id, "harness": ENV.harness_id, "verifier": ENV.verifier_id}
    assert dict(entry.components) == ids
    assert sorted(loaded.start) == ["notes.md", "orders.csv"]
    assert loaded.targets() == ("report.csv",)
    assert reference_state(loaded) == {**ENV.start, "report.csv": REPORT}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"task/contract.json": None}, "task/contract.json: the file is missing"),
        ({"task/instruction.md": b"\xff"}, "task/instruction.md: not UTF-8 at byte 0"),
        ({"harness/harness.json": b'{"tools": 3}'}, "harness/harness.json: tools: "),
        ({"context/files/orders.csv": b"other"}, "resources.0: two files of the workspace are called orders.csv"),
        ({"context/files/orders.csv/x": b""}, "orders.csv is both a file and a folder"),
        ({"context/files/../x": b""}, "'../x' is not a path inside the workspace"),
    ],
)
def test_bad_packages_name_file_and_reason(change: dict[str, bytes | None], words: str) -> None:
    files = {p: d for p, d in {**FILES, **change}.items() if d is not None}
    with pytest.raises(PackageError) as caught:
        env_from_files(files, RESOURCES)
    assert words in str(caught.value)


def test_a_missing_resource_and_a_missing_reference_file() -> None:
    with pytest.raises(PackageError, match=r"resources\.0: resource files/orders is missing"):
        env_from_files(FILES, {})
    files = {p: d for p, d in FILES.items() if not p.startswith("verifier/reference/files")}
    with pytest.raises(PackageError, match=r"changes\.0\.path: report\.csv is not in reference/files"):
        reference_state(env_from_files(files, RESOURCES))


def test_seeds_know_case_policy_and_attempt_alone() -> None:
    seeds = {seed_for("a", "p", 0), seed_for("a", "p", 1), seed_for("a", "q", 0), seed_for("b", "p", 0)}
    assert len(seeds) == 4
    assert seed_for("a", "p", 0) == seed_for("a", "p", 0) < 1 << 60


# --- running ---------------------------------------------------------------------------------------------
def test_nothing_runs_twice(box_runtime: Runtime, store: Store) -> None:
    policy = Acting()
    with Engine(box_runtime, store.evidence) as engine:
        first = engine.run(requests(policy, 3) + requests(policy, 2))
        assert (policy.started, [r.reused for r, _ in first]) == (3, [False] * 5)
        assert len({r.id for r, _ in first}) == 3
    with Engine(box_runtime, store.evidence) as engine:
        again = engine.run(requests(policy, 3))
        assert (policy.started, [r.reused for r, _ in again]) == (3, [True] * 3)
        assert [v for _, v in again] == [v for _, v in first[:3]]
        assert engine.rollouts([RolloutRequest(ENV, policy, 0, Budget(turns=9))])[0].reused is False


def test_a_changed_verifier_grades_again_without_running(box_runtime: Runtime, store: Store) -> None:
    source = "def always(ev):\n    return 1.0\n"
    other = env_from_files(with_checks(source, ("always",)), RESOURCES)
    assert (other.context_id, other.task_id, other.harness_id) == (ENV.context_id, ENV.task_id, ENV.harness_id)
    policy = Acting()
    with Engine(box_runtime, store.evidence) as engine:
        (first, strict), (second, lax) = engine.run([*requests(policy), *requests(policy, env=other)])
        assert (policy.started, first.id, strict.outcome, lax.outcome) == (1, second.id, "failed", "passed")
        verdicts = engine.grade([(first, ENV), (first, other)])
        assert [v.outcome for v in verdicts] == ["failed", "passed"]
        assert policy.started == 1
    found = {(v.rollout, v.verifier) for v in store.evidence.iter_verdicts()}
    assert (first.id, other.verifier_id) in found


def test_the_end_state_reads_the_same_fresh_and_kept(box_runtime: Runtime, store: Store) -> None:
    with Engine(box_runtime, store.evidence) as engine:
        fresh = engine.rollouts(requests(SOLVER))[0]
        kept = engine.rollouts(requests(SOLVER))[0]
    assert (fresh.reused, kept.reused) == (False, True)
    assert dict(fresh.end) == dict(kept.end)
    assert set(fresh.end) == {"notes.md", "orders.csv", "report.csv"}
    assert fresh.trajectory.dump() == kept.trajectory.dump()
    assert store.evidence.get_rollout(fresh.id) == fresh.trajectory


def test_blobs_that_no_store_holds_are_kept_too(box_runtime: Runtime, tmp_path: Path) -> None:
    bare = Store.init(tmp_path, clock=lambda: 0)
    with Engine(box_runtime, bare.evidence) as engine:
        engine.rollouts(requests(Acting()))
        engine.rollouts(requests(SOLVER))
        kept = engine.rollouts(requests(SOLVER))[0]
        assert kept.reused
        assert {path: kept.end[path] for path in ENV.start} == ENV.start


@pytest.mark.parametrize("workers", [1, 3])
def test_order_does_not_depend_on_workers(box_runtime: Runtime, workers: int) -> None:
    told: list[Progress] = []
    with Engine(box_runtime, workers=workers) as engine:
        found = engine.run(requests(SOLVER, 6), told.append)
    assert [r.trajectory.key.seed for r, _ in found] == list(range(6))
    assert {v.outcome for _, v in found} == {"passed"}
    assert [(p.done, p.total) for p in told] == [(n, 6) for n in range(1, 7)]


def test_bare_states(box_runtime: Runtime) -> None:
    with Engine(box_runtime) as engine:
        assert engine.grade_state(ENV, ENV.start).outcome == "failed"
        right = engine.grade_state(ENV, reference_state(ENV), "done")
        assert (right.outcome, right.score) == ("passed", 1.0)
        assert engine.grade_state(ENV, reference_state(ENV), "done") is right


def test_any_job_in_a_box(box_runtime: Runtime) -> None:
    with Engine(box_runtime) as engine:
        payload = {"tool": "read_file", "arguments": {"path": "a/b"}}
        assert engine.call("rover.harness.inside:tool", payload, {"a/b": b"x"}).value["output"] == "x"
        assert engine.call("rover.harness.inside:tool", payload, {}).value["status"] == "error"


# --- failures --------------------------------------------------------------------------------------------
def test_infrastructure_is_tried_once_more_and_never_kept(box_runtime: Runtime) -> None:
    evidence = MemoryEvidence()
    answers: list[Any] = [ProviderError("gone"), Action(), *[ProviderError("gone")] * 2, Action()]

    def act() -> Action:
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found  # type: ignore[no-any-return]

    policy = Acting(act)
    with Engine(box_runtime, evidence) as engine:
        first, second = engine.run(requests(policy, 2))
        assert (first[0].trajectory.end, second[0].trajectory.end) == ("completed", "infra_error")
        assert (second[1].outcome, second[1].score) == ("infra_error", None)
        assert evidence.get_rollout(second[0].id) is None
        again = engine.run(requests(policy, 2))
        assert [(r.reused, r.trajectory.end) for r, _ in again] == [(True, "completed"), (False, "completed")]
    assert answers == []


def test_a_policy_error_is_graded_as_it_stands(box_runtime: Runtime) -> None:
    def act() -> Action:
        raise PolicyFailure("no plan found")

    with Engine(box_runtime) as engine:
        result, verdict = engine.run(requests(Acting(act)))[0]
        assert engine.run(requests(Acting(act)))[0][0].reused
    assert (result.trajectory.end, verdict.outcome) == ("policy_error", "policy_error")
    assert "no plan found" in verdict.reason
    assert verdict.score is not None


def test_a_crashing_verifier_is_its_own_outcome(box_runtime: Runtime) -> None:
    env = env_from_files(with_checks("def bad(ev):\n    raise OSError('x')\n", ("bad",)), RESOURCES)
    with Engine(box_runtime) as engine:
        _, verdict = engine.run(requests(SOLVER, env=env))[0]
    assert (verdict.outcome, verdict.score) == ("verifier_error", None)


class NoBoxes:
    """A runtime whose boxes do not start."""

    kind = "none"

    def __init__(self) -> None:
        self.opened = 0

    def probe(self) -> Any:
        raise NotImplementedError

    def runtime_id(self) -> str:
        return "0" * 64

    def open(self, files: Any, *, limits: Any = None) -> Any:
        self.opened += 1
        raise SandboxError("no box today")


def test_boxes_that_do_not_start() -> None:
    nothing = NoBoxes()
    with Engine(nothing) as engine:
        result, verdict = engine.run(requests(SOLVER))[0]
        assert (result.trajectory.end, verdict.outcome, nothing.opened) == ("infra_error", "infra_error", 2)
        assert result.trajectory.error == "SandboxError: no box today"
        assert engine.grade_state(ENV, ENV.start).outcome == "infra_error"
        with pytest.raises(SandboxError):
            engine.call("rover.harness.inside:tool", {}, {})


def test_an_unknown_tool_is_bad_input_before_anything_runs(box_runtime: Runtime) -> None:
    env = env_from_files({**FILES, "harness/harness.json": Harness(tools=("fly",)).dump()}, RESOURCES)
    policy = Acting()
    with Engine(box_runtime) as engine, pytest.raises(PackageError, match="no tool is called 'fly'"):
        engine.run([*requests(policy), *requests(policy, env=env)])
    assert policy.started == 0


# --- interrupts ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("workers", [1, 2])
def test_stopping_keeps_what_is_finished(box_runtime: Runtime, workers: int) -> None:
    evidence, done = MemoryEvidence(), []
    with Engine(box_runtime, evidence, workers) as engine:
        with pytest.raises(Stopped):
            engine.run(requests(SOLVER, 30), done.append, stop=lambda: len(done) >= 3)
        kept = engine.run(requests(SOLVER, 30), stop=None)
    reused = sum(r.reused for r, _ in kept)
    assert 3 <= reused < 30
    assert {v.outcome for _, v in kept} == {"passed"}


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupt_keeps_what_is_finished(box_runtime: Runtime, workers: int) -> None:
    evidence = MemoryEvidence()
    done: list[Progress] = []

    def progress(now: Progress) -> None:
        done.append(now)
        if len(done) == 4:
            raise KeyboardInterrupt

    with Engine(box_runtime, evidence, workers) as engine:
        with pytest.raises(KeyboardInterrupt):
            engine.run(requests(SOLVER, 20), progress)
        reused = [r.reused for r, _ in engine.run(requests(SOLVER, 20))]
    assert 3 <= sum(reused) < 20  # which ones they are depends on the threads


def test_an_interrupt_ends_a_policy_that_waits(box_runtime: Runtime) -> None:
    """One rollout waits for ever, as for a server; closing its session frees it."""
    freed = threading.Event()
    waiting = threading.Event()

    class Waiting(Acting):
        def act(self, results: tuple[Call, ...], *, deadline_s: float) -> Action:
            waiting.set()
            assert freed.wait(20)
            raise ProviderError("cancelled")

        def close(self) -> None:
            freed.set()

    def progress(now: Progress) -> None:
        waiting.wait(20)
        raise KeyboardInterrupt

    with Engine(box_runtime, workers=2) as engine:
        with pytest.raises(KeyboardInterrupt):
            engine.run([*requests(Waiting(name="waiting")), *requests(SOLVER)], progress)
        assert freed.is_set()
        assert engine.run(requests(SOLVER))[0][1].outcome == "passed"


def test_a_command_that_runs_is_cancelled(box_runtime: Runtime) -> None:
    if box_runtime.kind == "local":
        pytest.skip("the local runtime ends no command from outside")
    sleeper = ScriptedPolicy.of([{"tool": "shell", "arguments": {"command": "touch here; sleep 25"}}])
    done: list[Progress] = []
    with Engine(box_runtime, workers=2) as engine:
        started = engine._clock()
        with pytest.raises(Stopped):
            engine.run([*requests(sleeper), *requests(SOLVER)], done.append, stop=lambda: bool(done))
        assert engine._clock() - started < 15
