"""The profile of a folder: what it sees in sound files, and what it says of every kind of unusable one."""

from __future__ import annotations

import json
import os
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from rover.construct import readers
from rover.construct.profile import Profile, profile_folder, read_source
from rover.construct.readers import Limits
from rover_store.errors import PackageError
from rover_store.records import Source

ORDERS = "order_id,customer_id,Weight_in_kg,placed,status,paid\n" + "".join(
    f"{1000 + i},C{i % 4:02},{i * 1.25},2024-0{i % 3 + 1}-15,{('open', 'done')[i % 2]},{('true', 'false')[i % 2]}\n"
    for i in range(24)
)
CITIES = ("Ghent", "Turin", "Malmö", "Split")
CUSTOMERS = [{"id": f"C{i:02}", "name": f"Customer {w}", "city": w} for i, w in enumerate(CITIES)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "in"
    (root / "more").mkdir(parents=True)
    (root / "orders.csv").write_text(ORDERS)
    (root / "customers.json").write_text(json.dumps(CUSTOMERS))
    (root / "more" / "notes.md").write_text("# Notes\n\nAll weights are net.\n")
    (root / "status.tsv").write_text("status\tmeaning\nopen\tnot sent\ndone\tsent\n")
    (root / "log.jsonl").write_text('{"customer_id": "C01", "n": 1.50}\n{"customer_id": "C02", "n": 2}\n')
    book = openpyxl.Workbook()
    assert book.active is not None
    book.active.title = "Cities"
    for row in (["city", "population (k)"], ["Ghent", 265], ["Turin", 841], ["Malmö", 362], ["Split", 161]):
        book.active.append(row)
    book.create_sheet("Empty")
    book.create_sheet("Double").append(["a", "a"])
    book.save(root / "cities.xlsx")
    return root


def skipped(profile: Profile) -> dict[str, str]:
    return {s.path: s.reason for s in profile.skipped}


def test_sound_folder(folder: Path) -> None:
    found = profile_folder(folder)
    assert [f.path for f in found.files] == [
        "cities.xlsx", "customers.json", "log.jsonl", "more/notes.md", "orders.csv", "status.tsv",
    ]  # fmt: skip
    assert found.file("more/notes.md").words == 6
    assert found.file("cities.xlsx").notes == ("Double: a: two columns have this name",)
    orders = found.table(Source(path="orders.csv"))
    assert (orders.rows, orders.complete, orders.keys) == (24, True, ("order_id", "Weight_in_kg"))
    kinds = {c.name: (c.type, c.meaning) for c in orders.columns}
    assert kinds == {
        "order_id": ("integer", "id"), "customer_id": ("text", "category"), "Weight_in_kg": ("number", "amount"),
        "placed": ("date", "date"), "status": ("text", "category"), "paid": ("boolean", "flag"),
    }  # fmt: skip
    weight = orders.column("Weight_in_kg")
    assert (weight.unit, weight.decimals, weight.minimum, weight.maximum) == ("kg", 2, "0", "28.75")
    assert weight.quartiles == ("7.5", "15", "22.5")
    assert orders.column("status").common == (("done", 12), ("open", 12))
    assert found.table(Source(path="cities.xlsx", sheet="Cities")).column("population (k)").unit == "k"
    assert skipped(found) == {}


def test_relations(folder: Path) -> None:
    found = profile_folder(folder)
    named = {(r.many.path, r.many_column, r.one.path, r.one_column): r for r in found.relations}
    link = named["orders.csv", "customer_id", "customers.json", "id"]
    assert (link.cardinality, link.inclusion, link.by_name, link.full) == ("1:n", 1.0, True, True)
    assert named["orders.csv", "status", "status.tsv", "status"].cardinality == "1:n"
    pairs = {frozenset((a, c)): r.cardinality for (a, _, c, _), r in named.items()}
    assert pairs[frozenset(("cities.xlsx", "customers.json"))] == "1:1"
    assert found.neighbours("orders.csv")[0] in ("customers.json", "status.tsv")
    assert found.relations_of(Source(path="orders.csv"))[0].many == Source(path="orders.csv")


def test_same_bytes_same_profile(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_file():
            target = other / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    assert profile_folder(folder) == profile_folder(other)


def _encrypted() -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("xl/workbook.xml", "secret")
    data = bytearray(out.getvalue())
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + at] |= 1
    return bytes(data)


BAD: dict[str, tuple[str, bytes, str]] = {
    "encoding": ("bad.csv", "naïve,b\n1,2\n".encode("latin-1"), "encoding: not UTF-8 at byte 2"),
    "zero bytes": ("bad.csv", b"a,b\n\0\0,1\n", "encoding: not text: a zero byte at 4"),
    "utf-16": ("bad.txt", "words".encode("utf-16"), "encoding: not text"),
    "twice": ("bad.csv", b"id,v,id\n1,2,3\n", "id: two columns have this name"),
    "no header": ("bad.csv", b"\"\",\" \"\n1,2\n", "header: no column has a name"),
    "header alone": ("bad.tsv", b"a\tb\n", "no rows below the header"),
    "ragged": ("bad.csv", b"a,b\n1,2\n1,2,3\n", "row 3: 3 cells, the header has 2"),
    "empty": ("bad.csv", b"", "the file is empty"),
    "blank": ("bad.json", b" \n", "the file is empty"),
    "json": ("bad.json", b'{"a": [1', "not valid JSON"),
    "deep json": ("bad.json", b"[" * 50_000, "not valid JSON"),
    "json scalar": ("bad.json", b'{"a": 1}', "not a list of JSON objects"),
    "jsonl": ("bad.jsonl", b'{"a": 1}\nnot json\n', "not valid JSON"),
    "corrupt workbook": ("bad.xlsx", b"PK\x03\x04 and no more", "not a readable workbook"),
    "old workbook": ("bad.xlsx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 99, "password-protected or an old .xls"),
    "password": ("bad.xlsx", _encrypted(), "password-protected workbook"),
    "zip without sheets": ("bad.xlsx", b"PK\x05\x06" + b"\0" * 18, "not a readable workbook"),
    "wide": ("bad.csv", b",".join(b"c%d" % i for i in range(300)) + b"\n1\n", "300 columns, more than 200"),
    "unknown": ("bad.pdf", b"%PDF", "no reader for .pdf"),
    "hidden": (".secret.csv", b"a\n1\n", "hidden"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_file_is_skipped_with_a_reason(name: str, folder: Path) -> None:
    path, data, reason = BAD[name]
    (folder / path).write_bytes(data)
    found = profile_folder(folder)
    assert skipped(found)[path].startswith(reason)
    assert len(found.files) == 6
    alone = folder / "alone"
    alone.mkdir()
    (alone / path).write_bytes(data)
    with pytest.raises(PackageError, match="no usable table") as error:
        profile_folder(alone)
    assert reason.split(":")[0] in str(error.value)
    assert "\n" not in str(error.value)


def test_what_is_no_plain_file(folder: Path) -> None:
    os.mkfifo(folder / "pipe.csv")
    (folder / "link.csv").symlink_to("/etc/passwd")
    (folder / "links").symlink_to(folder)
    (folder / "ORDERS.csv").write_text(ORDERS)
    (folder / "two\nlines.csv").write_text(ORDERS)
    (folder / os.fsdecode(b"\xff.csv")).write_text(ORDERS)
    found = skipped(profile_folder(folder))
    assert found["pipe.csv"] == "not a plain file"
    assert found["link.csv"] == found["links"] == "a link"
    assert found["orders.csv"] == "differs from ORDERS.csv by case alone"
    assert found["two\nlines.csv"].startswith("its name")
    assert found["\\xff.csv"] == "its name is not UTF-8"


def test_mixed_types_are_text(tmp_path: Path) -> None:
    (tmp_path / "mixed.csv").write_text("k,v,d\n1,5,2024-01-01\n2,five,01/02/2024\n3,NA,\n")
    table = profile_folder(tmp_path).tables[0]
    assert [c.type for c in table.columns] == ["integer", "text", "text"]
    assert table.column("v").nulls == 0
    assert table.column("d").nulls == 1


def test_long_table_is_read_in_part(tmp_path: Path) -> None:
    (tmp_path / "good.csv").write_text("a,b\n1,2\n3,4\n")
    (tmp_path / "long.csv").write_text("a,b\n" + "1,2\n" * 5_000)
    small = Limits(rows=1_000, file_bytes=1 << 20)
    found = profile_folder(tmp_path, small)
    long = found.file("long.csv").tables[0]
    assert (long.rows, long.complete) == (1_000, False)
    assert [t.path for t in found.tables] == ["good.csv"]
    assert not [r for r in found.relations if "long.csv" in (r.many.path, r.one.path)]


def test_ten_million_rows_cost_a_sample(tmp_path: Path) -> None:
    (tmp_path / "good.csv").write_text("a,b\n1,2\n3,4\n")
    with (tmp_path / "huge.csv").open("wb") as file:
        file.write(b"id,value\n" + b"1,2.5\n" * 200_000)
        file.truncate(5 << 30)
    found = profile_folder(tmp_path)
    huge = found.file("huge.csv")
    assert (huge.size, huge.sha256, huge.tables[0].complete) == (5 << 30, "", False)
    assert huge.tables[0].rows <= 100_000


def test_file_that_changes_while_it_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fstat
    touched: list[int] = []

    def fstat(handle: int) -> os.stat_result:
        if os.readlink(f"/proc/self/fd/{handle}").endswith("orders.csv"):
            touched.append(handle)
            if len(touched) == 2:
                with (folder / "orders.csv").open("a") as file:
                    file.write("9999,C01,1.25,2024-01-01,open,true\n")
        return real(handle)

    monkeypatch.setattr(readers.os, "fstat", fstat)
    found = profile_folder(folder)
    assert skipped(found) == {"orders.csv": "changed while it was read"}


def test_file_that_changed_since(folder: Path) -> None:
    found = profile_folder(folder)
    orders = found.file("orders.csv")
    assert read_source(folder, orders) == ORDERS.encode()
    (folder / "orders.csv").write_text(ORDERS.replace("open", "shut"))
    with pytest.raises(PackageError, match="changed since"):
        read_source(folder, orders)
    (folder / "orders.csv").unlink()
    with pytest.raises(PackageError, match="cannot be read"):
        read_source(folder, orders)


@pytest.mark.parametrize(("make", "reason"), [
    (lambda p: None, "not a folder"), (lambda p: p.mkdir(), "empty"), (lambda p: p.write_text("x"), "not a folder"),
    (lambda p: (p.mkdir(), (p / "a.md").write_text("words")), "no usable table"),
])  # fmt: skip
def test_nothing_to_build_on(make: Any, reason: str, tmp_path: Path) -> None:
    make(tmp_path / "x")
    with pytest.raises(PackageError, match=reason):
        profile_folder(tmp_path / "x")
