"""Dates as a person types them, in UTC: `2026-01-31`, `2026-01-31 14:00`, `yesterday`, `2 days ago`, `last week`.

A day without an hour begins at midnight. What is no date is refused, never guessed at.
"""

from __future__ import annotations

import calendar
import re
from datetime import UTC, date, datetime, timedelta

_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}
_DAYS = tuple(day.lower() for day in calendar.day_name)
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_PART = re.compile(r"([0-9]{1,9}|an?|" + "|".join(_NUMBERS) + r") (second|minute|hour|day|week|month|year)s?")
_AGO = re.compile(rf"(?:{_PART.pattern}(?: and)? )+ago")
_CLOCK = re.compile(r"(\d{4}-\d\d?-\d\d?)(?:[T ](\d\d?:\d\d(?::\d\d)?)(?:\.\d+)? ?(Z|[+-]\d\d:?\d\d)?)?", re.ASCII)


def parse_date(text: str, now: int) -> int:
    """Seconds since 1970. `now` is what relative dates count from. ValueError says that it is no date."""
    words = " ".join(text.replace("_", " ").split())
    try:
        seconds = _absolute(words)
        if seconds is None:
            seconds = _relative(words.lower().replace(".", " ").strip(), now)
    except (ValueError, OverflowError):
        seconds = None
    if seconds is None:
        raise ValueError(f"{text!r} is not a date (YYYY-MM-DD, YYYY-MM-DD HH:MM, yesterday, 2 days ago)")
    return seconds


def _absolute(words: str) -> int | None:
    match = _CLOCK.fullmatch(words)
    if match is None:
        return None
    year, month, day = (int(n) for n in match[1].split("-"))
    hour, minute, second = ([int(n) for n in (match[2] or "0:0").split(":")] + [0])[:3]
    found = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    zone = match[3]
    if zone and zone != "Z":
        away = timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
        found += -away if zone[0] == "+" else away
    return int(found.timestamp())


def _relative(words: str, now: int) -> int | None:
    here = datetime.fromtimestamp(now, UTC)
    midnight = here.replace(hour=0, minute=0, second=0, microsecond=0)
    if words == "now":
        return now
    if words in ("today", "midnight"):
        return int(midnight.timestamp())
    if words in ("yesterday", "noon"):
        found = midnight - timedelta(days=1) if words == "yesterday" else midnight + timedelta(hours=12)
        return int(found.timestamp())
    last = words.removeprefix("last ")
    if last in _DAYS:
        back = (here.weekday() - _DAYS.index(last)) % 7 or 7
        return int((midnight - timedelta(days=back)).timestamp())
    if last != words and _PART.fullmatch(f"1 {last}"):
        return _back(here, 1, last)
    if not _AGO.fullmatch(words):
        return None
    for count, unit in _PART.findall(words):
        here = datetime.fromtimestamp(_back(here, _number(count), unit), UTC)
    return int(here.timestamp())


def _back(here: datetime, count: int, unit: str) -> int:
    if unit in _UNITS:
        return int(here.timestamp()) - count * _UNITS[unit]
    months = here.year * 12 + here.month - 1 - count * (12 if unit == "year" else 1)
    year, month = divmod(months, 12)
    last = calendar.monthrange(date(year, month + 1, 1).year, month + 1)[1]
    return int(here.replace(year=year, month=month + 1, day=min(here.day, last)).timestamp())


def _number(word: str) -> int:
    if word.isdigit():
        return int(word)
    return 1 if word in ("a", "an") else _NUMBERS.index(word)
