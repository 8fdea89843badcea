"""Whatever is written to a pack comes back, through us and through git, with each codec and at any offset width."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_samples import git

from rover_store.objects import Objects
from rover_store.packs import BLOB, TREE, PackWriter, deltas, index_bytes, object_id
from rover_store.packs.codec import codec
from rover_store.packs.write import Entries

CODECS = [n for n, m in (("isal", "isal"), ("zlib", "zlib")) if importlib.util.find_spec(m)]
contents = st.lists(
    st.one_of(st.binary(max_size=400), st.builds(lambda b, n: b * n, st.binary(max_size=40), st.integers(0, 4000))),
    min_size=1, max_size=30,
)  # fmt: skip


@pytest.mark.parametrize("name", CODECS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(blobs=contents, cut=st.integers(1, 5000))
def test_objects_come_back(monkeypatch: pytest.MonkeyPatch, name: str, blobs: list[bytes], cut: int) -> None:
    monkeypatch.setenv("ROVER_ZLIB", name)
    codec.cache_clear()
    with tempfile.TemporaryDirectory() as folder:
        git(Path(folder), "init", "-q", "--bare", "r.git")
        bare = Path(folder) / "r.git"
        writer = PackWriter(bare / "objects" / "pack")
        ids = []
        for i, data in enumerate(blobs):
            blob = object_id(BLOB, data)
            if i % 3 == 0:
                pieces = (data[at : at + cut] for at in range(0, len(data), cut))
                assert writer.add_stream(BLOB, len(data), pieces, blob) == blob
            else:
                assert writer.add(BLOB, data) == blob
            assert writer.get(blob) == (BLOB, data)
            ids.append(blob)
        tree = writer.add(TREE, b"".join(b"100644 f%03d\0" % i + bytes.fromhex(b) for i, b in enumerate(ids)))
        pack = writer.finish()
        objects = Objects(bare)
        assert [objects.read(blob) for blob in ids] == blobs
        assert [b"".join(objects.stream(blob)) for blob in ids] == blobs
        assert [objects.size(blob) for blob in ids] == [len(data) for data in blobs]
        assert dict(objects.read_many([*ids, *ids])) == dict(zip(ids, blobs, strict=True))
        assert [item.id for item in objects.list_tree(tree).values()] == ids
        git(bare, "verify-pack", f"objects/pack/{pack}.pack")
        git(bare, "fsck", "--full", "--strict", tree)
    codec.cache_clear()


@settings(max_examples=60, deadline=None)
@given(
    entries=st.dictionaries(
        st.binary(min_size=20, max_size=20),
        st.tuples(st.integers(12, (1 << 40)), st.integers(0, (1 << 32) - 1)),
        max_size=200,
    ),
    large_from=st.sampled_from([1 << 31, 1 << 20, 13]),
)
def test_indexes_come_back(entries: dict[bytes, tuple[int, int]], large_from: int) -> None:
    from rover_store.packs import Pack

    table = Entries()
    for name, (offset, crc) in entries.items():
        table.add(name, offset, crc)
    assert len(table) == len(entries)
    assert {name: table[name] for name in table} == entries
    assert b"?" * 20 not in table or b"?" * 20 in entries
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pack-x.pack"
        path.with_suffix(".idx").write_bytes(index_bytes(entries, b"c" * 20, large_from))
        pack = Pack(path)
        assert list(pack.names()) == sorted(entries)
        assert {name: pack.find(name) for name in entries} == {name: offset for name, (offset, _) in entries.items()}
        assert [pack.crc(i) for i in range(pack.count)] == [entries[name][1] for name in sorted(entries)]
        assert pack.find(b"\0" * 19 + b"\1") == entries.get(b"\0" * 19 + b"\1", (None,))[0]


def test_many_entries_come_back_sorted() -> None:
    """More than one pass of the table's growth, and the sorting by first byte."""
    import hashlib

    table = Entries()
    names = [hashlib.sha1(b"%d" % i).digest() for i in range(20_000)]
    for i, name in enumerate(names):
        table.add(name, 12 + i, i)
    index = b"".join(table.index(b"c" * 20))
    ordered = sorted(names)
    assert index[1032 : 1032 + 20 * 20_000] == b"".join(ordered)
    assert int.from_bytes(index[1028:1032], "big") == 20_000
    assert all(table.find(name) == 12 + i for i, name in enumerate(names))


@settings(max_examples=100, deadline=None)
@given(base=st.binary(max_size=300), parts=st.lists(st.one_of(st.binary(min_size=1, max_size=127), st.tuples(
    st.integers(0, 300), st.integers(1, 300)))))  # fmt: skip
def test_deltas_make_what_they_say(base: bytes, parts: list[bytes | tuple[int, int]]) -> None:
    want, body = b"", b""
    for part in parts:
        if isinstance(part, bytes):
            want, body = want + part, body + bytes([len(part)]) + part
            continue
        start, length = part
        if start + length <= len(base):
            want += base[start : start + length]
            body += bytes([0x80 | 3 | 0x30]) + start.to_bytes(2, "little") + length.to_bytes(2, "little")
    head = b"".join(bytes([n & 0x7F | 0x80, n >> 7]) for n in (len(base), len(want)) if n < 1 << 14)
    if len(want) < 1 << 14:
        assert deltas.apply(base, head + body) == want
        assert deltas.sizes(head + body)[:2] == (len(base), len(want))
