"""Mutation rules: each op changes what it says and nothing else, the same way for the same seed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_checklib import workbook

from rover.verify.checklib import Table, cells_match, in_order, rows_match, table
from rover.verify.mutate import ALTERNATIVES, NEGATIVES, OPS, apply, apply_all, changed, laid

REPORT = b"region,orders,total\nEast,1,1310.10\nNorth,2,219.75\nSouth,2,125.75\nWest,1,1200.00\n"
FACTS = json.dumps({"total": 12.5, "ids": ["A1", "B2"], "items": [{"id": "A1", "gap": 5}, {"id": "B2", "gap": 7}]})
MEMO = "# Memo\n\n- Total revenue: 1,234.50 EUR\n- Orders in 2024: 12\n\nSee data/orders.csv.\nBest: North\n"
START = b"id,status,note\n1,open,a\n2,open,b\n3,open,c\n"


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A box with one state; the current folder, as inside a sandbox."""
    state = {
        "report.csv": REPORT, "facts.json": FACTS.encode(), "memo.md": MEMO.encode(),
        "t.csv": START.replace(b"2,open", b"2,closed"), "o.jsonl": b'{"a": 1, "b": "x"}\n{"a": 2, "b": "y"}\n',
        "kept.txt": b"kept\n",
    }  # fmt: skip
    for path, data in laid(state, {"t.csv": START, "kept.txt": b"kept\n"}).items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(data)
    workbook(tmp_path / "end/book.xlsx", {"Other": [["k"], [1]], "Data": [["a", "b"], [1, "x"], [2.5, "y"]]})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(box: Path, op: str, path: str, seed: int = 0, **arguments: Any) -> dict[str, bytes]:
    """Writes of one rule; the state on disk stays as it was."""
    before = {p: p.read_bytes() for p in box.rglob("*") if p.is_file()}
    answer = apply({"id": "m", "op": op, "path": path, "arguments": arguments, "seed": seed})
    assert "error" not in answer, answer
    assert {p: p.read_bytes() for p in box.rglob("*") if p.is_file()} == before
    return changed({}, answer) if not answer["deletes"] else dict.fromkeys(answer["deletes"], b"")


def after(box: Path, op: str, path: str, seed: int = 0, sheet: str | None = None, **arguments: Any) -> Table:
    more = {"sheet": sheet} if sheet else {}
    new = run(box, op, path, seed, **arguments, **more)
    assert list(new) == [path]
    target = box / "after" / path
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(new[path])
    return table(target, sheet)


WANT = Table(("region", "orders", "total"), (("East", 1, 1310.1), ("North", 2, 219.75), ("South", 2, 125.75),
                                             ("West", 1, 1200.0)), "want")  # fmt: skip


