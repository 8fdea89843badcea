"""Stores that are none, newer, damaged or busy, and revisions and globs that name nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from refusals import SCRIPT, environment, refused, rover, script, state
from store_samples import add, git, new_store

from rover.sandbox.bubblewrap import find_bwrap
from rover_store.errors import SandboxError
from rover_store.store import Store


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder, the working one, whose store holds `one` and `two`."""
    store = new_store(tmp_path)
    add(store, "one")
    add(store, "two")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROVER_STORE", raising=False)
    return tmp_path


#: one command for every way in which a store is used
USES = (
    ("list",), ("log",), ("show", "one"), ("status",), ("diff",), ("op", "log"), ("fsck",), ("reindex",),
    ("tag", "v1"), ("branch", "b"), ("undo",), ("checkout", "one", "out"), ("commit", "folder"),
    ("inject", "one", "lax_verifier"), ("check", "--sandbox", "local"),
    ("run", "*", "--policy", "null:echo", "--sandbox", "local"),
    ("build", "--from", "folder", "--sandbox", "local"), ("diagnose", "one", "--sandbox", "local"),
    ("repair", "one", "--sandbox", "local"),
)  # fmt: skip


@pytest.mark.parametrize("words", USES)
def test_not_a_store(words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROVER_STORE", raising=False)
    refused(rover(*words), 2, str(tmp_path), "not a rover store")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("named", ["/nowhere", "/dev/null", "a" * 300, "two\nlines", "\x1b[31m"])
def test_a_store_that_is_named_and_is_none(named: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(rover("--store", named, "list"), 2)
    monkeypatch.setenv("ROVER_STORE", named)
    said = rover("log")
    refused(said, 2)
    assert "\x1b" not in said.err


@pytest.mark.parametrize("words", USES)
def test_a_newer_store(words: tuple[str, ...], home: Path) -> None:
    before = state(home)
    file = home / ".rover/config.toml"
    text = file.read_text()
    file.write_text(text.replace("format = 1", "format = 2"))
    refused(rover(*words), 3, "config.toml: format: 2 was written by a newer rover")
    file.write_text(text)
    assert state(home) == before
    assert not (home / "out").exists()


def _torn(index: Path) -> None:
    index.write_bytes(index.read_bytes()[:5000])


def _garbage(index: Path) -> None:
    index.write_bytes(b"no database " * 1000)


def _folder(index: Path) -> None:
    index.unlink()
    index.mkdir()
    (index / "file").touch()


def _fifo(index: Path) -> None:
    index.unlink()
    os.mkfifo(index)


def _link(index: Path) -> None:
    index.unlink()
    (index.parent.parent / "precious").write_text("mine")
    index.symlink_to(index.parent.parent / "precious")


@pytest.mark.parametrize("spoil", [Path.unlink, _torn, _garbage, _folder, _fifo, _link])
def test_an_index_deleted_or_garbage(spoil: Callable[[Path], None], home: Path) -> None:
    reads = (("list", "--json"), ("log", "--json"), ("log", "one"), ("status", "--json"))
    right = [rover(*words) for words in reads]
    before = state(home)
    for words, said in zip(reads, right, strict=True):
        spoil(home / ".rover/index.db")
        assert rover(*words)[:2] == said[:2]  # one that lives in memory says so on stderr
        assert state(home) == before
        if spoil is _folder:  # not rover's to delete
            refused(rover("reindex"), 2, "index.db: Is a directory")
            shutil.rmtree(home / ".rover/index.db")
        assert rover("reindex").code == 0
    assert rover("fsck").out == "all is well\n"
    assert not (home / "precious").exists() or (home / "precious").read_text() == "mine"


def test_two_writers_at_once(home: Path) -> None:
    names = [f"p{i}" for i in range(4)]
    for name in names:
        assert rover("new", name).code == 0
    calls = [[*SCRIPT, "commit", name] for name in names]
    calls.append([*SCRIPT, "tag", "v1"])
    running = [
        subprocess.Popen(c, cwd=home, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) for c in calls
    ]
    ended = [(p.communicate(timeout=300), p.returncode) for p in running]  # a loaded machine is slow
    assert [code for _, code in ended] == [0] * 5, ended
    store = Store.open(home)
    assert [p.name for p in store.packages()] == ["one", *names, "two"]
    assert len(store.op_log()) == 2 + 5
    assert store.fsck() == []


REVISIONS = (
    ("list", "--rev"), ("log", "--rev"), ("show",), ("show", "one", "--rev"), ("diff",), ("diff", "HEAD"),
    ("tag", "v1"), ("branch", "b"), ("checkout", "one", "out", "--rev"), ("check", "--sandbox", "local", "--rev"),
    ("run", "*", "--policy", "null:echo", "--sandbox", "local", "--rev"),
    ("diagnose", "one", "--sandbox", "local", "--rev"), ("repair", "one", "--sandbox", "local", "--from"),
)  # fmt: skip


@pytest.mark.parametrize("words", REVISIONS)
def test_a_revision_that_is_unknown(words: tuple[str, ...], home: Path) -> None:
    before = state(home)
    for rev in ("nowhere", "0" * 40, "HEAD~99", "HEAD^9", "refs/rover/sealed", "", "HEAD@{99}", "a..b", "x\ny"):
        if rev or words[-1] == "--rev":  # elsewhere an empty word is the same as none
            refused(rover(*words, rev), 2)
    assert state(home) == before
    assert not (home / "out").exists()


def test_a_revision_that_is_ambiguous(home: Path) -> None:
    store = Store.open(home)
    known: set[str] = set()
    short = ""
    while not short:
        with store.write() as tx:
            fresh = [tx.detached_commit(f"{len(known)} {k}", base=store.resolve()) for k in range(300)]
        for commit in fresh:
            short = commit[:4] if commit[:4] in {k[:4] for k in known} else short
            known.add(commit)
    before = state(home)
    for words in REVISIONS:
        refused(rover(*words, short), 2, f"revision is ambiguous: {short} could be {short}")
    assert state(home) == before


@pytest.mark.parametrize("glob", ["zz*", "[", "", "two\nlines", "..*", "*/*"])
def test_a_glob_that_matches_nothing(glob: str, home: Path) -> None:
    before = state(home)
    for words in (
        ("list", glob), ("status", glob), ("diff", "-p", glob),
        ("run", glob, "--policy", "null:echo", "--sandbox", "local"),
    ):
        refused(rover(*words), 2, "no package of", "matches")
    said = ["path not found"] if "/" in glob else ["no package of", "matches"]  # with a slash it is a path
    refused(rover("check", glob, "--sandbox", "local"), 2, *said)
    if glob and "/" not in glob[1:]:  # PACKAGE/COMPONENT is a pattern of the log
        refused(rover("log", glob), 2, "package not found")
    assert state(home) == before


DAMAGE: list[tuple[Callable[[Path], object], str]] = [
    (lambda g: (g / "HEAD").write_text("garbage\n"), "garbage"),
    (lambda g: (g / "refs/heads/main").write_text("zz\n"), "refs/heads/main is damaged"),
    (lambda g: [os.truncate(p, 20) for p in g.glob("objects/pack/*.pack")], "is damaged"),
    (lambda g: [os.truncate(p, 20) for p in g.glob("objects/pack/*.idx")], "not a version 2 pack index"),
    (lambda g: g.rename(g.parent / "gone"), "store.git: missing"),
]


@pytest.mark.parametrize(("spoil", "what"), DAMAGE)
def test_a_damaged_store_is_infrastructure(spoil: Callable[[Path], object], what: str, home: Path) -> None:
    spoil(home / ".rover/store.git")
    for words in (("list",), ("show", "HEAD"), ("run", "*", "--policy", "null:echo", "--sandbox", "local")):
        refused(rover(*words), 3, what)


@pytest.fixture
def read_only(home: Path) -> list[str]:
    """The script with the project folder mounted so that nobody can write it."""
    try:
        start = [find_bwrap(), "--dev-bind", "/", "/", "--ro-bind", str(home), str(home)]
        subprocess.run([*start, "true"], capture_output=True, check=True)
    except (SandboxError, OSError, subprocess.CalledProcessError):
        pytest.skip("this machine cannot mount")
    return [*start, *SCRIPT]


def test_a_folder_that_cannot_be_written(home: Path, read_only: list[str]) -> None:
    rover("new", "three")
    before = state(home)
    writes = (("commit", "three"), ("tag", "v1"), ("undo",), ("init", "x"), ("new", "four"), ("checkout", "one", "out"))
    for words in (("list",), *writes):
        start = [*read_only, *words]
        done = subprocess.run(start, cwd=home, env=environment(), capture_output=True, text=True, check=False)
        if words == ("list",):
            assert (done.returncode, done.stdout.count("\n")) == (0, 4), done
            continue
        assert (done.returncode, done.stdout) == (3, ""), done
        assert done.stderr.startswith("rover: ")
        assert "Read-only file system" in done.stderr.splitlines()[0]
        assert len(done.stderr.splitlines()) <= 2
    assert state(home) == before


def test_what_git_wrote_with_an_impossible_time_is_shown(home: Path) -> None:
    bare = home / ".rover/store.git"
    text = git(bare, "cat-file", "commit", "main").rstrip("\n")
    late = text.replace(" 0 +0000", " 99999999999 +0000") if " 0 +0000" in text else text
    made = subprocess.run(
        ["git", "-C", str(bare), "hash-object", "-t", "commit", "-w", "--stdin", "--literally"],
        input=late + "\n", capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    git(bare, "update-ref", "refs/heads/main", made)
    for words in (("log",), ("show", "HEAD"), ("op", "log"), ("list",)):
        said = script(*words, cwd=home)
        assert (said.code, "Traceback" in said.err, "error" in said.err) == (0, False, False), said


_BROKEN = (b"x", b"[" * 100_000, b"{\"title\": " + b"9" * 5000 + b"}", b"\xff", b"[]", b"{\"admission\": [1]}")


@pytest.mark.parametrize("data", _BROKEN)
def test_a_package_whose_record_another_git_broke_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    with store.write("break") as tx:
        tx.set_package("one", tx.edit_tree(store.package("one").tree, {"package.json": data}))
        tx.commit("Break")
    monkeypatch.chdir(tmp_path)
    for words in (["list"], ["list", "--json"], ["status"], ["show", "one"], ["log"], ["diff"]):
        said = rover(*words)
        assert said.code == 0, said.err
        assert words[0] == "status" or "one" in said.out + said.err
    assert rover("fsck").code == 1
