"""The question of `rover repair --interactive`: which of the combinations that pass is taken, or none."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rover.cli.output import note, plain
from rover_store.errors import UsageError

if TYPE_CHECKING:
    from rover_store.records import Repair

_NONE = ("none", "no", "n", "")


class Question:
    """Asks a terminal, or takes piped answers, one a line. Without either it is refused before any work is done."""

    def __init__(self) -> None:
        self._waiting: str | None = None
        self._live = sys.stdin is not None and sys.stdin.isatty()
        if not self._live:
            self._waiting = self._line()

    def __call__(self, repair: Repair) -> int | None:
        """The mask that was chosen; None for none."""
        from rover.cli.repair import lattice
        from rover.ops.explain import read_mask
        from rover.repair.fcr import letters

        print(lattice(repair.model_copy(update={"confirmation": ()}), said=False), file=sys.stderr)
        passing = {c.mask for c in repair.candidates if c.status == "passed"}
        names = [letters(m) for m in sorted(passing)]
        first = f", {letters(repair.selected)} comes first" if repair.selected and len(names) > 1 else ""
        while True:
            print(f"which to take: {', '.join(names)} or none{first}? ", end="", file=sys.stderr, flush=True)
            answer = self._next()
            if answer.lower() in _NONE:
                return None
            mask = read_mask(answer)
            if mask in passing:
                return mask
            note(f"{plain(answer)}: {'does not pass every gate' if mask else 'names no combination'}")

    def _next(self) -> str:
        line = self._line() if self._waiting is None else self._waiting
        self._waiting = None
        if not self._live:
            note(line.strip())
        return line.strip()

    def _line(self) -> str:
        line = sys.stdin.readline() if sys.stdin is not None else ""
        if not line:
            hint = "answer on a terminal, or pipe one: echo CT | rover repair NAME --interactive"
            raise UsageError("--interactive: nobody answers", hint=hint)
        return line
