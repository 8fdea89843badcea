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
        if len(self.ids) + self._renderer.turn_tokens > self._renderer.window:
            fresh = self._shorten() or fresh
        self._start = len(self.ids)
        return fresh

    def sample(self, token: int, logprob: float, turn: int | None = None) -> None:
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
        said: Message = {"role": "assistant", "content": renderer.thought() + renderer.said(ids).strip()}
        if renderer.local:
            said["content"] = renderer.said(ids)
        new = renderer.observations(results)
        turn = _Turn(ids, [], [said, *new])
        if renderer.local:
            turn.after = renderer.ending(ids, renderer.added([], new))
            self._history.append(turn)
            self._show(turn.after)
            return False
        return self._follow(turn, said, new)

    def _follow(self, turn: _Turn, said: Message, new: list[Message]) -> bool:
        """The same for a template that may look at the whole conversation."""
        renderer = self._renderer
        before = self._messages(0)
        closed = renderer.chat.text([*before, said], offer=self._offer)
        text = renderer.chat.text([*before, said, *new], offer=self._offer, prompt=True)
        parted = next(((a, b) for a, b in ((self._text, closed), (closed, text)) if not b.startswith(a)), None)
        self._history.append(turn)
        self._text = text
        if parted is None:
            turn.after = renderer.ending(turn.ids, text[len(closed) :])
            self._show(turn.after)
            return False
        if renderer.drift == "error":
            raise TemplateDrift(self.turn - 1, *parted)
        self._drifted = True
        self._restart(renderer.codec.encode(text))
        return True

    def _shorten(self, room: int | None = None) -> bool:
        """Begin a new row with the opening and the latest turns that leave room; False where nothing can go."""
        renderer = self._renderer
        limit = renderer.window - (renderer.turn_tokens if room is None else room)
        for first in range(1, len(self._history) + 1):
            ids = self._since(first)
            if len(ids) <= limit:
                if len(ids) < len(self.ids):
                    self._restart(ids)
                    return True
                break
        if room is None and len(self.ids) >= renderer.window:
            raise PolicyFailure(f"the context window of {renderer.window} tokens is used up")
        return False

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
