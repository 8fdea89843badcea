"""Blobs too large to be read whole travel in chunks between stores, packed or loose; a damaged one is refused."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from store_samples import add, folder_item, git, new_store

from rover_store.errors import StoreError
from rover_store.store import Store
from rover_store.transfer import remotes
from rover_store.transfer.transfer import clone

MB = 1 << 20


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing larger than 1 MB is read at once."""
    for limit in ("packs.read.WHOLE_LIMIT", "packs.loose.WHOLE_LIMIT", "packs.write.WHOLE_LIMIT"):
        monkeypatch.setattr(f"rover_store.{limit}", MB)
    monkeypatch.setattr("rover_store.transfer.copying.LARGE", MB)


def source(folder: Path, *, loose: bool) -> tuple[Store, str, bytes]:
    """A store with a file of 3 MB, its id, its bytes."""
    folder.mkdir()
    store = new_store(folder)
    add(store, "one")
    data = random.Random(1).randbytes(2 * MB) + bytes(MB)
    file = folder / "big.bin"
    file.write_bytes(data)
    if loose:
        blob = git(store.git, "hash-object", "-w", str(file)).strip()
    with store.write("big") as tx:
        blob = blob if loose else tx.blob_file(file)
        tree = tx.edit_tree(store.package("one").tree, {"context/files/big.bin": blob, "context/files/b.txt": b"b"})
        tx.set_package("one", tree)
        tx.commit("Big")
    assert (store.git / "objects" / blob[:2] / blob[2:]).exists() == loose
    return store, blob, data


@pytest.mark.parametrize("loose", [False, True])
@pytest.mark.usefixtures("small_memory")
def test_clone_pull_and_push(tmp_path: Path, loose: bool) -> None:
    store, blob, data = source(tmp_path / "a", loose=loose)
    with pytest.raises(StoreError, match="too large"):
        Store.open(tmp_path / "a").objects.read(blob)
    clone(str(tmp_path / "a"), tmp_path / "b")
    other = Store.open(tmp_path / "b")
    assert b"".join(other.objects.stream(blob)) == data
    git(other.git, "fsck", "--full", "--strict")
    again = store.package("one").tree
    with other.write("more") as tx:
        more = tx.blob_file(tmp_path / "a/big.bin")
        (tmp_path / "more").write_bytes(data + b"more")
        more = tx.blob_file(tmp_path / "more")
        tx.set_package("one", tx.edit_tree(again, {"context/files/more.bin": more, "folder": folder_item(again)}))
        tx.commit("More")
    other.push()
    assert b"".join(Store.open(tmp_path / "a").objects.stream(more)) == data + b"more"
    git(store.git, "fsck", "--full", "--strict")


@pytest.mark.usefixtures("small_memory")
def test_a_damaged_one_is_refused_and_nothing_kept(tmp_path: Path) -> None:
    store, blob, _ = source(tmp_path / "a", loose=True)
    path = store.git / "objects" / blob[:2] / blob[2:]
    raw = bytearray(path.read_bytes())
    raw[MB] ^= 1
    os.chmod(path, 0o644)
    path.write_bytes(raw)
    target = new_store(tmp_path / "b")
    before = target.refs.all("refs/")
    remotes.add(target, "origin", str(tmp_path / "a"))
    with pytest.raises(StoreError, match=blob):
        target.fetch("origin")
    assert target.refs.all("refs/") == before
    assert not any(f.name.startswith("tmp_") for f in (target.git / "objects/pack").iterdir())
    assert target.fsck() == []
