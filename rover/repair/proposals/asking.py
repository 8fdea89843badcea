"""Asking a model, or a recording of one: the same question has the same answer, with a server or without.

A recording is a JSON file: the digest of model, system text and question -> the answer and its tokens. What is in it
is played; what is not is asked of the server, if there is one, and added.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from rover_store.errors import PackageError, ProviderError
from rover_store.ids import digest

VERSION = 1


class Said(NamedTuple):
    """An answer, and the tokens of question and answer together."""

    text: str
    tokens: int


class Unasked(Exception):
    """There is neither a recording of this question nor a server that answers it."""


class Asker(Protocol):
    """Somebody who answers."""

    model: str
    seconds: float

    def ask(self, system: str, question: str, tokens: int) -> Said:
        """The answer, within so many tokens. Unasked where there is none."""


class Server:
    """A model behind an OpenAI-compatible server, without tools; retries as the policy of the same name does."""

    def __init__(
        self, model: str, server: str, *, key: str = "", answer_tokens: int = 2000, seconds: float = 300.0
    ) -> None:
        self.model = model
        self.seconds = seconds
        self._server, self._key, self._answer_tokens = server, key, answer_tokens

    def ask(self, system: str, question: str, tokens: int) -> Said:
        from rover.policy.openai import OpenAIPolicy, Settings
        from rover.policy.protocol import PolicyFailure, PolicyView

        if tokens <= 0:
            raise Unasked("the budget of tokens is used up")
        settings = Settings(
            temperature=0.0, max_tokens=min(self._answer_tokens, tokens), system=system, request_s=self.seconds
        )
        policy = OpenAIPolicy(self.model, server=self._server, key=self._key, settings=settings)
        session = policy.start(PolicyView(question, ()), 0)
        try:
            action = session.act((), deadline_s=self.seconds)
        except (ProviderError, PolicyFailure) as error:
            raise Unasked(str(error)) from None
        finally:
            session.close()
        used = action.usage
        return Said(action.message, used.prompt_tokens + used.completion_tokens if used else 0)


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    text: str
    tokens: int = 0


class _Recording(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    version: int = VERSION
    answers: dict[str, _Entry] = {}


class Recorded:
    """A recording, and behind it a server or nobody."""

    def __init__(self, file: Path, behind: Asker | None = None, model: str = "") -> None:
        self.file = file
        self.behind = behind
        self.model = behind.model if behind is not None else model
        self.seconds = behind.seconds if behind is not None else 30.0

    def ask(self, system: str, question: str, tokens: int) -> Said:
        answers = self._load()
        key = digest([self.model, system, question])
        known = answers.get(key)
        if known is not None:
            return Said(known.text, known.tokens)
        if self.behind is None:
            raise Unasked(f"{self.file.name} has no answer to this question, and there is no server to ask")
        said = self.behind.ask(system, question, tokens)
        self._keep({**answers, key: _Entry(model=self.model, text=said.text, tokens=said.tokens)})
        return said

    def _load(self) -> dict[str, _Entry]:
        """PackageError where the file is no recording."""
        if not self.file.is_file():
            return {}
        try:
            found = _Recording.model_validate_json(self.file.read_bytes())
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = ".".join(str(p) for p in first["loc"])
            raise PackageError(str(self.file), field, " ".join(str(first["msg"]).split())[:200]) from None
        if found.version != VERSION:
            raise PackageError(str(self.file), "version", f"{found.version} is unknown; this is {VERSION}")
        return found.answers

    def _keep(self, answers: dict[str, _Entry]) -> None:
        """Replace the file at once: whoever reads it meanwhile sees the old or the new one."""
        value: dict[str, Any] = {
            "version": VERSION,
            "answers": {key: answers[key].model_dump(mode="json") for key in sorted(answers)},
        }
        new = self.file.with_name(f".{self.file.name}.{os.getpid()}")
        new.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        os.replace(new, self.file)
