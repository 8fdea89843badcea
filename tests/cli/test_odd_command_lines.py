"""Words, streams and environments that nobody means: an answer in one line and an exit code, never a traceback."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from refusals import SCRIPT, environment, refused, rover, script, state
from store_samples import add, new_store

from rover.cli.output import plain
from rover_store.store import Store

ODD = (
    "", " ", "-1", "0", "9" * 30, "NaN", "a\nb", "x\x1b[31m\x07", "\u202eevil", "../../x", "/", "..", "~", "*", "[",
    "[!", "HEAD@{-1}", "HEAD~99999999999999999999", "HEAD^9", "0" * 40, "é" * 300, "a" * 5000, ":", "HEAD:..", ":/x",
    "^", "\udcff", "/dev/null", "refs/rover/sealed", "one:task", "one//task", "one/nope", "@{u}", "a..b", "--", "-",
    "%s", "{}", "$(x)",
)  # fmt: skip
LOCAL = ("--sandbox", "local")
#: commands with a place for an odd word
LINES: tuple[tuple[str, ...], ...] = (
    ("show", "?"), ("show", "one", "--rev", "?"), ("list", "?"), ("list", "--limit", "?"), ("log", "?"),
    ("log", "-c", "?"), ("log", "--limit", "?"), ("log", "--case", "?"), ("log", "--since", "?"),
    ("diff", "?"), ("diff", "HEAD", "?"),
    ("diff", "-p", "?"), ("status", "?"), ("checkout", "?", "out"), ("undo", "?"), ("op", "log", "--limit", "?"),
    ("op", "?"), ("tag", "-d", "?"), ("tag", "x", "?"), ("branch", "x", "?"), ("branch", "-d", "?"), ("commit", "?"),
    ("new", "fresh", "--name", "?"), ("help", "?"), ("?",), ("--?",), ("--store", "?", "list"), ("bench", "?"),
    ("inject", "?", "lax_verifier"), ("inject", "one", "?"),
    ("inject", "one", "lax_verifier", "--seed", "?", "--dry-run"),
    ("run", "?", *LOCAL), ("run", "one", "-k", "?"), ("run", "one", "-n", "?"), ("run", "one", "--sandbox", "?"),
    ("run", "one", "--policy", "?", *LOCAL), ("run", "one", "--policy", "scripted:?", *LOCAL),
    ("run", "one", "--policy", "replay:?", *LOCAL), ("run", "one", "--policy", "null:?", *LOCAL),
    ("build", "--from", "in", "--count", "?"), ("build", "--from", "in", "--prefix", "?", *LOCAL),
    ("build", "--from", "in", "--family", "?", *LOCAL), ("diagnose", "?", *LOCAL), ("repair", "?", *LOCAL),
    ("repair", "one", "--propose", "?", *LOCAL), ("repair", "one", "--propose", "task=?", *LOCAL),
    ("repair", "one", "--seeds", "?"), ("bench", "cli", "--repeats", "?x"), ("demo", "out", "--sandbox", "?x"),
)  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder, the working one, whose store holds `one`."""
    add(new_store(tmp_path), "one")
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROVER_STORE", raising=False)
    return tmp_path


@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_odd_words(line: tuple[str, ...], home: Path) -> None:
    packages = rover("list", "--json").out
    for word in ODD:
        if line[0] == "undo" and word == "0":
            continue  # the first digit of an operation's id is a name for it
        words = [part.replace("?", word) for part in line]
        said = rover(*words)
        lines = said.err.splitlines()
        told = [text for text in lines if text.startswith("rover: ")]
        assert said.code in (0, 1, 2), (words, said)
        assert "internal error" not in said.err
        assert len(told) == (1 if said.code == 2 else 0), (words, said)
        assert said.code != 2 or len(lines) <= 2, (words, said)
        assert plain(said.err, keep="\n") == said.err, (words, said)
        assert plain(said.out, keep="\n\t") == said.out, (words, said)
    assert rover("list", "--json").out == packages
    assert rover("fsck").code == 0


@pytest.mark.parametrize("words", [("show", "nope"), ("list", "zz*"), ("commit", "nope"), ("list", "--limit", "-1")])
def test_json_changes_nothing_about_errors(words: tuple[str, ...], home: Path) -> None:
    refused(rover(*words), 2)
    assert rover(*words, "--json") == rover(*words)


