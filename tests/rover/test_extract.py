"""Workbooks, documents, images and archives, read in a box: what is said of them, and that hostile ones cost little."""

from __future__ import annotations

import io
import struct
import time
import zipfile
import zlib
from collections.abc import Iterator

import openpyxl
import pytest
from boxes import make
from openpyxl.styles import Font

from rover.ops.extract.box import Extractor
from rover.sandbox.bubblewrap import BubblewrapRuntime
from rover_store.diffs import Content, compare
from rover_store.errors import UsageError

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
A = "http://schemas.openxmlformats.org/drawingml/2006/main"


@pytest.fixture(scope="module")
def extract() -> Iterator[Extractor]:
    make("bubblewrap").close()
    with Extractor() as found:
        yield found


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return out.getvalue()


def book(rows: list[list[object]], *, bold: bool = False, more: str = "") -> bytes:
    made = openpyxl.Workbook()
    sheet = made.active
    assert sheet is not None
    sheet.title = "Orders"
    for row in rows:
        sheet.append(row)
    sheet["A1"].font = Font(bold=bold)
    if more:
        made.create_sheet(more).append(["x"])
    out = io.BytesIO()
    made.save(out)
    return out.getvalue()


def docx(*paragraphs: str, head: str = "", rows: tuple[tuple[str, ...], ...] = ()) -> bytes:
    def said(text: str) -> str:
        return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"

    table = "".join("<w:tr>" + "".join(f"<w:tc>{said(c)}</w:tc>" for c in row) + "</w:tr>" for row in rows)
    body = "".join(map(said, paragraphs)) + (f"<w:tbl>{table}</w:tbl>" if rows else "")
    text = f'<?xml version="1.0"?>{head}<w:document xmlns:w="{W}"><w:body>{body}</w:body></w:document>'
    return zipped({"word/document.xml": text.encode()})


def pptx(*slides: str) -> bytes:
    return zipped(
        {
            f"ppt/slides/slide{n}.xml": f'<p xmlns:a="{A}"><a:p><a:r><a:t>{t}</a:t></a:r></a:p></p>'.encode()
            for n, t in enumerate(slides, 1)
        }
    )