class TestNegatives:
    @pytest.mark.parametrize("seed", range(4))
    def test_rows(self, box: Path, seed: int) -> None:
        assert len(after(box, "drop_row", "report.csv", seed).rows) == 3
        for op in ("add_row", "duplicate_row"):
            found = after(box, op, "report.csv", seed, key=["region"])
            assert len(found.rows) == 5
            assert rows_match(found, WANT, ["region"])[0] < 1
        assert "North" not in after(box, "drop_row", "report.csv", where={"region": "north"}).column("region")

    @pytest.mark.parametrize("column", ["orders", "total", "region"])
    def test_cells(self, box: Path, column: str) -> None:
        found = after(box, "change_cell", "report.csv", column=column)
        assert sum(a != b for a, b in zip(found.rows, table(box / "end/report.csv").rows, strict=True)) == 1
        if column != "region":
            assert cells_match(found, WANT, ["region"], column, tolerance=0.01)[0] == 0.75

    def test_delta_and_value(self, box: Path) -> None:
        where = {"region": "West"}
        cells = after(box, "change_cell", "report.csv", column="total", where=where, delta=-0.5).column("total")
        assert cells[3] == "1199.50"
        cells = after(box, "change_cell", "report.csv", column="total", where=where, value=3).column("total")
        assert cells[3] == "3"

    def test_columns(self, box: Path) -> None:
        assert after(box, "drop_column", "report.csv", column="orders").columns == ("region", "total")
        assert after(box, "rename_column", "report.csv", column="orders", to="n").columns == ("region", "n", "total")

    def test_order(self, box: Path) -> None:
        for column in ("orders", "total", "region"):
            found = after(box, "unsort", "report.csv", column=column)
            assert in_order(found, column)[0] < 1
            assert in_order(found, column, descending=True)[0] < 1
            assert rows_match(found, WANT, ["region"])[0] == 1

    def test_other_cell_spares_what_is_edited(self, box: Path) -> None:
        for seed in range(6):
            found = after(box, "change_other_cell", "t.csv", seed, columns=["status"], key=["id"])
            assert found.column("id") == ["1", "2", "3"]
            assert found.column("status") == ["open", "closed", "open"]
            assert found.column("note") != ["a", "b", "c"]

    def test_edited_rows_and_revert(self, box: Path) -> None:
        for seed in range(4):
            found = after(box, "change_cell", "t.csv", seed, column="status", edited=True)
            assert found.column("status")[1] != "closed"
            assert found.column("status")[::2] == ["open", "open"]
        assert run(box, "revert", "t.csv") == {"t.csv": START}
        assert apply({"op": "revert", "path": "report.csv"}) == {"writes": {}, "deletes": ["report.csv"]}

    def test_files(self, box: Path) -> None:
        assert run(box, "delete", "report.csv") == {"report.csv": b""}
        assert run(box, "empty", "report.csv") == {"report.csv": b""}
        assert run(box, "touch", "kept.txt") == {"kept.txt": b"kept\n\n"}
        assert run(box, "extra_file", "scratch.txt") == {"scratch.txt": b"left over\n"}
        assert list(run(box, "extra_file", "kept.txt")) == ["kept-2.txt"]

    def test_objects(self, box: Path) -> None:
        facts = json.loads(FACTS)
        changes: dict[str, Any] = {"total": 13.5}
        for name in ("total", "ids", "items"):
            new = json.loads(run(box, "change_field", "facts.json", field=name)["facts.json"])
            assert {k: v for k, v in new.items() if k != name} == {k: v for k, v in facts.items() if k != name}
            assert new[name] == changes[name] if name in changes else len(new[name]) == 1
        assert "ids" not in json.loads(run(box, "drop_field", "facts.json", field="ids")["facts.json"])

    def test_list_in_an_object_is_a_table(self, box: Path) -> None:
        new = json.loads(run(box, "change_cell", "facts.json", field="items", column="gap")["facts.json"])
        assert {i["gap"] for i in new["items"]} != {5, 7}
        assert new["total"] == 12.5
        new = json.loads(run(box, "drop_row", "facts.json", field="ids")["facts.json"])
        assert len(new["ids"]) == 1

    @pytest.mark.parametrize("path", ["book.xlsx", "o.jsonl"])
    def test_other_formats(self, box: Path, path: str) -> None:
        sheet = "Data" if path.endswith("xlsx") else None
        assert len(after(box, "drop_row", path, sheet=sheet).rows) == 1
        assert after(box, "drop_column", path, sheet=sheet, column="b").columns == ("a",)
        changed_cell = after(box, "change_cell", path, sheet=sheet, column="a")
        assert changed_cell.columns == ("a", "b")
        assert changed_cell.column("b") == ["x", "y"]

    def test_figures(self, box: Path) -> None:
        memo = run(box, "change_figure", "memo.md", label="Total revenue")["memo.md"].decode()
        assert memo == MEMO.replace("1,234.50", "1357.50")
        memo = run(box, "change_figure", "memo.md", label="Orders in 2024", delta=3)["memo.md"].decode()
        assert memo == MEMO.replace(": 12", ": 15")
        memo = run(box, "drop_figure", "memo.md", label="total  revenue")["memo.md"].decode()
        assert memo == MEMO.replace("1,234.50", "")
        memo = run(box, "change_figure", "memo.md", label="Best")["memo.md"].decode()
        assert memo == MEMO.replace("North", "unknown")
        memo = run(box, "drop_mention", "memo.md", text="data/orders.csv")["memo.md"].decode()
        assert "orders.csv" not in memo


