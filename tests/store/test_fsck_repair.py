"""`fsck --repair`: what is derived is made again, objects come back from good copies, truth is never touched."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from store_samples import add, edit, git, new_store

from rover_store.care.fsck import fsck
from rover_store.care.fsck_repair import repair
from rover_store.errors import UsageError
from rover_store.packs import Pack
from rover_store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = new_store(tmp_path / "store")
    add(store, "one", resources={"files/shared": b"1" * 300})
    add(store, "two")
    edit(store, "one", {"task/instruction.md": b"Again, at some length.\n" * 20})
    return store


def again(store: Store) -> Store:
    return Store.open(store.root, clock=store.clock)


def said(store: Store, sources: tuple[Path, ...] = ()) -> str:
    """What repair did; afterwards nothing is left, and git agrees."""
    report = repair(again(store), sources=sources)
    assert report.left == ()
    assert fsck(again(store)) == []
    git(store.git, "fsck", "--full", "--strict")
    return "\n".join(f"{r.where}: {r.what}" for r in report.repaired)


def refs(store: Store) -> dict[str, str]:
    return store.refs.all()


def old(path: Path) -> Path:
    os.utime(path, (1_600_000_000, 1_600_000_000))
    return path


def damage(store: Store, object_hex: str) -> None:
    for pack in store.objects.packs:
        offset = Pack(pack.path).find(bytes.fromhex(object_hex))
        if offset is not None:
            pack.path.chmod(0o644)
            data = bytearray(pack.path.read_bytes())
            data[offset + 12] ^= 0x41
            pack.path.write_bytes(data)


def test_a_sound_store_is_left_alone(store: Store) -> None:
    before = sorted((p, p.stat().st_mtime_ns) for p in store.git.rglob("*") if p.is_file())
    assert repair(store).repaired == ()
    assert sorted((p, p.stat().st_mtime_ns) for p in store.git.rglob("*") if p.is_file()) == before


def test_stale_files_and_locks_go_and_young_ones_stay(store: Store) -> None:
    young = store.git / "objects" / "pack" / "tmp_pack_young"
    stale = store.git / "objects" / "pack" / "tmp_pack_stale"
    lock = store.git / "refs" / "heads" / "main.lock"
    for path in (young, stale, lock):
        path.write_bytes(b"")
    old(stale)
    old(lock)
    kinds = {p.kind: p.severity for p in fsck(again(store))}
    assert kinds == {"staleTemporaryFile": "warning", "staleLock": "warning"}
    text = said(store)
    assert "objects/pack/tmp_pack_stale: removed" in text
    assert "refs/heads/main.lock: removed" in text
    assert young.exists()


@pytest.mark.parametrize("change", [
    lambda p: p.unlink(), lambda p: p.write_bytes(b""), lambda p: p.write_bytes(p.read_bytes()[:-50]),
    lambda p: p.write_bytes(bytes([p.read_bytes()[0] ^ 1]) + p.read_bytes()[1:]),
    lambda p: p.write_bytes(p.read_bytes()[:1040] + b"\0" + p.read_bytes()[1041:]),
])  # fmt: skip
def test_the_index_of_a_pack_is_made_from_the_pack(store: Store, change: Callable[[Path], object]) -> None:
    idx = store.objects.packs[0].path.with_suffix(".idx")
    whole = idx.read_bytes()
    idx.chmod(0o644)
    change(idx)
    assert fsck(again(store)) != []
    assert f"{idx.name}: built again from the pack" in said(store)
    assert idx.read_bytes() == whole


def test_the_index_of_a_pack_with_deltas(store: Store) -> None:
    git(store.git, "repack", "-adfq", "--depth=20", "--window=20")
    (idx,) = (store.git / "objects" / "pack").glob("*.idx")
    whole = idx.read_bytes()
    idx.unlink()
    assert "built again from the pack" in said(store)
    assert idx.read_bytes() == whole


def test_what_another_git_derived_goes_when_it_is_damaged(store: Store) -> None:
    git(store.git, "multi-pack-index", "write")
    git(store.git, "commit-graph", "write", "--reachable")
    for path in (store.git / "objects" / "pack" / "multi-pack-index", store.git / "objects" / "info" / "commit-graph"):
        path.chmod(0o644)
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    text = said(store)
    assert "multi-pack-index: removed" in text
    assert "commit-graph: removed" in text


def test_the_evidence_borrows_again(store: Store) -> None:
    file = store.folder / "evidence.git" / "objects" / "info" / "alternates"
    file.write_text("../../nowhere/objects\n")
    assert {p.kind for p in fsck(again(store))} == {"badAlternate", "missingAlternate"}
    assert "names store.git again" in said(store)
    assert file.read_text() == "../../store.git/objects\n"


def test_the_index_is_built_again(store: Store) -> None:
    store.index.ask(lambda db: db.execute("DELETE FROM package WHERE name = 'two'"))
    assert said(store) == "index: built again from git"


PICKS = [
    lambda s: s.find("HEAD:one/task/instruction.md").id, lambda s: s.package("one").tree, lambda s: s.commit().tree,
    lambda s: s.resolve("HEAD~1"), lambda s: s.resolve(),
]  # fmt: skip


@pytest.mark.parametrize("pick", PICKS)
def test_a_damaged_object_comes_back_from_a_clone(store: Store, tmp_path: Path, pick: Callable[[Store], str]) -> None:
    git(tmp_path, "clone", "-q", "--no-local", str(store.git), "clone")
    before, name = refs(store), pick(store)
    damage(store, name)
    assert any(name in p.what for p in fsck(again(store)))
    text = said(store, (tmp_path / "clone",))
    assert "brought back from good copies" in text
    assert "all that it held is whole" in text
    assert refs(store) == before
    assert "written again" in text or list((store.folder / "damaged").glob("*.pack"))


def test_a_damaged_object_comes_back_from_another_pack(store: Store) -> None:
    name = store.find("HEAD:one/task/instruction.md").id
    for path in list((store.git / "objects" / "pack").iterdir()):
        shutil.copy(path, store.root / path.name)
    git(store.git, "repack", "-aq")  # a second copy of everything
    damage_one = next(p for p in again(store).objects.packs if Pack(p.path).find(bytes.fromhex(name)) is not None)
    damage_one.path.chmod(0o644)
    data = bytearray(damage_one.path.read_bytes())
    data[Pack(damage_one.path).find(bytes.fromhex(name)) + 12] ^= 0x41  # type: ignore[operator]
    damage_one.path.write_bytes(data)
    assert "brought back from good copies" in said(store)


def test_a_lost_pack_comes_back_from_a_store(store: Store, tmp_path: Path) -> None:
    shutil.copytree(store.root, tmp_path / "copy")
    for pack in store.objects.packs:
        pack.path.unlink()
        pack.path.with_suffix(".idx").unlink()
    assert any(p.kind == "badRefTarget" for p in fsck(again(store)))
    assert "brought back" in said(store, (tmp_path / "copy",))


def test_what_is_nowhere_stays_named(store: Store) -> None:
    name = store.find("HEAD:one/task/instruction.md").id
    damage(store, name)
    report = repair(again(store))
    assert any(name in p.what and p.severity == "error" for p in report.left)
    assert any("1 objects of it are lost" in r.what for r in report.repaired)
    assert again(store).package("two").name == "two"


def test_a_source_that_is_none(store: Store, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no git repository"):
        repair(store, sources=[tmp_path / "nothing"])
