"""The tool loop: budgets, end states, and what a turn records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from packages import runtime, solution_calls, summary_package, summary_resources

from rover.harness.loop import MALFORMED_IN_A_ROW, Job, Played, Stopped, play
from rover.harness.manifest import named_in, of_files
from rover.policy.protocol import Action, PolicyFailure, PolicyView
from rover.policy.scripted import ScriptedPolicy
from rover.rollout.env import Env, env_from_files
from rover.sandbox.protocol import Sandbox
from rover_store.errors import ProviderError
from rover_store.ids import blob_id
from rover_store.records import Budget, RolloutKey, ToolCall, Usage

ENV = env_from_files(summary_package(), summary_resources())


@pytest.fixture(scope="module")
def _box() -> Iterator[Sandbox]:
    made = runtime()
    box = made.open(ENV.start)
    yield box
    box.close()
    made.close()


@pytest.fixture
def box(_box: Sandbox) -> Sandbox:
    _box.reset(ENV.start)
    return _box


class Fake:
    """A policy made of a function from the turn's number and results to an action."""

    attacker = False
    id = "fake"

    def __init__(self, act: Callable[[int, tuple[Any, ...]], Action], attacker: bool = False) -> None:
        self.attacker = attacker
        self.closed = 0
        self.turn = -1
        self.view: PolicyView | None = None
        self._act = act

    def start(self, view: PolicyView, seed: int) -> Fake:
        self.view = view
        return self

    def act(self, results: tuple[Any, ...], *, deadline_s: float) -> Action:
        self.turn += 1
        return self._act(self.turn, results)

    def close(self) -> None:
        self.closed += 1


def call(tool: str = "list_files", **arguments: Any) -> ToolCall:
    return ToolCall(id="c", tool=tool, arguments=arguments)


def job(env: Env = ENV, budget: Budget | None = None) -> Job:
    key = RolloutKey(
        context=env.context_id,
        task=env.task_id,
        harness=env.harness_id,
        policy="p",
        seed=3,
        budget=budget or Budget(),
        runtime="r",
    )
    return Job(key, env.package, env.instruction, env.harness, of_files(env.start), env.start_tree, env.targets())


def run(box: Sandbox, policy: Any, budget: Budget | None = None, tick: float = 0.0, **more: Any) -> Played:
    """Play on the toy package; the clock moves by `tick` each time it is read."""
    times = count()
    return play(box, policy, job(budget=budget), clock=lambda: next(times) * tick, **more)


def test_a_turn_records_calls_outputs_versions_and_the_tree(box: Sandbox) -> None:
    played = run(box, ScriptedPolicy([(c,) for c in solution_calls()], "Wrote it."))
    trajectory = played.trajectory
    assert (trajectory.end, trajectory.final_message, trajectory.error) == ("completed", "Wrote it.", "")
    assert [len(t.calls) for t in trajectory.turns] == [1, 1, 0]
    read, write = trajectory.turns[0].calls[0], trajectory.turns[1].calls[0]
    assert [(a.path, a.blob) for a in read.reads] == [("orders.csv", blob_id(ENV.start["orders.csv"]))]
    assert (read.status, read.writes) == ("ok", ())
    assert [a.path for a in write.writes] == ["report.csv"]
    assert write.writes[0].blob in played.blobs
    assert trajectory.turns[0].tree == trajectory.start == ENV.start_tree
    assert trajectory.turns[1].tree == trajectory.turns[2].tree != trajectory.start
    assert set(played.trees) == {trajectory.start, trajectory.turns[1].tree}
    assert set(played.end) == {"notes.md", "orders.csv", "report.csv"}


def test_a_command_reads_what_it_names_and_writes_what_changes(box: Sandbox) -> None:
    steps = ("cp orders.csv 'a b.csv'", "rm notes.md", "chmod +x orders.csv", "ln -s orders.csv l")
    command = "; ".join((*steps, "mkdir .git", "> .git/x"))
    played = run(box, ScriptedPolicy([(call("shell", command=command),)]))
    made = played.trajectory.turns[0].calls[0]
    assert [a.path for a in made.reads] == ["notes.md", "orders.csv"]
    assert [(a.path, a.blob is None) for a in made.writes] == [
        ("a b.csv", False), ("l", False), ("notes.md", True), ("orders.csv", False),
    ]  # fmt: skip
    assert played.end["orders.csv"].mode == 0o100755
    assert played.end["l"].mode == 0o120000
    assert played.trajectory.irregular == {".git/x": "lies in a folder called .git"}


def test_a_command_longer_than_the_kernel_takes_as_one_word(box: Sandbox) -> None:
    text = "x" * 300_000
    played = run(box, ScriptedPolicy([(call("shell", command=f"printf %s '{text}' > big.txt"),)]))
    made = played.trajectory.turns[0].calls[0]
    assert made.status == "ok"
    assert [(a.path, a.blob) for a in made.writes] == [("big.txt", blob_id(text.encode()))]


def test_names_in_a_command() -> None:
    files = of_files({"a.csv": b"", "d/b.csv": b"", "x y.txt": b"", "d/e/c.csv": b""})
    assert named_in("cat ./a.csv|sort>d/b.csv", files) == ("a.csv", "d/b.csv")
    assert named_in('head "x y.txt"; ls d/*.csv', files) == ("d/b.csv", "x y.txt")
    assert named_in("echo a.cs", files) == ()


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


