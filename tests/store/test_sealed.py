"""The sealed audits: appended, read by one function, reached by nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from store_samples import add, git, new_store

from rover_store.commits import parse_commit
from rover_store.errors import NotFound, PackageError, UsageError
from rover_store.objects import Objects
from rover_store.records import SealedAudit
from rover_store.refs import SEALED, Refs
from rover_store.sealed import FOLDER, read_for_audit
from rover_store.store import Store
from rover_store.trees import TreeItem


def test_appending(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    assert read_for_audit(store, "one") == ()
    first = SealedAudit(package="one", answers={"r": 1})
    store.sealed.append("one", first)
    store.sealed.append("one", first)
    second = first.model_copy(update={"answers": {"r": 2}})
    store.sealed.append_all({"one": second, "two": SealedAudit(package="two")})
    assert read_for_audit(store, "one") == (first, second)
    assert len(read_for_audit(store, "two")) == 1
    assert store.fsck() == []
    with pytest.raises(PackageError, match="not a package name"):
        store.sealed.append("../x", first)


def test_no_revision_names_it(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    store.sealed.append("one", SealedAudit(package="one"))
    commit, tree, files = _kept(store)
    blob = next(iter(files.values())).id
    names = [SEALED, "rover/sealed", f"{SEALED}~0", f"{commit}:sealed"]
    for rev in names + [i[:n] for i in (commit, tree, blob) for n in (12, 40)]:
        with pytest.raises(NotFound):
            store.find(rev)
    with pytest.raises(UsageError, match="not for writing"), store.write() as tx:
        tx.set_ref(SEALED, store.resolve(), expect=commit)


def test_no_clone_no_copy_and_no_undo_reaches_it(tmp_path: Path) -> None:
    store = new_store(tmp_path / "store")
    add(store, "one")
    store.sealed.append("one", SealedAudit(package="one"))
    assert [op.command for op in store.op_log()] == ["add one"]
    commit, tree, files = _kept(store)
    for way in ("--no-local", "--local"):
        git(tmp_path, "clone", "-q", "--mirror", way, str(store.git), f"mirror{way}")
        there = git(tmp_path / f"mirror{way}", "cat-file", "--batch-all-objects", "--batch-check")
        assert not any(i in there for i in (commit, tree, *(item.id for item in files.values())))
        assert SEALED not in git(tmp_path / f"mirror{way}", "for-each-ref")


def test_a_store_without_audits_has_no_repository_for_them(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    assert read_for_audit(store, "one") == ()
    assert not (store.folder / FOLDER).exists()


def test_audits_of_an_older_store_move_out(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    store.sealed.append_all({n: SealedAudit(package=n) for n in ("one", "two")})
    store.sealed.append("one", SealedAudit(package="one", answers={"r": 1}))
    commit, _, files = _kept(store)
    _as_before(store, commit)
    found = next(iter(files.values())).id
    for find in (store.find, store.evidence.find):
        with pytest.raises(NotFound):
            find(found)
    assert len(read_for_audit(store, "one")) == 2  # the first reader moves them
    assert store.refs.get(SEALED) is None
    assert _kept(store)[0] == commit
    for find in (store.find, store.evidence.find):
        with pytest.raises(NotFound):
            find(found)  # its bytes are in store.git until gc; no revision names them
    assert store.fsck() == []


def test_a_move_that_was_cut_short_is_finished(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    store.sealed.append("one", SealedAudit(package="one"))
    _as_before(store, _kept(store)[0])
    other = new_store(tmp_path / "other")
    other.sealed.append("one", SealedAudit(package="one", answers={"r": 9}))
    shutil.copytree(other.folder / FOLDER, store.folder / FOLDER)
    store.sealed.append("one", SealedAudit(package="one", answers={"r": 3}))
    assert [a.answers for a in read_for_audit(store, "one")] == [{"r": 9}, {}, {"r": 3}]
    assert store.refs.get(SEALED) is None


def _kept(store: Store) -> tuple[str, str, dict[str, TreeItem]]:
    """Commit, tree and files of the sealed repository."""
    objects = Objects(store.folder / FOLDER)
    commit = Refs(objects.git).get(SEALED)
    assert commit is not None
    tree = parse_commit(commit, objects.read_commit(commit)).tree
    return commit, tree, objects.read_tree(tree)


def _as_before(store: Store, commit: str) -> None:
    """Put the audits where an older rover kept them."""
    for file in (store.folder / FOLDER / "objects" / "pack").iterdir():
        shutil.copy(file, store.git / "objects" / "pack")
    git(store.git, "update-ref", SEALED, commit)
    shutil.rmtree(store.folder / FOLDER)


def test_one_module_reads_the_audits() -> None:
    """The door only appends; what stands behind it is read after confirmation, by the audit of a repair alone."""
    import rover
    import rover_store

    readers = set()
    for package in (rover, rover_store):
        root = Path(str(package.__file__)).parent
        for path in root.rglob("*.py"):
            text = path.read_text("utf-8")
            if "read_for_audit" in text or "rover/sealed" in text:
                readers.add(f"{root.name}/{path.relative_to(root).as_posix()}")
    assert readers == {"rover/repair/audit.py", "rover_store/sealed.py", "rover_store/refs.py"}
