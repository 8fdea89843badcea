"""The check library: what counts as the same value, what can be read, and what each comparer finds."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

import rover.verify.checklib as rc
from rover.verify.checklib import Evidence, Table, Unreadable
from rover.verify.checklib.prose import figures
from rover.verify.checklib.read import forget

TOTALS = Table(("region", "total", "day"), (("North", 1234.5, "2024-03-01"), ("South", 7, "2024-03-02")), "totals")


def workbook(path: Path, sheets: dict[str, list[list[Any]]]) -> Path:
    from openpyxl import Workbook

    book = Workbook()
    book.remove(book.worksheets[0])
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def put(root: Path, **states: dict[str, bytes | str]) -> Evidence:
    for state, files in states.items():
        for name, data in files.items():
            path = root / state / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data.encode() if isinstance(data, str) else data)
    return Evidence(root=root)


class TestValues:
    @pytest.mark.parametrize(
        ("written", "value"),
        [
            ("1,234.50", 1234.5), ("1234.5", 1234.5), ("1234.500", 1234.5), ("€1,234.50", 1234.5),
            ("1,234.50 EUR", 1234.5), ("1.234,50", 1234.5), ("1 234,5", 1234.5), ("1\u202f234.50", 1234.5),
            ("1'234.5", 1234.5), ("(12.50)", -12.5), ("−5", -5.0), ("-$5", -5.0), ("$-5", -5.0), ("12 %", 12.0),
            ("1,234", 1234.0), ("0,125", 0.125), ("12,5", 12.5), ("1e3", 1000.0), (" 7 ", 7.0), (7, 7.0), ("+3", 3.0),
        ],
    )  # fmt: skip
    def test_numbers(self, written: object, value: float) -> None:
        assert rc.number(written) == value

    @pytest.mark.parametrize("written", ["", "abc", "nan", "inf", True, None, "1,23,4", "Q3", 10**400, [1], "1" * 99])
    def test_no_numbers(self, written: object) -> None:
        assert rc.number(written) is None

    @pytest.mark.parametrize(
        ("written", "day"),
        [
            ("2024-03-01", "2024-03-01"), ("2024/3/1", "2024-03-01"), ("1.3.2024", "2024-03-01"),
            ("20240301", "2024-03-01"), ("13/04/2024", "2024-04-13"), ("04/13/2024", "2024-04-13"),
            ("3 March 2024", "2024-03-03"), ("Mar 3, 2024", "2024-03-03"), ("2024-03-01T00:00:00", "2024-03-01"),
            ("03/04/2024", None), ("2024-13-01", None), ("March 2024", None), ("", None), (None, None),
        ],
    )  # fmt: skip
    def test_dates(self, written: object, day: str | None) -> None:
        assert rc.date(written) == day

    def test_same_follows_the_expected_kind(self) -> None:
        assert rc.same("1,234.50", 1234.5)
        assert rc.same("1234.51", 1234.5, tolerance=0.01)
        assert not rc.same("1234.52", 1234.5, tolerance=0.01)
        assert rc.same(" north  WEST", "North West")
        assert rc.same("1 March 2024", "2024-03-01")
        assert rc.same("Yes", True)
        assert rc.same(7, "007")
        assert not rc.same("7", "007")
        assert rc.same("", None)
        assert not rc.same("0", None)
        assert not rc.same([1234.5], 1234.5)

    def test_floats_that_are_sums_have_slack(self) -> None:
        assert rc.same_number(0.1 + 0.2, 0.3)
        assert not rc.same_number(0.3 + 1e-6, 0.3)


class TestReaders:
    @pytest.mark.parametrize(
        "data",
        [
            b"a,b\n1,x\n", b"a;b\r\n1;x\r\n", b"\xef\xbb\xbfa,b\n1,x\n", "a,b\n1,x\n".encode("utf-16"),
            b"a|b\n1|x\n", b'"a","b"\n"1","x"\n\n', b"a\tb\n1\tx",
        ],
    )  # fmt: skip
    def test_delimited(self, tmp_path: Path, data: bytes) -> None:
        (tmp_path / "t.csv").write_bytes(data)
        found = rc.table(tmp_path / "t.csv")
        assert (found.columns, found.rows) == (("a", "b"), (("1", "x"),))

    def test_windows_encoding(self, tmp_path: Path) -> None:
        (tmp_path / "t.csv").write_bytes("a\nMüller\n".encode("cp1252"))
        assert rc.table(tmp_path / "t.csv").rows == (("Müller",),)

    def test_short_rows_are_filled_and_long_ones_refused(self, tmp_path: Path) -> None:
        (tmp_path / "s.csv").write_text("a,b\n1\n")
        assert rc.table(tmp_path / "s.csv").rows == (("1", None),)
        (tmp_path / "l.csv").write_text("a,b\n1,234.5,x\n")
        with pytest.raises(Unreadable, match="row 2 has more cells"):
            rc.table(tmp_path / "l.csv")

    def test_workbook(self, tmp_path: Path) -> None:
        import datetime

        rows: list[list[Any]] = [[None, None], ["a", "day"], [1.0, datetime.datetime(2024, 3, 1)], ["=1+1", None]]
        path = workbook(tmp_path / "t.xlsx", {"First": [["x"], [1]], "Data": rows})
        found = rc.table(path, "data")
        assert found.columns == ("a", "day")
        assert found.rows == ((1, "2024-03-01"), ("=1+1", None))
        assert len(found.formulas) == 1
        assert rc.sheets(path) == ("First", "Data")
        assert rc.table(path).columns == ("x",)
        with pytest.raises(Unreadable, match="no sheet 'Other'"):
            rc.table(path, "Other")

    def test_objects(self, tmp_path: Path) -> None:
        (tmp_path / "t.json").write_text('[{"a": 1}, {"a": 2, "b": "x"}]')
        (tmp_path / "t.jsonl").write_text('{"a": 1}\n\n{"a": 2, "b": "x"}\n')
        want = (("a", "b"), ((1, None), (2, "x")))
        assert (rc.table(tmp_path / "t.json").columns, rc.table(tmp_path / "t.json").rows) == want
        assert rc.table(tmp_path / "t.jsonl").rows == want[1]

    @pytest.mark.parametrize(
        ("name", "data", "why"),
        [
            ("t.csv", b"", "is empty"), ("t.csv", b"a\x00b\n", "NUL"), ("t.xlsx", b"PK\x03\x04junk", "corrupt"),
            ("t.xlsx", b"\xd0\xcf\x11\xe0" * 100, "corrupt or password"), ("t.json", b"{", "not valid JSON"),
            ("t.json", b"[" * 100_000, "not valid JSON"), ("t.json", b"[NaN]", "not valid JSON"),
            ("t.json", b"[1]", "no list of objects"), ("t.pdf", b"x", "is no table"),
            ("t.csv", b"\xff\xfea\x00\x00", "UTF-16"),
        ],
    )  # fmt: skip
    def test_hostile_files_are_unreadable(self, tmp_path: Path, name: str, data: bytes, why: str) -> None:
        (tmp_path / name).write_bytes(data)
        with pytest.raises(Unreadable, match=why):
            rc.table(tmp_path / name)

    def test_absent_links_folders_and_pipes(self, tmp_path: Path) -> None:
        (tmp_path / "real.csv").write_text("a\n1\n")
        (tmp_path / "link.csv").symlink_to("real.csv")
        (tmp_path / "folder.csv").mkdir()
        os.mkfifo(tmp_path / "pipe.csv")
        for name in ("link.csv", "folder.csv", "pipe.csv", "absent.csv", "a" * 300 + ".csv"):
            with pytest.raises(Unreadable):
                rc.table(tmp_path / name)

    def test_zip_bomb_and_wide_sheet(self, tmp_path: Path) -> None:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
            z.writestr("xl/worksheets/sheet1.xml", b"0" * (300 << 20))
        (tmp_path / "bomb.xlsx").write_bytes(out.getvalue())
        with pytest.raises(Unreadable, match="unpacks to"):
            rc.table(tmp_path / "bomb.xlsx")
        path = workbook(tmp_path / "wide.xlsx", {"S": [["a"]]})
        from openpyxl import load_workbook

        book = load_workbook(path)
        book.worksheets[0].cell(row=1_000_000, column=16_000).value = 1
        book.save(path)
        with pytest.raises(Unreadable, match="too many cells"):
            rc.table(path)

    def test_column_names(self) -> None:
        t = Table((" Region ", "x", "X"), ((1, 2, 3),), "t")
        assert t.index("region") == 0
        assert t.index("x") == 1
        with pytest.raises(Unreadable, match="no column 'y'"):
            t.index("y")
        with pytest.raises(Unreadable, match="2 columns"):
            Table(("a", "A "), (), "t").index(" a")


class TestTables:
    def found(self, *rows: tuple[Any, ...]) -> Table:
        return Table(("Region", "total", "day"), rows, "report.csv")

    def test_rows(self) -> None:
        right = self.found(("south", 0, ""), ("NORTH ", 0, ""))
        assert rc.rows_match(right, TOTALS, ["region"]) == (1.0, "as asked")
        wrong = self.found(("South", 0, ""), ("South", 0, ""), ("West", 0, ""))
        score, reason = rc.rows_match(wrong, TOTALS, ["region"])
        assert score == 0.25
        assert "missing: North" in reason
        assert "more than once: South" in reason
        assert "too many: West" in reason
        assert rc.rows_match(self.found(), TOTALS, ["region"])[0] == 0.0
        assert rc.rows_match(self.found(), Table(("region",), (), "none"), ["region"])[0] == 1.0

    def test_keys_compare_by_kind(self) -> None:
        dated = Table(("day",), (("2024-03-01",),), "d")
        assert rc.rows_match(Table(("day",), (("1 March 2024",),), "r"), dated, ["day"])[0] == 1.0
        years = Table(("year",), ((2024,),), "y")
        assert rc.rows_match(Table(("year",), (("2024",),), "r"), years, ["year"])[0] == 1.0

    def test_cells(self) -> None:
        found = self.found(("South", "7.0", "2 March 2024"), ("North", "1,234.50", "2024-03-01"), ("West", "x", ""))
        assert rc.cells_match(found, TOTALS, ["region"], "total")[0] == 1.0
        assert rc.cells_match(found, TOTALS, ["region"], "day")[0] == 1.0
        score, reason = rc.cells_match(self.found(("North", "1235", "")), TOTALS, ["region"], "total", tolerance=0.4)
        assert score == 0.0
        assert "2 of 2" in reason
        assert "North: 1235" in reason
        twice = self.found(("North", 1234.5, ""), ("North", 1, ""), ("South", 7, ""))
        assert rc.cells_match(twice, TOTALS, ["region"], "total")[0] == 0.5

    def test_columns(self) -> None:
        found = self.found()
        assert rc.has_columns(found, ["region", "day"])[0] == 1.0
        assert rc.has_columns(found, ["region", "sum"]) == (0.5, "report.csv lacks the column sum")
        assert rc.has_columns(found, ["region"], extra=False)[0] < 1
        assert rc.has_columns(found, ["day", "region"], order=True)[0] < 1

    def test_order(self) -> None:
        def column(*cells: Any) -> Table:
            return Table(("v",), tuple((c,) for c in cells), "r")

        assert rc.in_order(column("10", "9", "9"), "v", descending=True)[0] == 1.0
        assert rc.in_order(column("9", "10"), "v")[0] == 1.0
        assert rc.in_order(column("b", "a", "c"), "v")[0] == 0.5
        assert rc.in_order(column("1", "x"), "v", kind="number")[0] == 0.0
        assert rc.in_order(column(), "v")[0] == 0.0
        assert rc.in_order(column("1"), "v")[0] == 1.0

    def test_every(self) -> None:
        assert rc.every((1.0, "as asked"), (1.0, "as asked")) == (1.0, "as asked")
        assert rc.every((1.0, "fine"), (0.5, "half"), (0.0, "none")) == (0.5, "half; none")


class TestObjects:
    def test_fields(self) -> None:
        obj = {"total": "1,234.5", "n": 3}
        assert rc.has_fields(obj, ["total"])[0] == 1.0
        assert rc.has_fields(obj, ["total", "x"]) == (0.5, "missing field: x")
        assert rc.field_is(obj, "total", Table(("t",), ((1234.5,),), "a"))[0] == 1.0
        assert rc.field_is(obj, "n", 4)[0] == 0.0
        with pytest.raises(Unreadable, match="no field 'm'"):
            rc.field_is(obj, "m", 4)

    def test_sets(self) -> None:
        want = Table(("id",), (("A1",), ("B2",)), "ids")
        assert rc.set_is({"ids": ["b2", "A1"]}, "ids", want)[0] == 1.0
        assert rc.set_is({"ids": ["B2", "B2", "C3"]}, "ids", want)[0] == 0.25
        assert rc.set_is({"ids": "A1"}, "ids", want)[0] == 0.0
        assert rc.set_is({"ids": [{}]}, "ids", want)[0] == 0.0

    def test_records(self) -> None:
        want = Table(("id", "gap"), (("A1", 5), ("B2", 7)), "gaps")
        right = [{"id": "B2", "gap": 7.004, "note": ""}, {"id": "A1", "gap": "5"}]
        assert rc.records_match({"r": right}, "r", want, ["id"], ["gap"], tolerances={"gap": 0.01})[0] == 1.0
        score, reason = rc.records_match({"r": right}, "r", want, ["id"], ["gap"])
        assert score == 0.5
        assert "B2: gap is 7.004" in reason
        assert rc.records_match({"r": [*right, {"id": "C"}]}, "r", want, ["id"], ["gap"], tolerances={"gap": 1})[0] < 1
        assert rc.records_match({"r": []}, "r", want, ["id"], ["gap"])[0] == 0.0
        assert rc.records_match({"r": [1]}, "r", want, ["id"], ["gap"])[0] == 0.0


class TestText:
    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("Total: 1,234.50 EUR.", [1234.5]), ("In Q3, INV-001: 12 of 40 (5%)", [12, 40, 5]), ("- 12 rows", [12]),
            ("on 2024-01-02 and 3 March 2024: 7", [7]), ("-5.00 and €-6", [-5, -6]), ("1st, 12:30, a.b2", []),
            ("1. first: 3", [3]), ("v1.2.3", []), ("5EUR", [5]),
        ],
    )  # fmt: skip
    def test_figures(self, text: str, found: list[float]) -> None:
        assert figures(text) == found

    @pytest.mark.parametrize(
        "text",
        [
            "Total revenue: 1,234.50 EUR", "**Total revenue** was 1234.5.", "| Total  revenue | 1234.50 |",
            "In 2024 the total revenue\nof the 3 shops was 1,234.5 EUR.", "Total\nrevenue came to 1234.5.",
            "- total revenue: €1,234.50\n- cost: 3",
        ],
    )  # fmt: skip
    def test_figure_near(self, text: str) -> None:
        assert rc.figure_near(text, "Total revenue", 1234.5)[0] == 1.0

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("Cost: 1234.5", "nothing is said"), ("Total revenue: 1234\nCost: 1234.5", "is 1234,"),
            ("Total revenue: 7 1 2 3 4 5 1234.5", "more than 6 figures"), ("Total revenue is fine", "missing"),
            ("Total revenue: 5\nTotal cost: 1234.5\n", "is 5,"), ("# Total revenue\n\n1234.5", "missing"),
        ],
    )  # fmt: skip
    def test_figure_elsewhere(self, text: str, why: str) -> None:
        score, reason = rc.figure_near(text, "Total revenue", 1234.5)
        assert score == 0.0
        assert why in reason

    def test_label_digits_are_no_figure(self) -> None:
        assert rc.figure_near("Orders in 2024: 12", "Orders in 2024", 2024)[0] == 0.0
        assert rc.figure_near("Orders in 2024: 12", "Orders in 2024", 12)[0] == 1.0

    def test_words_and_dates(self) -> None:
        assert rc.figure_near("Best region: North West.", "best region", "north west")[0] == 1.0
        assert rc.figure_near("Best region: Northern", "best region", "North")[0] == 0.0
        assert rc.figure_near("Due date: 3 March 2024", "due date", "2024-03-03")[0] == 1.0

    def test_cites(self) -> None:
        assert rc.cites("See `data/Orders.csv`, notes.md.", ["data/orders.csv", "notes.md"])[0] == 1.0
        assert rc.cites("See my-orders.csv", ["orders.csv"])[0] == 0.0


class TestState:
    START = "id,status,amount,note\n1,open,1.50,a\n2,open,007,b\n3,closed,3,c\n"
    ROWS = Table(("id",), ((2,),), "rows")

    def both(self, root: Path, end: str) -> Evidence:
        return put(root, start={"t.csv": self.START}, end={"t.csv": end})

    def edit(self, ev: Evidence) -> tuple[rc.Result, rc.Result]:
        start, end = rc.table(ev.start("t.csv")), rc.table(ev.end("t.csv"))
        rest = rc.rest_unchanged(ev, "t.csv", key=["id"], edits={"status": self.ROWS})
        return rc.edited(start, end, ["id"], "status", self.ROWS, "closed"), rest

    def test_right_edit(self, tmp_path: Path) -> None:
        ev = self.both(tmp_path, "id,status,amount,note\n1,open,1.5,a\n2,Closed,007,b\n3,closed,3,c\n")
        assert [r[0] for r in self.edit(ev)] == [1.0, 1.0]

    def test_wrong_row(self, tmp_path: Path) -> None:
        ev = self.both(tmp_path, self.START.replace("1,open", "1,closed"))
        edit, rest = self.edit(ev)
        assert edit[0] == 0.0
        assert "not right in 1 of 1 rows" in edit[1]
        assert "1 other rows" in edit[1]
        assert "row 2, status" in rest[1]

    @pytest.mark.parametrize(
        ("old", "new"),
        [("1.50", "1.6"), ("007", "7"), ("note", "remark"), ("3,closed,3,c\n", ""), (",a\n", ",\n")],
    )
    def test_rest(self, tmp_path: Path, old: str, new: str) -> None:
        ev = self.both(tmp_path, self.START.replace("2,open", "2,closed").replace(old, new))
        assert self.edit(ev)[1][0] < 1.0

    def test_rest_of_a_workbook(self, tmp_path: Path) -> None:
        rows = [["id", "status"], [1, "open"], [2, "open"]]
        other: list[list[Any]] = [["k", "v"], ["x", "=1+1"]]
        (tmp_path / "start").mkdir()
        (tmp_path / "end").mkdir()
        workbook(tmp_path / "start/t.xlsx", {"Data": rows, "Other": other})
        ev = Evidence(root=tmp_path)
        edits = {"status": self.ROWS}

        def rest(sheets: dict[str, list[list[Any]]]) -> float:
            workbook(tmp_path / "end/t.xlsx", sheets)
            return rc.rest_unchanged(ev, "t.xlsx", sheet="Data", key=["id"], edits=edits)[0]

        done = [["id", "status"], [1, "open"], [2, "closed"]]
        assert rest({"Data": done, "Other": other}) == 1.0
        assert rest({"Data": done, "Other": [["k", "v"], ["x", 2]]}) < 1
        assert rest({"Data": done}) < 1
        assert rest({"Other": other, "Data": done}) < 1

    def test_protected_and_extra(self, tmp_path: Path) -> None:
        ev = put(tmp_path, start={"a.txt": "1", "d/b.txt": "2"}, end={"a.txt": "1\n", "x.txt": "", "out.csv": "a"})
        assert rc.protected(ev, ["a.txt"])[0] == 0.0
        score, reason = rc.protected(ev, ["a.txt", "d/b.txt", "never"])
        assert score == pytest.approx(1 / 3)
        assert "d/b.txt (deleted)" in reason
        score, reason = rc.no_extra(ev, ["out.csv"])
        assert score == 0.0
        assert "x.txt" in reason
        assert "deleted: d/b.txt" in reason

    def test_irregular_evidence(self, tmp_path: Path) -> None:
        ev = Evidence(root=tmp_path, irregular={"a.txt": "is a link, not a file"})
        with pytest.raises(Unreadable, match="is a link"):
            ev.end("a.txt")
        assert ev.files() == ("a.txt",)
        with pytest.raises(ValueError, match="no path inside"):
            ev.end("../x")


def test_what_was_read_is_forgotten_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of another state may lie where the one before lay, with its inode, its size and its time."""
    monkeypatch.chdir(tmp_path)
    said = []
    for where in ("start", "end"):
        Path(where).mkdir()
        file = Path(where, "a.csv")
        for text, start in (("k\n1\n", True), ("k\n2\n", False), ("k\n3\n", True)):
            file.write_text(text)
            os.utime(file, (0, 0))
            forget(start=start)
            said.append(rc.table(file).rows[0][0])
    assert said == ["1", "1", "3", "1", "2", "3"]


def test_anchor() -> None:
    ev = Evidence(anchors=json.loads('{"n": {"columns": ["n"], "rows": [[5]]}}'))
    assert ev.anchor("n") == Table(("n",), ((5,),), "n")
    assert ev.value("n") == 5
    with pytest.raises(KeyError):
        ev.anchor("m")
