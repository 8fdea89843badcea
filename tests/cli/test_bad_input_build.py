"""Folders that `rover build` cannot use, in whole or in part: what is said of them, and that nothing else changes."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
from packages import runtime
from refusals import SCRIPT, Said, environment, refused, rover, state
from workspaces import shop_files


@pytest.fixture(scope="module")
def kind() -> str:
    made = runtime()
    made.close()  # type: ignore[attr-defined]
    return made.kind


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder, the working one, with an empty store, and `in` beside it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROVER_STORE", raising=False)
    assert rover("init").code == 0
    (tmp_path / "in").mkdir()
    return tmp_path


def _encrypted() -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("xl/workbook.xml", "secret")
    data = bytearray(out.getvalue())
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + at] |= 1
    return bytes(data)


def _bomb() -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("xl/workbook.xml", b"\0" * (300 << 20))
    return out.getvalue()


#: file -> (its bytes, what is said of it)
BAD: dict[str, tuple[bytes, str]] = {
    "latin.csv": ("naïve,b\n1,2\n".encode("latin-1"), "encoding: not UTF-8 at byte 2"),
    "utf16.csv": ("a,b\n1,2\n".encode("utf-16"), "encoding: not text"),
    "zeros.csv": (b"a,b\n\0\0,1\n", "encoding: not text: a zero byte at 4"),
    "twice.csv": (b"id,v,id\n1,2,3\n", "id: two columns have this name"),
    "ragged.csv": (b"a,b\n1,2\n1,2,3\n", "row 3: 3 cells, the header has 2"),
    "header.csv": (b"a,b\n", "no rows below the header"),
    "nothing.csv": (b"", "the file is empty"),
    "locked.xlsx": (_encrypted(), "password-protected workbook"),
    "old.xlsx": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 99, "password-protected or an old .xls"),
    "broken.xlsx": (b"PK\x03\x04 and no more", "not a readable workbook"),
    "broken.json": (b'{"a": [1', "not valid JSON"),
    "deep.json": (b"[" * 100_000, "not valid JSON"),
    "picture.png": (b"\x89PNG", "no reader for .png"),
    "two\nlines.csv": (b"a,b\n1,2\n", "its name"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_folder_without_usable_files(name: str, home: Path, kind: str) -> None:
    data, reason = BAD[name]
    (home / "in" / name).write_bytes(data)
    before = state(home)
    said = rover("build", "--from", "in", "--count", "1", "--sandbox", kind)
    refused(said, 2, "in: no usable table in the folder", name.replace("\n", "\\n"), reason)
    assert state(home) == before


def test_a_workbook_that_unpacks_to_much(home: Path, kind: str) -> None:
    (home / "in/bomb.xlsx").write_bytes(_bomb())
    began = time.process_time()
    refused(rover("build", "--from", "in", "--count", "1", "--sandbox", kind), 2, "bomb.xlsx")
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("folder", "what"),
    [
        ("in", "in: the folder is empty"), ("gone", "gone: not a folder"), ("file", "file: not a folder"),
        ("/dev/null", "not a folder"), ("", ""),
        ("a" * 300, "File name too long"), ("two\nlines", "two\\nlines: not a folder"),
    ],
)  # fmt: skip
def test_no_folder(folder: str, what: str, home: Path, kind: str) -> None:
    (home / "file").write_text("x")
    before = state(home)
    refused(rover("build", "--from", folder, "--count", "1", "--sandbox", kind), 2, what)
    assert state(home) == before


@pytest.mark.parametrize(
    "words",
    [
        ("--count", "0"), ("--count", "-3"), ("--count", "9" * 30), ("--count", "x"), ("--seed", "x"), ("-n", "0"),
        ("-n", "1000"), ("--family", "magic"), ("--prefix", "../../x"), ("--prefix", "two\nlines"),
        ("--sandbox", "magic"),
    ],
)  # fmt: skip
def test_words_that_make_no_sense(words: tuple[str, ...], home: Path, kind: str) -> None:
    for name, data in shop_files().items():
        (home / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (home / "in" / name).write_bytes(data)
    before = state(home)
    more = () if "--sandbox" in words else ("--sandbox", kind)
    refused(rover("build", "--from", "in", *words, *more), 2)
    assert state(home) == before


def test_bad_files_beside_good_ones_are_left_out_by_name(home: Path, kind: str) -> None:
    for name, data in shop_files().items():
        (home / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (home / "in" / name).write_bytes(data)
    for name, (data, _) in BAD.items():
        (home / "in" / name).write_bytes(data)
    os.mkfifo(home / "in/pipe.csv")
    (home / "in/link.csv").symlink_to("/etc/passwd")
    (home / "in/outside").symlink_to("/etc")
    with open(home / "in/sparse.csv", "wb") as file:
        file.write(b"a,b\n" + b"1,2\n" * 1000)
        file.truncate(5 << 30)
    said = rover("build", "--from", "in", "--count", "1", "--family", "summarise", "--sandbox", kind)
    assert said.code == 0, said
    lines = said.err.splitlines()
    for name, (_, reason) in BAD.items():
        plain = name.replace("\n", "\\n")
        assert [line for line in lines if line.startswith(f"left out: {plain}: {reason}")], (name, lines)
    assert "left out: pipe.csv: not a plain file" in lines
    assert "left out: link.csv: a link" in lines
    assert "left out: outside: a link" in lines
    assert f"left out: sparse.csv: {5 << 30} bytes, read in part" in lines
    kept = json.loads(rover("list", "--json").out)
    assert rover("fsck").code == 0
    shown = rover("show", kept["name"]).out
    assert not [name for name in ("passwd", "sparse.csv", "pipe.csv", *BAD) if name in shown]


def test_ten_million_rows_and_mixed_types(home: Path, kind: str) -> None:
    """The long table is looked at by its head alone, in little memory."""
    with (home / "in/long.csv").open("wb") as file:
        file.write(b"id,value\n")
        block = b"1,2.5\n" * 100_000
        for _ in range(100):
            file.write(block)
    before = state(home)
    words = ("build", "--from", "in", "--count", "1", "--sandbox", kind)
    little = ["bash", "-c", 'ulimit -d 700000; exec "$@"', "-", *SCRIPT, *words]
    done = subprocess.run(little, cwd=home, env=environment(), capture_output=True, text=True, check=False)
    said = Said(done.returncode, done.stdout, done.stderr)
    refused(said, 2, "in: no usable table in the folder (long.csv: too long to be read whole)")
    assert state(home) == before
    mixed = "k,v,d\n" + "".join(f"{i},{'five' if i == 7 else i},{'' if i % 3 else '2024-01-01'}\n" for i in range(30))
    (home / "in/mixed.csv").write_text(mixed)
    said = rover(*words)
    assert said.code in (0, 1), said  # whether a task can be made of it is another question
    assert "left out: long.csv: 60000009 bytes, read in part" in said.err.splitlines()
    assert rover("fsck").code == 0


def _grow(path: Path, n: int) -> None:
    with path.open("a") as file:
        file.write(f"{90_000 + n},x\n")


def _shrink(path: Path, n: int) -> None:
    with path.open("r+b") as file:
        file.truncate(400_000 - n)


def _replace(path: Path, n: int) -> None:
    other = path.with_name("other.tmp")
    other.write_text("id,name\n" + f"{n},a\n" * 60_000)
    os.replace(other, path)


@pytest.mark.parametrize("change", [_grow, _shrink, _replace])
def test_a_file_that_changes_while_it_is_read(change: Callable[[Path, int], None], home: Path, kind: str) -> None:
    path = home / "in/moving.csv"
    path.write_text("id,name\n" + "".join(f"{i},n{i % 7}\n" for i in range(60_000)))
    over = threading.Event()

    def churn() -> None:
        n = 0
        while not over.wait(0.0005):
            n += 1
            change(path, n % 300_000)

    before = state(home)
    thread = threading.Thread(target=churn)
    thread.start()
    try:
        said = rover("build", "--from", "in", "--count", "1", "--family", "summarise", "--sandbox", kind)
    finally:
        over.set()
        thread.join()
    if said.code == 2:
        refused(said, 2, "moving.csv")
        assert any(word in said.err for word in ("changed", "row", "cannot be read")), said
        assert state(home) == before
    assert said.code in (0, 1, 2), said
    assert rover("fsck").code == 0
