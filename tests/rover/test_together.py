"""Rollouts in lockstep are the engine's, byte for byte; gradings of all their trees say what single ones say."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packages import runtime, solution, solution_calls, summary_package, summary_resources, with_checks
from workspaces import shop_workspace

from rover.construct.build import Built, attempt
from rover.construct.families.registry import family
from rover.policy.null import NULL_POLICIES
from rover.policy.protocol import Action, Policy, PolicyFailure, PolicyView
from rover.policy.registry import get_policy
from rover.policy.scripted import ScriptedPolicy
from rover.rollout.engine import Engine
from rover.rollout.env import Env, env_from_files, tree_of
from rover.rollout.progress import MOST_LATE, Graded, TreeGrader
from rover.rollout.records import EndState, MemoryEvidence, RolloutRequest, rollout_id
from rover.rollout.statuses import StatusFile
from rover.rollout.together import Done, Together, in_time, keep
from rover.sandbox.protocol import Runtime
from rover.sandbox.rendezvous import ask
from rover.verify.grade import run_checks
from rover.verify.plan import Graded as State
from rover_store.errors import PackageError, ProviderError, SandboxError
from rover_store.records import Call, Limits, ToolCall

RESOURCES = summary_resources()
SMALL = env_from_files(summary_package(), RESOURCES)
FAMILIES = ("reconcile", "edit")


@pytest.fixture(scope="module")
def box_runtime() -> Iterator[Runtime]:
    made = runtime()
    yield made
    made.close()  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def built(box_runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> list[Env]:
    workspace = shop_workspace(tmp_path_factory.mktemp("shop"))
    envs = [SMALL]
    with Engine(box_runtime) as engine:
        for name in FAMILIES:
            found = (attempt(engine, workspace, family(name), number, 5).outcome for number in range(6))
            package = next(one for one in found if isinstance(one, Built))
            envs.append(env_from_files(package.files, package.resources))
    return envs


def policies(env: Env) -> list[Policy]:
    """Solvers right and wrong, and every attacker."""
    solvers: list[Policy] = [solution()]
    if env.record.family:
        found = family(env.record.family)
        specs = ("solver", "solver:alternative", "solver+perturb_number", "solver+skip_write", "solver+drop_row")
        solvers = [get_policy(spec, family=found) for spec in specs]
    return [*solvers, *(get_policy(f"null:{name}") for name in NULL_POLICIES)]


@pytest.fixture(scope="module")
def requests(built: list[Env]) -> list[RolloutRequest]:
    pairs = [(env, policy) for env in built for policy in policies(env)]
    return [RolloutRequest(env, policy, seed) for env, policy in pairs for seed in range(1 if policy.attacker else 2)]


@pytest.fixture(scope="module")
def played(box_runtime: Runtime, requests: list[RolloutRequest]) -> list[Done]:
    with Together(box_runtime, width=24) as together:
        return together.play(requests)


@pytest.fixture(scope="module")
def alone(box_runtime: Runtime, requests: list[RolloutRequest]) -> Iterator[tuple[Engine, list[Any]]]:
    with Engine(box_runtime) as engine:
        yield engine, engine.rollouts(requests)


def test_trajectories_are_the_engines_byte_for_byte(alone: tuple[Engine, list[Any]], played: list[Done]) -> None:
    for theirs, ours in zip(alone[1], played, strict=True):
        assert ours.result.trajectory.dump() == theirs.trajectory.dump(), ours.request.policy.id
        assert (ours.result.id, dict(ours.result.end)) == (theirs.id, dict(theirs.end))


def test_verdicts_are_the_engines_and_statuses_those_of_single_gradings(
    box_runtime: Runtime, alone: tuple[Engine, list[Any]], played: list[Done]
) -> None:
    evidence = MemoryEvidence()
    with TreeGrader(box_runtime, evidence) as grader:
        graded = grader.grade([(done.env, done) for done in played])
        checks = grader.checks
        assert grader.grade([(done.env, done) for done in played]) == graded
        assert grader.checks == checks  # equal states are graded once
        assert not grader._known.alone
    expected = alone[0].grade([(done.result, done.env) for done in played])
    assert [one.verdict for one in graded] == expected
    kept = [evidence.get_verdict(done.result.id, done.env.verifier_id) for done in played]
    assert kept == [verdict if verdict.outcome != "infra_error" else None for verdict in expected]
    box = box_runtime.open({})
    for done, one in list(zip(played, graded, strict=True))[:: len(played) // 12]:
        _same_as_single(box, done, one)
    box.close()


def _same_as_single(box: Any, done: Done, one: Graded) -> None:
    criteria = done.env.verifier.criteria
    assert (len(one.statuses), one.criteria) == (len(done.result.trajectory.turns) + 1, criteria)
    trees = [done.result.trajectory.start, *(turn.tree for turn in done.result.trajectory.turns)]
    for tree, row in zip(trees[:-1], one.statuses, strict=False):
        state = State(done.env.start, EndState(done.played.trees[tree], done.result.end.read))
        scores = run_checks(box, criteria, done.env.verifier_files, state)
        assert row == tuple(s.score if c.progress else None for c, s in zip(criteria, scores, strict=True))
    last = {s.criterion: s.score for s in one.verdict.scores}
    assert one.statuses[-1] == tuple(last.get(c.id) if c.progress else None for c in criteria)


def test_the_verdict_alone_can_be_asked_for(box_runtime: Runtime, played: list[Done]) -> None:
    items = [(done.env, done) for done in played]
    with TreeGrader(box_runtime) as grader:
        ends = grader.grade(items, ways=False)
        few = grader.checks
        whole = grader.grade(items)
    assert [one.statuses for one in ends] == [()] * len(items)
    assert [one.verdict for one in ends] == [one.verdict for one in whole]
    assert few < grader.checks


def test_statuses_outlive_their_grader_and_a_damaged_file_is_begun_anew(
    box_runtime: Runtime, played: list[Done], tmp_path: Path
) -> None:
    file, evidence = tmp_path / "statuses", MemoryEvidence()
    items = [(done.env, done) for done in played[:4]]
    file.write_bytes(b"no database at all, " * 100)
    with TreeGrader(box_runtime, evidence, kept=file) as grader:
        graded = grader.grade(items)
        assert grader.checks > 0
    with TreeGrader(box_runtime, evidence, kept=file) as grader:
        assert grader.grade(items) == graded
        assert grader.checks == 0
    other = StatusFile(file, "another runtime")
    assert other.rows == {}
    other.close()
    data = bytearray(file.read_bytes())
    data[-3000:] = b"x" * 3000  # its rows, not its head
    file.write_bytes(data)
    with TreeGrader(box_runtime, evidence, kept=file) as grader:
        assert grader.grade(items) == graded


HANGING = """
import time


