"""The tools, run where they run: a folder as the working directory. What they refuse, keep and change."""

import json
import os
import zipfile
from io import BytesIO

import pytest
from openpyxl import Workbook, load_workbook

from rover.harness.inside import tool
from rover.harness.tools import TOOLS
from rover.harness.tools.specs import argument_error, offered
from rover_store.errors import PackageError


@pytest.fixture
def here(tmp_path, monkeypatch):
    folder = tmp_path / "w"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def use(name, output_bytes=1 << 20, **arguments):
    assert argument_error(name, arguments) == ""
    return tool({"tool": name, "arguments": arguments, "output_bytes": output_bytes})


def ok(name, **arguments):
    answer = use(name, **arguments)
    assert answer["status"] == "ok", answer["output"]
    return json.loads(answer["output"])


def refused(name, **arguments):
    answer = use(name, **arguments)
    assert answer["status"] == "error"
    return answer["output"]


# --- files -----------------------------------------------------------------------------------------------
def test_write_read_list_delete(here):
    assert ok("write_file", path="a/b.txt", content="ä\nb\nc\n") == {"written": 7}
    assert use("read_file", path="a/b.txt") == {
        "status": "ok", "output": "ä\nb\nc\n", "truncated": False, "reads": ["a/b.txt"], "writes": [],
    }  # fmt: skip
    assert use("read_file", path="./a//b.txt", offset=1, limit=1)["output"] == "b\n"
    assert ok("list_files") == {"files": [{"path": "a/b.txt", "size": 7}]}
    assert use("delete_file", path="a/b.txt")["writes"] == ["a/b.txt"]
    assert ok("list_files")["files"] == []


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "out/x", "..", "/"])
def test_paths_outside_are_refused(here, path):
    (here / "out").symlink_to("..")
    (here.parent / "x").write_text("secret")
    for name, more in (("read_file", {}), ("write_file", {"content": ""}), ("delete_file", {})):
        assert "outside of the workspace" in refused(name, path=path, **more)
    assert (here.parent / "x").read_text() == "secret"


def test_absolute_paths_inside_are_understood(here):
    ok("write_file", path=str(here / "a.txt"), content="x")
    assert (here / "a.txt").read_text() == "x"


def test_links_and_special_files(here):
    (here / "real").write_text("x")
    (here / "link").symlink_to("real")
    (here / "gone").symlink_to("/nowhere")
    os.mkfifo(here / "fifo")
    assert use("read_file", path="link")["output"] == "x"
    assert "not a plain file" in refused("read_file", path="fifo")
    assert "not a plain file" in refused("write_file", path="link", content="y")
    assert "not a plain file" in refused("write_file", path="fifo", content="y")
    assert "outside" in refused("write_file", path="gone", content="y")
    assert use("delete_file", path="gone")["status"] == "ok"
    assert [f["path"] for f in ok("list_files")["files"]] == ["link", "real"]


def test_refusals_say_why(here):
    (here / "d").mkdir()
    (here / "f").write_text("")
    assert refused("read_file", path="nothing") == "nothing: no such file or directory"
    assert "is a folder" in refused("write_file", path="d", content="")
    assert "file exists" in refused("write_file", path="f/x", content="")
    assert "is a folder" in refused("delete_file", path="d")
    assert "no such folder" in refused("list_files", path="nothing")
    assert "NUL" in refused("read_file", path="a\0b")
    assert "UTF-8" in refused("write_file", path="x", content="\ud800")


def test_output_is_cut_at_the_limit(here):
    (here / "a.txt").write_text("ä" * 100)
    answer = use("read_file", output_bytes=21, path="a.txt")
    assert (answer["output"], answer["truncated"]) == ("ä" * 10, True)
    for n in range(50):
        (here / f"{n}.txt").write_text("")
    answer = use("list_files", output_bytes=200)
    assert answer["truncated"]
    assert 1 < len(json.loads(answer["output"])["files"]) < 50


