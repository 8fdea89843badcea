"""What another git leaves in a repository is read: deep deltas, thin pushes, side files, loose objects, alternates."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from store_samples import git

from rover_store.errors import NotFound, StoreError
from rover_store.objects import Objects
from rover_store.packs import BLOB, PackWriter


def _history(folder: Path, commits: int = 60) -> Path:
    """A work tree with large similar files that git stores as deltas."""
    git(folder, "init", "-q", "-b", "main", "work")
    work = folder / "work"
    rng = random.Random(5)
    lines = [f"{i},{rng.random()}\n" for i in range(800)]
    for n in range(commits):
        lines[rng.randrange(800)] = f"changed {n}\n"
        (work / "data.csv").write_text("".join(lines))
        (work / f"file-{n}").write_text(f"{n}\n" * (n + 1))
        git(work, "add", ".")
        git(work, "commit", "-q", "-m", f"Commit {n}")
    return work


def _everything(work: Path) -> dict[str, tuple[str, int]]:
    rows = git(work, "cat-file", "--batch-all-objects", "--batch-check").splitlines()
    return {name: (kind, int(size)) for name, kind, size in (row.split(" ") for row in rows)}


def _check(work: Path, objects: Objects) -> None:
    """Every object that git lists is read, has its kind and size, and is hashed on the way."""
    want = _everything(work)
    assert len(want) > 100
    assert {name: (objects.kind(name), objects.size(name)) for name in want} == want
    assert all(len(objects.get(name)[1]) == size for name, (_, size) in want.items())
    blobs = [name for name, (kind, _) in want.items() if kind == "blob"]
    assert {name: len(data) for name, data in objects.read_many(blobs)} == {name: want[name][1] for name in blobs}
    assert all(sum(map(len, objects.stream(name))) == want[name][1] for name in blobs)


def test_loose_then_packed_then_with_every_side_file(tmp_path: Path) -> None:
    work = _history(tmp_path)
    objects = Objects(work / ".git")
    _check(work, objects)
    git(work, "repack", "-adfq", "--depth=50", "--window=50")
    _check(work, Objects(work / ".git"))
    _check(work, objects)  # the one that was open sees it too
    git(work, "-c", "pack.writeReverseIndex=true", "repack", "-adfbq", "--depth=50")
    git(work, "multi-pack-index", "write", "--bitmap")
    suffixes = {file.suffix for file in (work / ".git" / "objects" / "pack").iterdir()}
    assert {".pack", ".idx", ".rev", ".bitmap"} <= suffixes
    (pack,) = Objects(work / ".git").packs
    assert not pack.plain()
    _check(work, Objects(work / ".git"))
    git(work, "gc", "-q", "--aggressive", "--prune=now")
    _check(work, Objects(work / ".git"))


def test_a_thin_pack_that_was_pushed(tmp_path: Path) -> None:
    work = _history(tmp_path, 40)
    git(tmp_path, "init", "-q", "--bare", "bare.git")
    bare = tmp_path / "bare.git"
    git(bare, "config", "receive.unpackLimit", "1")
    for commit in ("HEAD~20", "HEAD~1", "HEAD"):
        git(work, "push", "-q", "--thin", str(bare), f"{commit}:refs/heads/main")
    objects = Objects(bare)
    assert len(objects.packs) == 3
    _check(bare, objects)


def test_offsets_in_eight_bytes(tmp_path: Path) -> None:
    """A pack over 2 GiB, as far as the index goes: git and we read the table of large offsets."""
    work = _history(tmp_path, 40)
    git(work, "repack", "-adfq")
    (pack,) = Objects(work / ".git").packs
    idx = pack.path.with_suffix(".idx")
    pack.close()
    idx.unlink()
    git(work, "index-pack", "--index-version=2,0x40", str(pack.path))
    assert idx.stat().st_size == 1072 + 36 * pack.count - 8 * sum(pack.offset(i) < 0x40 for i in range(pack.count))
    _check(work, Objects(work / ".git"))


def test_our_large_offsets_are_gits(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "r.git")
    writer = PackWriter(tmp_path / "r.git" / "objects" / "pack")
    ids = [writer.add(BLOB, b"%d" % i) for i in range(300)]
    entries = writer.entries
    name = writer.finish()
    pack = tmp_path / "r.git" / "objects" / "pack" / f"{name}.pack"
    body = b"".join(entries.index(bytes.fromhex(name[5:]), large_from=0x800))
    git(tmp_path, "index-pack", "--index-version=2,0x800", "-o", str(tmp_path / "other.idx"), str(pack))
    assert (tmp_path / "other.idx").read_bytes()[:-20] == body
    pack.with_suffix(".idx").chmod(0o644)
    pack.with_suffix(".idx").write_bytes((tmp_path / "other.idx").read_bytes())
    assert [Objects(tmp_path / "r.git").read(i) for i in ids] == [b"%d" % i for i in range(300)]
    git(tmp_path / "r.git", "fsck", "--full")


# --- loose objects ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "longer", "header", "other"])
def test_a_damaged_loose_object_is_named(tmp_path: Path, damage: str) -> None:
    import zlib

    git(tmp_path, "init", "-q", "--bare", "r.git")
    (tmp_path / "f").write_bytes(b"some text " * 2000)
    name = git(tmp_path / "r.git", "hash-object", "-w", str(tmp_path / "f")).strip()
    path = tmp_path / "r.git" / "objects" / name[:2] / name[2:]
    path.chmod(0o644)
    data = path.read_bytes()
    changed = {
        "cut": data[:-10],
        "flip": data[:30] + bytes([data[30] ^ 1]) + data[31:],
        "empty": b"",
        "longer": zlib.compress(b"blob 20000\0" + b"some text " * 2001),
        "header": zlib.compress(b"blub 20000\0" + b"some text " * 2000),
        "other": zlib.compress(b"blob 20000\0" + b"SOME text " * 2000),
    }
    path.write_bytes(changed[damage])
    objects = Objects(tmp_path / "r.git")
    with pytest.raises(StoreError, match=f"object {name} is damaged"):
        objects.read(name)
    with pytest.raises(StoreError, match=f"object {name} is damaged"):
        b"".join(objects.stream(name))


# --- alternates ------------------------------------------------------------------------------------------
def _repository(folder: Path, name: str, *alternates: str) -> tuple[Path, str]:
    git(folder, "init", "-q", "--bare", name)
    writer = PackWriter(folder / name / "objects" / "pack")
    blob = writer.add(BLOB, name.encode())
    writer.finish()
    (folder / name / "objects" / "info" / "alternates").write_text("".join(f"{a}\n" for a in alternates))
    return folder / name, blob


def test_alternates_of_alternates(tmp_path: Path) -> None:
    names = [f"{i}.git" for i in range(8)]
    after = [f"../../{name}/objects" for name in (*names[1:], "none.git")]
    made = [_repository(tmp_path, name, other) for name, other in zip(names, after, strict=True)]
    objects = Objects(made[0][0])
    for folder, blob in made[:6]:
        assert objects.read(blob) == folder.name.encode()
        assert blob in objects.matching(blob[:8])
    assert not objects.exists(made[6][1])  # git stops after five, too
    with pytest.raises(NotFound):
        objects.read(made[7][1])


def test_alternates_that_go_round_in_a_circle(tmp_path: Path) -> None:
    first, blob = _repository(tmp_path, "a.git", "../../b.git/objects", "../../a.git/objects", "# a comment")
    _, other = _repository(tmp_path, "b.git", "../../a.git/objects", str(tmp_path / "nowhere"))
    objects = Objects(first)
    assert objects.read(other) == b"b.git"
    assert objects.read(blob) == b"a.git"
    assert not objects.exists("ab" * 20)
    assert not objects.known("ab" * 20)


def test_a_delta_whose_base_is_in_an_alternate(tmp_path: Path) -> None:
    """Git completes thin packs; one that was not completed is read all the same."""
    work = _history(tmp_path, 40)
    git(tmp_path, "clone", "-q", "--bare", "--shared", str(work), "bare.git")
    bare = tmp_path / "bare.git"
    old, new = (git(work, "rev-parse", rev).strip() for rev in ("HEAD~3", "HEAD"))
    (tmp_path / "range").write_text(f"{new}\n^{old}\n")
    thin = tmp_path / "thin.pack"
    with open(tmp_path / "range", "rb") as given, open(thin, "wb") as out:
        import subprocess

        command = ["git", "pack-objects", "--revs", "--thin", "--stdout", "-q"]
        subprocess.run(command, cwd=work, stdin=given, stdout=out, check=True)
    _index_by_hand(thin, bare / "objects" / "pack", Objects(work / ".git"))
    (bare / "objects" / "info" / "alternates").write_text(f"{work}/.git/objects\n")
    objects = Objects(bare)
    (pack,) = objects.packs
    names = [name.hex() for name in pack.names()]
    assert any(kind == 7 and pack.find(data[3:23]) is None for _, kind, data in pack.records() if len(data) > 23)
    for name in names:
        assert objects.get(name) == Objects(work / ".git").get(name)
        assert objects.size(name) == len(objects.get(name)[1])


def _index_by_hand(thin: Path, folder: Path, known: Objects) -> None:
    """An index for a pack whose bases are elsewhere, which git would not write."""
    import hashlib
    import zlib

    from rover_store.packs import deltas, index_bytes, object_id
    from rover_store.packs.format import read_back, read_header

    data = thin.read_bytes()
    at, found, entries = 12, {}, {}
    for _ in range(int.from_bytes(data[8:12], "big")):
        start = at
        kind, _, at = read_header(data, at)
        base: tuple[int, bytes] | None = None
        if kind == 6:
            back, at = read_back(data, at)
            base = found[start - back]
        elif kind == 7:
            base = known.get(data[at : at + 20].hex())
            at += 20
        inflater = zlib.decompressobj()
        content = inflater.decompress(data[at:])
        at = len(data) - len(inflater.unused_data)
        found[start] = (kind, content) if base is None else (base[0], deltas.apply(base[1], content))
        entries[bytes.fromhex(object_id(*found[start]))] = (start, zlib.crc32(data[start:at]))
    name = folder / f"pack-{data[-20:].hex()}.pack"
    name.write_bytes(data)
    name.with_suffix(".idx").write_bytes(index_bytes(entries, hashlib.sha1(data[:-20]).digest()))