def rows(ev):
    time.sleep(1000)
"""


def test_a_check_that_hangs_is_not_waited_for_on_every_tree(box_runtime: Runtime) -> None:
    env = env_from_files(with_checks(HANGING, ("rows",), "hanging"), RESOURCES)
    plans = [
        ScriptedPolicy([(ToolCall(id="1", tool="write_file", arguments={"path": "report.csv", "content": text}),)])
        for text in "abcdefgh"
    ]
    with Together(box_runtime) as together:
        played = together.play([RolloutRequest(env, plan, 0) for plan in plans])
    began = time.monotonic()
    with TreeGrader(box_runtime, limits=Limits(wall_s=1.2)) as grader:
        first = grader.grade([(env, done) for done in played])
        again = grader.grade([(env, done) for done in played])
    waited = time.monotonic() - began
    assert waited < 16 * 1.0  # one second is what each tree of each rollout would take, and more in the batch
    assert {one.verdict.outcome for one in (*first, *again)} == {"verifier_error"}
    reasons = [one.verdict.reason for one in first]
    assert sum("did not end in time" in reason for reason in reasons) <= MOST_LATE
    assert any("not judged" in reason for reason in reasons)


def test_what_is_kept_the_engine_takes_for_its_own(box_runtime: Runtime, played: list[Done]) -> None:
    evidence = MemoryEvidence()
    some = played[:6]
    keep(evidence, some)
    with Engine(box_runtime, evidence) as engine:
        found = engine.rollouts([done.request for done in some])
    assert [one.reused for one in found] == [True] * 6
    assert [one.trajectory for one in found] == [done.result.trajectory for done in some]


def test_only_what_was_in_time_for_all_is_taken_for_what_it_would_be_alone(box_runtime: Runtime) -> None:
    """A wave of two takes 5 s by this clock; the second rollout has 3 s."""
    budget = SMALL.harness.budget
    given = [budget.model_copy(update={"seconds": s}) for s in (8, 3)]
    wanted = [RolloutRequest(SMALL, solution(), 0, one) for one in given]
    now = iter((0.0, 5.0, 5.0, 6.0))
    with Together(box_runtime, clock=lambda: 0.0) as together:
        first, second = (in_time(together, wanted[n:], lambda: next(now)) for n in range(2))
    ids = [rollout_id(one.key(box_runtime.runtime_id())) for one in wanted]
    assert (list(first), list(second)) == (ids[:1], ids[1:])
    assert second[ids[1]].trajectory.end == "completed"


# --- sessions ------------------------------------------------------------------------------------------------
class Model:
    """A policy whose turns are asked for together: lane by lane it reads, and is done."""

    attacker = False

    def __init__(self, name: str = "model", fails: int = 0) -> None:
        self.id = name
        self.batches: list[list[int]] = []
        self.closed = 0
        self.fails = fails

    def start(self, view: PolicyView, seed: int) -> Turns:
        if seed == 99:
            raise PolicyFailure("no plan")
        return Turns(self, seed)

    def acting(self, pending: list[tuple[int, Any]]) -> dict[int, Any]:
        self.batches.append([lane for lane, _ in pending])
        if self.fails:
            self.fails -= 1
            raise ProviderError("the server is away")
        return {lane: turn for lane, (turn, _) in pending}


class Turns:
    def __init__(self, model: Model, turns: int) -> None:
        self.model = model
        self.turns = turns

    def act(self, results: tuple[Call, ...], *, deadline_s: float) -> Action:
        left = ask("act", (self.turns, results))
        self.turns -= 1
        read = ToolCall(id=str(left), tool="list_files", arguments={})
        return Action((read,)) if left else Action(message="done")

    def close(self) -> None:
        self.model.closed += 1


def test_turns_are_asked_for_in_the_same_batches_every_time(box_runtime: Runtime) -> None:
    batches = []
    for _ in range(2):
        model = Model()
        with Together(box_runtime, width=3, acting=model.acting) as together:
            done = together.play([RolloutRequest(SMALL, model, seed) for seed in (2, 0, 3, 1, 99)])
        batches.append(model.batches)
        assert [len(one.result.trajectory.turns) for one in done] == [3, 1, 4, 2, 0]
        assert [one.session is None for one in done] == [False] * 4 + [True]
        assert done[4].result.trajectory.end == "policy_error"
        assert model.closed == 4
    assert batches[0] == batches[1] == [[0, 1, 2], [0, 2], [0, 2], [2], [0], [0]]


def test_a_rollout_that_the_infrastructure_spoils_is_tried_once_more(box_runtime: Runtime) -> None:
    model = Model(fails=1)
    with Together(box_runtime, acting=model.acting) as together:
        done = together.play([RolloutRequest(SMALL, model, seed) for seed in (1, 2)])
        assert [one.result.trajectory.end for one in done] == ["completed"] * 2
        model.fails = 2
        spoilt = together.play([RolloutRequest(SMALL, model, 1)])
    assert spoilt[0].result.trajectory.error == "ProviderError: the server is away"
    with TreeGrader(box_runtime) as grader:
        graded = grader.grade([(SMALL, spoilt[0])])[0]
    assert graded.verdict.outcome == "infra_error"
    assert {status for row in graded.statuses for status in row} == {None}
    evidence = MemoryEvidence()
    keep(evidence, spoilt)
    assert evidence.get_rollout(spoilt[0].result.id) is None


def test_an_interrupt_ends_all_lanes_and_their_threads(box_runtime: Runtime) -> None:
    model = Model()

    def acting(pending: list[tuple[int, Any]]) -> dict[int, Any]:
        raise KeyboardInterrupt

    before = threading.active_count()
    with Together(box_runtime, acting=acting) as together:
        with pytest.raises(KeyboardInterrupt):
            together.play([RolloutRequest(SMALL, model, seed) for seed in (1, 2)])
        assert model.closed >= 2
        assert threading.active_count() == before
        done = together.play([RolloutRequest(SMALL, solution(), 0)])
    assert done[0].result.trajectory.end == "completed"


def test_a_box_that_cannot_be_opened_is_an_infra_error(box_runtime: Runtime) -> None:
    class Broken:
        kind = "broken"

        def runtime_id(self) -> str:
            return box_runtime.runtime_id()

        def open(self, files: Any, *, limits: Any = None) -> Any:
            raise SandboxError("no room")

    with Together(Broken()) as together:  # type: ignore[arg-type]
        done = together.play([RolloutRequest(SMALL, solution(), 0)])
    assert done[0].result.trajectory.error == "SandboxError: no room"


def test_a_package_that_names_no_tool_is_bad_input(box_runtime: Runtime) -> None:
    env = replace(SMALL, harness=SMALL.harness.model_copy(update={"tools": ("teleport",)}))
    with Together(box_runtime) as together, pytest.raises(PackageError, match="no tool is called 'teleport'"):
        together.play([RolloutRequest(env, solution(), 0)])


# --- checks that misbehave -----------------------------------------------------------------------------------
CARELESS = """
import os, pathlib, sys
def forgetful(ev):
    seen = sys.__dict__.setdefault("seen", [])
    seen.append(1)
    return (1.0, "first") if len(seen) == 1 else (0.5, "again")