@pytest.mark.parametrize("epoch", ["garbage", "", "-5", "1e9", "9" * 30, "253402300800", "1 2", "٣"])
def test_an_epoch_that_is_none(epoch: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = state(home)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    refused(rover("tag", "v1"), 2, "SOURCE_DATE_EPOCH", repr(epoch))
    assert rover("log").code == 0
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "253402300799")
    assert state(home) == before
    assert rover("tag", "v1").code == 0


@pytest.mark.parametrize(
    ("tail", "code"),
    [
        ("list | head -0", 0), ("help package | head -1", 0), ("log --json | true", 0), ("list >&-", 0),
        ("show HEAD >&-", 0), ("list 2>&-", 0), ("nope 2>&-", 2), ("nope >&- 2>&- <&-", 2), ("list >/dev/full", 3),
        ("nope 2>/dev/full", 2), ("show HEAD:one/task/instruction.md >/dev/full", 3),
    ],
)  # fmt: skip
def test_streams_that_are_closed_or_full(tail: str, code: int, home: Path) -> None:
    words = ["bash", "-c", f'"$@" {tail}; exit ${{PIPESTATUS[0]}}', "-", *SCRIPT]
    done = subprocess.run(words, cwd=home, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
    assert done.stderr.count("rover: ") <= 1


@pytest.mark.parametrize(
    "env",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "ascii:strict"},
        {"LC_ALL": "nowhere"}, {"COLUMNS": "20", "LINES": "3"}, {"COLUMNS": "x"}, {"COLUMNS": "0"}, {"TERM": "dumb"},
        {"TZ": "garbage"}, {"HOME": ""}, {"HOME": "/nowhere"}, {"NO_COLOR": "1", "FORCE_COLOR": "1"},
    ],
    ids=str,
)  # fmt: skip
def test_environments(env: dict[str, str], home: Path) -> None:
    (home / "one").mkdir()
    title = {"title": "Ümlaut 日本 🎉"}
    assert rover("checkout", "one", "edit").code == 0
    record = json.loads((home / "edit/package.json").read_text()) | title
    (home / "edit/package.json").write_text(json.dumps(record))
    assert rover("commit", "edit").code == 0
    for words in (("show", "one"), ("list", "--json"), ("log",), ("list", "é*")):
        said = script(*words, cwd=home, env=env)
        assert said.code == (2 if words[-1] == "é*" else 0), said
        assert "Traceback" not in said.err


def test_without_an_environment(home: Path) -> None:
    done = subprocess.run([*SCRIPT, "list"], cwd=home, env={}, capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done


def test_words_that_are_not_utf8(home: Path) -> None:
    refused(script("list", b"\xff", cwd=home), 2, "\\xff: not UTF-8")
    refused(script("commit", b"\xff", cwd=home), 2, "\\xff")
    made = script("init", b"\xff", cwd=home)
    assert made.code == 0, made  # a folder may be called anything
    store = (b"--store", b"\xff")
    for words in ((b"new", b"\xff/pk"), (*store, b"commit", b"\xff/pk"), (*store, b"op", b"log")):
        said = script(*words, cwd=home)
        assert said.code == 0, said


def test_files_that_cannot_be_written_are_found_first(home: Path) -> None:
    before = state(home)
    refused(rover("inject", "one", "lax_verifier", "--manifest", "nowhere/x"), 2, "--manifest nowhere/x")
    refused(rover("inject", "one", "lax_verifier", "--manifest", "in"), 2, "--manifest in")
    refused(rover("bench", "cli", "--out", "nowhere/x"), 2, "--out nowhere/x")
    assert state(home) == before


def test_names_and_authors_print_no_control_characters(home: Path) -> None:
    assert rover("checkout", "one", "out\x1b[31m").code == 0
    evil = "Eve\x1b[2J <eve@example.org>"
    store = Store.open(home)
    with store.write("edit \x1b[31m") as tx:
        tx.set_package("one", tx.edit_tree(store.package("one").tree, {"task/instruction.md": b"Other.\n"}))
        tx.commit("Other\x1b[31m", author=evil.replace("\x1b", "\x9b"))
    operation = store.op_log()[0].id
    for words in (
        ["checkout", "one", "o\x1b[31m"], ["log"], ["log", "one"], ["show", "HEAD"], ["blame", "one"], ["op", "log"],
        ["op", "show", operation], ["bisect", "HEAD~1", "HEAD", "--run", "test {rev} = none"],
        ["clone", ".", "c\x1b[31m"], ["undo"], ["undo"], ["op", "restore", operation],
    ):  # fmt: skip
        said = rover(*words)
        assert said.code == 0, (words, said.err)
        assert not set("\x1b\x9b") & set(said.out + said.err), words
