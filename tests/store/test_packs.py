"""Packs: what we write, git indexes the same; what git writes with deltas, we read."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
from store_samples import add, edit, git, new_store

from rover_store.errors import StoreError
from rover_store.objects import Objects
from rover_store.packs import BLOB, TREE, Pack, PackWriter, index_bytes, object_id, record_header
from rover_store.rollup import roll_up


def _repository(folder: Path) -> Path:
    git(folder, "init", "-q", "--bare", "r.git")
    return folder / "r.git"


def test_git_makes_the_same_index(tmp_path: Path) -> None:
    repository = _repository(tmp_path)
    writer = PackWriter(repository / "objects" / "pack")
    rng = random.Random(1)
    contents = [rng.randbytes(rng.choice([0, 1, 15, 16, 300, 70_000])) for _ in range(200)]
    ids = [writer.add(BLOB, data) for data in contents]
    name = writer.finish()
    pack = repository / "objects" / "pack" / f"{name}.pack"
    git(tmp_path, "index-pack", "-o", str(tmp_path / "other.idx"), str(pack))
    assert (tmp_path / "other.idx").read_bytes() == pack.with_suffix(".idx").read_bytes()
    objects = Objects(repository)
    assert [objects.read(i) for i in ids] == contents
    assert dict(objects.read_many(ids)) == dict(zip(ids, contents, strict=True))


def test_an_object_is_written_once_and_can_be_read_back(tmp_path: Path) -> None:
    writer = PackWriter(tmp_path)
    first = writer.add(BLOB, b"x" * 10)
    assert writer.add(BLOB, b"x" * 10) == first == object_id(BLOB, b"x" * 10)
    assert writer.get(first) == (BLOB, b"x" * 10)
    assert len(writer.entries) == 1
    writer.abort()
    assert list(tmp_path.iterdir()) == []


def test_nothing_written_leaves_no_file(tmp_path: Path) -> None:
    writer = PackWriter(tmp_path)
    assert writer.finish() is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [0, 15, 16, 2047, 2048, 1 << 20])
def test_record_header_is_gits(size: int) -> None:
    header = record_header(TREE, size)
    value, shift = header[0] & 15, 4
    for byte in header[1:]:
        value |= (byte & 0x7F) << shift
        shift += 7
    assert (header[0] >> 4) & 7 == TREE
    assert value == size
    assert all(byte & 0x80 for byte in header[:-1])
    assert not header[-1] & 0x80


def test_offsets_beyond_two_gigabytes(tmp_path: Path) -> None:
    names = [bytes([i]) * 20 for i in (3, 1, 2)]
    entries = {names[0]: (12, 7), names[1]: ((1 << 31) + 5, 8), names[2]: ((1 << 33) + 6, 9)}
    (tmp_path / "pack-x.idx").write_bytes(index_bytes(entries, b"c" * 20))
    pack = Pack(tmp_path / "pack-x.pack")
    assert {n: pack.find(n) for n in names} == {n: entries[n][0] for n in names}
    assert [pack.crc(i) for i in range(3)] == [8, 9, 7]
    assert pack.find(b"\1" * 19 + b"\2") is None


def test_deltas_of_another_git_are_followed(tmp_path: Path) -> None:
    repository = _repository(tmp_path)
    writer = PackWriter(repository / "objects" / "pack")
    base = random.Random(2).randbytes(20_000)
    versions = [base[:i] + b"changed" + base[i:] for i in range(0, 20_000, 1000)]
    ids = [writer.add(BLOB, v) for v in versions]
    tree = writer.add(TREE, b"".join(b"100644 f%02d\0" % n + bytes.fromhex(i) for n, i in enumerate(ids)))
    writer.finish()
    commit = git(repository, "commit-tree", tree, "-m", "x").strip()
    git(repository, "update-ref", "refs/heads/main", commit)
    git(repository, "repack", "-adfq", "--depth=10")
    objects = Objects(repository)
    (pack,) = objects.packs
    assert sum(kind in (6, 7) for _, kind, _ in pack.records()) > 5
    assert [objects.read(i) for i in ids] == versions


def test_a_cut_index_is_named(tmp_path: Path) -> None:
    body = index_bytes({b"\1" * 20: (12, 1)}, b"c" * 20)
    (tmp_path / "pack-x.idx").write_bytes(body[:1050])
    with pytest.raises(StoreError, match=r"pack-x\.idx.*not a version 2"):
        Pack(tmp_path / "pack-x.pack")
    many = index_bytes({bytes([i]) * 20: (12, 1) for i in range(9)}, b"c" * 20)
    (tmp_path / "pack-z.idx").write_bytes(many[:1200])
    with pytest.raises(StoreError, match=r"pack-z\.idx.*cut short"):
        Pack(tmp_path / "pack-z.pack")
    (tmp_path / "pack-y.idx").write_bytes(b"nonsense" + struct.pack(">I", 1))
    with pytest.raises(StoreError, match=r"pack-y\.idx.*not a version 2"):
        Pack(tmp_path / "pack-y.pack")


def test_small_packs_are_rolled_together(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    for i in range(90):
        edit(store, "one", {"context/files/data.csv": b"%d" % i})
    assert len(store.objects.packs) < 45
    git(store.git, "fsck", "--full", "--strict")
    assert len(list(store.log())) == 91
    assert store.fsck() == []


def test_packs_with_deltas_and_kept_packs_stay(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    for i in range(6):
        edit(store, "one", {"context/files/data.csv": b"%d" % i})
    kept = store.objects.packs[0]
    kept.path.with_suffix(".keep").touch()
    with store.lock:
        assert roll_up(store.objects, store.lock, limit=3) == 6
    assert kept.path.exists()
    assert len(store.objects.packs) == 2
    assert store.fsck() == []
