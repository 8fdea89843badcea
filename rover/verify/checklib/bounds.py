"""What a deliverable may cost to read, told from its bytes before anything is parsed.

A file of a kilobyte can ask for gigabytes or hours. Were that a failed check, a policy could turn a failure into
a fault of the verifier, so it is a finding about the deliverable. The bounds count bytes, marks and elements:
whether a file is readable must not depend on how busy the machine is. What slips through them is stopped by the
processor time that reading takes.
"""

from __future__ import annotations

import io
import re
import signal
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

MAX_BYTES = 64 << 20
MAX_TEXT = 1 << 20
MAX_LINES = 50_000
MAX_JSON = 16 << 20
MAX_UNPACKED = 32 << 20
#: cells of a table
MAX_CELLS = 4_000_000
#: elements of all parts of a workbook together; a cell takes two or three
MAX_ELEMENTS = 400_000
#: cells of merged ranges, each of which openpyxl makes an object of
MAX_MERGED = 200_000
#: characters of one cell (a workbook's own bound is 32,767)
MAX_CHARACTERS = 131_072

_MERGED = re.compile(rb"mergeCell\s[^>]*?ref\s*=\s*[\"']([^\"'>]*)[\"']")
_RANGE = re.compile(r"\$?([A-Z]{1,3})\$?([0-9]{1,7})(?::\$?([A-Z]{1,3})\$?([0-9]{1,7}))?")


class Unreadable(Exception):  # a finding about a deliverable, not an error of the verifier
    """A deliverable cannot be read or lacks what is asked for; the criterion scores 0 with this reason."""


def within_memory(read: Callable[P, T]) -> Callable[P, T]:
    """A reader for which memory that runs out is the file's fault."""

    @wraps(read)
    def bounded(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read(*args, **kwargs)
        except MemoryError:
            pass  # raised anew outside, when what was read is let go
        raise Unreadable(f"{args[0]} takes too much memory to read")

    return bounded


class TooSlow(BaseException):  # no reader's `except Exception` may keep it
    """The processor time given for reading is used up."""


@contextmanager
def within_time(seconds: float) -> Iterator[None]:
    """Raise TooSlow in the body once it has used so much processor time. For a main thread."""
    on = True

    def stop(*_: Any) -> None:
        if on:
            raise TooSlow

    before = signal.signal(signal.SIGPROF, stop)
    try:
        # again and again: a destructor or a callback may swallow one
        signal.setitimer(signal.ITIMER_PROF, max(seconds, 0.001), 0.1)
        yield
    finally:
        on = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def check_marks(source: str, delimiter: str, name: str) -> None:
    """Unreadable for delimited text with too many fields, each line counted as one at least."""
    cells = source.count(delimiter) + source.count("\n") + 1
    if cells > MAX_CELLS:
        raise Unreadable(f"{name} is too large ({cells} fields, at most {MAX_CELLS})")


def check_book(data: bytes, name: str) -> None:
    """Unreadable for a workbook that is no zip file, or whose parts are too large for openpyxl."""
    elements = merged = 0
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as book:
            parts = book.infolist()
            unpacked = sum(part.file_size for part in parts)
            if unpacked > MAX_UNPACKED:
                raise Unreadable(f"{name} unpacks to {unpacked} bytes, at most {MAX_UNPACKED}")
            for part in parts:
                text = book.read(part).replace(b"\0", b"")  # UTF-16 counts too
                elements += text.count(b"<") - text.count(b"</")
                if b"mergeCell" in text:
                    merged += sum(_area(ref) for ref in _MERGED.findall(text))
    except Unreadable:
        raise
    except Exception:
        raise Unreadable(f"{name} is not a readable workbook (corrupt or password-protected)") from None
    if elements > MAX_ELEMENTS:
        raise Unreadable(f"{name} is too large ({elements} elements, at most {MAX_ELEMENTS})")
    if merged > MAX_MERGED:
        raise Unreadable(f"{name} merges {merged} cells, at most {MAX_MERGED}")


def _area(ref: bytes) -> int:
    """How many cells a range spans. A range written in a way that no program writes counts as too many."""
    found = _RANGE.fullmatch(ref.decode("latin-1").strip().upper())
    if found is None:
        return MAX_MERGED + 1
    left, top, right, bottom = found.groups()
    wide = abs(_column(right or left) - _column(left)) + 1
    return wide * (abs(int(bottom or top) - int(top)) + 1)


def _column(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - 64
    return number
