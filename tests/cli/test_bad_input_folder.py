"""Package folders that cannot be taken in: one line that names file, field and reason, and nothing changes."""

from __future__ import annotations

import json
import os
import shutil
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from packages import runtime
from refusals import Said, refused, rover, state


@pytest.fixture(scope="module")
def kind() -> str:
    made = runtime()
    made.close()  # type: ignore[attr-defined]
    return made.kind


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder, the working one: a store that holds `pk`, and its folder beside it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROVER_STORE", raising=False)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    for words in (("init",), ("new", "pk"), ("commit", "pk")):
        assert rover(*words).code == 0
    return tmp_path


def _set(file: str, change: Callable[[Any], object]) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        value = json.loads((folder / file).read_text())
        change(value)
        (folder / file).write_text(json.dumps(value))

    return spoil


def _write(file: str, data: bytes) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        path = os.fsencode(folder) + b"/" + os.fsencode(file)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(os.fsdecode(path)).write_bytes(data)

    return spoil


def _sparse(folder: Path) -> None:
    with open(folder / "context/files/huge.csv", "wb") as file:
        file.truncate(5 << 30)


def _socket(folder: Path) -> None:
    here = os.getcwd()
    os.chdir(folder / "context/files")  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("s")
    os.chdir(here)


def _loop(folder: Path) -> None:
    (folder / "context/files/a").symlink_to("b")
    (folder / "context/files/b").symlink_to("a")


FOLDERS: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "unknown field": (_set("package.json", lambda v: v.update(colour=1)), ("package.json: colour: ", "Extra inputs")),
    "unknown field deep": (
        _set("task/contract.json", lambda v: v["requirements"][0].update(mood="good")),
        ("task/contract.json: requirements.0.mood: ",),
    ),
    "wrong type": (_set("package.json", lambda v: v.update(title=3)), ("package.json: title: ", "valid string")),
    "wrong type deep": (
        _set("harness/harness.json", lambda v: v["budget"].update(turns="many")),
        ("harness/harness.json: budget.turns: ",),
    ),
    "not a number": (
        _set("verifier/verifier.json", lambda v: v["criteria"][0].update(weight=float("nan"))),
        ("verifier/verifier.json: criteria.0.weight: ",),
    ),
    "a list": (_write("task/task.json", b"[]"), ("task/task.json: must be a JSON object",)),
    "no JSON": (_write("task/task.json", b"{"), ("task/task.json: not valid JSON",)),
    "deep JSON": (_write("task/task.json", b"[" * 200_000), ("task/task.json: not valid JSON",)),
    "zero bytes": (_write("task/task.json", b"\0" * 100), ("task/task.json: not valid JSON",)),
    "a huge number": (_set("package.json", lambda v: v.update(schema_version=10**400)), ("package.json: ",)),
    "newer": (_set("package.json", lambda v: v.update(schema_version=2)), ("package.json: schema_version: 2",)),
    "name upwards": (
        _set("package.json", lambda v: v.update(name="../../x")), ("package.json: name: ", "not '../../x'"),
    ),
    "name absolute": (_set("package.json", lambda v: v.update(name="/etc/x")), ("package.json: name: ",)),
    "name of lines": (_set("package.json", lambda v: v.update(name="a\nb")), ("package.json: name: ",)),
    "link out": (lambda f: (f / "context/files/l").symlink_to("/etc/passwd"), ("context/files/l: is a link",)),
    "link to a folder": (lambda f: (f / "context/files/l").symlink_to("/etc"), ("context/files/l: is a link",)),
    "link that loops": (_loop, ("context/files/a: is a link",)),
    "record is a link": (
        lambda f: ((f / "task/task.json").unlink(), (f / "task/task.json").symlink_to("/etc/passwd")),
        ("task/task.json: is a link",),
    ),
    "fifo": (lambda f: os.mkfifo(f / "context/files/p"), ("context/files/p: is a FIFO",)),
    "record is a fifo": (
        lambda f: ((f / "task/task.json").unlink(), os.mkfifo(f / "task/task.json")),
        ("task/task.json: is a FIFO",),
    ),
    "socket": (_socket, ("context/files/s: is a socket",)),
    "5 GB sparse": (_sparse, ("context/files/huge.csv: 5.0 GiB; a file may have 256 MiB",)),
    "case": (_write("context/files/data/ORDERS.csv", b"x"), ("ORDERS.csv", "where case does not count")),
    "case of folders": (_write("context/files/Data/x.csv", b"x"), ("where case does not count",)),
    "newline": (_write("context/files/a\nb.csv", b"x"), ("a\\nb.csv", "control character or a line break")),
    "escape": (_write("context/files/\x1b[31m.csv", b"x"), ("\\x1b[31m.csv", "control character")),
    "not UTF-8": (_write(os.fsdecode(b"context/files/\xff.csv"), b"x"), ("\\xff.csv", "not UTF-8")),
    "a record is a folder": (
        lambda f: ((f / "task/task.json").unlink(), (f / "task/task.json").mkdir()),
        ("task/task.json",),
    ),
    "a component is a file": (
        lambda f: (shutil.rmtree(f / "harness"), (f / "harness").write_text("x")),
        ("harness",),
    ),
    "a component is gone": (lambda f: shutil.rmtree(f / "verifier"), ("verifier/verifier.json: missing",)),
    "no package.json": (lambda f: (f / "package.json").unlink(), ("package.json: missing",)),
    "git inside": (lambda f: (f / "context/files/.git").mkdir(), ("context/files/.git: ",)),
    "instruction of nothing": (_write("task/instruction.md", b" \n"), ("task/instruction.md: is empty",)),
    "instruction of bytes": (_write("task/instruction.md", b"\xff\xfe\0"), ("task/instruction.md: is not UTF-8",)),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLDERS)
