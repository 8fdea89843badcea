"""A store with the order summary and recorded rollouts of several kinds, for tests of what goes out and comes back.

    made(folder, runtime)    the store; POLICIES played on its package `order-summary`, graded, in its evidence
    bare(folder, store)      another store with the same packages and no evidence
    other_python(name)       the Python that an environment variable names; the test is skipped where it is not set
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import packages
import pytest

from rover.policy.null import NullPolicy
from rover.policy.protocol import Action, Policy, PolicyView, Session
from rover.policy.scripted import ScriptedPolicy
from rover.policy.tokens import TokenLog, Told
from rover.rollout.engine import Engine
from rover.rollout.env import load_env
from rover.rollout.records import RolloutRequest
from rover.sandbox.protocol import Runtime
from rover_store.records import Budget, Call, ToolCall, Usage
from rover_store.store import Store

NAME = "order-summary"


class TellingPolicy:
    """A model that writes as the solution does, in tokens."""

    attacker = False
    id = "hf:test"

    def start(self, view: PolicyView, seed: int) -> Session:
        return _Telling()


class _Telling:
    def __init__(self) -> None:
        self._calls = list(packages.solution_calls())
        self._ids = [1, 2, 3]
        self._log = TokenLog()

    def act(self, results: tuple[Call, ...], *, deadline_s: float) -> Action:
        prompt, said = tuple(self._ids), (len(self._ids), 7, 0)
        self._ids += [*said, 90 + len(self._calls)]
        tokens = self._log.turn(Told(prompt, said, (-0.25, -1e-05, 0.0)))
        used = Usage(prompt_tokens=len(prompt), completion_tokens=3)
        if not self._calls:
            return Action(message="Wrote it.", usage=used, tokens=tokens)
        return Action((self._calls.pop(0),), "Next.", used, tokens)

    def close(self) -> None:
        """Nothing is held."""


def _shell(*commands: str) -> ScriptedPolicy:
    calls = [(ToolCall(id="same", tool="shell", arguments={"command": c}),) for c in commands]
    return ScriptedPolicy(calls, "Did it.")


POLICIES: dict[str, Policy] = {
    "solution": packages.solution(),
    "shell": _shell("ls; exit 3", "printf 'a\\000\\377' > odd.bin; mkfifo pipe; printf '\\342\\200\\250\\r\\n'"),
    "nobody": NullPolicy("delete_all"),
    "echo": NullPolicy("echo"),
    "wrong": ScriptedPolicy([(
        ToolCall(id="a", tool="no_tool", arguments={"x": None}), ToolCall(id="b", tool="read_file", arguments={}),
    )]),
    "telling": TellingPolicy(),
}


def made(folder: Path, runtime: Runtime, names: tuple[str, ...] = (NAME,)) -> Store:
    """A store whose evidence holds one rollout of each policy, and one that ran out of turns."""
    store = Store.init(folder)
    with store.write("test") as tx:
        for name, files in packages.summary_resources().items():
            tx.set_resource(name, tx.tree(files))
        for name in names:
            tx.set_package(name, tx.tree(packages.summary_package(name)))
        tx.commit("Packages", time=1)
    env = load_env(store, store.package(names[0]).tree)
    requests = [RolloutRequest(env, policy, seed) for seed, policy in enumerate(POLICIES.values())]
    requests.append(RolloutRequest(env, NullPolicy("call_all"), 99, Budget(turns=1)))
    with Engine(runtime, store.evidence) as engine:
        engine.run(requests)
    return store


def bare(folder: Path, store: Store) -> Store:
    """Another store with the same packages."""
    made = Store.init(folder)
    with made.write("test") as tx:
        for name, files in packages.summary_resources().items():
            tx.set_resource(name, tx.tree(files))
        for entry in store.packages():
            tx.set_package(entry.name, tx.tree(packages.summary_package(entry.name)))
        tx.commit("Packages", time=1)
    return made


def other_python(variable: str) -> str:
    """The Python of an environment of its own, with the library that a test is about."""
    python = os.environ.get(variable, "")
    if not python:
        pytest.skip(f"{variable} names no Python")
    return python


#: a trajectory of another tool, on the task of `packages`
FOREIGN: dict[str, Any] = {
    "schema_version": "ATIF-v1.6",
    "session_id": "s",
    "agent": {"name": "an agent", "version": "2", "model_name": "maker/model:1"},
    "steps": [
        {"step_id": 1, "source": "system", "message": "Be good."},
        {"step_id": 2, "source": "user", "message": packages.INSTRUCTION},
        {"step_id": 3, "source": "agent", "message": "Thinking.", "reasoning_content": "hm"},
        {
            "step_id": 4, "source": "agent", "message": [{"type": "text", "text": "Looking."}],
            "tool_calls": [
                {"tool_call_id": "a", "function_name": "bash", "arguments": {"command": "head -1 orders.csv"}},
                {"tool_call_id": "b", "function_name": "browse", "arguments": {"url": "x"}},
            ],
            "observation": {"results": [
                {"source_call_id": "a", "content": "order_id,region,amount,day\n"},
                {"source_call_id": "b", "content": "a page"},
            ]},
            "metrics": {"prompt_tokens": 5, "completion_tokens": 2, "completion_token_ids": [8, 9]},
        },
        {
            "step_id": 5, "source": "agent", "message": "",
            "tool_calls": [
                {"tool_call_id": "c", "function_name": "write_file",
                 "arguments": {"path": "report.csv", "content": packages.REPORT.decode()}},
            ],
        },
        {"step_id": 6, "source": "agent", "message": "Done."},
    ],
}  # fmt: skip
