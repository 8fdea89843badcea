"""One request to an OpenAI-compatible server and what came back, bounded in time and size; no retries here."""

from __future__ import annotations

import email.utils
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rover.policy.bounded import ENCODINGS, Unreadable, read

#: bytes of an error that are read; what it says is in the first of them
ERROR_BYTES = 64 << 10
#: a server that asks for a longer pause is not waited for as long
LONGEST_PAUSE = 60.0

_AGAIN = frozenset({408, 409, 425, 429})
_TRANSPORT = frozenset({"httpx", "httpx2", "httpcore", "httpcore2", "anyio", "h11", "h2", "ssl", "openai"})
#: what servers say where a conversation is too long for the model, and nowhere else
_OVERFLOW = (
    "maximum context length",  # OpenAI, vLLM
    "context_length_exceeded",
    "exceeds the context window",
    "longer than the maximum model length",  # vLLM
    "the model's context length",  # vLLM, SGLang
    "to fit into the model (context length",
    "exceeds the available context size",  # llama.cpp
    "prompt is too long:",  # Anthropic
)


@dataclass(frozen=True, slots=True)
class Reply:
    """The body of an answer, or what went wrong and whether trying again may help."""

    body: bytes = b""
    problem: str | None = None
    again: bool = False
    retry_after: float | None = None
    #: the conversation is too long for the model
    overflow: bool = False
    #: of a refusal
    status: int = 0


class _Refused(Exception):
    """The server answered with a status that is no success."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.problem)
        self.reply = reply


class Exchange:
    """The client of one session. The openai library is imported at the first request."""

    def __init__(self, server: str, key: str, request_s: float, answer_bytes: int) -> None:
        self._server = server
        self._key = key
        self._request_s = request_s
        self._answer_bytes = answer_bytes
        self._client: Any = None
        self._completions: Any = None

    async def post(self, request: dict[str, Any]) -> Reply:
        """Ask for a chat completion."""
        import asyncio

        import openai

        if self._client is None:
            # a redirect is not followed: its body has no limit, and the key is for this address alone
            http = openai.DefaultAsyncHttpxClient(event_hooks={"response": [_refuse]}, follow_redirects=False)
            self._client = openai.AsyncOpenAI(
                api_key=self._key or "none",
                base_url=self._server,
                timeout=self._request_s,
                max_retries=0,
                http_client=http,
                default_headers={"Accept-Encoding": ENCODINGS},
            )
            self._completions = self._client.chat.completions  # imports more; not within the limit of the request
        try:
            async with asyncio.timeout(self._request_s):
                return await self._post(request)
        except TimeoutError:
            return Reply(problem=f"no answer within {self._request_s:g} s", again=True)
        except Unreadable as error:
            return Reply(problem=str(error), again=True)
        except Exception as error:
            for refusal in (error, error.__cause__):  # the library wraps it or not, as its version does
                if isinstance(refusal, _Refused):
                    return refusal.reply
            if isinstance(error, OSError) or type(error).__module__.partition(".")[0] in _TRANSPORT:
                cause = error.__cause__ or error
                text = " ".join(str(cause).split())[:200]
                return Reply(problem=f"{type(cause).__name__}: {text}" if text else type(cause).__name__, again=True)
            raise

    async def _post(self, request: dict[str, Any]) -> Reply:
        async with self._completions.with_streaming_response.create(**request) as response:
            body = await read(response.http_response, self._answer_bytes)
        if body.cut:
            return Reply(problem=f"the answer is longer than {self._answer_bytes} bytes")
        return Reply(body.data)

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()


async def _refuse(response: Any) -> None:
    """A hook of httpx, before the library reads the body of an error without a limit."""
    if response.is_success:
        return
    status = int(response.status_code)
    try:
        text = _said((await read(response, ERROR_BYTES)).data)
    except Unreadable as error:
        text = str(error)
    if response.has_redirect_location:
        text = f"redirected to {response.headers['location'][:200]}, which is not followed"
    if overflows(status, text):
        raise _Refused(Reply(problem=text, overflow=True, status=status))
    problem = f"HTTP {status}: {text}" if text else f"HTTP {status}"
    wait = pause(response.headers.get("retry-after"))
    raise _Refused(Reply(problem=problem, again=status in _AGAIN or status >= 500, retry_after=wait, status=status))


def overflows(status: int, text: str) -> bool:
    """Whether an error says that the conversation is too long for the model."""
    return status in (400, 413, 422) and any(mark in text.lower() for mark in _OVERFLOW)


def _said(data: bytes) -> str:
    """What the body of an error says, on one line."""
    body: Any = data.decode("utf-8", "replace")
    try:
        body = json.loads(body)
        if isinstance(body, dict):
            inner = body.get("error", body)
            body = inner.get("message", inner) if isinstance(inner, dict) else inner
            code = inner.get("code") if isinstance(inner, dict) else None
            body = f"{body} ({code})" if isinstance(code, str) and code else body
        if not isinstance(body, str):
            body = "" if body is None else json.dumps(body)
    except (ValueError, RecursionError):  # no JSON, or such as nobody reads
        body = body if isinstance(body, str) else ""
    return " ".join(body[:2000].split())[:300].encode("utf-8", "replace").decode()


def pause(header: str | None) -> float | None:
    """Seconds of a Retry-After header, which is a number or a date; None where it says nothing."""
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = (email.utils.parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds()
        except (TypeError, ValueError, OverflowError, IndexError):
            return None
    return min(max(seconds, 0.0), LONGEST_PAUSE) if seconds == seconds else None
