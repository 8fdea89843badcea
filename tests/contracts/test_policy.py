"""What every policy must do. A third party runs this file with ROVER_CONTRACT_POLICY=module:function, a function
that takes nothing and gives a policy."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Generator

import pytest
from packages import solution_calls

from rover.harness.tools.specs import TOOLS, argument_error, offered
from rover.policy.null import NULL_POLICIES, NullPolicy
from rover.policy.protocol import Action, Policy, PolicyFailure, PolicyView, Session
from rover.policy.replay import ReplayPolicy
from rover.policy.scripted import ScriptedPolicy
from rover.policy.slip import Slip
from rover.policy.solver import SolverPolicy
from rover_store.errors import ProviderError
from rover_store.records import Budget, Call, RolloutKey, ToolCall, Trajectory, Turn

VIEW = PolicyView("Summarise `orders.csv` into `report.csv`.", offered(tuple(TOOLS)))
TARGETS = ("report.csv", "memo.md")


def _plan(view: PolicyView, seed: int) -> Generator[ToolCall, Call, str]:
    for call in solution_calls():  # noqa: UP028  # a tuple takes no sent value
        yield call
    return "done"


def _replay() -> Policy:
    key = RolloutKey(
        context="0" * 40, task="1" * 40, harness="2" * 40, policy="p", seed=0, budget=Budget(), runtime="r"
    )
    calls = tuple(Call(id=c.id, tool=c.tool, arguments=c.arguments) for c in solution_calls())
    return ReplayPolicy(
        Trajectory(key=key, package="x", start="3" * 40, turns=(Turn(index=0, calls=calls, tree="3" * 40),))
    )


def _third_party() -> dict[str, Callable[[], Policy]]:
    named = os.environ.get("ROVER_CONTRACT_POLICY", "")
    if not named:
        return {}
    module, _, function = named.partition(":")
    return {named: getattr(importlib.import_module(module), function)}


MADE: dict[str, Callable[[], Policy]] = {
    "solver": lambda: SolverPolicy("toy", "demonstrator", _plan),
    "slip": lambda: SolverPolicy("toy", "demonstrator", _plan, Slip("perturb_number")),
    "scripted": lambda: ScriptedPolicy([solution_calls()], "done"),
    "replay": _replay,
    **{f"null:{name}": lambda n=name: NullPolicy(n) for name in NULL_POLICIES},  # type: ignore[misc]
    **_third_party(),
}


@pytest.fixture(params=sorted(MADE))
def make(request: pytest.FixtureRequest) -> Callable[[], Policy]:
    return MADE[request.param]


def view(policy: Policy) -> PolicyView:
    return PolicyView(VIEW.instruction, VIEW.tools, TARGETS if policy.attacker else ())


def answer(call: ToolCall) -> Call:
    """A plausible output for any call."""
    outputs = {
        "list_files": {"files": [{"path": "orders.csv", "size": 9}]},
        "read_table": {"columns": ["a"], "rows": [["1"], ["2"]], "total": 2, "offset": 0},
        "shell": {"exit_code": 0, "stdout": "", "stderr": ""},
    }
    return Call(id=call.id, tool=call.tool, arguments=call.arguments, output=json.dumps(outputs.get(call.tool, {})))


def play(session: Session, reply: Callable[[ToolCall], Call] = answer, turns: int = 100) -> list[Action]:
    """The actions of a session, until it ends or fails."""
    actions: list[Action] = []
    results: tuple[Call, ...] = ()
    for _ in range(turns):
        try:
            actions.append(session.act(results, deadline_s=10.0))
        except PolicyFailure:
            break
        if not actions[-1].calls:
            break
        results = tuple(reply(call) for call in actions[-1].calls)
    session.close()
    return actions


def test_it_is_a_policy(make: Callable[[], Policy]) -> None:
    policy = make()
    assert isinstance(policy, Policy)
    assert policy.id == make().id
    assert policy.id == policy.id.strip() != ""
    assert policy.id.isprintable()
    assert isinstance(policy.start(view(policy), 0), Session)


def test_equal_seeds_and_outputs_give_equal_actions(make: Callable[[], Policy]) -> None:
    policy = make()
    for seed in (0, 1, 2**60 - 1):
        assert play(policy.start(view(policy), seed)) == play(make().start(view(policy), seed))


def test_it_ends(make: Callable[[], Policy]) -> None:
    policy = make()
    actions = play(policy.start(view(policy), 3))
    assert 0 < len(actions) < 100
    assert actions[-1].calls == ()


def test_what_it_asks_for_can_be_stored(make: Callable[[], Policy]) -> None:
    policy = make()
    for action in play(policy.start(view(policy), 3)):
        for call in action.calls:
            assert call.tool in TOOLS
            json.dumps(call.model_dump(), allow_nan=False).encode()
            if "call_all" not in policy.id:
                assert argument_error(call.tool, call.arguments) == ""


def test_failing_tools_end_it_or_let_it_go_on_but_break_nothing(make: Callable[[], Policy]) -> None:
    def fail(call: ToolCall) -> Call:
        return Call(id=call.id, tool=call.tool, arguments=call.arguments, status="error", output="no")

    policy = make()
    assert len(play(policy.start(view(policy), 3), fail)) < 100


def test_sessions_are_apart(make: Callable[[], Policy]) -> None:
    policy = make()
    alone = play(policy.start(view(policy), 3))
    first, second = policy.start(view(policy), 3), policy.start(view(policy), 4)
    second.act((), deadline_s=10.0)
    second.close()
    assert play(first) == alone


def test_close_may_come_at_any_time_and_twice(make: Callable[[], Policy]) -> None:
    policy = make()
    session = policy.start(view(policy), 3)
    session.close()
    session.close()
    running = policy.start(view(policy), 3)
    first = running.act((), deadline_s=10.0)
    running.close()
    running.close()
    assert isinstance(first, Action)


def test_only_its_own_failures_leave_it(make: Callable[[], Policy]) -> None:
    """An empty view: no tools, no words."""
    policy = make()
    try:
        actions = play(policy.start(PolicyView("", ()), 3))
    except (PolicyFailure, ProviderError):
        return
    assert all(isinstance(action, Action) for action in actions)
