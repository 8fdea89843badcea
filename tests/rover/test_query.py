"""Both query engines: worked answers, what they refuse, and that they agree on whatever Hypothesis thinks of."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rover.construct.query import duck, frames
from rover.construct.query.agree import agree, same
from rover.construct.query.inside import derive
from rover_store.errors import PackageError
from rover_store.records.query import Derived, Filter, Given, Join, Measure, Order, Query, Source, Table

ENGINES = pytest.mark.parametrize("engine", [duck, frames], ids=["duckdb", "pandas"])
SALES = """id,region,amount,day,code,paid,note
1,north,1.005,2024-01-31,007,true,ab
2,south,-2.5,2024-02-01,008,false,
3,north,NA,,009,,NA
4,,2.345,2023-12-31,010,true,Ab
5,south,1e1,2024-02-29,010,false,zz
"""
REGIONS = [{"region": "north", "boss": "Ada", "size": 2}, {"region": "south", "boss": "Bo", "size": 0}]
GIVENS: dict[str, Any] = {
    "code": "010", "day": "2024-01-01", "zero": 0, "b": "b", "half": 0.5, "yes": True, "word": "x",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sales.csv").write_text(SALES)
    (tmp_path / "regions.json").write_text(json.dumps(REGIONS))
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "Plan"
    for row in (["region", "target", "from"], ["north", 12.5, "2024-01-01"], ["south", 7, None]):
        sheet.append(row)
    book.save(tmp_path / "plan.xlsx")
    return tmp_path


def sales(**steps: Any) -> Query:
    return Query(source=Source(path="sales.csv"), **steps)


def where(column: str, op: Any, value: str | None = None) -> Filter:
    return Filter(column=column, op=op, value=Given(given=value) if value else None)


WORKED = {
    "types": (sales(), (
        (1, "north", 1.005, "2024-01-31", "007", True, "ab"), (2, "south", -2.5, "2024-02-01", "008", False, None),
        (3, "north", None, None, "009", None, "NA"), (4, None, 2.345, "2023-12-31", "010", True, "Ab"),
        (5, "south", 10.0, "2024-02-29", "010", False, "zz"),
    )),
    "groups, empty keys and halves": (
        sales(group_by=("region",), measures=(
            Measure(name="n", fn="count"), Measure(name="k", fn="count", column="amount"),
            Measure(name="s", fn="sum", column="amount", decimals=2),
            Measure(name="m", fn="mean", column="amount", decimals=2),
        )),
        (("north", 2, 1, 1.01, 1.01), ("south", 2, 2, 7.5, 3.75), (None, 1, 1, 2.35, 2.35)),
    ),
    "rounding away from zero below zero": (
        sales(
            filters=(where("amount", "lt", "zero"),),
            measures=(Measure(name="s", fn="sum", column="amount", decimals=0),),
        ),
        ((-3,),),
    ),
    "nothing left": (
        sales(filters=(where("code", "eq", "word"),), measures=(
            Measure(name="n", fn="count"), Measure(name="s", fn="sum", column="amount"),
            Measure(name="d", fn="max", column="day"),
        )),
        ((0, None, None),),
    ),
    "dates and order": (
        sales(filters=(where("day", "ge", "day"),), order_by=(Order(column="day", descending=True),), select=("id",)),
        ((5,), (2,), (1,)),
    ),
    "text codes": (sales(filters=(where("code", "eq", "code"),), select=("id",)), ((4,), (5,))),
    "contains is as written": (sales(filters=(where("note", "contains", "b"),), select=("id",)), ((1,), (4,))),
    "empty cells": (sales(filters=(where("region", "is_null"),), select=("id",)), ((4,),)),
    "not equal is not empty": (
        sales(filters=(where("region", "ne", "word"),), select=("id",)), ((1,), (2,), (3,), (5,)),
    ),
    "booleans": (sales(filters=(where("paid", "eq", "yes"),), select=("id",)), ((1,), (4,))),
    "left join, arithmetic, division by zero": (
        sales(
            joins=(Join(right=Source(path="regions.json"), on=(("region", "region"),), how="left"),),
            derived=(
                Derived(name="p", op="mul", left="amount", right="size"),
                Derived(name="q", op="div", left="amount", right="size"),
                Derived(name="d", op="abs_diff", left="amount", right=Given(given="half")),
                Derived(name="y", op="year", left="day"), Derived(name="m", op="month", left="day"),
            ),
            select=("id", "boss", "p", "q", "d", "y", "m"),
        ),
        (
            (1, "Ada", 2.01, 0.5025, 0.505, 2024, "2024-01"), (2, "Bo", 0.0, None, 3.0, 2024, "2024-02"),
            (3, "Ada", None, None, None, None, None), (4, None, None, None, 1.845, 2023, "2023-12"),
            (5, "Bo", 0.0, None, 9.5, 2024, "2024-02"),
        ),
    ),
    "joined sub-query, workbook, having and projection": (
        Query(
            source=Source(path="plan.xlsx", sheet="Plan"),
            joins=(Join(on=(("region", "region"),), right=sales(group_by=("region",), measures=(
                Measure(name="sold", fn="sum", column="amount"), Measure(name="n", fn="count"),
            ))),),
            derived=(Derived(name="gap", op="sub", left="target", right="sold"),),
            filters=(where("gap", "gt", "zero"),), order_by=(Order(column="gap", descending=True),), limit=1,
            select=("region", "gap"),
        ),
        (("north", 11.495),),
    ),
}  # fmt: skip


@ENGINES
@pytest.mark.parametrize("name", WORKED)
def test_worked_answers(engine: Any, name: str, folder: Path) -> None:
    query, rows = WORKED[name]
    found = engine.evaluate(query, GIVENS, folder)
    assert found.rows == rows
    assert not query.select or found.columns == query.select


REFUSED = {
    "unknown column": sales(select=("nope",)),
    "text summed": sales(measures=(Measure(name="s", fn="sum", column="code"),)),
    "date compared with a number": sales(filters=(where("day", "lt", "zero"),)),
    "number compared with a word": sales(filters=(where("amount", "lt", "word"),)),
    "given absent": sales(filters=(where("amount", "lt", "absent"),)),
    "limit without order": sales(limit=2),
    "limit through a tie": sales(order_by=(Order(column="code", descending=True),), limit=1),
    "having without groups": sales(having=(where("id", "gt", "zero"),)),
    "derived over a column": sales(derived=(Derived(name="id", op="add", left="id", right="id"),)),
    "clash in a join": sales(joins=(Join(right=Source(path="sales.csv"), on=(("id", "id"),)),)),
    "keys of two kinds": sales(joins=(Join(right=Source(path="plan.xlsx"), on=(("day", "region"),)),)),
    "no file": Query(source=Source(path="absent.csv")),
    "no sheet": Query(source=Source(path="plan.xlsx", sheet="absent")),
    "out of the root": Query(source=Source(path="../sales.csv")),
    "absolute": Query(source=Source(path="/etc/passwd")),
    "no table": Query(source=Source(path="note.txt")),
}


@ENGINES
@pytest.mark.parametrize("name", REFUSED)
def test_refused(engine: Any, name: str, folder: Path) -> None:
    with pytest.raises(PackageError) as error:
        engine.evaluate(REFUSED[name], GIVENS, folder)
    assert "\n" not in str(error.value)


def bomb() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b"0" * (140 << 20))
    return out.getvalue()


HOSTILE: dict[str, tuple[str, bytes]] = {
    "two headers of one name": ("x.csv", b"a,a\n1,2\n"), "not UTF-8": ("x.csv", b"a\n\xff\xfe\n"),
    "empty": ("x.csv", b""),
    "a row too long": ("x.csv", b"a,b\n1,2,3\n"), "no JSON": ("x.json", b"[{"), "no objects": ("x.json", b"[1, 2]"),
    "deep JSON": ("x.json", b"[" * 100_000), "one object a line": ("x.jsonl", b'{"a": 1}\n{"a"'),
    "no zip": ("x.xlsx", b"PK\x03\x04rubbish"),
    "password": ("x.xlsx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"0" * 600),
    "zip bomb": ("x.xlsx", bomb()), "formula text": ("x.xlsx", b"=cmd()"),
}  # fmt: skip


@ENGINES
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files(engine: Any, name: str, tmp_path: Path) -> None:
    path, data = HOSTILE[name]
    (tmp_path / path).write_bytes(data)
    with pytest.raises(PackageError) as error:
        engine.evaluate(Query(source=Source(path=path)), {}, tmp_path)
    assert error.value.file == path


def test_derive_keeps_errors_apart(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "link.csv").symlink_to(folder / "sales.csv")
    monkeypatch.chdir(folder)
    queries = {
        "good": sales(measures=(Measure(name="n", fn="count"),)).model_dump(mode="json"),
        "link": Query(source=Source(path="link.csv")).model_dump(mode="json"),
        "wrong": {"source": 3},
    }
    for engine in ("duckdb", "pandas"):
        found = derive({"queries": queries, "givens": {}, "engine": engine})
        assert found["good"] == {"columns": ["n"], "rows": [[5]]}
        assert set(found["link"]) == set(found["wrong"]) == {"error"}
        assert len(json.dumps(found)) < 2_000


def test_agreement_is_on_values_not_on_order() -> None:
    left = Table(columns=("k", "v"), rows=(("a", 1.0), ("a", 2), ("b", None)))
    assert agree(left, Table(columns=("k", "v"), rows=(("b", None), ("a", 2.0 + 1e-12), ("a", 1)))) == ""
    assert agree(left, Table(columns=("k", "v"), rows=tuple(reversed(left.rows))), ordered=True)
    assert "columns" in agree(left, Table(columns=("k", "w"), rows=left.rows))
    assert "rows" in agree(left, Table(columns=("k", "v"), rows=left.rows[:2]))
    assert agree(left, Table(columns=("k", "v"), rows=(("a", 1.0), ("a", 2.001), ("b", None))))
    assert agree(left, Table(columns=("k", "v"), rows=(("a", 1.0), ("a", 2), ("b", 0))))
    assert not same(True, 1)
    assert not same("1", 1)


CELLS = st.one_of(
    st.sampled_from(["", "NA", "0.5", "-0.5", "1.005", "2.675", "1e3", "-7", "12", "007", "true", "x", " y "]),
    st.sampled_from(["2024-02-29", "2024-02-29 10:00", "2024-02-30", "TRUE", "+1", ".5", "5.", "0x1", "1_000"]),
    st.decimals(-10_000, 10_000, places=3).map(str),
    st.integers(-10**6, 10**6).map(str),
)  # fmt: skip
NUMBERS = st.one_of(st.sampled_from(["", "NA", "0.125", "-2.5", "1e2"]), st.decimals(-999, 999, places=2).map(str))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(st.sampled_from(["a", "b", "c", ""]), NUMBERS, NUMBERS, CELLS), min_size=1, max_size=12),
    decimals=st.one_of(st.none(), st.integers(0, 3)),
    op=st.sampled_from(["add", "sub", "mul", "div", "abs_diff"]),
    limit=st.one_of(st.none(), st.integers(1, 4)),
    bound=st.sampled_from([0, 0.5, -2.5, 100]),
)
def test_engines_agree(
    rows: list[tuple[str, ...]], decimals: int | None, op: Any, limit: int | None, bound: float, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text("g,x,y,z\n" + "".join(",".join(row) + "\n" for row in rows))
    source = Source(path="t.csv")
    calculated = Derived(name="w", op=op, left="x", right="y")
    queries = (
        Query(source=source),
        Query(
            source=source, derived=(calculated,), filters=(where("w", "le", "bound"),),
            order_by=(Order(column="w"),), limit=limit,
        ),
        Query(source=source, derived=(calculated,), group_by=("g",), measures=tuple(
            Measure(name=fn, fn=fn, column="w", decimals=decimals) for fn in ("sum", "mean", "min", "max")  # type: ignore[arg-type]
        )),
        Query(source=source, group_by=("z",), measures=(Measure(name="n", fn="count_distinct", column="g"),)),
        Query(source=source, joins=(Join(right=Query(source=source, group_by=("g",), measures=(
            Measure(name="n", fn="count"),)), on=(("g", "g"),)),)),
    )  # fmt: skip
    asked = {str(i): q.model_dump(mode="json") for i, q in enumerate(queries)}
    payload = {"queries": asked, "givens": {"bound": bound}}
    one = derive({**payload, "engine": "duckdb", "root": str(tmp_path)})
    two = derive({**payload, "engine": "pandas", "root": str(tmp_path)})
    for key in asked:
        assert ("error" in one[key]) == ("error" in two[key]), (one[key], two[key])
        if "error" not in one[key]:
            assert agree(Table.model_validate(one[key]), Table.model_validate(two[key]), ordered=True) == ""