# --- read_table ------------------------------------------------------------------------------------------
JSON = b'[ {"a":1, "b" : 2.50},\n{"a":2,"b":3} ]'
CSV = b'id;name;v\r\n1;"a;b";2,5\r\n2;"say ""hi""";\r\n03;c;7\r\n'


def test_read_csv_as_it_stands(here):
    (here / "a.csv").write_bytes(CSV)
    found = ok("read_table", path="a.csv")
    assert found == {
        "columns": ["id", "name", "v"],
        "rows": [["1", "a;b", "2,5"], ["2", 'say "hi"', ""], ["03", "c", "7"]],
        "total": 3,
        "offset": 0,
    }
    found = ok("read_table", path="a.csv", columns=["v", "id"], where={"id": 2})
    assert (found["rows"], found["total"]) == ([["", "2"]], 1)
    assert ok("read_table", path="a.csv", where={"id": 3})["rows"] == []
    assert ok("read_table", path="a.csv", where={"v": None})["rows"] == [["2", 'say "hi"', ""]]
    answer = use("read_table", path="a.csv", offset=1, limit=1)
    assert answer["truncated"]
    assert json.loads(answer["output"])["rows"] == [["2", 'say "hi"', ""]]
    assert "no column 'x'; it has id, name, v" in refused("read_table", path="a.csv", columns=["x"])


def test_read_table_fits_its_rows_to_the_output(here):
    (here / "a.csv").write_text("n\n" + "".join(f"{n}\n" for n in range(1000)))
    answer = use("read_table", output_bytes=200, path="a.csv", limit=900)
    found = json.loads(answer["output"])
    assert answer["truncated"]
    assert found["total"] == 1000
    assert 5 < len(found["rows"]) < 40
    assert len(answer["output"]) <= 200


@pytest.mark.parametrize(
    ("name", "data", "rows"),
    [
        ("a.tsv", b"a\tb\n1,5\t2\n", [["1,5", "2"]]),
        ("a.csv", b"\xef\xbb\xbfa,b\nx,y\n", [["x", "y"]]),
        ("a.csv", "a,b\nü,1\n".encode("utf-16"), [["ü", "1"]]),
        ("a.csv", b"a,b\n\xfc,1\n", [["ü", "1"]]),
        ("a.csv", b'a,b\n"x\ny",1\n\n2', [["x\ny", "1"], ["2", ""]]),
        ("a.csv", b"a,b\r1,2\r3,4", [["1", "2"], ["3", "4"]]),
        ("a.csv", b"a|b\n1|2|3\n", [["1", "2"]]),
        ("a.json", b'[{"a": 1, "b": null}, {"a": {"c": 2}}]', [[1, None], ['{"c": 2}', None]]),
        ("a.jsonl", b'{"a": true, "b": "x"}\n\n{"b": "y"}\n', [[True, "x"], [None, "y"]]),
    ],
    ids=["tsv", "bom", "utf16", "cp1252", "newline-in-quotes", "old-mac", "long-row", "json", "jsonl"],
)
def test_read_other_tables(here, name, data, rows):
    (here / name).write_bytes(data)
    found = ok("read_table", path=name)
    assert (found["columns"], found["rows"]) == (["a", "b"], rows)


def test_what_is_no_table(here):
    (here / "a.json").write_text('{"a": 1}')
    (here / "b.json").write_text("[1")
    (here / "c.xlsx").write_text("no workbook")
    (here / "d.pdf").write_text("")
    (here / "e.csv").write_text("")
    assert "not a list of objects" in refused("read_table", path="a.json")
    assert "not a list of objects" in refused("read_table", path="b.json")
    assert "cannot be read as a workbook" in refused("read_table", path="c.xlsx")
    assert "not a table that this tool knows" in refused("read_table", path="d.pdf")
    assert ok("read_table", path="e.csv")["total"] == 0


