"""The oracle's readings: every kind of rule, satisfied and broken, on end states written here."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from rover.diagnose.oracle import text as oracle_text
from rover.diagnose.oracle.inside import judge, judge_many
from rover.diagnose.oracle.values import equal, number

SALES = "id,region,amount,status\n1,North,10.50,open\n2,South,20,open\n3,North,1.25,closed\n"
TOTALS: dict[str, Any] = {"columns": ["region", "total"], "rows": [["North", 11.75], ["South", 20.0]]}
COLUMNS = [{"name": "region", "type": "text"}, {"name": "total", "type": "number", "tolerance": 0.005}]


def query(path: str = "sales.csv") -> dict[str, Any]:
    return {"answer": {"source": {"path": path}}}


class Bench:
    """A start and an end state in a folder that is the current one, as in a box."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.put("start/sales.csv", SALES)
        self.put("end/sales.csv", SALES)

    def put(self, path: str, content: str | bytes) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)

    def judge(
        self,
        rule: dict[str, Any],
        answers: dict[str, Any] | None = None,
        *,
        kind: str = "csv",
        path: str = "out.csv",
        columns: list[dict[str, Any]] | None = None,
        key: tuple[str, ...] = ("region",),
        same: dict[str, Any] | None = None,
        givens: tuple[dict[str, Any], ...] = (),
        more: tuple[dict[str, Any], ...] = (),
    ) -> dict[str, Any]:
        deliverable = {"id": "d", "path": path, "type": kind, "columns": columns or COLUMNS, "key": list(key)}
        contract = {
            "givens": list(givens),
            "deliverables": [deliverable],
            "requirements": [{"id": "r", "deliverable": "d", "rule": rule}, *more],
            "same": same or {},
        }
        found: dict[str, Any] = judge({"contract": contract, "answers": answers or {}})["r"]
        return found

    def ok(self, *args: Any, **kwargs: Any) -> bool:
        return bool(self.judge(*args, **kwargs)["ok"])


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.chdir(tmp_path)
    return Bench(tmp_path)


def test_format(bench: Bench) -> None:
    assert bench.judge({"kind": "format"}) == {"ok": False, "reason": "is not there"}
    bench.put("end/out.csv", "region,total\nNorth,1\n")
    assert bench.ok({"kind": "format"})
    bench.put("end/out.csv", "region;total\nNorth;1\n")
    assert bench.ok({"kind": "format"})
    bench.put("end/out.csv", "region,sum\nNorth,1\n")
    assert "total" in bench.judge({"kind": "format"})["reason"]
    bench.put("end/out.csv", "total,region,note\n1,North,x\n")
    assert bench.ok({"kind": "format"})
    assert not bench.ok({"kind": "format"}, same={"extra_columns": False})
    assert not bench.ok({"kind": "format"}, same={"column_order": True})
    bench.put("end/out.csv", b"\x00\x01")
    assert bench.judge({"kind": "format"})["reason"] == "is no text"
    bench.put("end/out.csv", "region,total\nNorth,1,2\n")
    assert "more cells in row 2" in bench.judge({"kind": "format"})["reason"]


def test_rows(bench: Bench) -> None:
    rule, answers = {"kind": "rows", "value": query()}, {"r:value": TOTALS}
    bench.put("end/out.csv", "total,region\n0,south \n0,NORTH\n")
    assert bench.ok(rule, answers)
    assert not bench.ok(rule, answers, same={"text_case": True})
    assert not bench.ok(rule, answers, same={"row_order": True})
    for rows in ("North,1\n", "North,1\nSouth,1\nSouth,1\n", "North,1\nSouth,1\nWest,1\n"):
        bench.put("end/out.csv", "region,total\n" + rows)
        assert not bench.ok(rule, answers)


def test_cells(bench: Bench) -> None:
    rule, answers = {"kind": "cells", "column": "total", "value": query()}, {"r:value": TOTALS}
    for total in ("11.75", "11.750", '"11.754"', "1.175e1"):
        bench.put("end/out.csv", f"region,total\nNorth,{total}\nSouth,20\n")
        assert bench.ok(rule, answers), total
    for total in ("11.76", "", "n/a", "-11.75"):
        bench.put("end/out.csv", f"region,total\nNorth,{total}\nSouth,20\n")
        assert not bench.ok(rule, answers), total
    bench.put("end/out.csv", "region,total\nSouth,20\n")
    assert "no row north" in bench.judge(rule, answers)["reason"]


def test_order(bench: Bench) -> None:
    rule = {"kind": "order", "column": "total", "descending": True}
    bench.put("end/out.csv", "region,total\nSouth,20\nNorth,9\nWest,9\n")
    assert bench.ok(rule)
    bench.put("end/out.csv", "region,total\nNorth,9\nSouth,20\n")
    assert not bench.ok(rule)


