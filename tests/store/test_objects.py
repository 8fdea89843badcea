"""Reading objects: loose, alternate, missing, damaged, and packs that come and go."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

import pytest
from store_samples import add, edit, git, new_store

from rover_store.errors import NotFound, StoreError
from rover_store.names import blob_id
from rover_store.objects import Objects
from rover_store.packs import BLOB, PackWriter
from rover_store.trees import EMPTY_TREE


def test_loose_objects_of_another_git(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    (tmp_path / "f").write_bytes(b"loose\n")
    loose = git(store.git, "hash-object", "-w", str(tmp_path / "f")).strip()
    assert store.objects.read(loose) == b"loose\n"
    assert store.objects.exists(loose)
    assert loose in store.objects.matching(loose[:6])


def test_missing_and_wrong_kind_are_named(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    commit = add(store, "one")
    with pytest.raises(NotFound, match="object not found: " + "ab" * 20):
        store.objects.read("ab" * 20)
    with pytest.raises(NotFound, match=f"blob not found: {commit}"):
        store.objects.read(commit)
    assert not store.objects.exists("ab" * 20)
    assert store.objects.kind(commit) == "commit"
    assert store.objects.list_tree(EMPTY_TREE) == {}


def test_a_flipped_byte_is_named(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    tree = store.put_files({"f": b"some text that is stored " * 20})
    blob = store.objects.read_tree(tree)["f"].id
    (pack,) = store.objects.packs
    offset = pack.find(bytes.fromhex(blob))
    assert offset is not None
    data = bytearray(pack.path.read_bytes())
    data[offset + 20] ^= 0xFF
    pack.path.chmod(0o644)
    pack.path.write_bytes(data)
    with pytest.raises(StoreError, match=f"object {blob} is damaged"):
        Objects(store.git).read(blob)


def test_alternates_are_read_through(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    tree = store.put_files({"f": b"shared"})
    assert store.evidence.objects.read_tree(tree) == store.objects.read_tree(tree)
    moved = tmp_path.with_name(tmp_path.name + "-moved")
    tmp_path.rename(moved)  # the alternate is named relatively, so a store can be moved
    assert Objects(moved / ".rover" / "evidence.git").read(blob_id(b"shared")) == b"shared"
    moved.rename(tmp_path)


def test_packs_that_come_are_seen_at_once(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    reader = Objects(store.git)
    for i in range(20):
        writer = PackWriter(store.git / "objects" / "pack")
        name = writer.add(BLOB, b"%d" % i)
        assert not reader.exists(name)
        writer.finish()
        assert reader.read(name) == b"%d" % i


def test_packs_that_go_are_looked_for_elsewhere(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    reader = Objects(store.git)
    head = store.resolve()
    assert reader.exists(head)  # its pack's index is mapped, its data not yet
    for i in range(60):
        edit(store, "one", {"context/files/data.csv": b"%d" % i})
    assert reader.read_commit(head).startswith(b"tree ")
    tree = store.package("one").tree
    subtree = store.objects.subtree(tree, "task/contract.json")
    assert subtree is not None
    assert not subtree.is_folder
    assert store.objects.subtree(tree, "task/nothing") is None
    assert store.objects.subtree(tree, "task/contract.json/below") is None


def test_readers_in_threads_lose_no_pack(tmp_path: Path) -> None:
    """Moving a pack to the front while another thread reads the list anew must not drop what that one found."""
    store = new_store(tmp_path)
    names: list[str] = []
    objects = Objects(store.git)
    wrong: list[str] = []

    def read() -> None:
        for n in range(3000):
            name = names[-1 - n % min(12, len(names))]
            try:
                objects.read(name)
            except NotFound:
                wrong.append(name)

    for n in range(8):
        names.append(_pack(store.git, b"before %d" % n))
    threads = [Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for n in range(40):
        names.append(_pack(store.git, b"meanwhile %d" % n))
    for thread in threads:
        thread.join()
    assert wrong == []
    assert all(objects.exists(name) for name in names)


def _pack(git_folder: Path, data: bytes) -> str:
    writer = PackWriter(git_folder / "objects" / "pack")
    name = writer.add(BLOB, data)
    writer.finish()
    return name
