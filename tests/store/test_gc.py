"""gc keeps everything that anybody needs, drops the rest after its grace, and never stands in anyone's way."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import time
from pathlib import Path

import pytest
from store_samples import add, edit, git, new_store, package_files

from rover_store.care.forget import forget_operations, operations_before
from rover_store.care.fsck import fsck
from rover_store.care.gc import GRACE, GcReport, gc
from rover_store.care.inventory import Inventory, open_repositories
from rover_store.errors import NotFound, StoreError, UsageError
from rover_store.evidence import Recorded
from rover_store.packs import TREE, PackWriter
from rover_store.packs.format import SMALL
from rover_store.records import Budget, RolloutKey, Trajectory, Verdict
from rover_store.store import Store
from rover_store.trees import EMPTY_TREE, FILE, TreeItem, encode_tree

OLD = 1_600_000_000


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = new_store(tmp_path / "store")
    add(store, "one", resources={"files/shared": b"1"})
    add(store, "two")
    edit(store, "one", {"task/instruction.md": b"Again.\n"})
    gc(store, dry_run=False, grace=0)  # making the samples leaves a tree or two behind
    return store


def collect(store: Store, **options: object) -> GcReport:
    """Collect without grace; afterwards git and fsck are content."""
    report = gc(store, dry_run=False, **{"grace": 0, **options})  # type: ignore[arg-type]
    assert fsck(Store.open(store.root)) == []
    for repository in store.folder.glob("*.git"):
        git(repository, "fsck", "--full", "--strict")
    return report


def aged(store: Store) -> None:
    """All that is stored now becomes old."""
    for path in (store.git / "objects").rglob("*"):
        if path.is_file():
            os.utime(path, (OLD, OLD))


def gone(report: GcReport) -> int:
    return sum(part.gone_objects for part in report.repositories)


def test_a_dry_run_says_and_changes_nothing(store: Store) -> None:
    orphan = store.put_files({"a/b": b"nobody needs this" * 50})
    before = sorted((p, p.stat().st_mtime_ns) for p in (store.git / "objects").rglob("*"))
    report = gc(store, grace=0)
    assert report.dry_run
    assert [(k.kind, k.objects) for k in report.repositories[0].gone] == [("tree", 2), ("blob", 1)]
    assert report.freed > 0
    assert sorted((p, p.stat().st_mtime_ns) for p in (store.git / "objects").rglob("*")) == before
    assert store.objects.exists(orphan)


def test_what_nothing_needs_goes_and_all_else_stays(store: Store) -> None:
    orphan = store.put_files({"a/b": b"nobody needs this" * 50})
    versions = {e.id: store.objects.read_tree(store.commit(e.id).tree) for e in store.log()}
    report = collect(store)
    assert gone(report) == 3
    assert (report.repositories[0].packs_after, report.repositories[0].loose_after) == (1, 0)
    again = Store.open(store.root)
    assert not again.objects.exists(orphan)
    for commit, files in versions.items():
        assert again.objects.read_tree(again.commit(commit).tree) == files
        assert all(again.objects.read(item.id) is not None for item in files.values())
    assert not store.objects.exists(orphan), "an open store sees it too"
    assert gone(collect(store)) == 0


def test_the_young_stay_with_what_they_name(store: Store) -> None:
    first = store.put_files({"a": b"old and unneeded"})
    aged(store)
    blob = store.objects.list_tree(first)["a"].id
    writer = PackWriter(store.git / "objects" / "pack")
    young = writer.add(TREE, encode_tree({"b": TreeItem(FILE, blob)}))
    writer.finish()
    report = collect(store, grace=GRACE)
    assert gone(report) == 1
    assert report.repositories[0].young == 2
    assert store.objects.read(store.objects.list_tree(young)["b"].id) == b"old and unneeded"
    later = gc(store, dry_run=False, now=time.time() + GRACE + 86400)
    assert gone(later) == 2


def test_the_grace_ends_however_often_it_is_collected(store: Store) -> None:
    orphan = store.put_files({"a": b"a proposal"})
    start = time.time()
    for day in range(0, 13, 4):
        edit(store, "two", {"task/instruction.md": b"Day %d\n" % day})
        assert gone(gc(store, dry_run=False, now=start + day * 86400)) == 0
        assert store.objects.exists(orphan)
    gc(store, dry_run=False, now=start + 16 * 86400)
    assert not Store.open(store.root).objects.exists(orphan)


def test_a_proposal_that_uses_old_objects_again_is_young(store: Store) -> None:
    store.put_files({"a": b"a proposal"})
    aged(store)
    tree = store.put_files({"a": b"a proposal"})
    collect(store, grace=GRACE)
    assert store.objects.read(store.objects.list_tree(tree)["a"].id) == b"a proposal"


def test_undo_still_works(store: Store) -> None:
    store.create_branch("side")
    store.switch("side")
    head = edit(store, "two", {"task/instruction.md": b"On the side.\n"})
    store.switch("main")
    store.tag("v1", message="A release")
    store.delete_tag("v1")
    store.delete_branch("side")
    collect(store)
    store.undo()
    assert store.branches()["side"] == head
    store.undo(store.op_log()[2].id)
    assert git(store.git, "cat-file", "-t", "v1").strip() == "tag"
    assert store.objects.read(store.find("side:two/task/instruction.md").id) == b"On the side.\n"
    assert fsck(store) == []


def test_a_case_keeps_its_candidates_and_proposals(store: Store) -> None:
    proposal = store.put_files(package_files("one", "A proposal in no commit."))
    record = json.dumps({"proposals": [{"tree": proposal}]}).encode()
    with store.write("repair") as tx:
        candidate = tx.detached_commit("Candidate", packages={"two": None})
        case = tx.detached_commit("Case", files={"case.json": record}, parents=[store.resolve(), candidate])
        tx.set_ref("refs/rover/cases/c1", case, expect=None)
    collect(store)
    assert store.commit(candidate).subject == "Candidate"
    assert store.objects.read_tree(proposal)["task/instruction.md"]


def test_evidence_keeps_the_versions_it_is_about(store: Store) -> None:
    parts = store.objects.list_tree(store.put_files(package_files("one", "Never committed.")))
    key = RolloutKey(context=parts["context"].id, task=parts["task"].id, harness=parts["harness"].id, policy="p",
                     seed=1, budget=Budget(), runtime="r")  # fmt: skip
    trajectory = Trajectory(key=key, package="one", start=EMPTY_TREE)
    store.evidence.put([Recorded(trajectory)])
    (rollout,) = store.evidence.ids()
    store.evidence.put([], [Verdict(rollout=rollout, verifier=parts["verifier"].id, outcome="failed", score=0.0)])
    for name in ("a", "b"):  # another package of the evidence, so that there is something to bring together
        store.evidence.put([Recorded(trajectory.model_copy(update={"key": key.model_copy(update={"policy": name})}))])
    collect(store)
    for component in parts.values():
        assert store.objects.read_tree(component.id)
    assert len(store.evidence.objects.packs) == 1
    assert store.evidence.get_rollout(rollout) == trajectory


def test_a_pin_keeps_the_version_that_it_names(store: Store) -> None:
    other = store.objects.list_tree(store.put_files(package_files("one", "A version before the history.")))["task"].id
    record = store.objects.read(store.find("HEAD:one/package.json").id)
    present = store.package("one").components["task"]
    edit(store, "one", {"package.json": record.replace(present.encode(), other.encode())})
    collect(store)
    assert store.objects.list_tree(other)["task.json"]


def test_the_sealed_audits_stay(store: Store) -> None:
    from rover_store.records import SealedAudit
    from rover_store.sealed import read_for_audit

    for n in range(3):
        store.sealed.append("one", SealedAudit(package="one", answers={"n": n}))
    collect(store)
    assert [a.answers["n"] for a in read_for_audit(Store.open(store.root), "one")] == [0, 1, 2]


def test_forgetting_operations_lets_old_heads_go(store: Store) -> None:
    store.create_branch("side")
    store.switch("side")
    lost = edit(store, "two", {"task/instruction.md": b"Soon forgotten.\n"})
    store.switch("main")
    store.delete_branch("side")
    kept = edit(store, "two", {"task/instruction.md": b"Kept.\n"})
    newest = edit(store, "two", {"task/instruction.md": b"Newest.\n"})
    since = store.commit(kept).time
    number = len(store.op_log())
    report = collect(store)
    assert store.commit(lost).subject
    assert gc(store, forget_before=since, grace=0).forgotten == operations_before(store, since) > 0
    assert len(store.op_log()) == number
    report = collect(store, forget_before=since)
    assert report.forgotten == number - len(store.op_log())
    assert any(kind.kind == "commit" for part in report.repositories for kind in part.gone)
    with pytest.raises(NotFound):
        Store.open(store.root).commit(lost)
    assert next(e.id for e in Store.open(store.root).log()) == newest
    store.undo()
    assert store.resolve() == kept
    assert forget_operations(store, 0) == 0


def test_deltas_loose_objects_and_maps_of_another_git(store: Store) -> None:
    for n in range(5):
        edit(store, "one", {"context/files/big.csv": b"".join(b"%d,%d\n" % (i, i * i) for i in range(400 + n))})
    git(store.git, "repack", "-adfq", "--depth=20", "--window=20")
    git(store.git, "multi-pack-index", "write")
    git(store.git, "commit-graph", "write", "--reachable")
    (store.root / "file").write_bytes(b"loose and unneeded")
    loose = git(store.git, "hash-object", "-w", str(store.root / "file")).strip()
    edit(store, "two", {"task/instruction.md": b"After.\n"})
    files = {e.id: store.objects.read_tree(store.commit(e.id).tree) for e in store.log()}
    collect(store)
    again = Store.open(store.root)
    assert not again.objects.exists(loose)
    assert {e.id: again.objects.read_tree(again.commit(e.id).tree) for e in again.log()} == files
    assert all(again.objects.read(item.id) is not None for level in files.values() for item in level.values())


def test_loose_objects_that_are_needed_move_into_the_pack(store: Store) -> None:
    for pack in list((store.git / "objects" / "pack").glob("*.pack")):
        data = pack.read_bytes()
        pack.unlink()
        pack.with_suffix(".idx").unlink()
        subprocess.run(["git", f"--git-dir={store.git}", "unpack-objects", "-q"], input=data, check=True)
    fresh = Store.open(store.root, clock=store.clock)
    report = collect(fresh)
    assert report.repositories[0].loose > 0
    assert (report.repositories[0].loose_after, report.repositories[0].packs_after) == (0, 1)
    assert fresh.package("one").components


def test_a_damaged_store_is_not_touched(store: Store) -> None:
    (store.git / "refs" / "heads" / "bad").write_text("7" * 40 + "\n")
    before = sorted(p.name for p in (store.git / "objects" / "pack").iterdir())
    (store.git / "refs" / "heads" / "bad").unlink()
    pack = max((p.path for p in store.objects.packs), key=lambda p: p.stat().st_size)
    pack.chmod(0o644)
    data = pack.read_bytes()
    pack.write_bytes(data[: len(data) // 2])
    with pytest.raises(StoreError) as caught:
        gc(Store.open(store.root), dry_run=False, grace=0)
    assert "fsck" in caught.value.hint
    assert sorted(p.name for p in (store.git / "objects" / "pack").iterdir()) == before


def test_not_within_a_write(store: Store) -> None:
    with store.write("open"), pytest.raises(UsageError, match="a write is open"):
        gc(store, dry_run=False)


# --- beside others ---------------------------------------------------------------------------------------
def _write(folder: Path, until: float) -> None:
    store = Store.open(folder)
    n = 0
    while time.time() < until:
        edit(store, "two", {"context/files/data.csv": b"%d,%d\n" % (os.getpid(), n)})
        n += 1


def _read(folder: Path, until: float) -> None:
    store = Store.open(folder)
    while time.time() < until:
        for entry in store.packages():
            for item in store.objects.read_tree(entry.tree).values():
                store.objects.read(item.id)
        next(iter(store.log()))


def test_beside_writers_and_readers(store: Store) -> None:
    spawn = multiprocessing.get_context("spawn")
    until = time.time() + 3
    workers = [spawn.Process(target=work, args=(store.root, until)) for work in (_write, _read)]
    for worker in workers:
        worker.start()
    rounds = 0
    while time.time() < until:
        gc(store, dry_run=False, grace=0)
        rounds += 1
        time.sleep(0.05)
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    assert rounds > 1
    assert fsck(Store.open(store.root)) == []
    git(store.git, "fsck", "--full", "--strict")
    assert len(list(store.log())) == len(git(store.git, "rev-list", "main").split())


def test_a_damaged_store_does_not_forget(store: Store) -> None:
    edit(store, "two", {"task/instruction.md": b"Again.\n"})
    pack = max(store.objects.packs, key=lambda p: p.count)
    data = bytearray(pack.path.read_bytes())
    data[60] ^= 1
    pack.path.chmod(0o644)
    pack.path.write_bytes(data)
    before = [op.id for op in store.op_log()]
    with pytest.raises(StoreError, match="damaged"):
        gc(Store.open(store.root), dry_run=False, grace=0, forget_before=store.clock() + 1)
    assert [op.id for op in store.op_log()] == before


def test_objects_are_found_in_a_table_as_in_a_dictionary(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    repositories = open_repositories([store.git])
    quick = Inventory(repositories)
    monkeypatch.setattr("rover_store.care.inventory._QUICK", 0)
    slow = Inventory(repositories)
    for inventory in (quick, slow):
        assert inventory.read() == []
        assert inventory.of("0" * 40) == inventory.of("x") == -1
    for n in range(slow.count):
        assert quick.of(slow.name(n)) == slow.of(quick.name(n)) == n
        assert list(quick.links(n)) == list(slow.links(n))
    quick.close()
    store.put_files({"a/b": b"nobody needs this" * 50})
    assert gone(collect(store)) == 3


def test_many_small_packs_hold_no_descriptor(store: Store) -> None:
    for n in range(30):
        store.put_files({"a": b"%d" % n, "large": os.urandom(20_000) if n < 3 else b""})
    before = len(os.listdir("/proc/self/fd"))
    (repository,) = open_repositories([store.git])
    assert len(repository.packs) > 25
    assert len(os.listdir("/proc/self/fd")) - before == sum(p.size > SMALL for p in repository.packs) == 3
    assert all([*pack.ground()] == [] for pack in repository.packs)
    repository.close()
    assert len(os.listdir("/proc/self/fd")) == before
    collect(store)
