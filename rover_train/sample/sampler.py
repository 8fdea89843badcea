"""The sampler in this process: all lanes that wait for a turn are decoded together.

A call reads what is new for each lane in one padded pass, then decodes token by token. Lanes keep their row of the
cache over turns; those that generate are kept in front, so that work follows their number. Answers come as soon as
a quarter of the generating lanes have ended their turn; the others go on at the next call. Everything follows from
the order of the lanes: same lanes, same bits.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import torch

from rover.policy.protocol import Action, PolicyFailure
from rover_store.records import Call, Usage
from rover_train.sample.draw import draw
from rover_train.sample.forward import Forward, TransformersForward
from rover_train.sample.policy import ModelSession
from rover_train.sample.seeding import uniforms
from rover_train.sample.settings import Sampling

#: a call answers once this share of the lanes that generate have ended their turn
SHARE = 0.25


class Sampler:
    """Serves the turns of ModelSessions with one model. Weights may change between batches of rollouts, not within.

    `renderer` is a `rover_train.render` Renderer; `model` a causal language model of transformers, also with LoRA.
    """

    def __init__(
        self,
        model: Any,
        renderer: Any,
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
        self.forward: Forward = _forward(model, fast)
        #: tokens sampled and read so far, over all rollouts
        self.sampled = self.read = 0
        self._rows: list[_Lane] = []
        self._known: dict[int, _Lane] = {}
        self._lock = threading.Lock()

    def acting(self, pending: list[tuple[int, Any]]) -> dict[int, Any]:
        """The rendezvous handler: an Action or an error for at least one of the lanes."""
        with self._lock, torch.inference_mode(), _evaluating(self.model):
            self._forget_closed()
            if not self._rows:
                self.forward.refresh()
            answers: dict[int, Any] = {}
            active: list[_Lane] = []
            for number, (session, results) in pending:
                lane = self._lane(session)
                lane.number = number
                try:
                    if session.turn_start is None:
                        self._open_turn(lane, results)
                    active.append(lane)
                except PolicyFailure as failure:
                    answers[number] = failure
            if active:
                self._generate(active, answers)
            return answers

    def release(self) -> None:
        """Forget all lanes and free the cache."""
        with self._lock:
            self._rows.clear()
            self._known.clear()
            self.forward.cache.clear()

    # --- lanes -------------------------------------------------------------------------------------------
    def _lane(self, session: ModelSession) -> _Lane:
        lane = self._known.get(id(session))
        if lane is None:
            lane = self._known[id(session)] = _Lane(session, len(self._rows))
            self._rows.append(lane)
        return lane

    def _forget_closed(self) -> None:
        for lane in [lane for lane in self._rows if lane.session.closed]:
            self._place(lane, len(self._rows) - 1)
            self._rows.pop()
            del self._known[id(lane.session)]

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
        session, script = lane.session, lane.session.transcript
        render = self.renderer
        new = render.between(lane.written, results) if script.ids else render.opening(session.view)
        script.show(new)
        lane.shown = len(new)
        self._check_window(lane)
        session.turn_start = len(script.ids)
        lane.uniforms = self._uniforms(session).tolist()

    def _uniforms(self, session: ModelSession) -> Any:
        if self.sampling.temperature == 0.0:
            import numpy as np

            return np.zeros(self.sampling.max_turn_tokens)
        return uniforms(session.seed ^ self.seed, session.turn, self.sampling.max_turn_tokens)

    def _check_window(self, lane: _Lane) -> None:
        if len(lane.session.transcript.ids) >= self.renderer.window:
            raise PolicyFailure(f"the context window of {self.renderer.window} tokens is used up")

    def _generate(self, active: list[_Lane], answers: dict[int, Any]) -> None:
        enough = math.ceil(len(active) * self.share)
        ended = len(answers)
        for row, lane in enumerate(active):
            self._place(lane, row)
        fresh = [lane for lane in active if len(lane.session.transcript.ids) - lane.cached > 1]
        if fresh:
            self._read(fresh)
            active = self._sort_out(active, answers)
        while active and len(answers) - ended < enough:
            self._step(active)
            active = self._sort_out(active, answers)

    def _read(self, fresh: list[_Lane]) -> None:
        """Read what is new and sample the first token after it."""
        scripts = [lane.session.transcript.ids for lane in fresh]
        chunks = [ids[lane.cached :] for ids, lane in zip(scripts, fresh, strict=True)]
        logits = self.forward.extend([lane.row for lane in fresh], chunks, [lane.cached for lane in fresh])
        for lane, ids in zip(fresh, scripts, strict=True):
            lane.cached = len(ids)
        self.read += sum(map(len, chunks))
        self._sample(fresh, logits)

    def _step(self, active: list[_Lane]) -> None:
        tokens = torch.tensor([lane.session.transcript.ids[-1] for lane in active])
        positions = [lane.cached for lane in active]
        logits = self.forward.step(tokens, torch.tensor(positions), max(positions))
        for lane in active:
            lane.cached += 1
        self._sample(active, logits)

    def _sample(self, lanes: list[_Lane], logits: torch.Tensor) -> None:
        tokens, logprobs = draw(logits, [lane.next_uniform() for lane in lanes], self.sampling)
        self.sampled += len(lanes)
        for lane, token, logprob in zip(lanes, tokens, logprobs, strict=True):
            lane.session.transcript.sample(token, logprob, lane.session.turn)

    def _sort_out(self, active: list[_Lane], answers: dict[int, Any]) -> list[_Lane]:
        """Answer the lanes whose turn has ended; the others, in front."""
        count = len(active)
        for lane in list(active):
            answer = self._ended(lane)
            if answer is not None:
                answers[lane.number] = answer
                count -= 1
                self._place(lane, count)
        return self._rows[:count]

    def _ended(self, lane: _Lane) -> Action | PolicyFailure | None:
        session, ids = lane.session, lane.session.transcript.ids
        assert session.turn_start is not None
        written = len(ids) - session.turn_start
        stopped = ids[-1] in self.renderer.stop_ids
        if not stopped and written < self.sampling.max_turn_tokens:
            if len(ids) < self.renderer.window:
                return None
            session.turn_start = None
            return PolicyFailure(f"the context window of {self.renderer.window} tokens is used up")
        lane.written = ids[session.turn_start :]
        action: Action = self.renderer.read(lane.written, session.turn)
        session.turn_start = None
        session.turn += 1
        if not stopped and not action.calls:
            return PolicyFailure(f"the model's turn was cut at its limit of {written} tokens")
        return Action(action.calls, action.message, Usage(prompt_tokens=lane.shown, completion_tokens=written))


class _Lane:
    """A session's place in the cache: its row, how many of its tokens are there, and its turn's random numbers."""

    __slots__ = ("cached", "number", "row", "session", "shown", "uniforms", "written")

    def __init__(self, session: ModelSession, row: int) -> None:
        self.session = session
        self.row = row
        self.number = 0
        self.cached = 0
        self.shown = 0
        self.uniforms: list[float] = []
        self.written: list[int] = []

    def next_uniform(self) -> float:
        start = self.session.turn_start
        assert start is not None
        return self.uniforms[len(self.session.transcript.ids) - start]


def _forward(model: Any, fast: bool) -> Forward:
    return TransformersForward(model)


class _evaluating:  # noqa: N801
    """The model in evaluation mode for a while."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._was = bool(model.training)

    def __enter__(self) -> None:
        if self._was:
            self._model.eval()

    def __exit__(self, *error: object) -> None:
        if self._was:
            self._model.train()
