"""The sampler in this process: all lanes that wait for a turn are decoded together.

A call reads what is new for each lane, then decodes token by token. Lanes keep their row of the cache over turns;
those that generate are kept in front, so that work follows their number. Answers come as soon as a quarter of the
generating lanes have ended their turn; the others go on at the next call. All of it follows from the lanes and their
order: same lanes, same bits.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from rover.policy.protocol import Action, PolicyFailure
from rover_store.errors import ProviderError
from rover_store.records import Call, Usage
from rover_train.render import Renderer
from rover_train.sample.draw import draw
from rover_train.sample.forward import Forward, TransformersForward, read
from rover_train.sample.lean import LeanForward, supports
from rover_train.sample.policy import ModelSession
from rover_train.sample.seeding import uniforms
from rover_train.sample.settings import SHARE, Sampling


class Sampler:
    """Serves the turns of ModelSessions with one model: a causal language model of transformers, also with LoRA.

    Weights may change between batches of rollouts (call `release`), not within one. `seed` is mixed into the seed of
    every rollout. `fast`: use the lean forward pass where it can stand in for the model's own.
    """

    def __init__(
        self,
        model: Any,
        renderer: Renderer,
        *,
        temperature: float = 1.0,
        top_p: float = 1.0,
        max_turn_tokens: int = 256,
        seed: int = 0,
        share: float = SHARE,
        fast: bool = True,
    ) -> None:
        self.model = model
        self.renderer = renderer
        self.sampling = Sampling(temperature, top_p, max_turn_tokens)
        self.seed = seed
        self.share = share
        self.fast = fast
        self.forward = self._fitting()
        #: tokens sampled, and tokens of prompts and observations read, over all rollouts so far
        self.sampled = self.read = 0
        self._rows: list[_Lane] = []
        self._known: dict[ModelSession, _Lane] = {}
        self._lock = threading.Lock()

    def acting(self, pending: list[tuple[int, Any]]) -> dict[int, Any]:
        """The rendezvous handler: an Action or an error for at least one of the lanes."""
        with self._lock, torch.inference_mode(), _evaluating(self.model):
            lanes = self._seated(pending)
            answers: dict[int, Any] = {}
            active: list[_Lane] = []
            for lane, (number, (_, results)) in zip(lanes, pending, strict=True):
                lane.number = number
                try:
                    if not lane.writing:
                        self._open_turn(lane, results)
                    active.append(lane)
                except Exception as error:  # this lane's own: no room in the window, a template that rewrites
                    answers[number] = error
            if active:
                self._generate(active, answers)
            return answers

    def release(self) -> None:
        """Forget all lanes and free the cache; weights are read anew, from wherever the model is by now."""
        with self._lock:
            self._rows.clear()
            self._known.clear()
            self.forward = self._fitting()

    def _fitting(self) -> Forward:
        """The forward pass for the model as it is: its device and its type may change between rollouts."""
        return LeanForward(self.model) if self.fast and supports(self.model) else TransformersForward(self.model)

    # --- lanes -------------------------------------------------------------------------------------------
    def _seated(self, pending: list[tuple[int, Any]]) -> list[_Lane]:
        """The lanes of the sessions, each with a row of the cache; closed ones lose theirs."""
        for gone in [lane for lane in self._rows if lane.session.closed]:
            self._place(gone, len(self._rows) - 1)
            self._rows.pop()
            del self._known[gone.session]
        if not self._rows:
            self.forward.refresh()
        lanes = []
        for _, (session, _) in pending:
            lane = self._known.get(session)
            if lane is None:
                lane = self._known[session] = _Lane(session, len(self._rows))
                self._rows.append(lane)
            lanes.append(lane)
        self.forward.cache.reserve(len(self._rows), 1)
        return lanes

    def _place(self, lane: _Lane, row: int) -> None:
        """Move a lane to a row; who was there takes its place."""
        other = self._rows[row]
        if other is lane:
            return
        self.forward.cache.swap(lane.row, row, max(lane.cached, other.cached))
        self._rows[lane.row], self._rows[row] = other, lane
        other.row, lane.row = lane.row, row

    # --- turns -------------------------------------------------------------------------------------------
    def _open_turn(self, lane: _Lane, results: tuple[Call, ...]) -> None:
        dialogue = lane.session.dialogue
        before = len(dialogue.ids)
        if dialogue.open_turn(results):
            lane.cached = before = 0
        lane.shown = len(dialogue.ids) - before
        if len(dialogue.ids) >= self.renderer.window:
            raise self._window_used_up()
        lane.start = len(dialogue.ids)
        count = 0 if self.sampling.temperature == 0.0 else self.sampling.max_turn_tokens
        lane.uniforms = uniforms(lane.session.seed ^ self.seed, dialogue.turn, count).tolist()
        lane.writing = True

    def _window_used_up(self) -> PolicyFailure:
        return PolicyFailure(f"the context window of {self.renderer.window} tokens is used up")

    def _generate(self, active: list[_Lane], answers: dict[int, Any]) -> None:
        enough = len(answers) + math.ceil(len(active) * self.share)
        for row, lane in enumerate(active):
            self._place(lane, row)
        fresh = [lane for lane in active if len(lane.session.dialogue.ids) - lane.cached > 1]
        if fresh:
            self._read(fresh)
            active = self._sort_out(active, answers)
        while active and len(answers) < enough:
            self._step(active)
            active = self._sort_out(active, answers)

    def _read(self, fresh: list[_Lane]) -> None:
        """Read what is new and sample the first token after it. Lanes that begin alike are read once."""
        chunks = [tuple(lane.session.dialogue.ids[lane.cached :]) for lane in fresh]
        leaders: dict[object, int] = {}
        groups = [(0, chunk) if lane.cached == 0 else lane.row + 1 for lane, chunk in zip(fresh, chunks, strict=True)]
        firsts = [leaders.setdefault(group, at) for at, group in enumerate(groups)]
        led = list(leaders.values())
        leading = [fresh[at] for at in led]
        logits = read(
            self.forward, [lane.row for lane in leading], [chunks[at] for at in led], [lane.cached for lane in leading]
        )
        for at, (lane, first) in enumerate(zip(fresh, firsts, strict=True)):
            lane.cached = len(lane.session.dialogue.ids)
            if first != at:
                self.forward.cache.copy(fresh[first].row, lane.row, lane.cached)
        self.read += sum(len(chunks[at]) for at in led)
        if len(led) < len(fresh):
            place = {at: n for n, at in enumerate(led)}
            logits = logits[[place[first] for first in firsts]]
        self._sample(fresh, logits)

    def _step(self, active: list[_Lane]) -> None:
        tokens = [lane.session.dialogue.ids[-1] for lane in active]
        logits = self.forward.step(tokens, [lane.cached for lane in active])
        for lane in active:
            lane.cached += 1
        self._sample(active, logits)

    def _sample(self, lanes: list[_Lane], logits: torch.Tensor) -> None:
        tokens, logprobs = draw(logits, [lane.uniform for lane in lanes], self.sampling)
        if any(math.isnan(logprob) for logprob in logprobs):  # an error of the model, never an agent that fails
            raise ProviderError("the model's output is no number: its weights are damaged, or were trained to pieces")
        self.sampled += len(lanes)
        for lane, token, logprob in zip(lanes, tokens, logprobs, strict=True):
            lane.session.dialogue.sample(token, logprob)

    def _sort_out(self, active: list[_Lane], answers: dict[int, Any]) -> list[_Lane]:
        """Answer the lanes whose turn has ended; the others, in front."""
        count = len(active)
        for lane in active:
            answer = self._ended(lane)
            if answer is not None:
                answers[lane.number] = answer
                lane.writing = False
                count -= 1
                self._place(lane, count)
        return self._rows[:count]

    def _ended(self, lane: _Lane) -> Action | PolicyFailure | None:
        ids = lane.session.dialogue.ids
        written = len(ids) - lane.start
        stopped = ids[-1] in self.renderer.stop_ids
        if not stopped and written < self.sampling.max_turn_tokens:
            return self._window_used_up() if len(ids) >= self.renderer.window else None
        action = self.renderer.read(ids[lane.start :], lane.session.dialogue.turn)
        if not stopped and not action.calls:
            return PolicyFailure(f"the model's turn was cut at its limit of {written} tokens")
        return Action(action.calls, action.message, Usage(prompt_tokens=lane.shown, completion_tokens=written))


class _Lane:
    """A session's place in the cache: its row, how many tokens of its present training row are there, and its turn:
    where that begins, how much was shown before it, and its random numbers."""

    __slots__ = ("cached", "number", "row", "session", "shown", "start", "uniforms", "writing")

    def __init__(self, session: ModelSession, row: int) -> None:
        self.session = session
        self.row = row
        self.number = 0
        self.cached = 0
        self.shown = 0
        self.start = 0
        self.uniforms: list[float] = []
        self.writing = False

    @property
    def uniform(self) -> float:
        """That of the token to come; 0 where none are drawn."""
        return self.uniforms[len(self.session.dialogue.ids) - self.start] if self.uniforms else 0.0


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """The model in evaluation mode for a while."""
    if not model.training:
        yield
        return
    model.eval()
    try:
        yield
    finally:
        model.train()
