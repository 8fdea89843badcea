"""Other conditions for checks: a shifted clock, other random numbers. Runs in the box, before any check is forked.

A check that says something else under another clock or seed is not a function of its evidence, and is found out
by grading the same state twice. Who asks the kernel itself for the time still sees the true one.
"""

from __future__ import annotations

import datetime as dates
import random
import sys
import time
from typing import Any

_DATETIME: Any = dates.datetime
_DATE: Any = dates.date


def apply(clock: float, seed: int) -> None:
    """Shift what Python tells of the time by `clock` seconds, and start random numbers at `seed`."""
    if seed:
        random.seed(seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(seed % (1 << 32))
    if clock:
        _shift_time(clock)
        _shift_dates(clock)


def _shift_time(clock: float) -> None:
    true_time, true_ns = time.time, time.time_ns
    true_local, true_gm, true_format, true_words = time.localtime, time.gmtime, time.strftime, time.ctime

    def now() -> float:
        return true_time() + clock

    replaced: dict[str, Any] = {
        "time": now,
        "time_ns": lambda: true_ns() + int(clock * 1e9),
        "localtime": lambda secs=None: true_local(now() if secs is None else secs),
        "gmtime": lambda secs=None: true_gm(now() if secs is None else secs),
        "ctime": lambda secs=None: true_words(now() if secs is None else secs),
        "strftime": lambda how, t=None: true_format(how, true_local(now()) if t is None else t),
    }
    for name, function in replaced.items():
        setattr(time, name, function)


class _AnyDate(type):
    """Dates that were made before the shift, or by C code, are dates as well."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _DATE)


class _AnyDatetime(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _DATETIME)


def _shift_dates(clock: float) -> None:
    by = dates.timedelta(seconds=clock)

    class Datetime(dates.datetime, metaclass=_AnyDatetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return _DATETIME.now(tz) + by

        @classmethod
        def utcnow(cls) -> Any:
            return _DATETIME.now(dates.UTC).replace(tzinfo=None) + by

        @classmethod
        def today(cls) -> Any:
            return _DATETIME.now() + by

    class Date(dates.date, metaclass=_AnyDate):
        @classmethod
        def today(cls) -> Any:
            return (_DATETIME.now() + by).date()

    Datetime.__name__, Date.__name__ = "datetime", "date"
    dates.datetime, dates.date = Datetime, Date  # type: ignore[misc]
