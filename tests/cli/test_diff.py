"""`rover diff` as it is seen: what stands on the screen, in 80 columns and beside each other, and as JSON."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from refusals import SCRIPT, environment, refused, rover
from store_samples import add, edit, new_store, odd_commit

from rover.cli.columns import Colours, cut, display_width, pad, wrap
from rover_store.records import Contract, Harness, Requirement
from rover_store.records.contract import FormatRule, NoExtraRule
from rover_store.store import Store

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas/v1/diff.schema.json").read_text())
ONE = Requirement(id="exists", statement="The report exists.", rule=FormatRule())
TWO = Requirement(id="alone", statement="Nothing else is created, nothing is deleted.", rule=NoExtraRule())
MORE = "The report exists, can be read, and has two columns with names."
NEW = ONE.model_copy(update={"weight": 2.0, "statement": MORE})
OLD_ROWS = "id,region,amount\n" + "".join(f"{i},r{i % 3},{i * 1.5}\n" for i in range(1, 30))
NEW_ROWS = OLD_ROWS.replace("7,r1,10.5", "7,r1,11.5").replace("8,r2,12.0\n", "") + "40,r9,1\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder, the working one. `one`: HEAD~1 has first versions, HEAD second ones."""
    store = new_store(tmp_path)
    add(store, "one", "Do it.\n", resources={"files/shared": b"id,v\n1,2\n"})
    edit(store, "one", {
        "task/contract.json": Contract(requirements=(ONE, TWO)).dump(),
        "context/files/data.csv": OLD_ROWS.encode(),
        "context/files/wide.txt": "漢字カナ\nשלום\nsame\n".encode(),
        "context/files/same.json": b'{"a": 1, "b": 2}\n',
        "context/files/raw.bin": b"\0\1\2",
    })  # fmt: skip
    edit(store, "one", {
        "task/contract.json": Contract(requirements=(NEW,)).dump(),
        "task/instruction.md": b"Do it well.\nAnd soon.\n",
        "harness/harness.json": Harness(tools=("read_file", "shell")).dump(),
        "context/files/data.csv": NEW_ROWS.encode(),
        "context/files/wide.txt": "漢字カナ新\nשלום\n\x1b[31mred\u202e\nsame\n".encode(),
        "context/files/same.json": b'{"b": 2, "a": 1}\n',
        "context/files/raw.bin": b"\0\1\3",
    })  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROVER_STORE", raising=False)
    return tmp_path


def test_what_lies_where_no_package_does(home: Path) -> None:
    odd_commit(Store.open(home))
    assert "no difference" not in (said := rover("diff")).err
    assert "A packages/README" in said.out
    assert "A empty/" in said.out
    names = rover("diff", "--name-only").out.splitlines()
    assert {"empty/", "packages/README", "packages/0/module", "resources/odd/x/a.txt"} <= {*names}
    document = json.loads(rover("diff", "--json").out)
    Draft202012Validator(SCHEMA).validate(document)
    assert sorted(f["path"] for f in document["other"]) == names
    assert rover("diff", "HEAD~1", "HEAD", "--stat", "--exit-code").code == 1


GOLDEN = """\
M one
  context   XXXXXXX -> XXXXXXX
    M files/data.csv  1 cell, +1 -1 rows (by id)
      ~ 7  amount  10.5 -> 11.5
      - 8 | r2 | 12.0
      + 40 | r9 | 1
    M files/raw.bin  3 bytes
      ! the first difference is at byte 2
    M files/same.json
      ! the same values; only the writing differs (order of keys)
    M files/wide.txt  +2 -1 lines
      @@ -1,3 +1,4 @@
      -漢字カナ
      +漢字カナ新
       שלום
      +\\x1b[31mred\\u202e
       same
  task      XXXXXXX -> XXXXXXX
    M contract.json  3 fields
      requirement exists
        ~ statement
            - "The report exists."
            + "The report exists, can be read, and has two columns with names."
        ~ weight     1.0 -> 2.0
      - requirement alone  no_extra: Nothing else is created, nothing is delete…
    M instruction.md  +2 -1 lines
      @@ -1 +1,2 @@
      -Do it.
      +Do it well.
      +And soon.
  harness   XXXXXXX -> XXXXXXX
    M harness.json  1 field
      + tool shell
"""

