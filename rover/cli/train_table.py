"""How a training shows itself on stderr: a table that rewrites itself on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rover.cli.output import note, plain

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

    from rover_train.train.watch import Watch

#: between two lines of steps, where nobody watches
_SECONDS = 5.0


class Display:
    """Give it the rows of the log. A context manager, so that the terminal is whole again behind it."""

    def __init__(self, title: str, watch: Watch) -> None:
        self._title = title
        self._watch = watch
        self._said = ""
        self._next = 0.0
        self._live: Live | None = None

    def __enter__(self) -> Display:
        if sys.stderr.isatty() and not os.environ.get("CI"):
            from rich.console import Console
            from rich.live import Live

            self._live = Live(self._table(), console=Console(stderr=True), auto_refresh=False, redirect_stdout=False)
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)

    def __call__(self, row: Mapping[str, Any]) -> None:
        """A row was written."""
        self._watch(row)
        if self._live is None:
            self._line(row)
        else:
            self._live.update(self._table(), refresh=True)

    def _line(self, row: Mapping[str, Any]) -> None:
        """A plain line; of steps that are quick only some."""
        from rover_train.train.watch import line

        now = time.monotonic()
        if row["kind"] != "train" or self._watch.ended or now >= self._next:
            note(line(row, self._watch))
            self._next = now + _SECONDS

    def tell(self, text: str) -> None:
        """A line beside the figures."""
        self._said = text
        if self._live is None:
            note(text)
        else:
            self._live.update(self._table(), refresh=True)

    def _table(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        figures = self._watch.figures()
        short = [f for f in figures if f.label != "warning" and not f.label.startswith("validation")]
        table = Table.grid(padding=(0, 2))
        half = -(-len(short) // 2)
        for _ in range(2):
            table.add_column(style="dim")
            table.add_column(justify="right")
        for left, right in zip(short[:half], [*short[half:], None], strict=False):
            table.add_row(left.label, left.value, *((right.label, right.value) if right else ()))
        whole = Table.grid()
        whole.add_row(Text(plain(self._title), style="bold"))
        whole.add_row(table)
        for figure in figures:
            if figure not in short:
                whole.add_row(Text(plain(f"{figure.label}  {figure.value}")))
        if self._said:
            whole.add_row(Text(plain(self._said), style="yellow"))
        return whole
