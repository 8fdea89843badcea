"""Searching many packs: the table of small ones finds what asking each finds, while packs come and go."""

from __future__ import annotations

import hashlib
import random
import tracemalloc
from pathlib import Path

import pytest

from rover_store.packs import Pack, index_bytes
from rover_store.packs.listing import PackList
from rover_store.packs.write import Entries


def _pack(folder: Path, number: int, count: int) -> Pack:
    names = [hashlib.sha1(b"%d %d" % (number, i)).digest() for i in range(count)]
    path = folder / f"pack-{number}.pack"
    path.with_suffix(".idx").write_bytes(index_bytes({n: (12 + i, i) for i, n in enumerate(names)}, b"c" * 20))
    return Pack(path)


def test_the_table_finds_what_the_packs_hold(tmp_path: Path) -> None:
    rng = random.Random(2)
    packs = [_pack(tmp_path, n, rng.choice([0, 1, 20, 300, 9000])) for n in range(30)]
    shown = PackList(packs[:10])
    for step in range(40):
        here = rng.sample(packs, rng.randrange(1, 30)) if step % 3 else [*shown.packs[: 20 + step], packs[step % 30]]
        shown = PackList(list(dict.fromkeys(here)), shown)
        for pack in packs:
            for name in list(pack.names())[:: max(1, pack.count // 5)]:
                found = shown.find(name)
                assert (found is not None) == (pack in shown.packs) == shown.has(name)
                assert found is None or found == (pack, pack.find(name))
        assert shown.find(b"?" * 20) is None


def test_a_miss_asks_only_large_packs_once_the_table_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = PackList([_pack(tmp_path, n, 20) for n in range(40)] + [_pack(tmp_path, 99, 10_000)])
    asked: list[str] = []
    real = Pack.find

    def find(pack: Pack, name: bytes) -> int | None:
        asked.append(pack.name)
        return real(pack, name)

    monkeypatch.setattr(Pack, "find", find)
    for i in range(20):
        shown.find(hashlib.sha1(b"missing %d" % i).digest())
    asked.clear()
    assert shown.find(b"?" * 20) is None
    assert asked == ["pack-99"]


def test_ids_that_are_not_spread_evenly_are_found(tmp_path: Path) -> None:
    """The guess where an id lies is only a guess."""
    names = [b"\7" + bytes(15) + i.to_bytes(4, "big") for i in range(5000)]
    names += [b"\7\xff" + bytes(14) + i.to_bytes(4, "big") for i in range(5000)]
    path = tmp_path / "pack-x.pack"
    path.with_suffix(".idx").write_bytes(index_bytes({n: (12 + i, i) for i, n in enumerate(names)}, b"c" * 20))
    pack = Pack(path)
    assert [pack.find(n) for n in names] == [12 + i for i in range(10_000)]
    assert pack.find(b"\7" + bytes(15) + (5000).to_bytes(4, "big")) is None
    assert pack.find(b"\7\x80" + bytes(18)) is None
    shifted = b"".join(sorted(names))[10:30]  # bytes that are there, but across two ids
    assert pack.find(shifted) is None or shifted in names


def test_a_pack_under_construction_takes_little_memory() -> None:
    names = [hashlib.sha1(b"%d" % i).digest() for i in range(20_000)]
    tracemalloc.start()
    table = Entries()
    for i, name in enumerate(names):
        table.add(name, 12 + 40 * i, i)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    length = sum(len(piece) for piece in table.index(b"c" * 20))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert length == 1052 + 28 * 20_000
    assert size < 1_300_000  # 60 bytes an object
    assert peak < 3_000_000