BESIDE = """\
M one
  context   XXXXXXX -> XXXXXXX
    M files/wide.txt  +2 -1 lines
      @@ -1,3 +1,4 @@
      漢字カナ                                                | 漢字カナ新
      \u2068שלום\u2069                                                      \u2068שלום\u2069
                                                              > \\x1b[31mred\\u202e
      same                                                      same
"""


def test_what_stands_on_the_screen(home: Path) -> None:
    said = rover("diff")
    assert (said.code, said.err) == (0, "")
    assert re.sub(r"\b[0-9a-f]{7}\b", "XXXXXXX", said.out) == GOLDEN
    assert max(map(display_width, said.out.splitlines())) <= 80
    assert rover("diff", "HEAD~1", "HEAD").out == rover("diff", "HEAD~1..HEAD").out == said.out
    assert rover("diff", "HEAD~1").out == rover("diff", "HEAD~1...").out == said.out


def test_beside_each_other(home: Path) -> None:
    said = rover("diff", "-y", "--width", "120", "*.txt")
    found = re.sub(r"\b[0-9a-f]{7}\b", "XXXXXXX", said.out)
    assert [line.replace(" ", "") for line in found.splitlines()] == [x.replace(" ", "") for x in BESIDE.splitlines()]
    bars = {display_width(line[: line.index(mark)]) for line in found.splitlines() for mark in "|>" if mark in line[6:]}
    assert len(bars - {display_width("  context   XXXXXXX -")}) == 1
    narrow = rover("diff", "-y", "*.txt")
    assert "side by side needs 120 columns" in narrow.err
    assert "-漢字カナ\n" in narrow.out


def test_names_counts_and_exit_codes(home: Path) -> None:
    names = rover("diff", "--name-only")
    assert names.out.splitlines() == [
        "one/context/files/data.csv", "one/context/files/raw.bin", "one/context/files/same.json",
        "one/context/files/wide.txt", "one/task/contract.json", "one/task/instruction.md", "one/harness/harness.json",
    ]  # fmt: skip
    stat = rover("diff", "--stat").out
    assert stat.splitlines()[2:] == [
        "one               context        4  1 cell, +1 -1 rows, +2 -1 lines",
        "                  task           2  3 fields, +2 -1 lines",
        "                  harness        1  1 field",
        "in all 1 package                 7  4 fields, 1 cell, +1 -1 rows, +4 -2 lines",
    ]
    assert rover("diff", "--exit-code", "--name-only").code == 1
    same = rover("diff", "HEAD", "HEAD", "--exit-code")
    assert (same.code, same.out) == (0, "")
    assert same.err.startswith("no difference between HEAD (")


@pytest.mark.parametrize(
    ("words", "paths"),
    [
        (("instruction.md",), ["one/task/instruction.md"]),
        (("HEAD~1", "HEAD", "one/task"), ["one/task/contract.json", "one/task/instruction.md"]),
        (("HEAD~1", "*.csv", "*.bin"), ["one/context/files/data.csv", "one/context/files/raw.bin"]),
        (("-c", "harness", "-c", "task", "*.json"), ["one/task/contract.json", "one/harness/harness.json"]),
        (("HEAD~1..HEAD", "context/files/w*"), ["one/context/files/wide.txt"]),
        (("HEAD~1:one/task", "HEAD:one/task"), ["task/contract.json", "task/instruction.md"]),
        (("HEAD~1:one/task/instruction.md",), ["task/instruction.md"]),
        (("-p", "o*", "harness"), ["one/harness/harness.json"]),
    ],
)
def test_words_that_narrow(words: tuple[str, ...], paths: list[str], home: Path) -> None:
    assert rover("diff", "--name-only", *words).out.splitlines() == paths


def test_the_first_commit_is_compared_with_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    add(new_store(tmp_path), "one")
    said = rover("diff")
    assert said.out.startswith("A one\n  package\n    A package.json\n")
    assert "1,2" not in said.out
    assert "+Do it." in rover("diff", "one").out
    assert "+Do it." in rover("diff", "--full").out


def test_two_packages_with_each_other(home: Path) -> None:
    add(Store.open(home), "two", "Do it.\n")
    said = rover("diff", "HEAD:one", "HEAD:two", "--stat")
    assert said.out.splitlines()[2].split()[:4] == ["one", "->", "two", "package"]
    assert rover("diff", "HEAD:one", "HEAD:one").err.startswith("no difference between HEAD:one (")


