"""Packs that are rolled together or rewritten while others read, or while the writer is killed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from store_samples import add, edit, git, new_store

from rover_store.errors import StoreError
from rover_store.objects import Objects
from rover_store.packs import BLOB, PackWriter
from rover_store.rollup import LIMIT, rewrite, roll_up
from rover_store.store import Store

READER = """
import sys
from pathlib import Path
from rover_store.names import blob_id
from rover_store.objects import Objects
git, listing, mode = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
objects = Objects(git)
reads = 0
while True:
    names = listing.read_text().split()
    if mode == "new":
        objects = Objects(git)
    if mode == "many":
        reads += sum(blob_id(data) == name for name, data in objects.read_many(names[:-1]))
    for name in names[-20:-1] + names[:20]:
        if name == "end":
            break
        assert blob_id(objects.read(name)) == name
        assert b"".join(objects.stream(name)) and objects.exists(name) and objects.size(name)
        reads += 1
    if "end" in names:
        print(reads)
        break
"""


def test_readers_in_other_processes_never_fail(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    listing = tmp_path / "names"
    _append(listing, _pack(store, b"first"))
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", READER, str(store.git), str(listing), mode],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for mode in ("old", "new", "many")
    ]  # fmt: skip
    rolled = 0
    for i in range(250):
        _append(listing, _pack(store, b"%d" % i))
        with store.lock:
            rolled += roll_up(store.objects, store.lock, limit=3)
            store.lock.clear()
    _append(listing, "end")
    for reader in readers:
        out, err = reader.communicate(timeout=60)
        assert reader.returncode == 0, err
        assert int(out) > 100
    assert rolled >= 200


def _append(listing: Path, name: str) -> None:
    with open(listing, "a") as out:
        out.write(f"{name}\n")


def _pack(store: Store, data: bytes) -> str:
    writer = PackWriter(store.git / "objects" / "pack")
    name = writer.add(BLOB, data * 10)
    writer.finish()
    return name


def test_each_byte_is_copied_a_few_times_only(tmp_path: Path) -> None:
    """Over a thousand packs of 4 kB, rolled at eight a tier: far fewer copies than packs."""
    store = new_store(tmp_path)
    rng = random.Random(1)
    written, copied, before = 0, 0, set[str]()
    for _ in range(400):
        writer = PackWriter(store.git / "objects" / "pack")
        writer.add(BLOB, rng.randbytes(8000))
        name = writer.finish()
        with store.lock:
            roll_up(store.objects, store.lock, limit=8)
            store.lock.clear()
        packs = {pack.name: pack.path.stat().st_size for pack in store.objects.packs}
        written += 8000
        copied += sum(size for one, size in packs.items() if one not in before and one != name)
        before = set(packs)
    assert len(before) < 16
    assert copied < 20 * written
    git(store.git, "fsck", "--full", "--no-dangling")


def test_only_what_is_wanted_is_kept(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    for i in range(5):
        add(store, f"p{i}")
    names = sorted(name for pack in store.objects.packs for name in pack.names())
    wanted = set(names[::2])
    with store.lock:
        done = rewrite(store.objects, store.lock, wanted)
        store.lock.clear()
    assert done.objects == len(wanted)
    assert done.removed >= 5
    (pack,) = store.objects.packs
    assert set(pack.names()) == wanted
    assert pack.name == done.pack
    with store.lock:
        again = rewrite(store.objects, store.lock, wanted)
        nothing = rewrite(store.objects, store.lock, set())
        store.lock.clear()
    assert (again.pack, again.removed) == (done.pack, 0)
    assert (nothing.pack, nothing.objects, nothing.removed) == (None, 0, 1)
    assert list((store.git / "objects" / "pack").iterdir()) == []


def test_deltas_are_written_whole_and_side_files_go(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    for i in range(8):
        edit(store, "one", {"context/files/data.csv": b"".join(b"%d,%d\n" % (n, i * (n == 50)) for n in range(2000))})
    git(store.git, "-c", "pack.writeReverseIndex=true", "repack", "-adfbq")
    git(store.git, "multi-pack-index", "write")
    objects = Objects(store.git)
    (pack,) = objects.packs
    assert not pack.plain()
    want = {name.hex(): objects.get(name.hex()) for name in pack.names()}
    with store.lock:
        rewrite(store.objects, store.lock)
        store.lock.clear()
    (new,) = Objects(store.git).packs
    assert new.plain()
    assert {name: Objects(store.git).get(name) for name in want} == want
    assert {f.suffix for f in new.path.parent.iterdir()} == {".pack", ".idx"}
    git(store.git, "fsck", "--full", "--strict")


def test_kept_and_promised_packs_are_left_alone(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    for i in range(6):
        add(store, f"p{i}")
    kept, promised, *_ = store.objects.packs
    kept.path.with_suffix(".keep").touch()
    promised.path.with_suffix(".promisor").touch()
    with store.lock:
        rewrite(store.objects, store.lock)
        store.lock.clear()
    assert kept.path.exists()
    assert promised.path.exists()
    assert len(store.objects.packs) == 3
    assert store.fsck() == []


def test_damage_is_not_carried_into_a_sound_pack(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    for i in range(3):
        _pack(store, os.urandom(50) + b"%d" % i)
    pack = store.objects.packs[0]
    data = bytearray(pack.path.read_bytes())
    data[40] ^= 1
    pack.path.chmod(0o644)
    pack.path.write_bytes(data)
    before = sorted(os.listdir(pack.path.parent))
    with store.lock, pytest.raises(StoreError, match=f"{pack.name}.* is damaged"):
        rewrite(Objects(store.git), store.lock)
    assert sorted(os.listdir(pack.path.parent)) == before


KILLED = """
import os, sys
from pathlib import Path
from rover_store.store import Store
from rover_store import rollup
step, calls = int(sys.argv[2]), 0

