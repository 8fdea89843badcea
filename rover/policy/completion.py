"""From the bytes of a chat completion to a turn: strict about the protocol, lenient about the model.

What is no chat completion is NotACompletion. A call to an unknown tool or with arguments that are no JSON object
is kept, marked, for the harness to refuse.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from rover.policy.protocol import MALFORMED
from rover.policy.tokens import Told, told
from rover_store.records import ToolCall, Usage

#: arguments nested deeper are taken for no arguments: what reads them later has bounds of its own
MAX_DEPTH = 100
#: an answer of more tokens than this is a wrong count
MOST_TOKENS = 1 << 31


class NotACompletion(Exception):
    """The bytes are no chat completion; the message says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One turn of a model."""

    text: str
    calls: tuple[ToolCall, ...]
    usage: Usage
    cut: bool = False
    tokens: Told | None = None

    def message(self) -> dict[str, Any]:
        """The turn as the next request repeats it. Arguments that were no JSON are left out: servers choke on them."""
        out: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.calls:
            out["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {
                        "name": call.tool,
                        "arguments": json.dumps({} if MALFORMED in call.arguments else call.arguments),
                    },
                }
                for call in self.calls
            ]
        return out


def parse(body: bytes, messages: list[dict[str, Any]], turn: int) -> Answer:
    """The answer in a response's body. `messages` serve to estimate tokens that the server does not report."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        start = body[:60].decode("utf-8", "replace")
        raise NotACompletion(f"the answer is not JSON: {' '.join(start.split())!r}") from None
    choice = _first(value)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise NotACompletion("choices.0.message is not an object")
    text = message.get("content")
    if text is None:
        text = message.get("refusal") or ""
    if isinstance(text, list):  # content parts
        text = "".join(str(part.get("text", "")) for part in text if isinstance(part, dict))
    if not isinstance(text, str):
        raise NotACompletion("choices.0.message.content is not text")
    calls = _calls(message.get("tool_calls"), turn)
    text = _clean(text)
    cut = choice.get("finish_reason") == "length"
    return Answer(text, calls, _usage(value, messages, text, calls), cut, told(value))


def _first(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise NotACompletion("the answer is not an object")
    choices = value.get("choices")
    if not isinstance(choices, list) or not choices:
        said = value.get("error")
        raise NotACompletion(f"no choices{f': {json.dumps(said)[:200]}' if said else ''}")
    if not isinstance(choices[0], dict):
        raise NotACompletion("choices.0 is not an object")
    return choices[0]


def _calls(value: Any, turn: int) -> tuple[ToolCall, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise NotACompletion("choices.0.message.tool_calls is not a list")
    calls: list[ToolCall] = []
    seen: set[str] = set()
    for number, item in enumerate(value):
        function = item.get("function") if isinstance(item, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise NotACompletion(f"choices.0.message.tool_calls.{number} is not a call of a function")
        call_id = item.get("id")
        if not isinstance(call_id, str) or not call_id or call_id in seen:
            call_id = f"call-{turn}-{number}"
        seen.add(call_id)
        arguments = _arguments(function.get("arguments"))
        calls.append(ToolCall(id=_clean(call_id), tool=_clean(function["name"]), arguments=arguments))
    return tuple(calls)


def _arguments(value: Any) -> dict[str, Any]:
    """The arguments as an object; some servers send them parsed, most as text, a model may write anything."""
    if isinstance(value, str):
        if not value.strip():
            return {}
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            return {MALFORMED: _clean(value[:2000])}
        if deeper(parsed, MAX_DEPTH):
            return {MALFORMED: _clean(value[:2000])}
        value = parsed
    if value is None:
        return {}
    if deeper(value, MAX_DEPTH):
        return {MALFORMED: f"arguments nested deeper than {MAX_DEPTH}"}
    return value if isinstance(value, dict) else {MALFORMED: json.dumps(value)[:2000]}


def deeper(value: Any, most: int) -> bool:
    """Whether a value of JSON is nested deeper than this."""
    level = [value]
    for _ in range(most):
        inside = [v.values() if isinstance(v, dict) else v for v in level if isinstance(v, dict | list)]
        level = [item for values in inside for item in values]
        if not level:
            return False
    return True


def _usage(value: dict[str, Any], messages: list[dict[str, Any]], text: str, calls: tuple[ToolCall, ...]) -> Usage:
    """Tokens as the server counts them; four characters a token where it does not, or counts what cannot be."""
    told = value.get("usage")
    told = told if isinstance(told, dict) else {}
    said = text + "".join(json.dumps(call.arguments) for call in calls)
    estimates = {"prompt_tokens": len(json.dumps(messages)) // 4, "completion_tokens": len(said) // 4}
    counts = {}
    for name, estimate in estimates.items():
        count = told.get(name)
        counts[name] = count if type(count) is int and 0 <= count < MOST_TOKENS else estimate
    return Usage(**counts)


def _clean(text: str) -> str:
    """Text without what UTF-8 cannot carry."""
    return text.encode("utf-8", "replace").decode("utf-8")