def test_json_fields_sets_and_records(bench: Bench) -> None:
    body = {
        "count": 2,
        "missing": ["B", "A"],
        "differences": [{"id": 2, "by": 0.5}, {"id": 1, "by": "1.00"}],
    }
    where: dict[str, Any] = {"kind": "json", "path": "f.json", "columns": [{"name": "count", "type": "integer"}]}
    field = {"kind": "field", "field": "count", "value": query()}
    members = {"kind": "set", "field": "missing", "value": query()}
    records = {
        "kind": "records",
        "field": "differences",
        "key": ["id"],
        "columns": [{"name": "id", "type": "integer"}, {"name": "by", "type": "number", "tolerance": 0.01}],
        "value": query(),
    }
    two = {"r:value": {"columns": ["n"], "rows": [[2]]}}
    letters = {"r:value": {"columns": ["id"], "rows": [["A"], ["B"]]}}
    pairs = {"r:value": {"columns": ["id", "by"], "rows": [[1, 1.0], [2, 0.5]]}}
    bench.put("end/f.json", json.dumps(body))
    assert bench.ok(field, two, **where)
    assert bench.ok(members, letters, **where)
    assert bench.ok(records, pairs, **where)
    bench.put("end/f.json", json.dumps({"count": 3, "missing": ["A"], "differences": body["differences"][:1]}))
    assert not bench.ok(field, two, **where)
    assert not bench.ok(members, letters, **where)
    assert not bench.ok(records, pairs, **where)
    bench.put("end/f.json", "[" * 100_000)
    assert "not JSON" in bench.judge(field, two, **where)["reason"]


def test_given_scalar(bench: Bench) -> None:
    rule = {"kind": "field", "field": "year", "value": {"given": "year"}}
    bench.put("end/f.json", '{"year": "2021"}')
    asked: dict[str, Any] = {"kind": "json", "path": "f.json"}
    assert bench.ok(rule, givens=({"name": "year", "value": 2021},), **asked)
    assert not bench.ok(rule, givens=({"name": "year", "value": 2022},), **asked)
    assert "no given" in bench.judge(rule, **asked)["error"]


def test_figures_and_citations(bench: Bench) -> None:
    rule = {"kind": "figure", "label": "Total sales", "value": query(), "tolerance": 0.5}
    answers = {"r:value": {"columns": ["t"], "rows": [[1234.5]]}}
    memo: dict[str, Any] = {"kind": "markdown", "path": "memo.md"}
    for content in (
        "# Memo\n- Total sales: 1,234.50\n",
        "The **total  sales** were $1234.5 in all.\n",
        "In that year total sales\ncame to 1,234. Good.\n",
        "| Total sales | 1 234.5 |\n",
    ):
        bench.put("end/memo.md", content.replace("**", ""))
        assert bench.ok(rule, answers, **memo), content
    for content in ("Total sales: 1,334.50\n", "Sales: 1234.5\n", "Total sales rose.\n\nIn all 1234.5.\n",
                    "- Total sales: 7\n- Costs: 1234.5\n"):
        bench.put("end/memo.md", content)
        assert not bench.ok(rule, answers, **memo), content
    bench.put("end/memo.md", "Source: data/sales.csv")
    assert bench.ok({"kind": "cite", "paths": ["data/sales.csv"]}, **memo)
    assert not bench.ok({"kind": "cite", "paths": ["data/sale.csv"]}, **memo)
    assert not oracle_text.names("see presales.csv", "sales.csv")


def test_edits_and_the_rest(bench: Bench) -> None:
    edit = {"kind": "edit", "column": "status", "rows": query(), "value": {"given": "new"}}
    rest = {"id": "x", "deliverable": "d", "rule": {"kind": "rest"}}
    sheet: dict[str, Any] = {
        "path": "sales.csv",
        "columns": [{"name": "id", "type": "integer"}, {"name": "status", "type": "text"}],
        "key": ("id",),
        "givens": ({"name": "new", "value": "late"},),
    }
    two = {"columns": ["id"], "rows": [[2]]}
    answers = {"r:rows": two, "y:rows": two}
    lines = SALES.splitlines()

    def both(content: str) -> tuple[bool, bool]:
        bench.put("end/sales.csv", content)
        swapped = dict(sheet, more=({"id": "y", "deliverable": "d", "rule": edit},))
        return bench.ok(edit, answers, **sheet), bench.ok(rest["rule"], answers, **swapped)

    done = SALES.replace("20,open", "20,late")
    assert both(done) == (True, True)
    assert both(SALES) == (False, True)
    assert both(done.replace("10.50,open", "10.50,late")) == (False, False)
    assert both(done.replace("1.25,closed", "1.25,open")) == (True, False)
    assert both(done.replace("1.25", "1.26")) == (True, False)
    assert both("\n".join([lines[0], *reversed(done.splitlines()[1:])])) == (True, False)
    assert both("\n".join(done.splitlines()[:-1])) == (True, False)