# --- write_table -----------------------------------------------------------------------------------------
def test_write_text_tables(here):
    rows = [["a,b", 1], ['"', 2.5], [None, True]]
    ok("write_table", path="o.csv", columns=["x", "y"], rows=rows)
    assert (here / "o.csv").read_text() == 'x,y\n"a,b",1\n"""",2.5\n,true\n'
    ok("write_table", path="o.tsv", columns=["x", "y"], rows=rows)
    assert (here / "o.tsv").read_text() == 'x\ty\na,b\t1\n""""\t2.5\n\ttrue\n'
    ok("write_table", path="o.json", columns=["x", "y"], rows=rows[:1])
    assert json.loads((here / "o.json").read_text()) == [{"x": "a,b", "y": 1}]
    ok("write_table", path="o.jsonl", columns=["x"], rows=[["ä"], [1]])
    assert (here / "o.jsonl").read_text() == '{"x": "ä"}\n{"x": 1}\n'
    said = refused("write_table", path="o.csv", columns=["x", "y"], rows=[[1, 2], [1]])
    assert said == "rows.1: 1 values for 2 columns"
    ok("write_table", path="one.csv", columns=["x"], rows=[[None], [1]])
    assert ok("read_table", path="one.csv")["rows"] == [[""], ["1"]]


def test_write_workbooks_deterministically(here):
    for name in ("a.xlsx", "b.xlsx"):
        ok("write_table", path=name, columns=["x", "y"], rows=[["t", 1.5], [None, True]], sheet="S")
    data = (here / "a.xlsx").read_bytes()
    assert data == (here / "b.xlsx").read_bytes()
    with zipfile.ZipFile(BytesIO(data)) as book:
        assert {i.date_time for i in book.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert b"2000-01-01T00:00:00Z" in book.read("docProps/core.xml")
    ok("write_table", path="a.xlsx", columns=["z"], rows=[[2]], sheet="T")
    ok("write_table", path="a.xlsx", columns=["y"], rows=[[3]], sheet="S")
    assert ok("read_workbook", path="a.xlsx")["sheets"] == [
        {"name": "S", "rows": 2, "columns": 1, "header": ["y"]},
        {"name": "T", "rows": 2, "columns": 1, "header": ["z"]},
    ]


# --- edits -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "before", "where", "set_", "after"),
    [
        ("a.csv", CSV, {"id": "2"}, {"v": "9"}, CSV.replace(b'hi""";', b'hi""";9')),
        ("a.csv", CSV, {"id": 1}, {"name": "x"}, CSV.replace(b'"a;b"', b'"x"')),
        ("a.csv", CSV, {"id": "03"}, {"name": "y;z", "v": 1}, CSV.replace(b"c;7", b'"y;z";1')),
        ("a.csv", b"\xef\xbb\xbfa,b\n1,\xc3\xa4", {"a": 1}, {"b": "\u00fc"}, b"\xef\xbb\xbfa,b\n1,\xc3\xbc"),
        ("a.csv", b"a,b\n\xfc,1\nx,1\n", {"a": "x"}, {"b": 2}, b"a,b\n\xfc,1\nx,2\n"),
        ("a.csv", "a,b\nü,1\n".encode("utf-16-le"), {"b": 1}, {"b": 2}, None),
        ("a.json", JSON, {"a": 1}, {"b": "x"}, JSON.replace(b"2.50", b'"x"')),
        ("a.jsonl", b'{"a":1}\n{"a":2, "b":3}\n', {"a": 1}, {"b": 4}, b'{"a":1, "b": 4}\n{"a":2, "b":3}\n'),
    ],
    ids=["empty-cell", "quoted", "needs-quotes", "bom", "cp1252", "no-mark", "json", "jsonl-new-field"],
)
def test_an_edit_keeps_every_other_byte(here, name, before, where, set_, after):
    (here / name).write_bytes(before)
    if after is None:
        assert "no column" in refused("edit_table", path=name, where=where, set=set_)
        after = before
    else:
        answer = use("edit_table", path=name, where=where, set=set_)
        assert (answer["output"], answer["writes"]) == ('{"changed": 1}', [name])
    assert (here / name).read_bytes() == after


