"""How commands speak: tables and JSON on stdout, progress and notes on stderr.

Tables are plain text, at most as wide as the terminal (80 columns where there is none, or as many as COLUMNS says).
Names are never cut; another cell that does not fit is, with `…`, or wraps. Every command offers `--json`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer

#: shared options, so that they read alike in every command
Json = typer.Option(False, "--json", help="Print JSON instead of a table.")
Rev = typer.Option("HEAD", "--rev", metavar="REV", help="Revision to read.")
Seed = typer.Option(0, "--seed", help="Seed of all random choices.")
Workers = typer.Option(2, "-n", "--workers", min=1, max=64, help="Rollouts at the same time.")


def _sandbox(kind: str) -> str:
    """The kind that a command is to use: the one given, ROVER_SANDBOX, `sandbox` of config.toml, else `auto`. What
    `auto` passes over is said on stderr."""
    kind = kind or os.environ.get("ROVER_SANDBOX", "") or _configured()
    if kind in ("", "auto"):
        from rover.cli.log_lines import show

        show("rover.sandbox")
    return kind


def _configured() -> str:
    from rover_store.config import NotAStore, find, read

    try:
        return read(find(None)).sandbox
    except (NotAStore, OSError):  # the command itself says so, where it needs a store
        return ""


Sandbox = typer.Option(
    "", "--sandbox", metavar="KIND", callback=_sandbox, help="Kind of sandbox; the first that works by default."
)
Packages = typer.Option(0, "--limit", min=0, help="At most so many packages; 0 for all.")
Part = typer.Option(None, "--shard", metavar="I/N", help="Only part I of N: see `rover help sharding`.")
Tags = typer.Option([], "--tag", metavar="TAG", help="Only with this tag, as family:edit; repeatable.")
#: of policies that are models
Server = typer.Option("", "--server", metavar="URL", help="Model server; else OPENAI_BASE_URL.")
Served = typer.Option("", "--model", metavar="NAME", help="Model of an openai or command policy.")
Temperature = typer.Option(
    -1.0, "--temperature", metavar="T", show_default=False, help="Of a model; else the server's own, of hf 1."
)


def width() -> int:
    """Columns to fill: what COLUMNS says, else the terminal's, 80 where stdout is none."""
    if sys.stdout.isatty():
        return max(40, shutil.get_terminal_size((80, 24)).columns)
    said = os.environ.get("COLUMNS", "")
    return max(40, int(said)) if said.isascii() and said.isdigit() and len(said) < 6 else 80


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def print_jsonl(values: Iterable[Any]) -> None:
    """A stream: one JSON value a line."""
    for value in values:
        print(json.dumps(value, ensure_ascii=False, default=str), flush=True)


#: what moves a cursor, breaks a line, turns the direction of writing, or is no character at all
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: str, keep: str = "") -> str:
    """Text that is safe on a terminal and stays on its line: control characters as escapes, but those in `keep`."""
    return _UNPRINTABLE.sub(lambda m: m[0] if m[0] in keep else _escape(m[0]), text)


def _escape(letter: str) -> str:
    if "\udc80" <= letter <= "\udcff":  # a byte of a name that is not UTF-8
        return f"\\x{ord(letter) - 0xDC00:02x}"
    return letter.encode("unicode_escape").decode("ascii")


def say(text: str) -> None:
    """Lines of text on stdout, safe on a terminal."""
    print(plain(text, keep="\n"))


