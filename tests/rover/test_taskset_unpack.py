"""What an exported taskset makes of a packed workspace: what an agent can cause has failed, and is no error.

The module needs verifiers, which these tests do without: a stand-in for its names, none of which unpacking calls.
"""

from __future__ import annotations

import base64
import errno
import importlib.util
import io
import os
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

import pytest

import rover.port.verifiers

T = TypeVar("T")
C = TypeVar("C")
TEMPLATE = Path(rover.port.verifiers.__file__).parent / "template/taskset.py"


class Named:
    """Any record or configuration."""


class Task(Generic[T]):
    """Of some data."""


class Taskset(Generic[T, C]):
    """Of some tasks."""


@pytest.fixture(scope="module")
def taskset() -> Any:
    names, package = ModuleType("verifiers.v1"), ModuleType("verifiers")
    known = {"TaskData": Named, "TasksetConfig": Named, "Task": Task, "Taskset": Taskset, "reward": lambda call: call}
    vars(names).update(known)
    vars(package)["v1"] = names
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "verifiers", package)
        patch.setitem(sys.modules, "verifiers.v1", names)
        spec = importlib.util.spec_from_file_location("exported_taskset", TEMPLATE)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def entry(name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, to: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, to, len(data)
    return info, data


def packed(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, data in entries:
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def test_plain_files_as_they_are_and_links_to_nowhere(taskset: Any, tmp_path: Path) -> None:
    archive = packed(
        entry("./a/b.txt", b"b"), entry("./c.txt", kind=tarfile.LNKTYPE, to="./a/b.txt"),
        entry("./out", kind=tarfile.SYMTYPE, to="/etc/passwd"), entry("./pipe", kind=tarfile.FIFOTYPE),
        entry("../over.txt", b"x"), entry("/abs.txt", b"x"),
    )  # fmt: skip
    assert taskset.unpack(archive, tmp_path)
    assert (tmp_path / "a/b.txt").read_bytes() == (tmp_path / "c.txt").read_bytes() == b"b"
    assert {os.readlink(tmp_path / name) for name in ("out", "pipe")} == {"nowhere"}
    assert not (tmp_path.parent / "over.txt").exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "c.txt", "out", "pipe"]


WHOLE = packed(entry("a.txt", b"a" * 2000), entry("b.txt", b"b"))
LOOP = packed(entry("s", kind=tarfile.SYMTYPE, to="h"), entry("h", kind=tarfile.LNKTYPE, to="s"))


@pytest.mark.parametrize(
    "archive",
    [
        b"no archive at all",
        WHOLE[:1000],
        WHOLE[:300],
        packed(entry("a", b"1"), entry("a/b", b"2")),
        packed(entry("a/b", b"1"), entry("a", b"2")),
        packed(entry("a", kind=tarfile.SYMTYPE, to="b"), entry("a/b", b"1")),
        packed(entry("a", kind=tarfile.FIFOTYPE), entry("a", kind=tarfile.FIFOTYPE)),
        packed(entry("n" * 300, b"1")),
        packed(entry("/".join(["d" * 200] * 30), b"1")),
        packed(entry("gone", kind=tarfile.LNKTYPE, to="nowhere")),
        LOOP,
    ],
    ids=["none", "cut", "cut in a head", "file, then folder", "folder, then file", "link and folder", "twice", "long",
         "deep", "a link to nothing", "a link to itself"],
)  # fmt: skip
def test_what_an_agent_can_pack_has_failed(taskset: Any, tmp_path: Path, archive: bytes) -> None:
    assert taskset.unpack(archive, tmp_path) is False


def test_what_is_no_base64_has_failed(taskset: Any) -> None:
    assert taskset.unwrapped(base64.encodebytes(WHOLE).decode()) == WHOLE
    assert taskset.unwrapped("abc") is None
    assert taskset.unwrapped("\u00e4") is None


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_what_this_machine_causes_is_an_error(
    taskset: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def full(path: Path, data: bytes) -> int:
        raise OSError(number, os.strerror(number), str(path))

    write: Callable[[Path, bytes], int] = full
    monkeypatch.setattr(Path, "write_bytes", write)
    with pytest.raises(OSError, match=os.strerror(number)):
        taskset.unpack(WHOLE, tmp_path)


def test_too_much_has_failed(taskset: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taskset, "MOST_BYTES", 2000)
    assert taskset.unpack(WHOLE, tmp_path) is False
    monkeypatch.setattr(taskset, "MOST_FILES", 0)
    assert taskset.unpack(WHOLE, tmp_path) is False