def test_an_edit_that_matches_nothing_writes_nothing(here):
    (here / "a.csv").write_bytes(CSV)
    answer = use("edit_table", path="a.csv", where={"id": "9"}, set={"v": "1"})
    assert (answer["output"], answer["writes"]) == ('{"changed": 0}', [])
    assert (here / "a.csv").read_bytes() == CSV


@pytest.mark.parametrize(
    ("data", "where", "set_", "words"),
    [
        (b"a,a\n1,2\n", {"a": "1"}, {"a": "3"}, "2 columns are called 'a'"),
        (b"a,b\n1\n", {"a": "1"}, {"b": "3"}, "row 2 has only 1 fields"),
        (b"a,b\n\xfc,2\n", {"b": "2"}, {"a": "\u4e2d"}, "cannot be written in the file's encoding"),
    ],
    ids=["twice", "short", "encoding"],
)
def test_edits_that_cannot_be_made(here, data, where, set_, words):
    (here / "a.csv").write_bytes(data)
    assert words in refused("edit_table", path="a.csv", where=where, set=set_)
    assert (here / "a.csv").read_bytes() == data


def workbook(path):
    book = Workbook()
    first = book.worksheets[0]
    first.title = "Data"
    first.append(["id", "v"])
    first.append([1, 10])
    first.append(["2", 20])
    first["B3"].number_format = "0.00"
    other = book.create_sheet("Other")
    other["C5"] = "=1+1"
    other.column_dimensions["C"].width = 33
    book.save(path)


def test_edit_a_table_in_a_workbook(here):
    workbook(here / "a.xlsx")
    assert ok("edit_table", path="a.xlsx", where={"id": 2}, set={"v": 21.5}) == {"changed": 1}
    book = load_workbook(here / "a.xlsx")
    assert [[c.value for c in row] for row in book["Data"]] == [["id", "v"], [1, 10], ["2", 21.5]]
    assert book["Data"]["B3"].number_format == "0.00"
    assert book["Other"]["C5"].value == "=1+1"
    assert book["Other"].column_dimensions["C"].width == 33
    before = (here / "a.xlsx").read_bytes()
    assert ok("edit_table", path="a.xlsx", where={"id": 77}, set={"v": 1}) == {"changed": 0}
    assert (here / "a.xlsx").read_bytes() == before


def test_values_of_a_workbook_keep_their_kind(here):
    import datetime

    ok("write_table", path="a.xlsx", columns=["x"], rows=[["=1+1"]])
    assert ok("read_table", path="a.xlsx")["rows"] == [["=1+1"]]
    book = Workbook()
    book.worksheets[0].append(["id", "day"])
    book.worksheets[0].append([1, datetime.datetime(2024, 1, 5)])
    book.save(here / "b.xlsx")
    ok("edit_table", path="b.xlsx", where={"day": "2024-01-05"}, set={"day": "2024-02-01"})
    assert load_workbook(here / "b.xlsx").worksheets[0]["B2"].value == datetime.datetime(2024, 2, 1)
    assert ok("read_table", path="b.xlsx")["rows"] == [[1, "2024-02-01"]]
    assert "at most 32767" in refused("write_table", path="c.xlsx", columns=["x"], rows=[["x" * 40_000]])
    assert not (here / "c.xlsx").exists()