def tires(ev):
    seen = sys.__dict__.setdefault("seen", [])
    seen.append(1)
    if len(seen) > 2:
        raise MemoryError
    return 1.0
def raises(ev):
    return 1 / ev.files().count("report.csv")
def writes(ev):
    pathlib.Path("end/left.txt").write_text("x")
    return 1.0
def strews(ev):
    seen = os.path.exists("/tmp/note")
    open("/tmp/note", "w").close()
    return 0.0 if seen else 1.0
def dies(ev):
    os._exit(3)
def spies(ev):
    found = [p for p in os.listdir(".") if p not in ("start", "end", "verifier")]
    for fd in range(3, 64):
        try:
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:
            pass
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            found += os.listdir(f"/proc/{pid}/fd") if pid != str(os.getpid()) else []
        except OSError:
            pass
    return (1.0, "nothing") if not [f for f in found if "pipe" not in f] else (0.0, repr(found)[:300])
"""


@pytest.mark.parametrize("check", ["forgetful", "tires", "raises", "writes", "strews", "dies", "spies"])
def test_a_check_that_misbehaves_gets_no_other_verdict_in_a_batch(box_runtime: Runtime, check: str) -> None:
    files = with_checks(CARELESS, (check,))
    env = env_from_files(files, RESOURCES)
    read, write = solution_calls()
    scripts = [[(read,), (write,)], [(_without(write, 2),), (write,)], [(read,)], [(write,), (_without(write, 1),)]]
    wanted = [RolloutRequest(env, ScriptedPolicy(script, "done"), 0) for script in scripts]
    with Together(box_runtime) as together, Engine(box_runtime) as engine, TreeGrader(box_runtime) as grader:
        done = together.play(wanted)
        graded = grader.grade([(env, one) for one in done])
        expected = engine.grade([(one.result, env) for one in done])
    assert [one.verdict for one in graded] == expected
    if check == "forgetful":  # in series it says something else than alone
        assert grader._known.alone
        assert {row[0] for one in graded for row in one.statuses} == {1.0}
    if check == "tires":  # after the second state of a series
        assert {row[0] for one in graded for row in one.statuses} == {1.0}
    if check == "spies" and box_runtime.kind != "local":
        assert {score.reason for one in graded for score in one.verdict.scores} == {"nothing"}
    if check == "raises":
        assert graded[0].statuses[0][0] is None


RICH = """
import rover_checks as rc
def rich(ev):
    return float(float(rc.table(ev.start("orders.csv")).rows[0][2]) > 500)
"""


def test_packages_of_one_verifier_are_judged_by_their_own_start(box_runtime: Runtime) -> None:
    """Two starts that differ in one digit, under the same checks."""
    poor = env_from_files(with_checks(RICH, ("rich",)), RESOURCES)
    start = {**poor.start, "orders.csv": poor.start["orders.csv"].replace(b"North,120.50", b"North,920.50")}
    envs = [poor, replace(poor, start=start, start_tree=tree_of(start)), poor]
    wanted = [RolloutRequest(env, solution(), seed) for seed, env in enumerate(envs)]
    with Together(box_runtime) as together, TreeGrader(box_runtime) as grader:
        graded = grader.grade([(done.env, done) for done in together.play(wanted)])
    assert [{row[0] for row in one.statuses} for one in graded] == [{0.0}, {1.0}, {0.0}]


def _without(call: ToolCall, rows: int) -> ToolCall:
    fewer = {**call.arguments, "rows": call.arguments["rows"][:-rows]}
    return call.model_copy(update={"id": f"without {rows}", "arguments": fewer})
