"""A trajectory of another tool's as turns that can be played here: what of it is, and what stays words.

A call of a tool that the harness offers is played; so is a command under one of the names that agents give their
shell. Every other call, with what came of it, becomes text of its turn: nobody here can make it again. A step without
a call that can be played belongs to the next turn, since a turn without calls would end the rollout.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from pydantic import ValidationError

from rover.policy.protocol import Action, PolicyView, Session
from rover.policy.tokens import TokenLog
from rover.port.atif import model as atif
from rover.port.atif.recorded import tokens_of
from rover_store.ids import digest
from rover_store.records import Call, ToolCall, TurnTokens, Usage

#: what agents call their shell; the command is the text under one of the keys
SHELLS = frozenset({
    "shell", "bash", "Bash", "bash_command", "execute_bash", "execute_command", "run_bash", "run_command", "run_shell",
})  # fmt: skip
COMMANDS = ("command", "cmd")


@dataclass(frozen=True, slots=True)
class Move:
    """One turn: what is said and called, what came of each call there, and the step that it comes from."""

    action: Action
    outputs: tuple[str | None, ...] = ()
    step: int = 0


@dataclass(slots=True)
class Plan:
    """The turns, the last one without calls, and what a person should know of them."""

    moves: list[Move] = field(default_factory=list)
    #: tool -> calls that are text now
    told: Counter[str] = field(default_factory=Counter)
    #: name there -> calls that are played as commands of the shell
    shells: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)

    def notes(self) -> Iterator[str]:
        """What was done with the parts, one line each."""
        for name, count in sorted(self.shells.items()):
            yield f"{count} of {name} played as shell"
        for name, count in sorted(self.told.items()):
            yield f"{count} of {name} kept as text: the harness offers no such tool"
        for what, count in sorted(self.left_out.items()):
            yield f"{count} {what} left out"


class ForeignPolicy:
    """Plays a plan. Its id names the agent; `seed` tells its trajectories apart."""

    attacker = False

    def __init__(self, document: atif.Document, plan: Plan) -> None:
        agent = document.agent
        model = f":{_word(agent.model_name, '/')}" if agent.model_name else ""
        self.id = f"atif:{_word(agent.name)}/{_word(agent.version)}{model}"
        moves = [[m.action.message, [[c.tool, c.arguments] for c in m.action.calls]] for m in plan.moves]
        self.seed = int(digest(["atif", document.trajectory_id, document.session_id, moves])[:15], 16)
        self._plan = plan

    def start(self, view: PolicyView, seed: int) -> Session:
        return _Played(self._plan.moves)


class _Played:
    def __init__(self, moves: list[Move]) -> None:
        self._moves = iter(moves)

    def act(self, results: tuple[Call, ...], *, deadline_s: float) -> Action:
        return next(self._moves).action

    def close(self) -> None:
        """Nothing is held."""


def plan_of(document: atif.Document, tools: Collection[str]) -> Plan:
    """The turns of a document for a harness that offers `tools`."""
    plan = Plan()
    log = TokenLog()
    words: list[str] = []
    first = True
    for step in document.steps:
        if step.source != "agent":
            if not (first and step.source == "user"):
                plan.left_out[f"step of the {step.source}"] += 1
            first = first and step.source != "user"
            continue
        plan.left_out["reasoning of a step"] += step.reasoning_content is not None
        calls, outputs, said = _sorted_out(step, tools, plan)
        words += [part for part in (text(step.message), *said) if part]
        if calls:
            action = Action(tuple(calls), "\n\n".join(words), _usage(step.metrics), _tokens(step.metrics, log))
            plan.moves.append(Move(action, tuple(outputs), step.step_id))
            words = []
    plan.left_out["trajectory of a subagent"] += len(document.subagent_trajectories or ())
    plan.moves.append(Move(Action(message="\n\n".join(words))))
    plan.left_out = +plan.left_out
    return plan


def _sorted_out(
    step: atif.Step, tools: Collection[str], plan: Plan
) -> tuple[list[ToolCall], list[str | None], list[str]]:
    """Calls to be played, what came of each there, and the rest in words."""
    results = step.observation.results if step.observation else ()
    by_call = {r.source_call_id: text(r.content) for r in results if r.source_call_id is not None}
    calls: list[ToolCall] = []
    outputs: list[str | None] = []
    said: list[str] = []
    for call in step.tool_calls or ():
        output = by_call.get(call.tool_call_id)
        made = _call(call, tools)
        if made is None:
            plan.told[call.function_name] += 1
            asked = json.dumps(call.arguments, ensure_ascii=False)
            said.append(f"[{call.function_name} {asked}]" + (f"\n{output}" if output else ""))
            continue
        plan.shells[call.function_name] += made.tool != call.function_name
        calls.append(made)
        outputs.append(output)
    said += [text(r.content) for r in results if r.source_call_id is None]
    plan.shells = +plan.shells
    return calls, outputs, said


def _call(call: atif.ToolCall, tools: Collection[str]) -> ToolCall | None:
    """The call as it is played here; None where no tool takes it."""
    if call.function_name in tools and (call.function_name != "shell" or "command" in call.arguments):
        return ToolCall(id=call.tool_call_id, tool=call.function_name, arguments=call.arguments)
    if "shell" in tools and call.function_name in SHELLS:
        command = next((call.arguments[k] for k in COMMANDS if isinstance(call.arguments.get(k), str)), None)
        if command is not None:
            return ToolCall(id=call.tool_call_id, tool="shell", arguments={"command": command})
    return None


def text(content: atif.Content | None) -> str:
    """A message in words; a picture or a sound by its place."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part.text or f"[{part.type} {part.source.path if part.source else ''}]" for part in content)


def _usage(metrics: atif.Metrics | None) -> Usage:
    counts = metrics or atif.Metrics()
    return Usage(
        prompt_tokens=max(0, counts.prompt_tokens or 0), completion_tokens=max(0, counts.completion_tokens or 0)
    )


def _tokens(metrics: atif.Metrics | None, log: TokenLog) -> TurnTokens | None:
    try:
        return tokens_of(metrics, log)
    except ValidationError:  # a negative id
        return None


def _word(name: str, more: str = "") -> str:
    """A name as it can stand in a policy's id."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-@+" + more) else "-" for c in name)[:80] or "unknown"
