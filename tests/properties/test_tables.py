"""Tables as text: the reader agrees with the csv and json modules, and an edit touches one value alone."""

from __future__ import annotations

import csv
import io
import json

from hypothesis import given
from hypothesis import strategies as st

from rover.harness.tools import delimited, objects
from rover.harness.tools.textfile import decode

CELL = st.text(st.sampled_from('ab ,;\t"\n\r1.é'), max_size=6)
#: the csv module writes a lone carriage return without quotes, and then reads it as the end of a row
PLAIN = CELL.map(lambda text: text.replace("\r", ""))


def tables(cell: st.SearchStrategy[str]) -> st.SearchStrategy[list[list[str]]]:
    return st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(cell, min_size=n, max_size=n), max_size=6))


VALUE = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | CELL
OBJECTS = st.lists(st.dictionaries(CELL, VALUE | st.lists(VALUE, max_size=2), max_size=3), max_size=4)


def text_of(header: list[str], rows: list[list[str]], mark: str, end: str, always: bool) -> str:
    out = io.StringIO(newline="")
    quoting = csv.QUOTE_ALL if always else csv.QUOTE_MINIMAL
    csv.writer(out, delimiter=mark, lineterminator=end, quoting=quoting).writerows([header, *rows])
    return out.getvalue()


@given(tables(CELL), st.sampled_from(",;\t"), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_reading_agrees_with_the_csv_module(rows: list[list[str]], mark: str, end: str, always: bool) -> None:
    header = [f"c{n}" for n in range(len(rows[0]) if rows else 2)]
    text = text_of(header, rows, mark, end, always)
    found = delimited.parse(text, mark)
    said = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=mark) if row]
    assert [[field.value for field in row] for row in found] == said
    assert all(text[f.start : f.end] == (text[f.start : f.end] if f.quoted else f.value) for row in found for f in row)


@given(tables(PLAIN), st.data())
def test_an_edit_changes_one_field_and_no_other_character(rows: list[list[str]], data: st.DataObject) -> None:
    width = len(rows[0]) if rows else 1
    header = ["id", *(f"c{n}" for n in range(width))]
    keyed = [[f"k{n}", *row] for n, row in enumerate(rows)]
    text = text_of(header, keyed, ",", "\n", data.draw(st.booleans()))
    if not rows:
        assert delimited.edit("a.tsv", text.replace(",", "\t"), {"id": "k0"}, {"c0": "x"})[1] == 0
        return
    at, column = data.draw(st.integers(0, len(rows) - 1)), data.draw(st.integers(0, width - 1))
    new = data.draw(PLAIN)
    found = delimited.parse(text, ",")
    field = found[at + 1][column + 1]
    if delimited.delimiter("a.csv", text) != ",":
        return  # so many other marks in the cells that the file reads as another one
    changed, count = delimited.edit("a.csv", text, {"id": f"k{at}"}, {f"c{column}": new})
    assert count == 1
    assert changed.startswith(text[: field.start])
    assert changed.endswith(text[field.end :])
    after = [[f.value for f in row] for row in delimited.parse(changed, ",")]
    expected = [header, *keyed]
    expected[at + 1] = [*expected[at + 1][: column + 1], new, *expected[at + 1][column + 2 :]]
    assert after == expected


@given(st.binary(max_size=40))
def test_every_byte_string_decodes_and_comes_back(data: bytes) -> None:
    found = decode(data)
    assert found.encode("x", found.text) == data


@given(OBJECTS, st.sampled_from([None, 2]), st.booleans())
def test_reading_agrees_with_the_json_module(items: list[dict[str, object]], indent: int | None, lines: bool) -> None:
    text = "".join(json.dumps(i) + "\n" for i in items) if lines else json.dumps(items, indent=indent)
    found = objects.parse("x", text, lines)
    assert [{name: value.value for name, value in item.fields.items()} for item in found] == items
    assert all(json.loads(text[v.start : v.end]) == v.value for item in found for v in item.fields.values())


@given(OBJECTS, st.booleans(), st.data())
def test_an_edit_changes_one_field_of_one_object(
    items: list[dict[str, object]], lines: bool, data: st.DataObject
) -> None:
    keyed: list[dict[str, object]] = [{**item, "id": f"k{n}"} for n, item in enumerate(items)]
    if not keyed:
        return
    text = "".join(json.dumps(i) + "\n" for i in keyed) if lines else json.dumps(keyed, indent=1)
    at = data.draw(st.integers(0, len(keyed) - 1))
    name = data.draw(st.sampled_from(sorted({name for item in keyed for name in item if name != "id"} or {"id"})))
    changed, count = objects.edit("x", text, lines, {"id": f"k{at}"}, {name: "new"})
    again = [{n: v.value for n, v in item.fields.items()} for item in objects.parse("x", changed, lines)]
    assert count == 1
    assert again == [*keyed[:at], {**keyed[at], name: "new"}, *keyed[at + 1 :]]
