"""Tokens of turns: told by servers in several ways, stored once, put together again; never asked for unasked."""

from __future__ import annotations

from typing import Any

import pytest
from chat_server import ChatServer, call, completion
from hypothesis import given
from hypothesis import strategies as st
from packages import runtime, summary_package, summary_resources

from rover.cli.run import policy_options
from rover.policy.openai import OpenAIPolicy, Settings
from rover.policy.registry import get_policy
from rover.policy.tokens import TokenLog, Told, told, whole_prompts
from rover.rollout.engine import Engine
from rover.rollout.env import env_from_files
from rover.rollout.records import RolloutRequest
from rover_store.errors import UsageError
from rover_store.records import Trajectory, Turn, TurnTokens

QUICK = Settings(request_s=5, retries=0)
IDS = st.lists(st.integers(0, 3), max_size=6).map(tuple)


@given(st.lists(st.tuples(IDS, IDS), max_size=6))
def test_prompts_come_back_whole(turns: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> None:
    log = TokenLog()
    records = [log.turn(Told(prompt, said)) for prompt, said in turns]
    made = [Turn(index=n, tree="0" * 40, tokens=record) for n, record in enumerate(records)]
    assert whole_prompts(made) == [prompt for prompt, _ in turns]


def test_a_conversation_that_grows_is_stored_once() -> None:
    log, ids, stored = TokenLog(), [1] * 500, 0
    for _ in range(20):
        record = log.turn(Told(tuple(ids), (7,) * 50))
        stored += len(record.prompt) + len(record.completion)
        ids += [7] * 50 + [2] * 30
    assert stored == len(ids) - 30


def test_a_record_that_keeps_more_than_there_is_has_no_prompt() -> None:
    turn = Turn(index=0, tree="0" * 40, tokens=TurnTokens(kept=9, prompt=(1,)))
    assert whole_prompts([turn, Turn(index=1, tree="0" * 40)]) == [(), ()]


def answer(prompt: Any = None, ids: Any = None, logprobs: Any = None, *, step: Any = "done", each: Any = None) -> Any:
    value = completion(step, 1)
    choice = value["choices"][0]
    if prompt is not None:
        value["prompt_token_ids"] = prompt
    if ids is not None:
        choice["token_ids"] = ids
    if logprobs is not None:
        choice["logprobs"] = {"content": [{"token": "t", "logprob": p, **(each or {})} for p in logprobs]}
    return value


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (answer([1, 2], [3, 4], [-0.5, -1]), Told((1, 2), (3, 4), (-0.5, -1.0))),  # vLLM
        (answer(logprobs=[-0.5, 1e-4], each={"id": 7}), Told((), (7, 7), (-0.5, 0.0))),  # llama.cpp
        (answer(logprobs=[-0.5]), Told((), (), (-0.5,))),
        (answer([1], [3]), Told((1,), (3,), ())),
        (answer(), None),
        (answer([1], [3], [-0.5, -0.5]), Told((1,), (3,), ())),  # not as many
        (answer([-1], [3.0], [2.0]), None),
        (answer("x", True, [None]), None),
        (answer([True], [1 << 40], [float("-inf")]), None),
    ],
)
def test_what_a_server_tells(said: Any, found: Told | None) -> None:
    assert told(said) == found


def played(*steps: Any, tokens: bool = True) -> tuple[Trajectory, list[dict[str, Any]]]:
    """A rollout of two turns at a server that answers so."""
    env = env_from_files(summary_package(), summary_resources())
    with ChatServer(*steps) as server:
        policy = OpenAIPolicy("m", server=server.url, settings=QUICK, tokens=tokens)
        confined = runtime()
        try:
            with Engine(confined) as engine:
                found = engine.rollouts([RolloutRequest(env, policy, 0)])[0].trajectory
        finally:
            confined.close()  # type: ignore[attr-defined]
        return found, server.asked


def test_turns_of_a_server_carry_their_tokens() -> None:
    first = answer([1, 2], [3, 4], [-0.5, -1.0], step=call("ls", name="shell"))
    trajectory, asked = played(first, answer([1, 2, 3, 4, 5], [6], [-2.0]))
    assert [request["return_token_ids"] and request["logprobs"] for request in asked] == [True, True]
    assert [turn.tokens for turn in trajectory.turns] == [
        TurnTokens(prompt=(1, 2), completion=(3, 4), logprobs=(-0.5, -1.0)),
        TurnTokens(kept=4, prompt=(5,), completion=(6,), logprobs=(-2.0,)),
    ]
    assert Trajectory.load(trajectory.dump(), "x") == trajectory


def test_nobody_is_asked_unasked() -> None:
    trajectory, asked = played(answer([1, 2], [3, 4], [-0.5, -1.0]), tokens=False)
    assert not {"return_token_ids", "logprobs"} & set(asked[0])
    assert [turn.tokens for turn in trajectory.turns] == [None]
    assert b"tokens\": {" not in trajectory.dump()


def test_a_server_that_refuses_to_tell_is_asked_without() -> None:
    refuses = ("status", 400, "Unrecognized request argument supplied: return_token_ids")
    trajectory, asked = played(refuses, answer(logprobs=[-0.5]))
    assert ["return_token_ids" in request for request in asked] == [True, False]
    assert [turn.tokens for turn in trajectory.turns] == [TurnTokens(logprobs=(-0.5,))]
    trajectory, asked = played(refuses, ("status", 400, "logprobs are not supported"), "done")
    assert [turn.tokens for turn in trajectory.turns] == [None]
    assert not {"return_token_ids", "logprobs"} & set(asked[2])


def test_only_models_have_tokens() -> None:
    assert policy_options("hf:x", "", "", -1, None, True) == ("hf:x", {"tokens": True})
    assert policy_options("openai:x", "u", "", -1, None, True)[1]["tokens"] is True
    for kind in ("solver", "null:echo"):
        with pytest.raises(UsageError, match="--tokens"):
            policy_options(kind, "", "", -1, None, True)
    assert get_policy("openai:x", server="http://127.0.0.1:1", tokens=True).id == (
        get_policy("openai:x", server="http://127.0.0.1:1").id
    )
