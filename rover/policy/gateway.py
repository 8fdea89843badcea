"""The model of one rollout of a program: its requests, carried to the configured server and back.

The server, the model and the key are rover's; the agent names a model and finds another one answering. Seed, and
where it is set temperature, are rover's too. Requests go one at a time, each within the time that is left.

Error model, as for the openai policy: what the server does wrong is a ProviderError, after bounded retries. One
difference: the agent writes the requests here, so one that the server finds unsound (400, 413, 422; 404 where the
agent names the model), or too long for the model, is told to the agent (`Refused`), which may do better; if it never
got an answer, the server and the agent do not fit, which is no failure of the agent: `unfit` says so.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

from rover.policy.cancellable import Cancellable
from rover.policy.completion import Answer, NotACompletion, parse
from rover.policy.exchange import Exchange, Reply
from rover.policy.openai import Settings, time_is_over
from rover.policy.tokens import TokenLog
from rover.policy.wire import Asked, Refused
from rover_store.errors import ProviderError
from rover_store.ids import digest
from rover_store.records import TurnTokens

#: what a server says to a request that is not sound
_UNSOUND = (400, 413, 422)


class Gateway:
    """One rollout's way to the model. `close` may be called from any thread, and cancels what is under way."""

    def __init__(
        self,
        server: str,
        key: str,
        model: str,
        settings: Settings,
        seed: int,
        *,
        record: Path | None = None,
        tokens: bool = False,
    ) -> None:
        self._server = server
        self._model = model
        self._settings = settings
        self._seed = seed
        self._record = record
        #: what is asked for beside the answer; a server that refuses one is not asked for it again
        self._beside = {"logprobs": True, "return_token_ids": True} if tokens else {}
        self._tokens = tokens
        self._exchange = Exchange(server, key, settings.request_s, settings.answer_bytes)
        self._runner = Cancellable[tuple[Answer, bytes]]()
        self._same: Counter[str] = Counter()
        self._log = TokenLog()
        #: names of models that the agent asked for
        self.models: list[str] = []
        self.answers = 0
        #: why the server refused what the agent asked, the last time
        self.refusal = ""

    def ask(self, asked: Asked, deadline_s: float, budget_s: float = 0.0) -> tuple[Answer, bytes]:
        """The model's answer, read and as it was sent. Refused is for the agent, ProviderError nobody's fault.

        OutOfTime where the seconds that are left end first. A server that never answered is to blame for that only
        if it had half of the budget (`budget_s`) to do so: an agent may begin to ask when it is all but over.
        """
        if asked.model not in self.models and len(self.models) < 20:
            self.models.append(asked.model)
        if not self._server:
            raise ProviderError(f"the agent asks for the model {asked.model!r}, and no server is given: --server URL")
        found = self._runner.run(self._within(asked, deadline_s, budget_s))
        self.answers += 1
        return found

    def tokens_of(self, answer: Answer) -> TurnTokens | None:
        """The tokens of a turn, where they are recorded and the server told them."""
        return self._log.turn(answer.tokens) if self._tokens and answer.tokens else None

    @property
    def unfit(self) -> str:
        """Why the server answered none of the agent's requests; empty where it answered one, or was asked nothing."""
        return "" if self.answers else self.refusal

    def close(self) -> None:
        """Cancel what is under way, and free the rest."""
        self._runner.close(self._exchange.close)

    async def _within(self, asked: Asked, deadline_s: float, budget_s: float) -> tuple[Answer, bytes]:
        failed: list[str] = []
        try:
            async with asyncio.timeout(deadline_s):
                return await self._tries(asked, failed)
        except TimeoutError:
            never = not self.answers and deadline_s * 2 >= budget_s
            raise time_is_over(self._server, deadline_s, failed, never=never) from None

    async def _tries(self, asked: Asked, failed: list[str]) -> tuple[Answer, bytes]:
        """`failed` gets what went wrong, try by try."""
        settings, request = self._settings, self._request(asked)
        problem = ""
        for attempt in range(settings.retries + 1):
            reply = await self._exchange.post(request)
            while reply.problem and (refused := [name for name in self._beside if name in reply.problem]):
                for name in refused:
                    del self._beside[name], request["extra_body"][name]
                reply = await self._exchange.post(request)
            self._keep(asked, request, reply.body)
            if reply.problem is None:
                try:
                    return parse(reply.body, asked.messages, self.answers), reply.body
                except NotACompletion as error:
                    problem = f"not a chat completion: {error}"
            else:
                self._refuse(reply)
                problem = reply.problem
                if not reply.again:
                    break
            failed.append(problem)
            if attempt < settings.retries:
                pause = min(settings.backoff_s * 2**attempt, 8.0)
                await asyncio.sleep(pause if reply.retry_after is None else reply.retry_after)
        raise ProviderError(f"{self._server}: {problem}")

    def _refuse(self, reply: Reply) -> None:
        """Refused where it is the request that the server does not like."""
        named = reply.status == 404 and not self._model  # a model that is not there
        if reply.overflow or named or reply.status in _UNSOUND:
            self.refusal = reply.problem or ""
            code = "context_length_exceeded" if reply.overflow else None
            raise Refused(404 if named else 400, self.refusal, code)

    def _request(self, asked: Asked) -> dict[str, Any]:
        """What the server is sent. A request that is made again gets another seed: the agent wants another answer."""
        settings, rest = self._settings, dict(asked.rest)
        known = digest([json.dumps(asked.messages), json.dumps(rest, sort_keys=True)])
        rest.pop("seed", None)
        if settings.temperature is not None:
            rest["temperature"] = settings.temperature
        if settings.max_tokens is not None:
            rest.pop("max_completion_tokens", None)
            rest["max_tokens"] = settings.max_tokens
        rest.update(self._beside)
        seed = (self._seed + self._same[known]) % (1 << 31)
        self._same[known] += 1
        model = self._model or asked.model
        return {"model": model, "messages": asked.messages, "seed": seed, "extra_body": rest}

    def _keep(self, asked: Asked, request: dict[str, Any], body: bytes) -> None:
        if self._record is None:
            return
        sent = {**request, **request["extra_body"]}
        del sent["extra_body"]
        line = {"asked": asked.model, "request": sent, "answer": body.decode("utf-8", "replace")}
        with self._record.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=True) + "\n")


