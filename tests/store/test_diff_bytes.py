"""Never `no change` where the bytes differ: whatever they are and whatever the file is called."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rover_store.diffs import compare
from rover_store.diffs.content import Content
from rover_store.diffs.sequence import blocks

NAMES = (
    "a.txt", "a.md", "noending", "a.json", "task/contract.json", "package.json", "a.jsonl", "a.csv", "a.tsv", "a.xlsx",
    "a.docx", "a.pdf", "a.png", "a.zip", "a.bin", "a.py",
)  # fmt: skip

WORDS = st.sampled_from(
    [
        b"a", b"b", b",", b"\n", b"\r\n", b"\r", b'"', b" ", b"1", b"1.0", b"\t", b"\xff", b"\xfe", b"\xef\xbb\xbf",
        b"\0", b"{", b"}", b"[", b"]", b":", b'"id"', b"true", b"\xc3\xa9", b"\xe9", b"null", b"0",
    ]
)  # fmt: skip
DATA = st.one_of(st.binary(max_size=40), st.lists(WORDS, max_size=16).map(b"".join))
FLOATS = st.floats(width=16).map(lambda x: x + 0.0)  # -0.0 is the same value as 0.0
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | FLOATS | st.text("ab\u00e9\ud7ff", max_size=2),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["id", "name", "a", "rows"]), inner),
    max_leaves=12,
)
CELL = st.sampled_from(["", "a", "b", "1", "2", "1.0", "x,y", 'q"q', " a", "l\nl"])
TABLES = st.lists(st.lists(CELL, min_size=1, max_size=4), max_size=6)


def says(found: Content) -> bool:
    return found.says and all(found.notes) and "no change" not in " ".join(found.notes)


@given(st.sampled_from(NAMES), DATA, DATA)
@example("a.csv", b"a,b\n1,2\n", b"a,b\n\n1,2\n")
@example("a.csv", b"a,b\n1,2\n", b"a,b\n1,2")
@example("a.csv", b"a,b\n1,\n", b"a,b\n1\n")
@example("a.csv", b"a\rb\n", b"a\nb\n")
@example("a.json", b'{"a":1,"a":2}', b'{"a":2}')
@example("a.json", b'"\\u0061"', b'"a"')
@example("a.json", b"1.0", b"1.00")
@example("a.json", b"1e999", b"2e999")
@example("a.json", b"NaN", b" NaN")
@example("a.json", b"[" * 5000, b"[" * 5001)
@example("a.txt", b"a\r\nb\n", b"a\nb\r\n")
@example("a.txt", b"", b"\xef\xbb\xbf")
@example("a.txt", b"\xe9", b"\xc3\xa9")
@example("a.txt", b"\r", b"")
@settings(max_examples=400, deadline=None)
def test_unequal_bytes_differ(name: str, old: bytes, new: bytes) -> None:
    if old != new:
        assert says(compare(name, old, new))
        assert compare(name, None, new).new_size == len(new)
        assert compare(name, old, None).old_size == len(old)
    else:
        assert not compare(name, old, new).says


@given(VALUES, VALUES, st.sampled_from(["a.json", "package.json", "verifier/verifier.json"]))
@settings(max_examples=200, deadline=None)
def test_unequal_values_are_fields(old: Any, new: Any, name: str) -> None:
    texts = [json.dumps(v).encode() for v in (old, new)]
    if texts[0] != texts[1]:
        found = compare(name, *texts)
        assert says(found)
        if json.dumps(old, sort_keys=True) != json.dumps(new, sort_keys=True):
            assert found.fields
    spread = json.dumps(old, indent=3).encode()
    if spread != texts[0]:
        found = compare(name, texts[0], spread)
        assert not found.fields
        assert "white space" in found.notes[0]


@given(TABLES, TABLES)
@settings(max_examples=200, deadline=None)
def test_unequal_tables_differ(old: list[list[str]], new: list[list[str]]) -> None:
    import csv
    import io

    sides = []
    for rows in (old, new):
        out = io.StringIO()
        csv.writer(out).writerows(rows)
        sides.append(out.getvalue().encode())
    if sides[0] != sides[1]:
        found = compare("t.csv", *sides)
        assert says(found)
        for table in found.tables:
            assert table.omitted == 0
            assert table.counts == (len(table.cells), len(table.rows_added), len(table.rows_removed))
            assert table.old_rows + table.counts[1] - table.counts[2] == table.new_rows


@given(st.lists(st.integers(0, 4), max_size=14), st.lists(st.integers(0, 4), max_size=14))
@settings(max_examples=300, deadline=None)
def test_blocks_turn_one_sequence_into_the_other(old: list[int], new: list[int]) -> None:
    out: list[int] = []
    at = 0
    for block in blocks(old, new):
        out += old[at : block.i1]
        assert len(out) == block.j1
        out += new[block.j1 : block.j2]
        at = block.i2
    assert out + old[at:] == new


@pytest.mark.parametrize("name", NAMES)
def test_one_byte_of_a_large_file(name: str) -> None:
    data = bytearray(b"line of text, and more\n" * 20_000)
    other = bytearray(data)
    other[len(data) // 2] ^= 1
    assert says(compare(name, bytes(data), bytes(other)))
