"""Demonstrations as conversations: prompt and completion messages with tools, as TRL's SFT and others take them.

    prompt       system (where one is given) and user: the instruction
    completion   assistant turns with `tool_calls`, tool messages with what came back, the last word
    tools        the tools on offer, as JSON Schema functions

Arguments are objects, as chat templates want them. A cut output says so, as every policy sees it.
"""

from __future__ import annotations

from typing import Any

from rover.policy.protocol import PolicyView
from rover_store.records import Call, Trajectory

Message = dict[str, Any]
CUT = "\n[the output was cut here]"


def prompt(view: PolicyView, system: str = "") -> list[Message]:
    """The messages before the first turn."""
    first = [{"role": "system", "content": system}] if system else []
    return [*first, {"role": "user", "content": view.instruction}]


def completion(trajectory: Trajectory) -> list[Message]:
    """Everything from the first turn on. It ends with a word of the assistant's wherever the rollout did."""
    messages: list[Message] = []
    for turn in trajectory.turns:
        said: Message = {"role": "assistant", "content": turn.message}
        if turn.calls:
            said["tool_calls"] = [_call(call) for call in turn.calls]
        messages += [said, *(_result(call) for call in turn.calls)]
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": trajectory.final_message})
    elif not messages[-1]["content"]:
        messages[-1]["content"] = trajectory.final_message
    return messages


def tools(view: PolicyView) -> list[dict[str, Any]]:
    """The tools on offer."""
    return [
        {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.parameters}}
        for t in view.tools
    ]


def _call(call: Call) -> dict[str, Any]:
    return {"type": "function", "id": call.id, "function": {"name": call.tool, "arguments": call.arguments}}


def _result(call: Call) -> Message:
    content = call.output + (CUT if call.truncated else "")
    return {"role": "tool", "tool_call_id": call.id, "name": call.tool, "content": content}