def test_a_folder_with_the_store(home: Path) -> None:
    assert rover("checkout", "one", "out").code == 0
    assert rover("diff", "out").err.startswith("no difference between HEAD (")
    (home / "out/task/instruction.md").write_text("Other.\n")
    (home / "out/context/files/raw.bin").unlink()
    (home / "out/.DS_Store").touch()
    before = rover("op", "log").out
    said = rover("diff", "./out")
    assert said.err == "left out: .DS_Store\n"
    assert "    D files/raw.bin  3 bytes\n" in said.out
    assert "      -And soon.\n      +Other.\n" in said.out
    assert rover("diff", "out", "task", "--name-only", "--exit-code").out == "one/task/instruction.md\n"
    assert rover("op", "log").out == before
    (home / "out/package.json").write_text('{"name": "fresh", "title": "t"}')
    assert rover("diff", "out").out.startswith("A fresh\n")
    (home / "out/package.json").write_text("{")
    refused(rover("diff", "out"), 2, "package.json", "not valid JSON")


@pytest.mark.parametrize("more", [(), ("--stat",), ("--name-only",), ("-p", "one"), ("-U0",)])
def test_json_is_what_its_schema_says(more: tuple[str, ...], home: Path) -> None:
    for words in (("HEAD~2", "HEAD"), ("HEAD", "HEAD"), ("HEAD~2..HEAD~1",)):
        said = rover("diff", *words, "--json", *more)
        value = json.loads(said.out)
        Draft202012Validator(SCHEMA).validate(value)
        assert value["schema_version"] == 1
    value = json.loads(rover("diff", "--json").out)
    files = {f["path"]: f for c in value["packages"][0]["components"] for f in c["files"]}
    assert files["files/data.csv"]["content"]["tables"][0]["cells"] == [
        {"row": "7", "column": "amount", "old": "10.5", "new": "11.5", "old_number": 8, "new_number": 8}
    ]
    assert files["contract.json"]["content"]["fields"][1] == {
        "path": "requirements[exists].weight", "status": "changed", "old": 1.0, "new": 2.0, "item": "requirement",
        "id": "exists", "field": "weight",
    }  # fmt: skip
    assert value["totals"] == {
        "lines_added": 4, "lines_removed": 2, "cells": 1, "rows_added": 1, "rows_removed": 1, "fields": 4, "files": 7
    }  # fmt: skip


def test_words_inside_lines(home: Path) -> None:
    edit(Store.open(home), "one", {"context/files/wide.txt": "漢字カナ古\nשלום\nthe same\n".encode()})
    said = rover("diff", "--word", "HEAD~2", "HEAD", "wide.txt").out
    assert "       漢字カナ{+古+}\n" in said
    assert "       {+the +}same\n" in said


def test_long_differences_are_counted(home: Path) -> None:
    edit(Store.open(home), "one", {"task/instruction.md": "".join(f"{i}\n" for i in range(200)).encode()})
    said = rover("diff").out.splitlines()
    assert len(said) < 70
    assert said[-1] == "      … 143 more lines; --full shows all"
    assert len(rover("diff", "--full").out.splitlines()) > 200


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("nowhere",), "revision not found: nowhere"),
        (("HEAD", "nowhere"), "revision not found: nowhere"),
        (("HEAD~1", "HEAD", "nothing.md"), "path not found: nothing.md"),
        (("-c", "tasks"), "--component: 'tasks' is not context"),
        (("-p", "zz*"), "no package of HEAD~1 or HEAD matches 'zz*'"),
        (("HEAD", "HEAD:one/task"), "cannot be compared"),
        (("HEAD:one", "HEAD:one/task/instruction.md"), "cannot be compared"),
        (("HEAD~9..HEAD",), "revision not found: HEAD~9"),
        (("-U", "-1"), "-U"),
    ],
)
def test_refusals(words: tuple[str, ...], what: str, home: Path) -> None:
    said = rover("diff", *words)
    refused(said, 2, what)


