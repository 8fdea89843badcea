"""Every codec that is installed writes what git and the others read."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from store_samples import add, edit, git, new_store

from rover_store.errors import UsageError
from rover_store.objects import Objects
from rover_store.packs import BLOB, PackWriter
from rover_store.packs import codec as codec_module
from rover_store.packs.codec import codec

INSTALLED = [n for n, m in (("isal", "isal"), ("zlib-ng", "zlib_ng"), ("zlib", "zlib")) if importlib.util.find_spec(m)]


@pytest.fixture
def choose(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    codec.cache_clear()
    yield monkeypatch
    codec.cache_clear()


def _use(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    codec.cache_clear()
    monkeypatch.setenv("ROVER_ZLIB", name)
    assert codec().name == name


def test_the_first_that_is_installed_is_taken(choose: pytest.MonkeyPatch) -> None:
    choose.delenv("ROVER_ZLIB", raising=False)
    assert codec().name == INSTALLED[0]


def test_a_name_that_means_nothing_is_refused(choose: pytest.MonkeyPatch) -> None:
    choose.setenv("ROVER_ZLIB", "brotli")
    with pytest.raises(UsageError, match="ROVER_ZLIB: 'brotli' is none of isal, zlib-ng, zlib"):
        codec()


def test_one_that_is_not_installed_is_refused(choose: pytest.MonkeyPatch) -> None:
    choose.setitem(codec_module._MODULES, "isal", ("no_such_module", 1))
    choose.setenv("ROVER_ZLIB", "isal")
    with pytest.raises(UsageError, match="isal is not installed"):
        codec()
    choose.delenv("ROVER_ZLIB")
    assert codec().name in INSTALLED[1:]


@pytest.mark.parametrize("writes", INSTALLED)
@pytest.mark.parametrize("reads", INSTALLED)
def test_each_reads_what_each_writes(tmp_path: Path, choose: pytest.MonkeyPatch, writes: str, reads: str) -> None:
    git(tmp_path, "init", "-q", "--bare", "r.git")
    rng = random.Random(4)
    contents = [rng.randbytes(n) + b"text " * n for n in (0, 1, 50, 5000, 120_000)]
    _use(choose, writes)
    writer = PackWriter(tmp_path / "r.git" / "objects" / "pack")
    ids = [writer.add(BLOB, data) for data in contents]
    big = rng.randbytes(300_000) * 3
    writer.add_stream(BLOB, len(big), (big[i : i + 70_000] for i in range(0, len(big), 70_000)), _id(big))
    writer.finish()
    _use(choose, reads)
    objects = Objects(tmp_path / "r.git")
    assert [objects.read(name) for name in ids] == contents
    assert b"".join(objects.stream(_id(big))) == big
    git(tmp_path / "r.git", "fsck", "--full")


def test_a_store_has_the_same_ids_with_each(tmp_path: Path, choose: pytest.MonkeyPatch) -> None:
    heads = set()
    for name in INSTALLED:
        _use(choose, name)
        store = new_store(tmp_path / name)
        add(store, "one")
        edit(store, "one", {"context/files/data.csv": b"a,b\n" * 3000})
        git(store.git, "fsck", "--full", "--strict")
        heads.add(store.resolve())
    assert len(heads) == 1


def _id(data: bytes) -> str:
    from rover_store.names import blob_id

    return blob_id(data)
