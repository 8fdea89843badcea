"""What is said of each kind of file: fields by id, cells by key, lines, encodings; and how much it may cost."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest

from rover_store.diffs import Content, TableChange, compare
from rover_store.diffs.bounds import LISTED
from rover_store.diffs.tables import letters
from rover_store.records import Contract, Edge, Harness, Package, Requirement
from rover_store.records.contract import FormatRule, NoExtraRule

TREE, OTHER = "1" * 40, "2" * 40


def changes(found: Content) -> list[tuple[str, str, str, str]]:
    return [(f.item, f.id, f.field or f.path, f.status) for f in found.fields]


def test_a_contract_by_requirement() -> None:
    one = Requirement(id="exists", statement="It exists.", rule=FormatRule())
    two = Requirement(id="alone", statement="Nothing else.", rule=NoExtraRule())
    new = one.model_copy(update={"weight": 2.0})
    sides = Contract(requirements=(one, two)).dump(), Contract(requirements=(new,)).dump()
    found = compare("task/contract.json", *sides)
    assert found.kind == "record"
    assert changes(found) == [
        ("requirement", "exists", "weight", "changed"),
        ("requirement", "alone", "requirements[alone]", "removed"),
    ]
    assert found.fields[0][2:4] == (1.0, 2.0)
    assert found.fields[0].path == "requirements[exists].weight"
    assert compare("other.json", *sides).kind == "json"


def test_tools_edges_and_fields_of_a_package() -> None:
    found = compare(
        "harness/harness.json",
        Harness(tools=("read_file", "write_file")).dump(),
        Harness(tools=("shell", "read_file")).dump(),
    )
    assert changes(found) == [
        ("tool", "write_file", "tools[write_file]", "removed"), ("tool", "shell", "tools[shell]", "added"),
    ]  # fmt: skip
    edges = [Edge(source="task", target="context", version=v) for v in (TREE, OTHER)]
    packages = [Package(name="one", title=t, edges=(e,)).dump() for t, e in zip("ab", edges, strict=True)]
    found = compare("package.json", *packages)
    assert changes(found) == [("", "", "title", "changed"), ("edge", "task -> context", "version", "changed")]


def test_the_values_of_anchors_are_tables() -> None:
    def anchors(*rows: list[object], limit: int = 5) -> bytes:
        value = {"columns": ["region", "sum"], "rows": rows}
        return json.dumps({"anchors": [{"id": "sums", "query": {"limit": limit}, "value": value}]}).encode()

    place = "verifier/anchors.json"
    found = compare(place, anchors(["n", 1.5], ["s", "2"]), anchors(["n", 1.5], ["s", 2], ["w", None], limit=6))
    (one,) = found.tables
    assert (one.name, one.key) == ("anchor sums", ("region",))
    assert [(c.row, c.old, c.new) for c in one.cells] == [("s", '"2"', "2")]
    assert [r.cells for r in one.rows_added] == [("w", "")]
    assert changes(found) == [("anchor", "sums", "query.limit", "changed")]
    assert (found.counts.fields, found.counts.cells, found.counts.rows_added) == (1, 1, 1)
    assert compare(place, anchors(["n", 1]), anchors(["n", 1.0])).tables[0].cells[0][2:4] == ("1", "1.0")
    for odd in (b"[]", b'{"anchors": 1}', b'{"anchors": [1, {"id": "sums", "value": {"columns": 1, "rows": [2]}}]}'):
        assert compare(place, anchors(["n", 1]), odd).fields


def test_members_are_matched_by_id_and_their_order_is_told() -> None:
    old = {"rows": [{"id": "a", "v": 1}, {"id": "b", "v": 2}], "plain": [1, 2, 3]}
    new = {"rows": [{"id": "b", "v": 2}, {"id": "a", "v": 7}], "plain": [1, 3, 4]}
    found = compare("x.json", json.dumps(old).encode(), json.dumps(new).encode())
    assert [(f.path, f.status, f.old, f.new) for f in found.fields] == [
        ("rows[a].v", "changed", 1, 7), ("rows", "reordered", ["a", "b"], ["b", "a"]),
        ("plain[1]", "removed", 2, None), ("plain[2]", "added", None, 4),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('{"a":1,"b":2}', '{"b":2,"a":1}', "order of keys"),
        ('{"a": 1}', '{"a":1}', "white space"),
        ('{"a":1.0}', '{"a":1.00}', "writing of numbers"),
        ('["\\u00e9"]', '["é"]', "escapes in texts"),
        ('{"a":1,"a":2}', '{"a":2}', "keys that stand twice"),
        ("[1]\n", "[1]\r\n", "line ends: LF -> CRLF"),
        ("[1]\n", "\ufeff[1]\n", "byte order mark added"),
    ],
)
def test_equal_values_name_how_the_writing_differs(old: str, new: str, why: str) -> None:
    found = compare("x.json", old.encode(), new.encode())
    assert not found.fields
    assert why in " ".join(found.notes)


def test_one_and_true_and_one_point_zero_are_three_values() -> None:
    found = compare("x.json", b'{"a": 1, "b": true}', b'{"a": 1.0, "b": 1}')
    assert [(f.path, f.old, f.new) for f in found.fields] == [("a", 1, 1.0), ("b", True, 1)]


def test_what_is_no_json_is_compared_by_line() -> None:
    found = compare("x.json", b'{"a": 1}\n', b"{\n")
    assert found.kind == "text"
    assert "new version not valid JSON" in found.notes[0]
    assert (found.counts.lines_added, found.counts.lines_removed) == (1, 1)
    lines = compare("x.jsonl", b'{"id": "a", "v": 1}\n', b'{"id": "a", "v": 2}\n{"id": "b"}\n')
    assert [(f.path, f.status) for f in lines.fields] == [("[a].v", "changed"), ("[b]", "added")]


def table(old: str, new: str, name: str = "t.csv") -> TableChange:
    (found,) = compare(name, old.encode(), new.encode()).tables
    return found


def test_rows_by_key() -> None:
    found = table("id,v\n1,a\n2,b\n3,c\n", "id,v\n3,c\n1,A\n4,d\n")
    assert found.key == ("id",)
    assert [(c.row, c.column, c.old, c.new, c.old_number, c.new_number) for c in found.cells] == [
        ("1", "v", "a", "A", 2, 3)
    ]
    assert [r.cells for r in found.rows_removed] == [("2", "b")]
    assert [(r.row, r.number) for r in found.rows_added] == [("4", 4)]
    assert found.rows_reordered
    assert found.counts == (1, 1, 1)


def test_rows_by_two_columns_or_in_order() -> None:
    pair = "region,month,v\nn,1,5\nn,2,5\ns,1,5\n"
    found = table(pair, pair.replace("s,1,5", "s,1,6"))
    assert (found.key, [c.row for c in found.cells]) == (("region", "month"), ["s / 1"])
    plain = "a,b,c\n1,1,1\n1,1,1\n2,2,2\n"
    found = table(plain, "a,b,c\n1,1,1\n1,1,1\n2,2,3\n5,5,5\n")
    assert found.key == ()
    assert [(c.row, c.column, c.old, c.new) for c in found.cells] == [("4", "c", "2", "3")]
    assert [r.number for r in found.rows_added] == [5]


def test_columns() -> None:
    old = "id,name,city,gone\n" + "".join(f"{i},n{i},c{i % 3},g\n" for i in range(9))
    rows = "".join(f"{i},c{i % 3},n{i},{i * i}\n" for i in range(9))
    found = table(old, "id,city,full name,new\n" + rows)
    assert found.columns.renamed == (("name", "full name"),)
    assert (found.columns.added, found.columns.removed) == (("new",), ("gone",))
    assert not found.columns.reordered
    assert found.counts == (0, 0, 0)
    assert table("a,b\n1,2\n", "b,a\n2,1\n").columns.reordered
    assert table("a,b\nx,2\n", "c,d\nx,2\n").columns.renamed == (("a", "c"), ("b", "d"))


def test_a_table_without_a_header_has_letters() -> None:
    found = table("1,2\n3,4\n", "1,2\n3,5\n")
    assert [(c.row, c.column) for c in found.cells] == [("3", "B")]
    assert [letters(i) for i in (0, 25, 26, 701, 702)] == ["A", "Z", "AA", "ZZ", "AAA"]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("a,b\n1,2\n", "a;b\n1;2\n", "delimiter comma -> semicolon"),
        ("a,b\n1,2\n", 'a,b\n"1",2\n', "quoting"),
        ("a,b\n1,2\n", "a,b\n\n1,2\n", "blank lines"),
        ("a,b\n1,2\n", "a,b\r\n1,2\r\n", "line ends: LF -> CRLF"),
        ("a,b\n1,2\n", "a,b\n1,2", "newline at the end removed"),
        ("a,b\n1,\n", "a,b\n1\n", "empty cells at the ends of rows"),
    ],
)
def test_equal_cells_name_how_the_writing_differs(old: str, new: str, why: str) -> None:
    found = compare("t.csv", old.encode(), new.encode())
    assert found.tables == ()
    assert found.notes[0].startswith("the same cells; only the writing differs")
    assert why in found.notes[0]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b"a\r\nb\r\n", b"a\nb\n", "line ends: CRLF -> LF"),
        (b"a\r\nb\n", b"a\nb\n", "line ends: 1 CRLF, 1 LF -> LF"),
        (b"a\n", b"\xef\xbb\xbfa\n", "byte order mark added"),
        (b"a\n", "a\n".encode("utf-16"), "encoding: utf-8 -> utf-16-le"),
        (b"caf\xe9\n", "café\n".encode(), "encoding: latin-1 -> utf-8"),
        (b"a\n", b"a", "newline at the end removed"),
        (b"a\r\nb\n", b"a\nb\r\n", "the same lines, other line ends"),
    ],
)
def test_equal_lines_name_what_differs(old: bytes, new: bytes, why: str) -> None:
    found = compare("a.txt", old, new)
    assert found.parts == ()
    assert why in " ".join(found.notes)


def test_hunks_have_context_and_numbers() -> None:
    old = [f"line {i}" for i in range(1, 31)]
    new = [*old[:4], "five", *old[5:20], "more", *old[20:]]
    sides = ("\n".join(lines).encode() + b"\n" for lines in (old, new))
    (part,) = compare("a.md", *sides, context=1).parts
    assert [h[:4] for h in part.hunks] == [(4, 3, 4, 3), (20, 2, 20, 3)]
    assert part.hunks[0].lines == ((" ", "line 4"), ("-", "line 5"), ("+", "five"), (" ", "line 6"))
    assert (part.added, part.removed, part.omitted) == (2, 1, 0)


def test_bytes_and_formats_without_an_extract() -> None:
    found = compare("a.bin", b"\0abc", b"\0abd")
    assert (found.kind, found.notes) == ("bytes", ("the first difference is at byte 3",))
    assert compare("a.bin", b"\0a", b"\0abc").notes == ("2 bytes appended",)
    book = compare("a.xlsx", b"PK\3\4a", b"PK\3\4b")
    assert book.kind == "workbook"
    assert "sandbox" in book.notes[0]
    assert book.notes[1] == "the first difference is at byte 4"


def test_what_extract_says_is_not_trusted() -> None:
    wrong: list[Any] = [
        None, [], [{}, {}], [1, 2], [{"sheets": 1}, {"sheets": [2]}], [{"error": "no"}, {"sheets": []}],
        [{"sheets": [{"name": "a", "rows": [None]}]}, {"sheets": []}],
    ]  # fmt: skip
    for answer in wrong:
        found = compare("a.xlsx", b"PK1", b"PK2", extract=lambda *_, answer=answer: answer)
        assert found.says
        assert found.tables == ()
    cells = (("1", []), ("2", [[1, 1, "=A1"]]))
    sheets = [{"sheets": [{"name": "S", "rows": [["id", "v"], ["a", v]], "formulas": f}]} for v, f in cells]
    (sheet,) = compare("a.xlsx", b"PK1", b"PK2", extract=lambda *_: sheets).tables
    assert [(c.row, c.column, c.old, c.new, c.new_formula) for c in sheet.cells] == [("a", "v", "1", "2", "=A1")]


HOSTILE = {
    "one.json": (b"[" + b"1," * 3_000_000 + b"1]", b"[" + b"1," * 3_000_000 + b"2]"),
    "text.json": (json.dumps("a" * 10_000_000).encode(), json.dumps("a" * 9_999_999 + "b").encode()),
    "deep.json": (b"[" * 900 + b"]" * 900, b"[" * 901 + b"]" * 901),
    "deeper.json": (b"[" * 100_000, b"[" * 100_001),
    "wide.csv": (",".join(f"c{i}" for i in range(50_000)).encode(), ",".join(f"d{i}" for i in range(50_000)).encode()),
    "cell.csv": (b'"' + b"a,\n" * 400_000, b'"' + b"b,\n" * 400_000),
    "rows.csv": (b"a,b\n" + b"1,1\n" * 100_000, b"a,b\n" + b"1,2\n" * 100_000),
    "nul.csv": (b"a,b\n1,\0\n", b"a,b\n2,\0\n"),
    "long.txt": (b"x" * 20_000_000, b"x" * 19_999_999 + b"y"),
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_hostile_files_are_bounded(name: str) -> None:
    start = time.process_time()
    found = compare(name, *HOSTILE[name])
    assert time.process_time() - start < 5
    assert found.says
    assert len(json.dumps([f._asdict() for f in found.fields])) < 100_000
    assert all(len(t.cells) <= LISTED for t in found.tables)
    assert all(len(line) < 3_000 for p in found.parts for h in p.hunks for _, line in h.lines)


def test_a_hundred_thousand_lines_that_repeat() -> None:
    rng = random.Random(1)
    sides = ["\n".join(str(rng.randrange(9)) for _ in range(100_000)).encode() for _ in range(2)]
    start = time.process_time()
    found = compare("a.txt", *sides)
    assert time.process_time() - start < 5
    (part,) = found.parts
    assert (part.added, part.removed, part.omitted) == (100_000, 100_000, 200_000 - LISTED)
    assert {mark for mark, _ in part.hunks[0].lines} == {"-", "+"}