def test_protected_and_no_extra(bench: Bench) -> None:
    protected, alone = {"kind": "protected", "paths": ["sales.csv"]}, {"kind": "no_extra"}
    bench.put("end/out.csv", "region,total\n")
    assert bench.ok(protected)
    assert bench.ok(alone)
    bench.put("end/scratch.txt", "x")
    assert "scratch.txt" in bench.judge(alone)["reason"]
    bench.put("end/sales.csv", SALES + "\n")
    assert "changed" in bench.judge(protected)["reason"]
    (bench.root / "end/sales.csv").unlink()
    (bench.root / "end/sales.csv").symlink_to(bench.root / "start/sales.csv")
    assert not bench.ok(protected)


def test_workbooks(bench: Bench) -> None:
    from openpyxl import Workbook

    def book(total: object, note: str = "kept") -> bytes:
        made = Workbook()
        sheet = made.active
        assert sheet is not None
        sheet.title = "Totals"
        for row in (["region", "total"], ["North", total], ["South", 20]):
            sheet.append(row)
        made.create_sheet("Notes")["A1"] = note
        out = io.BytesIO()
        made.save(out)
        return out.getvalue()

    where: dict[str, Any] = {"kind": "xlsx", "path": "t.xlsx"}
    cells, answers = {"kind": "cells", "column": "total", "value": query()}, {"r:value": TOTALS}
    rest = {"kind": "rest"}
    editing = ({"id": "e", "deliverable": "d", "rule": {"kind": "edit", "column": "total"}},)
    bench.put("start/t.xlsx", book(0))
    bench.put("end/t.xlsx", book(11.75))
    assert bench.ok(cells, answers, **where)
    found = {"deliverables": [{"id": "d", "type": "xlsx", "path": "t.xlsx", "columns": COLUMNS, "key": ["region"]}]}
    job = {**found, "givens": [], "requirements": [{"id": "r", "deliverable": "d", "rule": rest}, *editing]}

    def rest_ok() -> bool:
        return bool(judge({"contract": job, "answers": {"e:rows": TOTALS}})["r"]["ok"])

    assert rest_ok()
    bench.put("end/t.xlsx", book(11.75, note="changed"))
    assert not rest_ok()
    bench.put("end/t.xlsx", b"PK nonsense")
    assert "workbook" in bench.judge(cells, answers, **where)["reason"]


def test_a_link_is_no_deliverable(bench: Bench) -> None:
    bench.put("end/out.csv", "region,total\n")
    (bench.root / "end/out.csv").unlink()
    (bench.root / "end/out.csv").symlink_to("/etc/hostname")
    assert bench.judge({"kind": "format"})["reason"] == "is a link"


@pytest.mark.parametrize(
    ("written", "value"),
    [("1,234.50", 1234.5), ("$12", 12.0), ("(3)", -3.0), ("12%", 12.0), ("1.2.3", None), ("", None), ("x1", None)],
)
def test_numbers(written: str, value: float | None) -> None:
    assert number(written) == value


def test_equal_by_type() -> None:
    assert equal("2021-03-04 00:00:00", "2021-03-04", {"type": "date"}, {})
    assert equal("4 March 2021", "2021-03-04", {"type": "date"}, {})
    assert not equal("03/04/2021", "2021-03-04", {"type": "date"}, {})
    assert not equal("2021-03-05", "2021-03-04", {"type": "date"}, {})
    assert equal("Yes", True, {"type": "boolean"}, {})
    assert equal(None, "", {"type": "text"}, {})
    assert not equal("", 0, {"type": "number"}, {})
    assert equal(7.0, "7", {"type": "text"}, {})
    assert not equal("1,234", 1234, {"type": "number"}, {"number_format": True})


def test_many_states_of_one_start(bench: Bench) -> None:
    contract = {
        "deliverables": [{"id": "d", "path": "out.csv", "type": "csv", "columns": COLUMNS, "key": ["region"]}],
        "requirements": [
            {"id": "made", "deliverable": "d", "rule": {"kind": "format"}},
            {"id": "kept", "rule": {"kind": "protected", "paths": ["sales.csv"]}},
            {"id": "alone", "rule": {"kind": "no_extra"}},
        ],
        "givens": [],
    }
    for path in sorted((bench.root / "end").iterdir()):
        path.unlink()
    bench.put("end/1/out.csv", "region,total\nNorth,1\n")
    quiet: dict[str, Any] = {"removed": [], "links": [], "message": ""}
    states = [quiet, quiet, dict(quiet, removed=["sales.csv"]), dict(quiet, links=["out.csv"])]
    found = judge_many({"contract": contract, "answers": {}, "states": states})
    assert [{k: v["ok"] for k, v in one.items()} for one in found] == [
        {"made": False, "kept": True, "alone": True},
        {"made": True, "kept": True, "alone": True},
        {"made": False, "kept": False, "alone": False},
        {"made": False, "kept": True, "alone": True},
    ]
