"""fsck finds what git and dulwich miss: each kind of damage is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from store_samples import add, edit, git, new_store

from rover_store.care.fsck import fsck
from rover_store.commits import AUTHOR, encode_commit
from rover_store.names import package_path
from rover_store.packs import BLOB, COMMIT, TREE, Pack, PackWriter
from rover_store.store import Store
from rover_store.trees import FILE, FOLDER, TreeItem, encode_tree


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = new_store(tmp_path)
    add(store, "one", resources={"files/shared": b"1"})
    add(store, "two")
    return store


def _without(store: Store, object_hex: str) -> None:
    """Write every pack again without one object."""
    folder = store.git / "objects" / "pack"
    for pack in store.objects.packs:
        records = [(n, r) for n, _, r in Pack(pack.path).records() if n.hex() != object_hex]
        pack.path.unlink()
        pack.path.with_suffix(".idx").unlink()
        writer = PackWriter(folder)
        for name, record in records:
            writer.add_record(name, record)
        writer.finish()


def _what(store: Store) -> str:
    return "\n".join(f"{p.where}: {p.what}" for p in Store.open(store.root).fsck())


def test_a_sound_store_has_no_problem(store: Store) -> None:
    assert store.fsck() == []


def test_a_deleted_blob_tree_or_commit(store: Store) -> None:
    blob = store.find("HEAD:one/task/instruction.md").id
    _without(store, blob)
    assert f"blob {blob} is missing, named by tree" in _what(store)


@pytest.mark.parametrize("pick", [lambda s: s.package("one").tree, lambda s: s.resolve("HEAD~1")])
def test_a_deleted_tree_or_commit(store: Store, pick: Callable[[Store], str]) -> None:
    gone = pick(store)
    _without(store, gone)
    assert f" {gone} is missing, named by" in _what(store)


def test_a_flipped_byte_anywhere(store: Store) -> None:
    pack = store.objects.packs[0].path
    data = pack.read_bytes()
    pack.chmod(0o644)
    for at in (12, len(data) // 2, len(data) - 30, len(data) - 1):
        pack.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        assert f"{pack.name}: checksum differs" in _what(store)
    pack.write_bytes(data[:-50])
    assert pack.stem in _what(store)
    pack.write_bytes(data)
    idx = pack.with_suffix(".idx")
    idx.chmod(0o644)
    content = idx.read_bytes()
    for at in (8 + 4 * 255, 1032 + 5, len(content) - 1):
        idx.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        assert _what(store) != ""
    idx.write_bytes(content)
    assert _what(store) == ""


def test_loose_objects_are_checked(store: Store, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"loose")
    loose = git(store.git, "hash-object", "-w", str(tmp_path / "f")).strip()
    assert _what(store) == ""
    path = store.git / "objects" / loose[:2] / loose[2:]
    other = path.with_name("0" * 38)
    path.rename(other)
    assert "its bytes have another id" in _what(store)
    other.chmod(0o644)
    other.write_bytes(b"garbage")
    assert "is damaged" in _what(store)


def test_a_ref_to_nowhere(store: Store) -> None:
    (store.git / "refs" / "heads" / "lost").write_text("1" * 40 + "\n")
    assert f"refs/heads/lost names {'1' * 40}, which does not exist" in _what(store)
    (store.git / "refs" / "heads" / "lost").write_text("nonsense")
    assert "refs/heads/lost is damaged" in _what(store)


def test_a_head_that_names_no_branch(store: Store) -> None:
    (store.git / "HEAD").write_text("nonsense\n")
    assert "HEAD does not name a branch" in _what(store)


def test_a_missing_repository(store: Store) -> None:
    (store.folder / "evidence.git").rename(store.folder / "gone")
    assert "evidence.git: missing" in _what(store)


def _commit_raw(store: Store, path: str, tree: str) -> None:
    """A commit as a foreign program may push it: no check of ours."""
    with store.write() as tx:
        edited = tx.edit_tree(store.commit().tree, {path: TreeItem(FOLDER, tree)})
        writer = PackWriter(store.git / "objects" / "pack")
        head = writer.add(COMMIT, encode_commit(edited, [store.resolve()], "Foreign", AUTHOR, 0))
        writer.finish()
        tx.promote("main", head, expect=store.resolve())


def test_dangling_edges_and_pins(store: Store) -> None:
    text = store.objects.read(store.find("HEAD:one/package.json").id)
    shared = store.resources()["files/shared"]
    edit(store, "one", {"package.json": text.replace(b"files/shared", b"files/nothing")})
    assert "main:one/context: package.json: edges: depends on resources/files/nothing, which" in _what(store)
    edit(store, "one", {"package.json": text.replace(shared.encode(), b"1" * 40)})
    assert "resources/files/shared at 111111111111, which does not exist" in _what(store)
    edit(store, "one", {"package.json": text.replace(b'"one"', b'"other"')})
    assert "main:one: package.json: name: says 'other'" in _what(store)
    edit(store, "one", {"task": None})
    assert "main:one/task: package.json: edges: one/task does not exist" in _what(store)


def test_a_cycle(store: Store) -> None:
    text = store.objects.read(store.find("HEAD:one/package.json").id)
    cyclic = text.replace(b'"target": "resources/files/shared"', b'"target": "verifier"')
    edit(store, "one", {"package.json": cyclic})
    assert "main: dependencies form a cycle: one/" in _what(store)


def test_a_package_in_the_wrong_place(store: Store) -> None:
    _commit_raw(store, "packages/0/0/0/one", store.package("two").tree)
    text = _what(store)
    assert "main:one: lies in the wrong folder of the tree" in text
    _commit_raw(store, package_path("UP CASE"), store.package("two").tree)
    assert "main:UP CASE: 'UP CASE' is not a package name" in _what(store)


def test_an_index_changed_by_hand(store: Store) -> None:
    store.index.ask(lambda db: db.execute("DELETE FROM package WHERE name = 'two'"))
    assert "index: its packages are not those of the head" in _what(store)
    store.reindex()
    store.index.ask(lambda db: db.execute("UPDATE edge SET version = 'x' WHERE package = 'two'"))
    assert "index: its nodes or edges" in _what(store)
    store.reindex()
    store.index.ask(lambda db: db.execute("UPDATE history SET shown = 0 WHERE seq = 1"))
    assert "index: its history" in _what(store)
    store.reindex()
    assert _what(store) == ""


def test_objects_with_the_wrong_name(store: Store) -> None:
    writer = PackWriter(store.git / "objects" / "pack")
    writer.add(TREE, encode_tree({"f": TreeItem(FILE, writer.add(BLOB, b"x"))}), "ab" * 20)
    writer.finish()
    assert f"object {'ab' * 20} is damaged: its bytes have another id" in _what(store)


def test_a_writer_meanwhile_is_no_damage(store: Store) -> None:
    other = Store.open(store.root)
    left = [b"2\n", b"3\n"]

    def commit(_what: str, _done: int, _total: int) -> None:
        if left:
            edit(other, "one", {"task/instruction.md": left.pop()})

    assert fsck(store, progress=commit) == []
    assert not left
