"""Blobs of any size, written and read in chunks: memory stays flat, git reads them, nothing false is kept."""

from __future__ import annotations

import io
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from store_samples import add, git, new_store

from rover_store.errors import NotFound, StoreError
from rover_store.names import blob_id
from rover_store.objects import Objects
from rover_store.packs import BLOB, PackWriter
from rover_store.packs.blob_files import write_file
from rover_store.packs.scan import LARGE, PackFile

MB = 1 << 20


def _file(path: Path, size: int) -> Path:
    piece = random.Random(3).randbytes(MB // 2) + bytes(MB // 2)
    with open(path, "wb") as out:
        for n in range(size // MB):
            out.write(b"%08d" % n + piece[8:])
        out.write(b"end"[: size % MB])
    return path


@pytest.mark.parametrize("size", [0, 1, MB - 1, MB, 3 * MB + 3])
def test_a_file_goes_in_and_comes_back(tmp_path: Path, size: int) -> None:
    store = new_store(tmp_path)
    file = _file(tmp_path / "f", size)
    data = file.read_bytes()
    with store.write("x") as tx:
        blob = tx.blob_file(file)
        with open(file, "rb") as again:
            assert tx.blob_file(again) == blob
        tx.set_resource("files/f", tx.tree({"resource.json": b"{}", "files/f": blob}))
        tx.commit("x")
    assert blob == blob_id(data)
    assert store.objects.size(blob) == len(data)
    assert b"".join(store.objects.stream(blob)) == data == store.objects.read(blob)
    with store.objects.open(blob) as stored:
        assert stored.read(5) == data[:5]
        assert stored.read() == data[5:]
    git(store.git, "fsck", "--full", "--strict")
    (pack,) = store.objects.packs
    before = pack.path.stat().st_size
    with store.write("again") as tx:
        assert tx.blob_file(file) == blob
    assert sum(p.path.stat().st_size for p in store.objects.packs) == before


def test_the_rest_of_an_open_file(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    file = io.BytesIO(b"head" + bytes(3 * MB))
    file.seek(4)
    with store.write("x") as tx:
        assert tx.blob_file(file) == blob_id(bytes(3 * MB))


def test_a_file_that_changes_meanwhile_is_refused(tmp_path: Path) -> None:
    writer = PackWriter(tmp_path)
    first = writer.add(BLOB, b"before")

    class Changing(io.BytesIO):
        def read(self, n: int | None = -1, /) -> bytes:
            data = super().read(n)
            if self.tell() == 4 * MB:
                self.getbuffer()[5] ^= 1  # after the first pass
            return data

    with pytest.raises(StoreError, match="changed meanwhile"):
        write_file(writer, lambda _: False, Changing(os.urandom(4 * MB)))
    last = writer.add(BLOB, b"after")
    assert [writer.get(name)[1] for name in (first, last)] == [b"before", b"after"]
    assert len(writer.entries) == 2
    writer.finish()
    (pack,) = tmp_path.glob("*.pack")
    git(tmp_path, "verify-pack", str(pack))


def test_an_interrupted_stream_leaves_the_pack_as_it_was(tmp_path: Path) -> None:
    writer = PackWriter(tmp_path)
    writer.add(BLOB, b"before")

    def chunks() -> Iterator[bytes]:
        yield os.urandom(3 * MB)
        raise OSError("the disk went away")

    with pytest.raises(OSError, match="went away"):
        writer.add_stream(BLOB, 4 * MB, chunks(), "ab" * 20)
    assert "ab" * 20 not in writer
    name = writer.finish()
    assert (tmp_path / f"{name}.pack").stat().st_size < 100


def test_only_blobs_are_streamed(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    commit = add(store, "one")
    with pytest.raises(NotFound, match=f"blob not found: {commit}"):
        store.objects.stream(commit)
    with pytest.raises(NotFound):
        store.objects.open("ab" * 20)
    with pytest.raises(NotFound):
        store.objects.size("ab" * 20)


def test_loose_blobs_of_another_git_are_streamed(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    file = _file(tmp_path / "f", 2 * MB)
    blob = git(store.git, "hash-object", "-w", str(file)).strip()
    assert b"".join(store.objects.stream(blob)) == file.read_bytes()
    assert store.objects.size(blob) == 2 * MB
    assert store.objects.kind(blob) == "blob"


PROGRAM = """
import resource, sys
from pathlib import Path
from rover_store.store import Store
folder, file, limit = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
store = Store.open(folder)
with store.write("warm") as tx:
    tx.blob(b"warm")  # what is imported when used is imported before the limit
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
with store.write("x") as tx:
    blob = tx.blob_file(file)
    tree = tx.tree({"resource.json": b"{}", "files/big": blob})
    tx.set_resource("files/big", tree)
    tx.commit("x")
assert sum(map(len, store.objects.stream(blob))) == file.stat().st_size
assert list(store.objects.read_tree(tree)) == ["files/big", "resource.json"]
with store.lock:
    from rover_store.rollup import rewrite
    done = rewrite(store.objects, store.lock)
    store.lock.clear()
assert done.removed > 1, done
assert sum(map(len, store.objects.stream(blob))) == file.stat().st_size
"""


def _python(program: str, *arguments: object) -> str:
    words = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_file_larger_than_the_memory(tmp_path: Path) -> None:
    """60 MB in and out, its tree listed, its pack rolled, with 30 MB of address space beyond what Python takes."""
    store = new_store(tmp_path)
    add(store, "one")
    file = _file(tmp_path / "f", 60 * MB)
    before, _, _ = PROGRAM.partition("resource.setrlimit")
    peak = "print(next(int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('VmPeak')))"
    limit = int(_python(before + peak, tmp_path, file, 0)) * 1024 + 30 * MB
    _python(PROGRAM, tmp_path, file, limit)
    git(store.git, "fsck", "--full")
    tree = store.resources()["files/big"]
    assert git(store.git, "cat-file", "-s", store.objects.read_tree(tree)["files/big"].id).strip() == str(60 * MB)


def test_an_object_beyond_the_limit_is_named_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = new_store(tmp_path)
    tree = store.put_files({"f": bytes(3 * MB)})
    blob = store.objects.read_tree(tree)["f"].id
    monkeypatch.setattr("rover_store.packs.read.WHOLE_LIMIT", MB)
    with pytest.raises(StoreError, match=f"object {blob}.* too large to be read at once") as caught:
        Objects(store.git).read(blob)
    assert "stream" in caught.value.hint
    assert sum(map(len, Objects(store.git).stream(blob))) == 3 * MB


def test_fsck_does_not_hold_a_large_file_that_deflates_well(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    blob = store.objects.list_tree(store.put_files({"zeros": bytes(LARGE + 1)}))["zeros"].id
    pack = PackFile(store.objects.packs[0].path)
    assert pack.size < LARGE // 100
    items = {pack.name_at(item.number).hex(): item for item in pack.items(lambda _: (0, b""))}
    pack.close()
    assert items[blob].data is None
    assert items[blob].digest == bytes.fromhex(blob)