def test_colour_on_a_terminal_alone(home: Path) -> None:
    plain = screen(home, NO_COLOR="1")
    coloured = screen(home, TERM="xterm")
    assert "\x1b" not in plain
    assert "\x1b[31m" in coloured
    assert "\x1b" not in screen(home, TERM="dumb")
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
    assert max(map(display_width, plain.splitlines())) <= 60


def screen(home: Path, **more: str) -> str:
    """What a terminal of 60 columns gets."""
    near, far = pty.openpty()
    env = {k: v for k, v in environment(COLUMNS="60", LANG="C.UTF-8").items() if k not in ("NO_COLOR", "TERM")}
    with subprocess.Popen([*SCRIPT, "diff"], cwd=home, env=env | more, stdout=far, stderr=far) as running:
        os.close(far)
        out = b""
        while True:
            try:
                piece = os.read(near, 65536)
            except OSError:
                break
            if not piece:
                break
            out += piece
        running.wait(60)
    os.close(near)
    return out.decode().replace("\r\n", "\n")


def test_a_diff_imports_nothing_heavy(home: Path) -> None:
    heavy = ("sqlmodel", "dulwich", "networkx", "openpyxl", "pypdf", "rich", "rover.sandbox.box", "rover_store.records")
    code = "import sys; from rover.cli.main import run; run(['diff']); "
    code += f"print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([SCRIPT[0], "-c", code], cwd=home, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "[]", done.stdout + done.stderr


def test_columns() -> None:
    assert [display_width(t) for t in ("abc", "漢字", "e\u0301", "\u2068a\u2069", "👩‍👩")] == [3, 4, 1, 1, 4]
    assert cut("漢字カナ", 5) == "漢字…"
    assert wrap("漢字カナ", 3) == ["漢", "字", "カ", "ナ"]
    assert wrap("one two three", 9) == ["one two ", "three"]
    assert wrap("abcdefghij", 4) == ["abcd", "efgh", "ij"]
    assert pad("שלום", 6) == "\u2068שלום\u2069  "
    assert Colours(False).paint("x", "old") == "x"


def test_files_that_only_moved(home: Path) -> None:
    edit(Store.open(home), "one", {"context/files/data.csv": None, "context/files/in/data.csv": NEW_ROWS.encode()})
    assert rover("diff").out.splitlines()[2:] == [
        "    D files/data.csv  moved to context/files/in/data.csv",
        "    A files/in/data.csv  moved from context/files/data.csv",
    ]
    value = json.loads(rover("diff", "--json").out)
    Draft202012Validator(SCHEMA).validate(value)
    assert [f["moved"] for f in value["packages"][0]["components"][0]["files"]] == [
        "context/files/in/data.csv", "context/files/data.csv",
    ]  # fmt: skip


def test_the_examples_of_the_help_page_run(home: Path) -> None:
    store = Store.open(home)
    for n in range(4):
        edit(store, "one", {"verifier/checks/main.py": f"# {n}\n".encode(), "context/files/data.csv": b"a\n%d\n" % n})
    for words in (("branch", "work"), ("tag", "v1"), ("checkout", "one", "DIR")):
        assert rover(*words).code == 0
    edit(store, "one", {"task/instruction.md": b"Last.\n"})
    page = (Path(__file__).parents[2] / "rover/docs/diff.md").read_text()
    lines = re.findall(r"^    rover (diff.*)$", page, re.MULTILINE)
    assert len(lines) == 9
    for line in lines:
        said = rover(*shlex.split(re.split(r"  +", line)[0]))
        assert said.code == 0, (line, said)
        assert said.out or said.err.startswith("no difference between "), line


def test_three_dots_begin_where_both_histories_parted(home: Path) -> None:
    assert rover("branch", "work").code == 0
    store = Store.open(home)
    edit(store, "one", {"task/instruction.md": b"On main.\n"})
    store.switch("work")
    edit(store, "one", {"harness/harness.json": Harness(tools=("shell",)).dump()})
    assert rover("diff", "--name-only", "main...work").out == "one/harness/harness.json\n"
    assert rover("diff", "--name-only", "main..work").out.splitlines() == [
        "one/task/instruction.md", "one/harness/harness.json",
    ]  # fmt: skip
    with store.write() as tx:
        other = tx.detached_commit("Alone", packages={}, parents=())
    refused(rover("diff", f"main...{other}"), 2, "share no commit")
