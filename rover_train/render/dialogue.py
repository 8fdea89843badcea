"""One rollout's conversation: the rows of ids that come of it, turn by turn.

A row goes on as long as the template only adds to the text and the window has room for another turn. Where the
window is used up, a new row begins with the opening and the latest turns that leave room; where the template
rewrites what stood there, TemplateDrift is raised, or (drift "split") a new row begins with the conversation as the
template now has it. Every turn of the policy carries loss in exactly one row: the one in which it was written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rover.policy.protocol import PolicyFailure, PolicyView
from rover.policy.tokens import Told
from rover_store.records import Call
from rover_train.render.drift import DoesNotFit, TemplateDrift
from rover_train.render.protocol import Message
from rover_train.rows import Row

if TYPE_CHECKING:
    from rover_train.render.renderer import Renderer


@dataclass(slots=True)
class _Turn:
    """A turn that is over: its ids, what followed it, and both as messages."""

    ids: list[int]
    after: list[int]
    messages: list[Message]


class Dialogue:
    """The state of one conversation. Order of calls: `open_turn`, then `sample` token by token or `write`, and again.

    `ids`: the present row, ready to be continued by the policy.
    """

    def __init__(self, renderer: Renderer, view: PolicyView) -> None:
        self._renderer = renderer
        self._first, self._offer = renderer.begin(view)
        self.ids: list[int] = []
        self.turn_id: list[int] = []
        self.logprobs: list[float] = []
        #: turns opened so far; the one that is being written is `turn`
        self.turn = -1
        self._start = 0
        self._opening: list[int] = []
        self._history: list[_Turn] = []
        #: the text as it was rendered at the last prompt, and whether ids of earlier turns still follow it
        self._text = ""
        self._drifted = False
        self._closed: list[Row] = []

    # --- what a sampler calls ----------------------------------------------------------------------------
    def open_turn(self, results: tuple[Call, ...]) -> bool:
        """Show the results of the last turn's calls (none at first) and begin the next turn.

        True where a new row was begun: `ids` has to be read from its start. PolicyFailure where the window has no
        room for another turn even so.
        """
        self.turn += 1
        fresh = self._begin() if self.turn == 0 else self._observe(results)
        window, room = self._renderer.window, self._renderer.turn_tokens
        if len(self.ids) + room > window:
            fresh = self._shorten(room) or fresh
        if len(self.ids) >= window:
            raise PolicyFailure(f"the context window of {window} tokens is used up")
        self._start = len(self.ids)
        return fresh

    def sample(self, token: int, logprob: float) -> None:
        """One token that the policy sampled."""
        self.ids.append(token)
        self.turn_id.append(self.turn)
        self.logprobs.append(logprob)

    def write(self, ids: Sequence[int]) -> None:
        """A whole turn that somebody else wrote: no log-probabilities. DoesNotFit where no row can hold it."""
        window = self._renderer.window
        if len(self.ids) + len(ids) > window:
            self._shorten(len(ids))
            self._start = len(self.ids)
        if len(self.ids) + len(ids) > window:
            raise DoesNotFit(self.turn, len(self.ids) + len(ids), window)
        for token in ids:
            self.sample(token, 0.0)

    @property
    def written(self) -> list[int]:
        """The ids of the present turn."""
        return self.ids[self._start :]

    def told(self) -> Told:
        """The present turn: what was read before it, what was written, and how likely that was."""
        return Told(tuple(self.ids[: self._start]), tuple(self.written), tuple(self.logprobs[self._start :]))

    def rows(self, rollout: str = "", package: str = "") -> tuple[Row, ...]:
        """All rows so far that hold a turn; what was shown behind the last one is left out."""
        rows = [*self._closed, *self._row()]
        return tuple(
            Row(r.ids, r.loss_mask, r.turn_id, r.logprobs, rollout=rollout, package=package) for r in rows
        )

    # --- rows --------------------------------------------------------------------------------------------
    def _begin(self) -> bool:
        self._text = self._renderer.chat.text(self._first, offer=self._offer, prompt=True)
        self._opening = self._renderer.codec.encode(self._text)
        self._show(self._opening)
        return True

    def _observe(self, results: tuple[Call, ...]) -> bool:
        """Close the turn and show what came of it; True where the template began anew."""
        renderer, ids = self._renderer, self.written
        said, new = renderer.message(ids), renderer.observations(results)
        turn = _Turn(ids, [], [said, *new])
        drift: TemplateDrift | None = None
        if renderer.local:
            added = renderer.chat.text(new, prompt=True)
        else:
            prompt, before = self._text, self._messages(0)
            self._text = renderer.chat.text([*before, *turn.messages], offer=self._offer, prompt=True)
            try:
                added = renderer.follow(self.turn - 1, prompt, ids, self._text)
            except TemplateDrift as found:
                if renderer.drift == "error":
                    raise
                drift = found
        self._history.append(turn)
        if drift is not None:
            self._drifted = True
            self._restart(renderer.codec.encode(self._text))
            return True
        turn.after = renderer.ending(ids, added)
        self._show(turn.after)
        return False

    def _shorten(self, room: int) -> bool:
        """Begin a new row with the opening and the latest turns that leave room, the last one in any case; False
        where that is no shorter."""
        best: list[int] | None = None
        for first in range(1, len(self._history)):
            best = self._since(first)
            if len(best) + room <= self._renderer.window:
                break
        if best is None or len(best) >= len(self.ids):
            return False
        self._restart(best)
        return True

    def _since(self, first: int) -> list[int]:
        """Ids of a row that begins with the opening and leaves out the turns before `first`."""
        if self._drifted:
            text = self._renderer.chat.text(self._messages(first), offer=self._offer, prompt=True)
            return self._renderer.codec.encode(text)
        return self._opening + [i for turn in self._history[first:] for i in (*turn.ids, *turn.after)]

    def _messages(self, first: int) -> list[Message]:
        return self._first + [message for turn in self._history[first:] for message in turn.messages]

    def _restart(self, ids: list[int]) -> None:
        self._closed += self._row()
        self.ids, self.turn_id, self.logprobs = [], [], []
        self._show(ids)

    def _show(self, ids: list[int]) -> None:
        self.ids += ids
        self.turn_id += [-1] * len(ids)
        self.logprobs += [0.0] * len(ids)

    def _row(self) -> list[Row]:
        end = next((n for n in range(len(self.ids), 0, -1) if self.turn_id[n - 1] >= 0), 0)
        if not end:
            return []
        turns = self.turn_id[:end]
        return [Row(self.ids[:end], [int(t >= 0) for t in turns], turns, self.logprobs[:end])]