def test_failing_calls_are_outputs(box: Sandbox) -> None:
    calls = [
        call("fly"),
        call("read_file"),
        call("read_file", path="../secret"),
        call("read_file", path="nothing"),
        call("shell", command="exit 3"),
        call("shell", command="a\0b"),
        call("read_file", path=float("nan")),
        call("__malformed__", x=1),
        call("read_file", path=nested(60)),
    ]
    played = run(box, ScriptedPolicy([tuple(calls)]))
    made = played.trajectory.turns[0].calls
    assert played.trajectory.end == "completed"
    assert {c.status for c in made} == {"error"}
    words = ("no tool", "'path' is a required", "outside", "no such file", '"exit_code": 3', "NUL", "JSON", "no tool")
    words += ("nested deeper",)
    assert [w for c, w in zip(made, words, strict=True) if w not in c.output] == []
    played.trajectory.dump()


def test_turns_are_counted_and_the_last_word_is_free(box: Sandbox) -> None:
    script = ScriptedPolicy([(call(),), (call(),)], "done")
    assert run(box, script, Budget(turns=2)).trajectory.end == "completed"
    trajectory = run(box, script, Budget(turns=1)).trajectory
    assert (trajectory.end, trajectory.error) == ("policy_error", "the budget of 1 turns is used up")
    assert len(trajectory.turns) == 1


def test_tokens_are_counted(box: Sandbox) -> None:
    policy = Fake(lambda n, _: Action((call(),), usage=Usage(prompt_tokens=40, completion_tokens=10)))
    trajectory = run(box, policy, Budget(tokens=120)).trajectory
    assert (trajectory.end, trajectory.error) == ("policy_error", "the budget of 120 tokens is used up")
    assert (len(trajectory.turns), trajectory.usage.prompt_tokens) == (2, 120)


def test_seconds_are_counted_also_within_a_turn(box: Sandbox) -> None:
    trajectory = run(box, Fake(lambda n, _: Action((call(),) * 50)), Budget(seconds=20), tick=1.0).trajectory
    assert (trajectory.end, trajectory.error) == ("policy_error", "the budget of 20 seconds is used up")
    assert 1 < len(trajectory.turns[0].calls) < 50


def test_one_malformed_call_after_another_ends_it(box: Sandbox) -> None:
    trajectory = run(box, Fake(lambda n, _: Action((call("fly"),))), Budget(turns=99)).trajectory
    assert trajectory.end == "policy_error"
    assert f"{MALFORMED_IN_A_ROW} malformed calls in a row" in trajectory.error
    now_and_then = Fake(lambda n, _: Action((call("fly" if n % 2 else "list_files"),)) if n < 60 else Action())
    assert run(box, now_and_then, Budget(turns=99)).trajectory.end == "completed"


@pytest.mark.parametrize(
    ("error", "end", "words"),
    [
        (PolicyFailure("no plan"), "policy_error", "no plan"),
        (ProviderError("server gone"), "infra_error", "ProviderError: server gone"),
        (KeyError("x"), "infra_error", "HarnessError: KeyError: 'x'"),
    ],
)
def test_who_is_blamed(box: Sandbox, error: Exception, end: str, words: str) -> None:
    def act(n: int, _: tuple[Any, ...]) -> Action:
        if n == 1:
            raise error
        return Action((call(),))

    policy = Fake(act)
    trajectory = run(box, policy).trajectory
    assert (trajectory.end, trajectory.error, len(trajectory.turns)) == (end, words, 1)
    assert policy.closed == 1


def test_a_box_that_dies_is_infrastructure() -> None:
    made = runtime()
    box = made.open(ENV.start)

    def act(n: int, _: tuple[Any, ...]) -> Action:
        if n == 1:
            box.close()
        return Action((call(),))

    trajectory = run(box, Fake(act)).trajectory
    made.close()
    assert trajectory.end == "infra_error"
    assert trajectory.error.startswith("SandboxError")


def test_stopping_between_turns_drops_the_rollout(box: Sandbox) -> None:
    policy = Fake(lambda n, _: Action((call(),)))
    with pytest.raises(Stopped):
        run(box, policy, stop=lambda: policy.turn >= 2)
    assert (policy.turn, policy.closed) == (2, 1)


def test_an_interrupt_passes_through(box: Sandbox) -> None:
    def act(n: int, _: tuple[Any, ...]) -> Action:
        raise KeyboardInterrupt

    policy = Fake(act)
    with pytest.raises(KeyboardInterrupt):
        run(box, policy)
    assert policy.closed == 1


@pytest.mark.parametrize(("attacker", "targets"), [(False, ()), (True, ("report.csv",))])
def test_the_view_holds_targets_for_attackers_alone(box: Sandbox, attacker: bool, targets: tuple[str, ...]) -> None:
    policy = Fake(lambda n, _: Action(), attacker)
    run(box, policy)
    assert policy.view is not None
    assert policy.view.targets == targets
    assert policy.view.instruction == ENV.instruction
    assert [t.name for t in policy.view.tools] == list(ENV.harness.tools)


def test_what_is_stored_is_the_same_each_time(box: Sandbox) -> None:
    script = ScriptedPolicy([(c,) for c in solution_calls()], "a\ud800b")
    first = run(box, script, tick=0.5)
    box.reset(ENV.start)
    second = run(box, script, tick=0.1)
    assert first.trajectory.dump() == second.trajectory.dump()
    assert first.trees == second.trees