def test_edit_cells_of_a_workbook(here):
    workbook(here / "a.xlsx")
    assert ok("edit_workbook", path="a.xlsx", sheet="Other", cells={"a1": "x", "C5": 3}) == {"changed": 2}
    book = load_workbook(here / "a.xlsx")
    assert (book["Other"]["A1"].value, book["Other"]["C5"].value, book["Data"]["B2"].value) == ("x", 3, 10)
    assert "no sheet 'X'; it has Data, Other" in refused("edit_workbook", path="a.xlsx", sheet="X", cells={"A1": 1})
    assert "outside of a sheet" in refused("edit_workbook", path="a.xlsx", sheet="Data", cells={"ZZZ1": 1})
    assert "cannot hold" in refused("edit_workbook", path="a.xlsx", sheet="Data", cells={"A1": "\x01"})


# --- arguments -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("read_file", {}, "'path' is a required property"),
        ("read_file", {"path": 3}, "path: 3 is not of type 'string'"),
        ("read_file", {"path": "a", "mode": "r"}, "Additional properties are not allowed"),
        ("read_table", {"path": "a", "limit": 5001}, "limit: 5001 is greater than the maximum of 5000"),
        ("write_table", {"path": "a", "columns": ["x", "x"], "rows": []}, "columns: "),
        ("write_table", {"path": "a", "columns": ["x"], "rows": [[{}]]}, "rows.0.0: "),
        ("edit_table", {"path": "a", "where": {}, "set": {"a": 1}}, "where: "),
        ("edit_workbook", {"path": "a", "sheet": "s", "cells": {"1B": 1}}, "cells: "),
    ],
)
def test_bad_arguments_are_named(name, arguments, words):
    found = argument_error(name, arguments)
    assert words in found
    assert "\n" not in found


def test_a_harness_names_tools_that_exist():
    assert [t.name for t in offered(("shell", "read_file"))] == ["shell", "read_file"]
    with pytest.raises(PackageError, match=r"harness/harness\.json: tools\.1: no tool is called 'fly'"):
        offered(("shell", "fly"))
    assert set(TOOLS) >= {"list_files", "read_table", "edit_workbook"}


# --- rows at the end ---------------------------------------------------------------------------------------
def test_append_rows_makes_the_file_and_goes_on(here):
    asked = {"path": "out/new.csv", "columns": ["id", "qty"]}
    assert ok("append_rows", **asked, rows=[["a", 1]]) == {"appended": 1}
    turned = {"path": "out/new.csv", "columns": ["qty", "id"]}
    assert ok("append_rows", **turned, rows=[[2, "b,c"], [None, "d"]]) == {"appended": 2}
    assert (here / "out/new.csv").read_text() == 'id,qty\na,1\n"b,c",2\nd,\n'


def test_append_rows_leaves_what_is_there(here):
    (here / "a.csv").write_bytes(b'\xef\xbb\xbfid;"n"\r\n 7 ;"x"')
    answer = use("append_rows", path="a.csv", columns=["id", "n"], rows=[["8", "y;z"]])
    assert answer["reads"] == answer["writes"] == ["a.csv"]
    assert (here / "a.csv").read_bytes() == b'\xef\xbb\xbfid;"n"\r\n 7 ;"x"\r\n8;"y;z"\r\n'
    (here / "t.tsv").write_text("a\tb\n")
    assert ok("append_rows", path="t.tsv", columns=["a", "b"], rows=[]) == {"appended": 0}
    assert (here / "t.tsv").read_text() == "a\tb\n"


def test_append_rows_refuses_other_columns_and_kinds(here):
    (here / "a.csv").write_text("id,n\n1,2\n")
    other = refused("append_rows", path="a.csv", columns=["id", "m"], rows=[[1, 2]])
    assert "its columns are id, n, not id, m" in other
    assert "1 values for 2 columns" in refused("append_rows", path="a.csv", columns=["id", "n"], rows=[[1]])
    assert "csv and tsv" in refused("append_rows", path="a.xlsx", columns=["id"], rows=[[1]])
    assert (here / "a.csv").read_text() == "id,n\n1,2\n"