def counted(number: int, noun: str) -> str:
    """`1 package`, `2 packages`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def note(text: str) -> None:
    """A line for the person, on stderr. A terminal shows it in lines that fit; elsewhere it stays one."""
    said = plain(text)
    print(wrapped(said, "  ") if sys.stderr.isatty() else said, file=sys.stderr, flush=True)


#: the last column of a table shrinks to so many characters before another one does
_LAST = 24
#: columns between the first and the last shrink to so many before the last one goes below its row
_MIDDLE = 16
_LEAST = 6
#: what stands below its row begins here
_BELOW = "    "


def table(
    rows: Sequence[Sequence[object]], headers: Sequence[str], *, right: Sequence[int] = (), whole: Sequence[int] = ()
) -> str:
    """A plain table, as wide as the output. Columns in `right` are aligned right.

    Names stand in the first column: it is never cut. The last one holds reasons: it wraps below itself, and where
    little room is left it goes below its row. What lies between is cut where it must be; columns in `whole` wrap.
    """
    headers = [plain(h) for h in headers]
    cells = [[_cell(c) for c in row] for row in rows]
    widths = [max([len(h), *(len(r[i]) for r in cells)]) for i, h in enumerate(headers)]
    below = _fit(widths)
    kept = len(headers) - below
    lines = _row_lines(headers, widths, right, range(kept), below)
    lines.append("  ".join("-" * w for w in widths[:kept]))
    wraps = {0, len(headers) - 1, *whole}
    for row in cells:
        lines += _row_lines(row, widths, right, wraps, below)
    return "\n".join(line.rstrip() for line in lines)


def _fit(widths: list[int]) -> bool:
    """Shrink these widths to the room there is; True where the last column has to go below its row."""
    last = len(widths) - 1

    def over(columns: int) -> int:
        return sum(widths[:columns]) + 2 * (columns - 1) - width()

    def shrink(some: Sequence[int], least: int, columns: int) -> None:
        while over(columns) > 0 and (wide := [i for i in some if widths[i] > least]):
            widths[max(wide, key=lambda i: widths[i])] -= 1

    middle = range(1, last)
    natural = [*widths]
    shrink([last], _LAST, last + 1)
    shrink(middle, _MIDDLE, last + 1)
    below = last > 0 and natural[last] > _LAST and over(last + 1) > 0
    columns = last + (not below)
    if below:
        widths[:] = natural
    shrink(middle, _LEAST, columns)
    shrink([0], _LEAST, columns)
    return below


def _row_lines(
    row: Sequence[str], widths: Sequence[int], right: Sequence[int], wraps: Iterable[int], below: bool
) -> list[str]:
    kept = len(row) - below
    parts = [_wrap(cell, widths[i]) if i in wraps else [cell] for i, cell in enumerate(row[:kept])]
    lines = [
        _line([p[n] if n < len(p) else "" for p in parts], widths[:kept], right)
        for n in range(max(map(len, parts), default=1))
    ]
    if below and row[-1]:
        lines += [_BELOW + line for line in _wrap(row[-1], width() - len(_BELOW))]
    return lines


def _cell(value: object) -> str:
    if value is None:
        return ""
    text = f"{value:.3f}" if isinstance(value, float) else str(value)
    return plain(text)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[int]) -> str:
    out = []
    for i, (cell, w) in enumerate(zip(cells, widths, strict=True)):
        cut = cell if len(cell) <= w else cell[: w - 1] + "…"
        out.append(cut.rjust(w) if i in right else cut.ljust(w))
    return "  ".join(out)


#: a long word goes on in the next line behind one of these
_JOINT = re.compile(r"(?<=[-/.,:\]_=&?])(?=\w)|(?=\[)")


def _wrap(text: str, w: int) -> list[str]:
    import textwrap

    out = []
    for line in textwrap.wrap(text, w, break_long_words=False, break_on_hyphens=False) or [""]:
        while len(line) > w:
            at = max((m.start() for m in _JOINT.finditer(line) if w // 3 < m.start() <= w), default=w)
            out.append(line[:at])
            line = line[at:]
        out.append(line)
    return out


def wrapped(text: str, indent: str = "") -> str:
    """Text in lines that fit, the second and later ones indented."""
    import textwrap

    return textwrap.fill(text, width(), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


#: seconds between two lines of a counter that no terminal shows
_QUIET_S = 30.0


class Progress:
    """A counter on stderr: one line that rewrites itself on a terminal; elsewhere a line now and then."""

    def __init__(self, label: str, total: int | None = None) -> None:
        self.label = label
        self.total = total
        self.done = 0
        self._live = sys.stderr.isatty() and not os.environ.get("CI")
        self._said = time.monotonic()

    def __call__(self, done: int | None = None, total: int | None = None, text: str = "") -> None:
        self.done = self.done + 1 if done is None else done
        self.total = total if total is not None else self.total
        if self._live:
            print("\r\x1b[K" + self._line(text), end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self._said > _QUIET_S:
            self._said = time.monotonic()
            print(self._line(text).rstrip(), file=sys.stderr, flush=True)

    def _line(self, text: str) -> str:
        of = f"/{self.total}" if self.total else ""
        return f"{self.label} {self.done}{of} {text}"[: width() - 1]

    def clear(self) -> None:
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


@contextmanager
def progress(label: str, total: int | None = None) -> Iterator[Progress]:
    """A progress line for long work; gone when the work ends."""
    bar = Progress(label, total)
    try:
        yield bar
    finally:
        bar.clear()


def confirm(question: str, *, yes: bool) -> bool:
    """Ask before something that is hard to take back. Without a terminal the answer is `yes` alone."""
    if yes:
        return True
    return sys.stdin.isatty() and typer.confirm(question)


def utc(seconds: int, form: str = "%Y-%m-%d %H:%M") -> str:
    """A time of a commit, UTC. One that no calendar has is given in seconds."""
    import datetime

    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime(form)
    except (ValueError, OverflowError, OSError):
        return f"{seconds} s"


#: the end of the year 9999
_LAST_SECOND = 253402300799


def now() -> int:
    """Seconds since 1970 for a commit: SOURCE_DATE_EPOCH, else the clock."""
    from rover_store.errors import UsageError

    fixed = os.environ.get("SOURCE_DATE_EPOCH")
    if fixed is None:
        return int(time.time())
    if not (fixed.isascii() and fixed.isdigit() and len(fixed) <= 18 and int(fixed) <= _LAST_SECOND):
        raise UsageError(f"SOURCE_DATE_EPOCH: {fixed!r} is not a number of seconds before the year 10000")
    return int(fixed)
