"""Which earlier turns a turn used, from recorded calls alone.

Used means: a file version that the earlier turn wrote is an input of a call that wrote something; or an argument of
the call holds a value that the earlier turn's output showed first, neither the task nor any output before it.
Opening a file is not use. Where a turn wrote nothing its reads and arguments are told all the same: it makes no
progress to share, and only a chain of use leads through it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from rover_store.records import Call, Turn
from rover_train.credit.values import cells, is_phrase, of_output, words

#: stands for the task, which is before every turn
TASK = -1
#: a longer argument is running text; its words alone are values
LONGEST_CELL = 200


def uses(turns: Sequence[Turn], instruction: str) -> list[tuple[int, ...]]:
    """For each turn the earlier turns that it used, ascending.

    A version that is written again unchanged is its first writer's; a value is that of the first turn to show it.
    """
    shown, writers = _Shown(instruction), _Writers()
    out = []
    for number, turn in enumerate(turns):
        calls = [call for call in turn.calls if call.writes] or turn.calls
        found = {w for call in calls for w in writers.of_inputs(call)}
        found |= {source for cell in _held(turn, calls) for source in shown.sources(cell)}
        out.append(tuple(sorted(found - {TASK})))
        writers.note(turn.calls, number)
        shown.note(turn.calls, number)
    return out


def _held(turn: Turn, calls: Sequence[Call]) -> Iterator[str]:
    """Scalars in the arguments; in a turn that calls nothing the message, which is what it delivers."""
    if not turn.calls:
        yield turn.message
    for call in calls:
        for argument in call.arguments.values():
            yield from cells(argument)


class _Writers:
    """Which turn made the present version of each path."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[str | None, int]] = {}

    def of_inputs(self, call: Call) -> Iterator[int]:
        for artifact in call.reads:
            blob, turn = self._of.get(artifact.path, (None, TASK))
            if artifact.blob is not None and blob == artifact.blob:
                yield turn

    def note(self, calls: Iterable[Call], number: int) -> None:
        for call in calls:
            for artifact in call.writes:
                if artifact.path not in self._of or self._of[artifact.path][0] != artifact.blob:
                    self._of[artifact.path] = (artifact.blob, number)


class _Shown:
    """Which turn showed each value first; the task is before all."""

    def __init__(self, instruction: str) -> None:
        self._first = dict.fromkeys(words(instruction), TASK)
        self._texts: list[tuple[int, str]] = [(TASK, instruction)]

    def sources(self, cell: str) -> Iterator[int]:
        """Where the values of a cell came from: the whole cell if it was shown so, else its words."""
        cell = cell.strip()
        if len(cell) <= LONGEST_CELL and is_phrase(cell):
            whole = self._phrase(cell)
            if whole is not None:
                yield whole
                return
        yield from (self._first[word] for word in words(cell) if word in self._first)

    def note(self, calls: Iterable[Call], number: int) -> None:
        for call in calls:
            self._texts.append((number, call.output))
            for value in of_output(call):
                self._first.setdefault(value, number)

    def _phrase(self, cell: str) -> int | None:
        pattern = None
        for number, text in self._texts:
            if cell in text:
                pattern = pattern or re.compile(rf"(?<!\w){re.escape(cell)}(?!\w)")
                if pattern.search(text):
                    return number
        return None
