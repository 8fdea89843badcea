"""Whatever differs, what is printed says something, stays in its columns, and moves no cursor."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rover.cli.columns import display_width, pad, shown, wrap
from rover.cli.diff_look import Look
from rover.cli.diff_text import lines, summary
from rover.cli.output import plain
from rover_store.diffs import compare

LETTERS = st.sampled_from(
    [
        "a", "b ", "\t", "\n", "\r\n", "\x1b[31m", "\x07", "\u202e", "漢", "字", "é", "e\u0301", "שלום ", "👩",
        "\u2028", ",", '"', "\ufffd",
    ]
)  # fmt: skip
TEXT = st.lists(LETTERS, max_size=60).map("".join)
LOOKS = st.builds(
    Look, width=st.sampled_from([40, 80, 130]), limit=st.sampled_from([0, 5, 60]), side_by_side=st.booleans(),
    words=st.just(False), wrapped=st.just(True),
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=9,
)
PLACES = st.sampled_from(["a.json", "task/contract.json", "package.json", "verifier/anchors.json"])
ISOLATES = "\u2068\u2069"


def check(name: str, old: bytes, new: bytes, look: Look) -> None:
    for sides in ((old, new), (None, new), (old, None)):
        found = compare(name, *sides)
        said = list(lines(found, look, "      "))
        assert sides[0] == sides[1] or said or summary(found)
        for line in said:
            assert display_width(line) <= look.width
            assert plain(line, keep=ISOLATES) == line
            assert line.count("\u2068") == line.count("\u2069")


@given(st.sampled_from(["a.txt", "a.csv", "a.json", "a.md"]), TEXT, TEXT, LOOKS)
@settings(max_examples=200, deadline=None)
def test_text_and_tables(name: str, old: str, new: str, look: Look) -> None:
    check(name, old.encode(), new.encode(), look)


@given(VALUES, VALUES, PLACES, LOOKS)
@settings(max_examples=200, deadline=None)
def test_records(old: Any, new: Any, name: str, look: Look) -> None:
    check(name, *(json.dumps(v).encode() for v in (old, new)), look)


@given(TEXT, st.integers(2, 20))
def test_wrapping_loses_nothing(text: str, columns: int) -> None:
    line = shown(text)
    assert "".join(wrap(line, columns)) == line
    assert all(display_width(piece) <= columns for piece in wrap(line, columns))
    assert display_width(pad(line, columns)) >= min(columns, display_width(line))
