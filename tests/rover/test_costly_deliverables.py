"""Deliverables that are cheap to write and dear to read: the policy has failed, the verifier is not at fault."""

from __future__ import annotations

import io
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packages import runtime, summary_resources, with_checks

from rover.rollout.env import env_from_files
from rover.sandbox.protocol import Runtime
from rover.verify import checklib as rc
from rover.verify.checklib import read
from rover.verify.checklib.bounds import Unreadable
from rover.verify.grade import Graded, grade

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"


def book(body: str) -> bytes:
    """A workbook whose only sheet holds this XML."""
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{_TYPE}.sheet.main+xml"/>'
        f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{_TYPE}.worksheet+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="rId1" '
        f'Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>'
        '<sheet name="Result" sheetId="1" r:id="rId1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="rId1" '
        f'Type="{_OFFICE}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{_MAIN}">{body}</worksheet>',
    }
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in parts.items():
            file.writestr(name, text)
    return made.getvalue()


ONE = '<sheetData><row r="1"><c r="A1"><v>1</v></c></row></sheetData>'
#: name of the deliverable -> its bytes, and a part of the reason
COSTLY: dict[str, tuple[bytes, str]] = {
    "cells.xlsx": (book(f"<sheetData>{'<row><c><v>1</v></c></row>' * 200_000}</sheetData>"), "600013 elements"),
    "nested.xlsx": (book("<a>" * 500_000 + "</a>" * 500_000), "elements, at most"),
    "zeros.xlsx": (book("0" * (40 << 20)), "unpacks to"),
    "merged.xlsx": (book(f'{ONE}<mergeCells><mergeCell ref="A1:XFD1048576"/></mergeCells>'), "merges 17179869184"),
    "merged oddly.xlsx": (book(f'{ONE}<mergeCells><mergeCell ref = "&#65;1:B2"/></mergeCells>'), "merges 200001"),
    "wide.xlsx": (
        book('<sheetData><row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'), "spans too many cells",
    ),
    "long.xlsx": (
        book(f'<sheetData><row><c t="inlineStr"><is><t>{"x" * 200_000}</t></is></c></row></sheetData>'),
        "a cell holds 200000 characters",
    ),
    "lines.csv": (b"a\n" * 5_000_000, "5000001 fields"),
    "commas.csv": (b"," * 5_000_000, "5000001 fields"),
    "objects.json": (b"[" + b"{}," * 6_000_000 + b"{}]", "too large"),
    "deep.json": (b"[" * 1_000_000, "not valid JSON"),
}  # fmt: skip


@pytest.mark.parametrize("name", COSTLY)
def test_a_costly_file_is_unreadable_at_once(name: str, tmp_path: Path) -> None:
    data, why = COSTLY[name]
    (tmp_path / name).write_bytes(data)
    for _ in range(2):  # what cannot be read is not read again
        began = time.process_time()
        with pytest.raises(Unreadable, match=why):
            read.table(tmp_path / name)
    assert time.process_time() - began < 2


def test_written_text_is_bounded(tmp_path: Path) -> None:
    for data in (b"x" * (2 << 20), b"\n" * 100_000):
        (tmp_path / "note.md").write_bytes(data)
        with pytest.raises(Unreadable, match="too large"):
            rc.text(tmp_path / "note.md")


def test_cells_that_are_not_there_cost_nothing(tmp_path: Path) -> None:
    body = '<row r="1"><c r="A1"><v>1</v></c></row><row r="240"><c r="XFD240"><v>2</v></c></row>'
    (tmp_path / "a.xlsx").write_bytes(book(f"<sheetData>{body}</sheetData>"))
    (tmp_path / "b.xlsx").write_bytes(book(ONE))
    sheet = read.workbook(tmp_path / "a.xlsx").worksheets[0]
    lines = read.grid(sheet, "a.xlsx")
    assert (len(lines), len(lines[0]), lines[0][0], lines[-1][-1]) == (240, 16384, 1, 2)
    assert len(sheet._cells) == 2
    assert rc.table(tmp_path / "b.xlsx").columns == ("1",)


SLOW = """
import sys
from rover.verify.checklib import read
from rover.verify.checklib.bounds import TooSlow, within_time
try:
    with within_time(0.2):
        read.read_ahead(sys.argv[1])
except TooSlow:
    print("too slow")
with within_time(60):
    print(sum(range(1000)))
"""


def test_reading_has_a_time_of_its_own(tmp_path: Path) -> None:
    """In a process of its own: the signal may strike in a callback of whatever else runs in this one."""
    book_path = tmp_path / "slow.xlsx"
    book_path.write_bytes(book(f"<sheetData>{'<row><c/></row>' * 150_000}</sheetData>"))
    done = subprocess.run([sys.executable, "-c", SLOW, str(book_path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "too slow\n499500\n"), done.stderr


@pytest.fixture(scope="module")
def kind() -> Iterator[Runtime]:
    kind = runtime()
    yield kind
    close = getattr(kind, "close", None)
    if close is not None:
        close()


@pytest.mark.parametrize("name", ["merged.xlsx", "commas.csv", "objects.json"])
def test_a_policy_cannot_make_its_failure_the_verifiers(name: str, kind: Runtime) -> None:
    """Whether the criterion says which files it reads or not."""
    body = f"return float(len(rc.table(ev.end({name!r})).rows) > 0)"
    source = f"import rover_checks as rc\n\n\ndef rows(ev):\n    {body}\n"
    data, why = COSTLY[name]
    for paths in ((), (name,)):
        env = env_from_files(with_checks(source, ("rows",), paths=paths), summary_resources())
        box = kind.open({})
        found = grade(box, env.verifier, env.verifier_files, Graded(env.start, {**env.start, name: data}))
        box.close()
        assert found.outcome == "failed", found
        assert why in found.reason
