"""The sealed audits: appended, read by one function, reached by nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from store_samples import add, git, new_store

from rover_store.errors import NotFound, PackageError, UsageError
from rover_store.records import SealedAudit
from rover_store.refs import SEALED
from rover_store.sealed import read_for_audit


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
    commit = store.refs.get(SEALED)
    assert commit is not None
    tree = store.revisions.load(commit).tree
    files = store.objects.read_tree(tree)
    blob = next(iter(files.values())).id
    names = [SEALED, "rover/sealed", f"{SEALED}~0", f"{commit}:sealed"]
    for rev in names + [i[:n] for i in (commit, tree, blob) for n in (12, 40)]:
        with pytest.raises(NotFound):
            store.find(rev)
    with pytest.raises(UsageError, match="not for writing"), store.write() as tx:
        tx.set_ref(SEALED, store.resolve(), expect=commit)


def test_no_clone_and_no_undo_reaches_it(tmp_path: Path) -> None:
    store = new_store(tmp_path / "store")
    add(store, "one")
    store.sealed.append("one", SealedAudit(package="one"))
    assert [op.command for op in store.op_log()] == ["add one"]
    git(tmp_path, "clone", "-q", "--mirror", "--no-local", str(store.git), "mirror")
    assert SEALED not in git(tmp_path / "mirror", "for-each-ref")
    commit = store.refs.get(SEALED)
    assert commit is not None
    assert commit not in git(tmp_path / "mirror", "cat-file", "--batch-all-objects", "--batch-check")


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
