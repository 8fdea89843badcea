"""One request to an OpenAI-compatible server and what came back, bounded in time and size; no retries here."""

from __future__ import annotations

import email.utils
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

#: a server that asks for a longer pause is not waited for as long
LONGEST_PAUSE = 60.0

_AGAIN = frozenset({408, 409, 425, 429})
_TRANSPORT = frozenset({"httpx", "httpx2", "httpcore", "httpcore2", "anyio", "h11", "h2", "ssl", "openai"})
_OVERFLOW = ("context_length_exceeded", "maximum context length", "context window", "exceeds the context", "too long")


@dataclass(frozen=True, slots=True)
class Reply:
    """The body of an answer, or what went wrong and whether trying again may help."""

    body: bytes = b""
    problem: str | None = None
    again: bool = False
    retry_after: float | None = None
    #: the conversation is too long for the model
    overflow: bool = False


class Exchange:
    """The client of one session. The openai library is imported at the first request."""

    def __init__(self, server: str, key: str, request_s: float, answer_bytes: int) -> None:
        self._server = server
        self._key = key
        self._request_s = request_s
        self._answer_bytes = answer_bytes
        self._client: Any = None

    async def post(self, request: dict[str, Any]) -> Reply:
        """Ask for a chat completion."""
        import asyncio

        import openai

        if self._client is None:
            self._client = openai.AsyncOpenAI(
                api_key=self._key or "none", base_url=self._server, timeout=self._request_s, max_retries=0
            )
        try:
            async with asyncio.timeout(self._request_s):
                return await self._post(request)
        except openai.APIStatusError as error:
            return _refused(error)
        except TimeoutError:
            return Reply(problem=f"no answer within {self._request_s:g} s", again=True)
        except Exception as error:
            if isinstance(error, OSError) or type(error).__module__.partition(".")[0] in _TRANSPORT:
                cause = error.__cause__ or error
                text = " ".join(str(cause).split())[:200]
                return Reply(problem=f"{type(cause).__name__}: {text}" if text else type(cause).__name__, again=True)
            raise

    async def _post(self, request: dict[str, Any]) -> Reply:
        body = bytearray()
        async with self._client.chat.completions.with_streaming_response.create(**request) as response:
            async for part in response.iter_bytes():
                body += part
                if len(body) > self._answer_bytes:
                    return Reply(problem=f"the answer is longer than {self._answer_bytes} bytes")
        return Reply(bytes(body))

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()


def _refused(error: Any) -> Reply:
    status = int(error.status_code)
    text = _said(error)
    if status in (400, 413, 422) and any(mark in text.lower() for mark in _OVERFLOW):
        return Reply(problem=text, overflow=True)
    return Reply(
        problem=f"HTTP {status}: {text}" if text else f"HTTP {status}",
        again=status in _AGAIN or status >= 500,
        retry_after=pause(error.response.headers.get("retry-after")),
    )


def _said(error: Any) -> str:
    body = error.body
    if isinstance(body, dict):
        inner = body.get("error", body)
        body = inner.get("message", inner) if isinstance(inner, dict) else inner
        code = inner.get("code") if isinstance(inner, dict) else None
        body = f"{body} ({code})" if isinstance(code, str) and code else body
    if not isinstance(body, str):
        body = "" if body is None else json.dumps(body)[:300]
    return " ".join(body.split())[:300]


def pause(header: str | None) -> float | None:
    """Seconds of a Retry-After header, which is a number or a date; None where it says nothing."""
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = (email.utils.parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds()
        except (TypeError, ValueError):
            return None
    return min(max(seconds, 0.0), LONGEST_PAUSE) if seconds == seconds else None
