"""The sampler on a server that speaks vLLM's /v1/completions: token ids in, token ids and log-probabilities out.

Serve with `--logprobs-mode processed_logprobs`, so that log-probabilities are those of the sampling distribution,
and, where adapters are trained, with `--enable-lora` and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1. Each adapter goes up
under a name that was never used before: the server's prefix cache would serve a known name's old states.

Lanes that wait for a turn are asked for at the same time. What the server does wrong becomes a ProviderError (an
infra_error, never a reward) after tries with pauses; what the model does is the policy's.
"""

from __future__ import annotations

import math
import threading
import time
import uuid
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from rover.policy.exchange import overflows
from rover.policy.protocol import Action, PolicyFailure
from rover_store.errors import ProviderError, UsageError
from rover_store.ids import digest
from rover_store.records import Call, Usage
from rover_train.render import Renderer
from rover_train.sample.answer import NotSampled, sampled
from rover_train.sample.policy import ModelSession
from rover_train.sample.settings import SHARE, Sampling
from rover_train.sample.wire import Wire


class VllmSampler:
    """`model`: the name that the server lists. `seed` is mixed into the seed of every rollout. `vocabulary`: number
    of ids that the model has, which may be more than the tokenizer knows; 0: those of the tokenizer."""

    def __init__(
        self,
        server: str,
        model: str,
        renderer: Renderer,
        *,
        temperature: float = 1.0,
        top_p: float = 1.0,
        max_turn_tokens: int = 256,
        seed: int = 0,
        share: float = SHARE,
        vocabulary: int = 0,
        wire: Wire | None = None,
        lanes: int = 64,
    ) -> None:
        self.model = model
        self.renderer = renderer
        self.sampling = Sampling(temperature, top_p, max_turn_tokens)
        self.seed = seed
        self.share = share
        #: tokens sampled, and tokens of prompts sent
        self.sampled = self.read = 0
        self._wire = wire or Wire(server)
        self._vocabulary = vocabulary or renderer.codec.size
        self._adapter: tuple[str, Path] | None = None
        #: when an adapter could not be loaded again, and why
        self._unloaded: tuple[float, ProviderError] | None = None
        self._threads = ThreadPoolExecutor(lanes, thread_name_prefix="vllm")
        self._asked: dict[ModelSession, Future[Action]] = {}
        self._lock = threading.Lock()

    # --- the server --------------------------------------------------------------------------------------
    def check(self) -> None:
        """UsageError where the server does not list the model; ProviderError where it does not answer."""
        reply = self._wire.get("/v1/models")
        listed = reply.value.get("data") if isinstance(reply.value, dict) else None
        if reply.status != 200 or not isinstance(listed, list):
            raise ProviderError(f"{self._wire.server}/v1/models: {reply.said}")
        ids = [item.get("id") for item in listed if isinstance(item, dict)]
        names = sorted({name for name in ids if isinstance(name, str)})
        if self.model not in names:
            hint = f"it has {', '.join(names)[:300].encode('utf-8', 'replace').decode()}"
            raise UsageError(f"{self._wire.server} serves no model {self.model!r}", hint=hint)

    def load_adapter(self, folder: Path) -> str:
        """Serve with the LoRA adapter of a folder (as the server sees it) from now on; its new name. The one before
        is unloaded."""
        before, name = self._adapter, f"{self.model.rpartition('/')[2]}-{uuid.uuid4().hex}"
        reply = self._wire.post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(folder)})
        if reply.status != 200:
            hint = "serve with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1" if reply.status == 404 else ""
            raise ProviderError(f"{self._wire.server}: the adapter was not loaded: {reply.said}", hint=hint)
        self._adapter = (name, folder)
        if before is not None:
            self._wire.post("/v1/unload_lora_adapter", {"lora_name": before[0]})  # gone already: nothing is lost
        return name

    def release(self) -> None:
        """Forget what was asked for; as the sampler in this process."""
        with self._lock:
            self._asked.clear()

    def close(self) -> None:
        """End all requests."""
        self._wire.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    # --- turns -------------------------------------------------------------------------------------------
    def acting(self, pending: list[tuple[int, Any]]) -> dict[int, Any]:
        """The rendezvous handler: an Action or an error for at least one of the lanes."""
        asked: dict[Future[Action], tuple[int, ModelSession]] = {}
        with self._lock:
            for number, (session, results) in pending:
                future = self._asked.get(session)
                if future is None:
                    future = self._asked[session] = self._threads.submit(self._turn, session, results)
                asked[future] = (number, session)
        enough = math.ceil(len(pending) * self.share)
        done: set[Future[Action]] = set()
        while len(done) < enough:
            some, _ = wait(asked.keys() - done, return_when=FIRST_COMPLETED)
            done |= some
        with self._lock:
            for future in done:
                self._asked.pop(asked[future][1], None)
        return {asked[future][0]: _outcome(future) for future in done}

    def _turn(self, session: ModelSession, results: tuple[Call, ...]) -> Action:
        dialogue, window = session.dialogue, self.renderer.window
        before = len(dialogue.ids)
        if dialogue.open_turn(results):
            before = 0
        shown = len(dialogue.ids) - before
        room = window - len(dialogue.ids)
        if room <= 0:
            raise PolicyFailure(f"the context window of {window} tokens is used up")
        limit = min(room, self.sampling.max_turn_tokens)
        ids, logprobs = self._complete(session, limit)
        for token, logprob in zip(ids, logprobs, strict=True):
            dialogue.sample(token, logprob)
        with self._lock:
            self.sampled += len(ids)
            self.read += len(dialogue.ids) - len(ids)
        stopped = ids[-1] in self.renderer.stop_ids
        if not stopped and limit < self.sampling.max_turn_tokens:
            raise PolicyFailure(f"the context window of {window} tokens is used up")
        action = self.renderer.read(ids, dialogue.turn)
        if not stopped and not action.calls:
            raise PolicyFailure(f"the model's turn was cut at its limit of {len(ids)} tokens")
        return Action(action.calls, action.message, Usage(prompt_tokens=shown, completion_tokens=len(ids)))

    def _complete(self, session: ModelSession, limit: int) -> tuple[list[int], list[float]]:
        adapter = self._adapter
        reply = self._wire.post("/v1/completions", self._request(session, limit))
        if reply.status == 404 and adapter is not None:
            # a server that was started anew has forgotten its adapters
            self._load_again(adapter)
            reply = self._wire.post("/v1/completions", self._request(session, limit))
        if overflows(reply.status, reply.said):
            raise PolicyFailure(f"the conversation no longer fits the server's context: {reply.said}")
        if reply.status != 200:
            raise ProviderError(f"{self._wire.server}: {reply.said}")
        try:
            return sampled(reply.value, limit, self.renderer.stop_ids, self._vocabulary)
        except NotSampled as error:
            problem = f"{self._wire.server}: the answer does not hold the sampled tokens with their log-probabilities"
            raise ProviderError(f"{problem}: {error}", hint=error.hint) from None

    def _load_again(self, forgotten: tuple[str, Path]) -> None:
        noticed = time.monotonic()
        with self._lock:
            # the first of the lanes that notice; the old name stays until the new one is there, so that no lane is
            # ever served by the bare model
            if self._adapter != forgotten:
                return
            if self._unloaded is not None and self._unloaded[0] >= noticed:
                raise ProviderError(self._unloaded[1].message, hint=self._unloaded[1].hint)  # another lane tried
            try:
                self.load_adapter(forgotten[1])
            except ProviderError as error:
                self._unloaded = (time.monotonic(), error)
                raise

    def _request(self, session: ModelSession, limit: int) -> dict[str, Any]:
        seed = digest([session.seed, self.seed, session.dialogue.turn])
        return {
            "model": self.model if self._adapter is None else self._adapter[0],
            "prompt": session.dialogue.ids,
            "max_tokens": limit,
            "temperature": self.sampling.temperature,
            "top_p": self.sampling.top_p,
            "seed": int(seed[:15], 16),
            "logprobs": 0,
            "return_token_ids": True,
            "stop_token_ids": sorted(self.renderer.stop_ids),
            "ignore_eos": True,  # what ends a turn is the renderer's to say
        }


def _outcome(future: Future[Action]) -> Action | BaseException:
    if future.cancelled():
        return ProviderError("the request was cancelled")
    return future.exception() or future.result()