def pdf(*lines: str) -> bytes:
    text = "BT /F1 12 Tf 72 720 Td 14 TL " + " ".join(f"({line}) Tj T*" for line in lines) + " ET"
    parts = [
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        f"<</Length {len(text)}>>stream\n{text}\nendstream",
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    out, places = b"%PDF-1.4\n", []
    for n, part in enumerate(parts, 1):
        places.append(len(out))
        out += f"{n} 0 obj\n{part}\nendobj\n".encode()
    table = "".join(f"{at:010} 00000 n \n" for at in places)
    end = f"xref\n0 6\n0000000000 65535 f \n{table}trailer<</Size 6/Root 1 0 R>>\nstartxref\n{len(out)}\n%%EOF"
    return out + end.encode()


def png(width: int, height: int, colour: int = 0) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress((b"\0" + bytes([colour]) * width * 3) * height)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def lines(found: Content) -> list[tuple[str, str, str]]:
    return [(p.name, mark, text) for p in found.parts for h in p.hunks for mark, text in h.lines if mark != " "]


def test_a_workbook_by_cell(extract: Extractor) -> None:
    old = book([["id", "name", "sum"], [1, "a", 2.5], [2, "b", "=B1*2"]])
    new = book([["id", "name", "sum"], [1, "a", "2.5"], [2, "b", "=B1*3"], [3, "c", True]], more="Notes")
    found = compare("x.xlsx", old, new, extract=extract)
    sheet, notes = found.tables
    assert (sheet.name, sheet.key) == ("Orders", ("id",))
    assert [(c.row, c.column, c.old, c.new) for c in sheet.cells] == [("1", "sum", "2.5", "'2.5"), ("2", "sum", "", "")]
    assert (sheet.cells[1].old_formula, sheet.cells[1].new_formula) == ("=B1*2", "=B1*3")
    assert [r.cells for r in sheet.rows_added] == [("3", "c", "TRUE")]
    assert (notes.name, notes.status) == ("Notes", "added")


def test_only_the_formatting_of_a_workbook(extract: Extractor) -> None:
    rows: list[list[object]] = [["id", "name"], [1, "a"]]
    found = compare("x.xlsx", book(rows), book(rows, bold=True), extract=extract)
    assert found.tables == ()
    assert found.notes[0].startswith("the same cells; only the formatting differs (")
    assert "styles" in found.notes[0]
    packed = compare("x.zip", zipped({"a": b"1"}), zipped({"a": b"1"}, zipfile.ZIP_DEFLATED), extract=extract)
    assert packed.notes == ("the same members; only the packing differs (order, times or compression)",)


def test_documents_by_their_text(extract: Extractor) -> None:
    rows = (("region", "sum"), ("north", "1"))
    found = compare("a.docx", docx("One", "Two", rows=rows), docx("One", "Three", rows=rows), extract=extract)
    assert lines(found) == [("", "-", "Two"), ("", "+", "Three")]
    assert found.parts[0].hunks[0].lines[-1] == (" ", "north | 1")
    found = compare("a.pptx", pptx("One", "Two"), pptx("One", "2", "Three"), extract=extract)
    assert lines(found) == [("slide 2", "-", "Two"), ("slide 2", "+", "2"), ("slide 3", "+", "Three")]
    found = compare("a.pdf", pdf("Invoice", "12"), pdf("Invoice", "13"), extract=extract)
    assert lines(found) == [("page 1", "-", "12"), ("page 1", "+", "13")]
    added = compare("a.pdf", None, pdf("Invoice"), extract=extract)
    assert lines(added) == [("page 1", "+", "Invoice")]


def test_images_and_archives(extract: Extractor) -> None:
    found = compare("a.png", png(4, 2), png(8, 2), extract=extract)
    assert found.old_image is not None
    assert found.new_image is not None
    assert (found.old_image[:3], found.new_image[:3]) == (("PNG", 4, 2), ("PNG", 8, 2))
    same = compare("a.png", png(4, 2), png(4, 2, 9), extract=extract)
    assert same.notes == ("the same size in pixels, other content",)
    found = compare("a.zip", zipped({"a": b"1", "b": b"2"}), zipped({"a": b"3", "c": b""}), extract=extract)
    assert [(m.name, m.status) for m in found.members] == [("a", "changed"), ("b", "removed"), ("c", "added")]


@pytest.mark.parametrize(
    ("head", "what"),
    [
        (b"GIF89a\x05\0\x07\0", ("GIF", 5, 7)),
        (b"BM" + b"\0" * 16 + struct.pack("<iiHH", 5, -7, 1, 24), ("BMP", 5, 7)),
        (b"\xff\xd8\xff\xe0\0\4ab\xff\xc0\0\x11\x08\0\x07\0\x05\3" + b"\0" * 9, ("JPEG", 5, 7)),
        (b"RIFF\0\0\0\0WEBPVP8X" + b"\0" * 8 + b"\4\0\0\6\0\0", ("WebP", 5, 7)),
        (b"II*\0\x08\0\0\0\2\0" + struct.pack("<HHIIHHII", 256, 4, 1, 5, 257, 4, 1, 7), ("TIFF", 5, 7)),
    ],
)
def test_formats_of_pictures(head: bytes, what: tuple[str, int, int], extract: Extractor) -> None:
    found = compare("a.png", None, head + b"\0" * 20, extract=extract)
    assert found.new_image is not None
    assert found.new_image[:3] == what


def _bomb() -> bytes:
    sheet = b"<worksheet><sheetData>" + b"<row><c><v>1</v></c></row>" * 4_000_000 + b"</sheetData></worksheet>"
    with zipfile.ZipFile(io.BytesIO(book([["a"]]))) as good:
        parts = {n: good.read(n) for n in good.namelist()}
    return zipped({**parts, "xl/worksheets/sheet1.xml": sheet}, zipfile.ZIP_DEFLATED)


LAUGHS = "<!DOCTYPE l [<!ENTITY a0 'lol'>" + "".join(
    f"<!ENTITY a{n} '{f'&a{n - 1};' * 10}'>" for n in range(1, 10)
)  # fmt: skip
LOOP = (
    b"%PDF-1.4\n1 0 obj\n<</Type/Catalog/Pages 2 0 R>>\nendobj\n2 0 obj\n<</Type/Pages/Kids[2 0 R 2 0 R]/Count 2>>\n"
    b"endobj\nxref\n0 3\n0000000000 65535 f \n0000000009 00000 n \n0000000054 00000 n \n"
    b"trailer<</Size 3/Root 1 0 R/Prev 117>>\nstartxref\n117\n%%EOF"
)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("bomb.xlsx", _bomb()),
        ("cut.xlsx", book([["a"]])[:-30]),
        ("laughs.docx", docx("&a9;", head=f"{LAUGHS}]>")),
        ("deep.docx", zipped({"word/document.xml": b"<a>" * 100_000 + b"</a>" * 100_000})),
        ("empty.docx", zipped({"a": b""})),
        ("loop.pdf", LOOP),
        ("cut.pdf", pdf("x")[:-60]),
        ("short.png", png(1, 1)[:20]),
        ("marks.jpg", b"\xff\xd8" + b"\xff\xe0\0\0" * 100_000),
        ("none.tar", b"x" * 2000),
        ("cut.gz", b"\x1f\x8b\x08\0"),
        ("pipe.docx", b"not a zip at all"),
    ],
)
def test_hostile_files_end_in_words(name: str, data: bytes, extract: Extractor) -> None:
    start = time.monotonic()
    for sides in ((data, data + b"x"), (None, data)):
        found = compare(name, *sides, extract=extract)
        assert found.says or found.new_size == len(data)
    assert extract.trouble == ""
    assert time.monotonic() - start < 30


def test_where_no_box_can_be_opened_bytes_are_compared() -> None:
    with Extractor(BubblewrapRuntime(bwrap="/bin/false")) as none:
        found = compare("a.pdf", pdf("x"), pdf("y"), extract=none)
        assert none.trouble
    assert found.kind == "document"
    assert "sandbox" in found.notes[0]
    assert found.notes[1].startswith("the first difference is at byte ")


def test_a_kind_that_nothing_provides_is_refused() -> None:
    with Extractor("nonsense") as none, pytest.raises(UsageError, match="nonsense"):
        none("pdf", [b"%PDF-"])
