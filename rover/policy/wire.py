"""Requests and answers as OpenAI's clients write and read them: /v1/chat/completions and /v1/models, no more.

What comes here was written by an agent, and may be anything: it is read strictly, and what is no sound request is
`Refused`, with a status and a message for the agent. An answer is given as one body or, where the client wants a
stream, as the events that a server would have sent.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from rover.policy.completion import deeper

#: nested deeper no request is sound
MAX_DEPTH = 64
MAX_MESSAGES = 10_000
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_PATHS = {"/chat/completions": "POST", "/models": "GET"}
_OF_EVERY_CHUNK = ("id", "created", "model", "system_fingerprint")
_JSON, _EVENTS = "application/json", "text/event-stream"


class Refused(Exception):  # data for the agent, no error of rover
    """A request that is not answered; the agent is told so."""

    def __init__(self, status: int, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code


@dataclass(frozen=True, slots=True)
class Response:
    """What goes back to the agent."""

    status: int
    kind: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Asked:
    """A sound request for a completion. `rest` is what else the agent said, for the server."""

    messages: list[dict[str, Any]]
    model: str
    rest: dict[str, Any]
    stream: bool = False
    usage: bool = False  # the stream is to end with a count of tokens


def read(method: str, path: str, body: bytes) -> Asked | None:
    """The request for a completion; None where the list of models is asked for. Refused where it is neither."""
    place = "/" + path.partition("?")[0].strip("/").removeprefix("v1").strip("/")
    wanted = _PATHS.get(place)
    if wanted is None:
        known = "POST /v1/chat/completions and GET /v1/models"
        raise Refused(404, f"{path[:200]}: not served here; what is: {known}", "not_found")
    if method != wanted and not (wanted == "GET" and method == "HEAD"):
        raise Refused(405, f"{place} takes {wanted}, not {method[:20]}")
    return _completion(_object(body)) if wanted == "POST" else None


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
        if deeper(value, MAX_DEPTH):
            raise Refused(400, f"the request is nested deeper than {MAX_DEPTH}")
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()  # what no server could be sent
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"the body is no sound JSON: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(value, dict):
        raise Refused(400, "the body is not a JSON object")
    return value


def _completion(value: dict[str, Any]) -> Asked:
    messages, model = value.pop("messages", None), value.pop("model", "")
    if not isinstance(messages, list) or not messages or len(messages) > MAX_MESSAGES:
        raise Refused(400, f"messages: not a list of 1 to {MAX_MESSAGES} messages")
    for number, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            raise Refused(400, f"messages.{number}: not an object with a role")
    if not isinstance(model, str) or len(model) > 200:
        raise Refused(400, "model: not a name")
    if value.pop("n", 1) not in (1, None):
        raise Refused(400, "n: one answer at a time")
    stream, options = value.pop("stream", False), value.pop("stream_options", None)
    if stream not in (True, False, None):
        raise Refused(400, "stream: not true or false")
    usage = isinstance(options, dict) and options.get("include_usage") is True
    return Asked(messages, model, value, bool(stream), usage)


def answered(asked: Asked, body: bytes) -> Response:
    """A chat completion, which `completion.parse` took, as this client wants it."""
    if not asked.stream:
        return Response(200, _JSON, body)
    value = json.loads(body)
    return Response(200, _EVENTS, b"".join(_event(part) for part in _parts(value, asked.usage)) + b"data: [DONE]\n\n")


def models(name: str) -> Response:
    """The list of models: the one that answers."""
    entry = {"id": name, "object": "model", "created": 0, "owned_by": "rover"}
    return Response(200, _JSON, json.dumps({"object": "list", "data": [entry] if name else []}).encode())


def refusal(status: int, message: str, code: str | None = None) -> Response:
    """An error in the format of OpenAI."""
    kind = "insufficient_quota" if code == "insufficient_quota" else "invalid_request_error"
    said = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return Response(status, _JSON, json.dumps(said).encode())


def text_of(content: Any) -> str:
    """The text of a message's content, which may come in parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _parts(value: dict[str, Any], usage: bool) -> list[dict[str, Any]]:
    """The completion as the chunks of a stream: one for the message, one for its end."""
    kept: dict[str, Any] = {name: value[name] for name in _OF_EVERY_CHUNK if name in value}
    head: dict[str, Any] = {"id": "chatcmpl", "created": 0, "model": "", **kept, "object": "chat.completion.chunk"}
    choice = value["choices"][0]
    delta = dict(choice["message"])
    delta.setdefault("role", "assistant")
    calls = delta.get("tool_calls")
    if isinstance(calls, list):
        delta["tool_calls"] = [{**call, "index": n} for n, call in enumerate(calls) if isinstance(call, dict)]
    end = choice.get("finish_reason") or ("tool_calls" if calls else "stop")
    first = {"index": 0, "delta": delta, "logprobs": choice.get("logprobs"), "finish_reason": None}
    last: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": end}
    parts = [{**head, "choices": [first]}, {**head, "choices": [last]}]
    if usage:
        parts.append({**head, "choices": [], "usage": value.get("usage")})
    return parts


def _event(part: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(part).encode() + b"\n\n"