class TestAlternatives:
    @pytest.mark.parametrize("op", ["shuffle_rows", "reorder_columns", "reformat_numbers", "extra_column"])
    @pytest.mark.parametrize("path", ["report.csv", "book.xlsx", "o.jsonl"])
    def test_same_values(self, box: Path, op: str, path: str) -> None:
        if op == "reformat_numbers" and path == "o.jsonl":
            op = "reorder_columns"
        sheet = "Data" if path.endswith("xlsx") else None
        want = table(box / "end" / path, sheet)
        found = after(box, op, path, sheet=sheet)
        key = want.columns[0]
        assert rows_match(found, want, [key], kind={key: "number" if key == "a" else "text"})[0] == 1.0
        for column in want.columns[1:]:
            kind = {"a": "number", "b": "text"}.get(column, "number")
            how = {key: "number" if key == "a" else "text"}
            assert cells_match(found, want, [key], column, kind=kind, key_kind=how)[0] == 1.0
        assert (found.columns, found.rows) != (want.columns, want.rows) or op == "reformat_numbers"

    def test_written_numbers(self, box: Path) -> None:
        cells = after(box, "reformat_numbers", "report.csv").column("total")
        assert cells == ["1,310.10", "219.750", "125.750", "1,200.00"]

    def test_identifiers_are_no_numbers(self, box: Path) -> None:
        (box / "end/ids.csv").write_text("id,v\n007,1.5\n010,2.5\n")
        assert after(box, "reformat_numbers", "ids.csv").column("id") == ["007", "010"]

    def test_text_json_and_workbook(self, box: Path) -> None:
        assert run(box, "trailing_newline", "report.csv") == {"report.csv": REPORT + b"\n"}
        new = run(box, "reindent_json", "facts.json")["facts.json"]
        assert new != FACTS.encode()
        assert json.loads(new) == json.loads(FACTS)
        book = run(box, "rewrite_xlsx", "book.xlsx")["book.xlsx"]
        assert book != (box / "end/book.xlsx").read_bytes()
        (box / "after.xlsx").write_bytes(book)
        assert table(box / "after.xlsx", "Data").rows == table(box / "end/book.xlsx", "Data").rows


@pytest.mark.parametrize("path", ["report.csv", "book.xlsx", "o.jsonl"])
@pytest.mark.parametrize("op", ["drop_row", "shuffle_rows", "change_cell", "extra_column"])
def test_deterministic(box: Path, op: str, path: str) -> None:
    sheet = {"sheet": "Data"} if path.endswith("xlsx") else {}
    rule = {"id": "m", "op": op, "path": path, "arguments": sheet, "seed": 5}
    assert apply(rule) == apply(rule)


def test_rules_that_change_nothing_say_why(box: Path) -> None:
    answers = apply_all(
        {
            "seed": 1,
            "rules": [
                {"op": "explode", "path": "report.csv"},
                {"op": "delete", "path": "absent.csv"},
                {"op": "change_cell", "path": "report.csv", "arguments": {"column": "nope"}},
                {"op": "change_figure", "path": "memo.md", "arguments": {"label": "Nowhere"}},
                {"op": "change_figure", "path": "memo.md"},
                {"op": "drop_row", "path": "memo.md", "arguments": {"where": {"# Memo": 5}}},
                {"op": "delete", "path": "../kept.txt"},
                {"op": "revert", "path": "kept.txt"},
                {"op": "rewrite_xlsx", "path": "report.csv"},
            ],
        }
    )
    assert all(set(a) == {"error"} and "\n" not in a["error"] for a in answers), answers
    assert "explode" in answers[0]["error"]


def test_every_op_has_a_side() -> None:
    assert OPS == NEGATIVES | ALTERNATIVES
    assert not NEGATIVES.keys() & ALTERNATIVES.keys()