def test_a_bad_folder_changes_nothing(name: str, home: Path) -> None:
    spoil, parts = FOLDERS[name]
    before = state(home)
    spoil(home / "pk")
    for more in ((), ("--json",)):
        said = rover("commit", "pk", *more)
        refused(said, 2, *parts)
        assert "\x1b" not in said.err
    assert state(home) == before
    assert rover("fsck").code == 0


@pytest.mark.parametrize("name", ["fifo", "5 GB sparse", "link out", "unknown field deep"])
def test_a_bad_proposal_changes_nothing(name: str, home: Path) -> None:
    spoil, parts = FOLDERS[name]
    before = state(home)
    spoil(home / "pk")
    component = "task" if "task" in parts[0] else "context"
    said = rover("repair", "pk", "--propose", f"{component}=pk/{component}", "--sandbox", "local")
    refused(said, 2, parts[0].removeprefix(f"{component}/").split(":")[0])
    assert state(home) == before


@pytest.mark.parametrize(
    ("file", "change", "what"),
    [
        ("context/context.json", lambda v: v["files"][0].update(path="../../x"), "../../x is not in the workspace"),
        ("verifier/verifier.json", lambda v: v["criteria"][0].update(check="../../x.py:f"), "'../../x.py:f' does not"),
        ("task/contract.json", lambda v: v["deliverables"][0].update(path="../x.csv"), "no path inside the workspace"),
    ],
)
def test_paths_that_lead_out_are_findings(
    file: str, change: Callable[[Any], object], what: str, home: Path, kind: str
) -> None:
    """The records are sound by themselves, so they can be stored; a check finds them, and nothing leaves the box."""
    _set(file, change)(home / "pk")
    assert rover("commit", "pk").code == 0
    said = rover("check", "pk", "--sandbox", kind)
    assert said.code == 1, said
    assert what in " ".join(said.out.split())
    assert not (home.parent / "x.csv").exists()


def test_names_in_unicode_are_kept(home: Path) -> None:
    for name in ("Übersicht 日本.csv", "emoji 🎉.txt", " spaces ", "'quotes\"", "-dash", "%s{}$HOME", "a" * 200):
        (home / "pk/context/files" / name).write_text("x")
    assert rover("commit", "pk").code == 0
    assert rover("checkout", "pk", "out").code == 0
    kept = {p.name for p in (home / "out/context/files").iterdir()}
    assert kept == {p.name for p in (home / "pk/context/files").iterdir()}
    assert "Übersicht 日本.csv" in rover("diff").out


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("nothing", "nothing is not a folder"), ("pk/package.json", "is not a folder"), ("/dev/null", "not a folder"),
        ("a" * 300, "File name too long"), ("two\nlines", "two\\nlines is not a folder"),
        ("empty", "package.json: missing"),
    ],
)  # fmt: skip
def test_no_package_folder(path: str, what: str, home: Path) -> None:
    (home / "empty").mkdir()
    before = state(home)
    refused(rover("commit", path), 2, what)
    assert state(home) == before


@pytest.mark.parametrize("name", ["../../x", "a b", "UPPER", "x" * 101, ".", "é", "two\nlines", "-x", "a/b"])
def test_new_refuses_a_name(name: str, home: Path) -> None:
    refused(rover("new", "fresh", "--name", name), 2, "name")
    assert not (home / "fresh").exists()


def test_checkout_and_new_do_not_overwrite(home: Path) -> None:
    (home / "mine").mkdir()
    (home / "mine/file").write_text("mine")
    for words in (("checkout", "pk", "mine"), ("new", "mine"), ("checkout", "pk", "pk/package.json")):
        refused(rover(*words), 2)
    assert [p.name for p in (home / "mine").iterdir()] == ["file"]
    refused(rover("checkout", "../pk"), 2, "../pk")
    refused(rover("checkout", "nope"), 2, "package not found: nope")


def test_a_file_that_changes_while_it_is_read(home: Path) -> None:
    """What is taken is one whole version, or the commit is refused and nothing changes."""
    target, other = home / "pk/context/files/data/big.csv", home / "other"
    versions = [bytes([65 + i]) * 2_000_000 for i in range(3)]
    target.write_bytes(versions[0])
    over = threading.Event()

    def churn() -> None:
        n = 0
        while not over.wait(0.002):
            n += 1
            if n % 2:
                with target.open("r+b") as file:
                    file.write(versions[n % 3])
            else:
                other.write_bytes(versions[n % 3])
                os.replace(other, target)

    thread = threading.Thread(target=churn)
    thread.start()
    said: list[Said] = []
    try:
        for _ in range(6):
            before = state(home)
            said.append(rover("commit", "pk"))
            if said[-1].code:
                refused(said[-1], 2, "context/files/data/big.csv: changed while it was read")
                assert state(home) == before
    finally:
        over.set()
        thread.join()
    assert rover("commit", "pk").code == 0
    assert rover("fsck").code == 0
