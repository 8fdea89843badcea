"""The json dialect: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, the form that most open models know.

Reading is lenient about what models write instead: `parameters` for `arguments`, arguments as a JSON text, a call
that is not closed, a bare JSON object as the whole turn. Outputs stand as the tools gave them.
"""

from __future__ import annotations

import json
from typing import Any

from rover.policy.protocol import MALFORMED, Action, PolicyView, ToolSpec
from rover_store.records import Call, ToolCall
from rover_train.render.protocol import Message, Offer
from rover_train.render.thinking import without_thinking

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_DECODER = json.JSONDecoder()

_OFFER = """\
You may call tools, with arguments as they are named here (`?`: may be left out):
{tools}
To call one, write {open}{{"name": NAME, "arguments": {{...}}}}{close}. When all is done, answer without a call."""


class TaggedDialect:
    """Calls as JSON between tags; text before the first call is the message."""

    name = "json"
    cut = "\n[the output was cut here]"

    def write(self, calls: tuple[ToolCall, ...], message: str) -> str:
        return "\n".join(([message] if message or not calls else []) + [_call_text(call) for call in calls])

    def read(self, text: str, turn: int) -> Action:
        text = without_thinking(text)
        message, mark, rest = text.partition(OPEN)
        if not mark:
            bare = _bare(text.strip())
            if bare is None:
                return Action(message=text.strip())
            message, found = "", [bare]
        else:
            found = [_parsed(part) for part in _bodies(rest)]
        calls = [ToolCall(id=f"call-{turn}-{n}", tool=tool, arguments=given) for n, (tool, given) in enumerate(found)]
        return Action(calls=tuple(calls), message=message.strip())

    def show(self, results: tuple[Call, ...]) -> list[Message]:
        return [{"role": "tool", "content": r.output + (self.cut if r.truncated else "")} for r in results]

    def tools(self, view: PolicyView) -> Offer:
        schemas = [
            {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.parameters}}
            for t in view.tools
        ]
        if not schemas:
            return Offer()
        lines = "\n".join(_signature(tool) for tool in view.tools)
        return Offer(schemas, _OFFER.format(tools=lines, open=OPEN, close=CLOSE))


def _signature(tool: ToolSpec) -> str:
    """A tool on one line; its whole schema would take several times the tokens."""
    required = tool.parameters.get("required", ())
    parts = [
        f"{name}{'' if name in required else '?'}: {_type(schema)}"
        for name, schema in tool.parameters.get("properties", {}).items()
    ]
    return f"- {tool.name}({', '.join(parts)}): {tool.description}"


def _type(schema: dict[str, Any]) -> str:
    said = schema.get("type", "any")
    if said == "array":
        return f"[{_type(schema.get('items', {}))}]"
    return said if isinstance(said, str) else "value"


def _call_text(call: ToolCall) -> str:
    if MALFORMED in call.arguments:
        return f"{OPEN}\n{call.arguments[MALFORMED]}\n{CLOSE}"
    body = json.dumps({"name": call.tool, "arguments": call.arguments}, ensure_ascii=False)
    return f"{OPEN}\n{body}\n{CLOSE}"


def _bodies(text: str) -> list[str]:
    """What stands between the tags. The closing tag may be content of an argument, so JSON is read to its end first."""
    out: list[str] = []
    while True:
        start = len(text) - len(text.lstrip())
        try:
            _, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            end = start
        close = text.find(CLOSE, end)
        out.append(text[: close if close >= 0 else len(text)].strip())
        opened = text.find(OPEN, close) if close >= 0 else -1
        if opened < 0:
            return out
        text = text[opened + len(OPEN) :]


def _parsed(body: str) -> tuple[str, dict[str, Any]]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return "", {MALFORMED: body[:2000]}
    given = value.get("arguments", value.get("parameters", {}))
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            return value["name"], {MALFORMED: body[:2000]}
    return value["name"], given if isinstance(given, dict) else {MALFORMED: body[:2000]}


def _bare(text: str) -> tuple[str, dict[str, Any]] | None:
    """A turn that is nothing but a call without tags."""
    if not (text.startswith("{") and text.endswith("}")):
        return None
    tool, given = _parsed(text)
    return (tool, given) if tool and MALFORMED not in given else None
