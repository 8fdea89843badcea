"""Dates: what git reads too is the same second; what is none is refused."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rover_store.history.dates import parse_date

NOW = 1_700_000_000  # 2023-11-14 22:13:20 UTC


@pytest.mark.parametrize(
    "text",
    ["now", "2 days ago", "1 week 2 days ago", "3.hours.ago", "90 seconds ago", "5 minutes ago", "two weeks ago",
     "2 months ago", "3 years ago", "last week", "last month", "2020-02-29 13:05:09", "2020-02-29T13:05:09Z",
     "2020-02-29 13:05:09 +0530", "2020-02-29T13:05:09-08:00"],
)  # fmt: skip
def test_as_git_reads_them(text: str) -> None:
    done = subprocess.run(
        ["git", "rev-parse", f"--since={text}"], capture_output=True, text=True, check=True,
        env={"PATH": "/usr/bin:/bin", "TZ": "UTC", "GIT_TEST_DATE_NOW": str(NOW)},
    )  # fmt: skip
    assert f"--max-age={parse_date(text, NOW)}" == done.stdout.strip()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("today", "2023-11-14 00:00"), ("yesterday", "2023-11-13 00:00"), ("noon", "2023-11-14 12:00"),
     ("monday", "2023-11-13 00:00"), ("Last Tuesday", "2023-11-07 00:00"), ("2020-02-29", "2020-02-29 00:00"),
     ("2020-2-9 7:05", "2020-02-09 07:05"), (" a  week   ago ", "2023-11-07 22:13")],
)  # fmt: skip
def test_words(text: str, wanted: str) -> None:
    assert datetime.fromtimestamp(parse_date(text, NOW), UTC).strftime("%Y-%m-%d %H:%M") == wanted


@pytest.mark.parametrize(
    "text", ["", "soon", "2023-02-30", "2023-13-01", "25:00", "2020-01-01 24:01", "ago", "2 ago", "2 days",
             "-1 day ago", "999999999 years ago", "0000-01-01", "last", "last year ago", "\0", "२०२०-01-01"],
)  # fmt: skip
def test_what_is_no_date(text: str) -> None:
    with pytest.raises(ValueError, match="is not a date"):
        parse_date(text, NOW)


@given(st.text(max_size=40))
def test_any_text_is_a_second_or_refused(text: str) -> None:
    try:
        found = str(parse_date(text, NOW))
    except ValueError as error:
        found = str(error)
    assert found.lstrip("-").isdigit() or "is not a date" in found


@given(st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)))
def test_every_second_can_be_said(moment: datetime) -> None:
    moment = moment.replace(microsecond=0, tzinfo=UTC)
    assert parse_date(moment.strftime("%Y-%m-%d %H:%M:%S").rjust(19, "0"), NOW) == moment.timestamp()
