"""Packs and indexes that a hand has damaged or forged: always a StoreError that names them, never a wrong answer."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from rover_store.errors import StoreError
from rover_store.objects import Objects
from rover_store.packs import (
    BLOB,
    OFS_DELTA,
    REF_DELTA,
    TREE,
    PackWriter,
    index_bytes,
    object_id,
    record_header,
)

BASE = b"the base of all deltas " * 40
COPY = bytes([0x90, 20])  # 20 bytes from the start of the base


def _size(n: int) -> bytes:
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def _delta(base: int, result: int, instructions: bytes) -> bytes:
    return _size(base) + _size(result) + instructions


def _back(n: int) -> bytes:
    out = [n & 0x7F]
    while n := n >> 7:
        n -= 1
        out.append(n & 0x7F | 0x80)
    return bytes(reversed(out))


class Forge:
    """A pack made by hand, with a sound index and sound checksums: only what is put in is wrong."""

    def __init__(self, folder: Path) -> None:
        self.git = folder
        self.folder = folder / "objects" / "pack"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.body = bytearray()
        self.entries: dict[bytes, tuple[int, int]] = {}

    def put(self, name: str, kind: int, size: int, extra: bytes, content: bytes, *, raw: bool = False) -> int:
        at = 12 + len(self.body)
        record = record_header(kind, size) + extra + (content if raw else zlib.compress(content))
        self.entries[bytes.fromhex(name)] = (at, zlib.crc32(record))
        self.body += record
        return at

    def write(self, change: Callable[[bytearray], None] = lambda idx: None) -> Objects:
        pack = struct.pack(">4sII", b"PACK", 2, len(self.entries)) + self.body
        checksum = hashlib.sha1(pack).digest()
        path = self.folder / f"pack-{checksum.hex()}.pack"
        path.write_bytes(pack + checksum)
        idx = bytearray(index_bytes(self.entries, checksum))
        change(idx)
        path.with_suffix(".idx").write_bytes(idx)
        return Objects(self.git)


@pytest.fixture
def forge(tmp_path: Path) -> Forge:
    return Forge(tmp_path)


A, B = "aa" * 20, "bb" * 20
NAME = object_id(BLOB, BASE)


def _refused(objects: Objects, name: str, why: str) -> None:
    for read in (objects.read, objects.get, lambda n: b"".join(objects.stream(n))):
        with pytest.raises(StoreError, match=why) as caught:
            read(name)
        assert name in caught.value.message


def test_a_sound_delta_is_read(forge: Forge) -> None:
    want = BASE[:20] + b"and more"
    at = forge.put(NAME, BLOB, len(BASE), b"", BASE)
    delta = _delta(len(BASE), len(want), COPY + bytes([8]) + b"and more")
    here = 12 + len(forge.body)
    forge.put(object_id(BLOB, want), OFS_DELTA, len(delta), _back(here - at), delta)
    objects = forge.write()
    assert objects.read(object_id(BLOB, want)) == want
    assert objects.size(object_id(BLOB, want)) == len(want)
    assert objects.kind(object_id(BLOB, want)) == "blob"
    assert b"".join(objects.stream(object_id(BLOB, want))) == want


@pytest.mark.parametrize(
    ("delta", "why"),
    [
        (_delta(len(BASE), 20, bytes([0x93, 255, 255, 20])), "beyond its base"),
        (_delta(len(BASE) + 1, 20, COPY), "base of another size"),
        (_delta(len(BASE), 19, COPY), "more than it says"),
        (_delta(len(BASE), 21, COPY), "less than it says"),
        (_delta(len(BASE), 20, b"\0"), "does not exist"),
        (_delta(len(BASE), 20, bytes([20]) + b"short"), "cut short"),
        (_delta(len(BASE), 20, bytes([0x9F])), "damaged"),
        (b"\xff", "damaged"),
        (b"\xff" * 20, "beyond all bounds"),
        (_delta(len(BASE), 1 << 40, COPY), "too large"),
        (_delta(len(BASE), 1000, bytes([0x90, 250]) * 5000), "more than it says"),
    ],
)
def test_a_delta_that_lies(forge: Forge, delta: bytes, why: str) -> None:
    forge.put(NAME, BLOB, len(BASE), b"", BASE)
    forge.put(A, REF_DELTA, len(delta), bytes.fromhex(NAME), delta)
    objects = forge.write()
    with pytest.raises(StoreError, match=why) as caught:
        objects.read(A)
    assert A in caught.value.message
    assert objects.read(NAME) == BASE


def test_deltas_that_go_round_in_a_circle(forge: Forge) -> None:
    delta = _delta(20, 20, COPY)
    forge.put(A, REF_DELTA, len(delta), bytes.fromhex(B), delta)
    forge.put(B, REF_DELTA, len(delta), bytes.fromhex(A), delta)
    objects = forge.write()
    _refused(objects, A, "without end")
    with pytest.raises(StoreError, match="without end"):
        objects.size(A)


def test_a_delta_on_itself(forge: Forge) -> None:
    delta = _delta(20, 20, COPY)
    forge.put(A, REF_DELTA, len(delta), bytes.fromhex(A), delta)
    _refused(forge.write(), A, "without end")


def test_a_circle_through_two_packs(tmp_path: Path) -> None:
    delta = _delta(20, 20, COPY)
    for name, other in ((A, B), (B, A)):
        forge = Forge(tmp_path)
        forge.put(name, REF_DELTA, len(delta), bytes.fromhex(other), delta)
        objects = forge.write()
    _refused(objects, A, "circle")
    with pytest.raises(StoreError, match="circle"):
        objects.kind(A)


def test_a_chain_as_deep_as_git_allows_needs_no_recursion(forge: Forge) -> None:
    at = forge.put(NAME, BLOB, len(BASE), b"", BASE)
    data, rest = BASE, len(BASE) - 6
    copy = bytes([0xB1, 6, rest & 255, rest >> 8])
    for i in range(4095):
        data = b"%06d" % i + BASE[6:]
        delta = _delta(len(BASE), len(BASE), bytes([6]) + data[:6] + copy)
        here = 12 + len(forge.body)
        at = forge.put(object_id(BLOB, data), OFS_DELTA, len(delta), _back(here - at), delta)
    assert forge.write().read(object_id(BLOB, data)) == data


def test_a_base_that_is_nowhere(forge: Forge) -> None:
    delta = _delta(20, 20, COPY)
    forge.put(A, REF_DELTA, len(delta), bytes.fromhex(B), delta)
    _refused(forge.write(), A, f"base {B} is missing")


@pytest.mark.parametrize("back", [0, 5000, 1 << 40])
def test_a_base_before_the_first_object(forge: Forge, back: int) -> None:
    delta = _delta(20, 20, COPY)
    forge.put(NAME, BLOB, len(BASE), b"", BASE)
    forge.put(A, OFS_DELTA, len(delta), _back(back), delta)
    _refused(forge.write(), A, "before the first object")


@pytest.mark.parametrize("said", [len(BASE) - 1, len(BASE) + 1, 0, 1 << 20, 1 << 29])
def test_a_size_that_lies(forge: Forge, said: int) -> None:
    forge.put(NAME, BLOB, said, b"", BASE)
    _refused(forge.write(), NAME, "wrong size")


def test_sizes_beyond_all_bounds(forge: Forge) -> None:
    forge.put(A, BLOB, 1 << 50, b"", BASE)
    forge.put(B, BLOB, 1 << 100, b"", BASE)
    objects = forge.write()
    with pytest.raises(StoreError, match="too large to be read at once"):
        objects.read(A)
    with pytest.raises(StoreError, match="wrong size"):
        b"".join(objects.stream(A))
    _refused(objects, B, "beyond all bounds")


def test_a_bomb_is_not_unpacked(forge: Forge) -> None:
    bomb = zlib.compress(bytes(200_000_000), 9)
    forge.put(NAME, BLOB, len(BASE), b"", bomb, raw=True)
    import tracemalloc

    objects = forge.write()
    tracemalloc.start()
    _refused(objects, NAME, "wrong size")
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()


def test_kinds_that_do_not_exist(forge: Forge) -> None:
    for name, kind in ((A, 0), (B, 5)):
        forge.put(name, kind, len(BASE), b"", BASE)
    objects = forge.write()
    _refused(objects, A, "no kind of object")
    _refused(objects, B, "no kind of object")


def test_bytes_of_another_id_are_never_given(forge: Forge) -> None:
    forge.put(A, BLOB, len(BASE), b"", BASE)
    forge.put(B, TREE, 0, b"", b"")
    objects = forge.write()
    with pytest.raises(StoreError, match="another id"):
        objects.read(A)
    with pytest.raises(StoreError, match="another id"):
        b"".join(objects.stream(A))
    with pytest.raises(StoreError, match="another id"):
        list(objects.read_many([A]))
    with pytest.raises(StoreError, match="another id"):
        objects.list_tree(B)


# --- the index -------------------------------------------------------------------------------------------
def _sound(forge: Forge) -> None:
    forge.put(NAME, BLOB, len(BASE), b"", BASE)


@pytest.mark.parametrize("value", [0, 5, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF])
def test_an_offset_that_leads_nowhere(forge: Forge, value: int) -> None:
    _sound(forge)

    def change(idx: bytearray) -> None:
        idx[1032 + 24 : 1032 + 28] = struct.pack(">I", value)

    objects = forge.write(change)
    with pytest.raises(StoreError, match=r"pack-"):
        objects.read(NAME)
    (pack,) = objects.packs
    with pytest.raises(StoreError, match=r"pack-"):
        list(pack.records())


def test_a_table_of_first_bytes_that_falls(forge: Forge) -> None:
    _sound(forge)

    def change(idx: bytearray) -> None:
        idx[8:12] = struct.pack(">I", 7)

    with pytest.raises(StoreError, match=r"\.idx: its table of first bytes does not rise"):
        forge.write(change).read(NAME)


@pytest.mark.parametrize("count", [0, 2, 1 << 31])
def test_a_count_that_lies(forge: Forge, count: int) -> None:
    _sound(forge)

    def change(idx: bytearray) -> None:
        for i in range(bytes.fromhex(NAME)[0], 256):
            idx[8 + 4 * i : 12 + 4 * i] = struct.pack(">I", count)

    with pytest.raises(StoreError, match=r"\.idx: the pack index (is cut short|has a wrong size)"):
        forge.write(change).exists(NAME)


def test_two_objects_at_one_place(forge: Forge) -> None:
    _sound(forge)
    forge.entries[bytes.fromhex(A)] = forge.entries[bytes.fromhex(NAME)]
    objects = forge.write()
    (pack,) = objects.packs
    with pytest.raises(StoreError, match="two objects at one place"):
        list(pack.records())
    with pytest.raises(StoreError, match="another id"):
        objects.read(A)
    assert objects.read(NAME) == BASE


# --- the pack as a file ----------------------------------------------------------------------------------
def _written(folder: Path) -> tuple[Path, list[str]]:
    (folder / "objects" / "pack").mkdir(parents=True)
    writer = PackWriter(folder / "objects" / "pack")
    ids = [writer.add(BLOB, b"%d " % i * 50) for i in range(50)]
    name = writer.finish()
    path = folder / "objects" / "pack" / f"{name}.pack"
    path.chmod(0o644)
    path.with_suffix(".idx").chmod(0o644)
    return path, ids


@pytest.mark.parametrize("keep", [0, 3, 12, 31, 200, -1])
def test_a_pack_cut_short(tmp_path: Path, keep: int) -> None:
    path, ids = _written(tmp_path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(StoreError, match=path.name):
        Objects(tmp_path).read(ids[0])


@pytest.mark.parametrize("keep", [0, 7, 100, 1031, 1071, 1500, -1])
def test_an_index_cut_short(tmp_path: Path, keep: int) -> None:
    path, ids = _written(tmp_path)
    idx = path.with_suffix(".idx")
    idx.write_bytes(idx.read_bytes()[:keep])
    with pytest.raises(StoreError, match=idx.name):
        Objects(tmp_path).read(ids[0])


@pytest.mark.parametrize("start", [b"KCAP", b"PACK\0\0\0\4", b"PACK\0\0\0\2\0\0\0\1"])
def test_a_pack_that_is_none(tmp_path: Path, start: bytes) -> None:
    path, ids = _written(tmp_path)
    data = path.read_bytes()
    path.write_bytes(start + data[len(start) :])
    with pytest.raises(StoreError, match=path.name):
        Objects(tmp_path).read(ids[0])


def test_the_index_of_another_pack(tmp_path: Path) -> None:
    path, _ = _written(tmp_path / "one")
    writer = PackWriter(path.parent)
    name = writer.add(BLOB, b"other")
    for i in range(49):
        writer.add(BLOB, b"other %d" % i)
    other = path.with_name(f"{writer.finish()}.idx")
    path.with_suffix(".idx").write_bytes(other.read_bytes())
    other.unlink()
    other.with_suffix(".pack").unlink()
    with pytest.raises(StoreError, match="its index is another pack's"):
        Objects(tmp_path / "one").read(name)


def _read(objects: Objects, name: str) -> bytes | str:
    """The bytes, or what the refusal says."""
    try:
        return objects.read(name)
    except StoreError as error:  # NotFound too: an id that was changed is not there
        return error.message


def test_every_flipped_byte_is_found_or_harmless(tmp_path: Path) -> None:
    """Reading after any change of one byte gives the right bytes or a StoreError, and ends."""
    path, ids = _written(tmp_path)
    sound = {name: b"%d " % i * 50 for i, name in enumerate(ids)}
    data, refused = path.read_bytes(), 0
    for at in range(0, len(data), 7):
        changed = bytearray(data)
        changed[at] ^= 0x55
        path.write_bytes(changed)
        objects = Objects(tmp_path)
        for name in ids[at % 5 :: 5]:
            found = _read(objects, name)
            assert found == sound[name] or (isinstance(found, str) and (name in found or path.name in found))
            refused += isinstance(found, str)
    assert refused > 50


def test_every_flipped_byte_of_an_index(tmp_path: Path) -> None:
    path, ids = _written(tmp_path)
    sound = {name: b"%d " % i * 50 for i, name in enumerate(ids)}
    idx, refused = path.with_suffix(".idx"), 0
    data = idx.read_bytes()
    for at in [*range(0, 1032, 31), *range(1032, len(data), 5)]:
        changed = bytearray(data)
        changed[at] ^= 0x81
        idx.write_bytes(changed)
        objects = Objects(tmp_path)
        for name in ids[at % 7 :: 7]:
            found = _read(objects, name)
            assert found == sound[name] or (isinstance(found, str) and (name in found or path.stem in found))
            refused += isinstance(found, str)
    assert refused > 50