def counted(module, name):
    real = getattr(module, name)
    def call(*a, **k):
        global calls
        calls += 1
        if calls == step:
            os._exit(9)
        return real(*a, **k)
    setattr(module, name, call)

for name in ("pwrite", "fsync", "rename", "unlink", "write", "ftruncate"):
    counted(os, name)
store = Store.open(Path(sys.argv[1]))
with store.lock:
    rollup.rewrite(store.objects, store.lock)
    store.lock.clear()
"""


def test_a_kill_at_any_step_loses_nothing(tmp_path: Path) -> None:
    import shutil

    made = new_store(tmp_path / "made")
    for i in range(4):
        add(made, f"p{i}")
    want = sorted({name for pack in made.objects.packs for name in pack.names()})
    step, killed = 0, True
    while killed:
        step += 1
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        shutil.copytree(tmp_path / "made", tmp_path / "run")
        done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "run"), str(step)], check=False)
        killed = done.returncode == 9
        store = Store.open(tmp_path / "run")
        objects = Objects(store.git)
        assert all(objects.get(name.hex()) for name in want)
        with store.lock:  # recovery
            assert not any(f.startswith("tmp_") for f in os.listdir(store.git / "objects" / "pack"))
        git(store.git, "fsck", "--full", "--strict")
    assert step > 10


def test_what_another_process_collected_is_written_again(tmp_path: Path) -> None:
    """A writer that has seen an object must not take it for there when a collection has removed it since."""
    ours = new_store(tmp_path)
    add(ours, "one")
    tree = ours.put_files({"files/f": b"soon gone", "resource.json": b"{}"})
    blob = ours.objects.read_tree(tree)["files/f"].id
    assert ours.objects.exists(blob)
    theirs = Store.open(tmp_path)
    gone = {bytes.fromhex(name) for name in (blob, tree)}
    with theirs.lock:
        keep = {name for pack in theirs.objects.packs for name in pack.names()} - gone
        rewrite(theirs.objects, theirs.lock, keep)
        theirs.lock.clear()
    with ours.write("x") as tx:
        tx.set_resource("files/f", tx.tree({"files/f": b"soon gone", "resource.json": b"{}"}))
        tx.commit("x")
    assert Objects(ours.git).read(blob) == b"soon gone"
    git(ours.git, "fsck", "--full", "--strict")


def test_a_write_does_not_fail_for_damage_that_it_does_not_touch(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    for i in range(LIMIT + 2):
        _pack(store, os.urandom(50) + b"%d" % i)
    pack = store.objects.packs[0]
    data = bytearray(pack.path.read_bytes())
    data[40] ^= 1
    pack.path.chmod(0o644)
    pack.path.write_bytes(data)
    with store.lock:
        assert roll_up(Objects(store.git), store.lock, LIMIT) == 0
    again = Store.open(store.root)
    assert again.put_files({"a": b"goes on"})
    assert len(again.objects.packs) > LIMIT
