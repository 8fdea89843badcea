"""fsck finds what git cannot know: records, pins, names, evidence, cases and operations that do not fit together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from store_samples import add, edit, new_store

from rover_store.care.fsck import fsck
from rover_store.commits import AUTHOR, encode_commit
from rover_store.evidence import Recorded
from rover_store.names import blob_id, rollout_path
from rover_store.packs import BLOB, COMMIT, Pack, PackWriter
from rover_store.records import Budget, RolloutKey, SealedAudit, Trajectory, Turn, Verdict
from rover_store.refs import EVIDENCE
from rover_store.store import Store
from rover_store.trees import EXECUTABLE, FILE, FOLDER, LINK, SUBMODULE, TreeItem, edit_tree, parse_tree, tree_id


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = new_store(tmp_path)
    add(store, "one", resources={"files/shared": b"1"})
    add(store, "two")
    return store


def kinds(store: Store) -> dict[str, str]:
    """Kind -> severity of all that is wrong."""
    return {problem.kind: problem.severity for problem in fsck(Store.open(store.root))}


def record(store: Store, path: str) -> bytes:
    return store.objects.read(store.find(f"HEAD:{path}").id)


def put_item(store: Store, path: str, mode: int, item: str) -> None:
    """An entry of any mode in package one, as another program may push it."""
    with store.write("odd") as tx:
        level = {path: TreeItem(mode, item)}
        tx.set_package("one", tx.edit_tree(store.package("one").tree, level))
        tx.commit("Odd")


def test_pins(store: Store) -> None:
    text = record(store, "one/package.json")
    context = store.package("one").components["context"].encode()
    for pin, kind in ((store.package("one").tree, "impossiblePin"), (store.resolve(), "impossiblePin"),
                      ("1" * 40, "danglingPin")):  # fmt: skip
        edit(store, "one", {"package.json": text.replace(context, pin.encode())})
        assert kinds(store) == {kind: "error"}
    old = store.package("two").components["context"].encode()
    edit(store, "one", {"package.json": text.replace(context, old)})
    assert kinds(store) == {}, "a version of some context: stale, and no damage"


def test_records_and_files(store: Store) -> None:
    edit(store, "one", {"harness/harness.json": b'{"tools": 3}\n', "README.txt": b"stray"})
    edit(store, "two", {"task/contract.json": None})
    assert kinds(store) == {"badRecord": "error", "strayFile": "warning", "missingFile": "error"}
    said = {p.what for p in fsck(store)}
    assert "task/contract.json: missing" in said
    assert "README.txt: has no place in a package" in said
    assert any(what.startswith("harness/harness.json: tools: ") for what in said)


def test_a_resource_that_does_not_exist(store: Store) -> None:
    text = record(store, "one/context/context.json")
    tree = store.resources()["files/shared"].encode()
    edit(store, "one", {"context/context.json": text.replace(tree, b"2" * 40)})
    assert kinds(store)["danglingResource"] == "error"


@pytest.mark.parametrize(("name", "kind"), [
    ("Read.md", "caseCollision"), ("a\\b", "hostileName"), ("x" * 300, "hostileName"), ("tab\t", "hostileName"),
    ("dot.", "hostileName"), ("caf\udce9", "hostileName"),
])  # fmt: skip
def test_names_that_not_every_file_system_can_hold(store: Store, name: str, kind: str) -> None:
    edit(store, "one", {"context/files/read.md": b"x"})
    blob = store.find("HEAD:one/task/instruction.md").id
    put_item(store, f"context/files/{name}", FILE, blob)
    assert kinds(store) == {kind: "warning"}


@pytest.mark.parametrize("mode", [LINK, SUBMODULE])
def test_links_and_submodules(store: Store, mode: int) -> None:
    blob = store.find("HEAD:one/task/instruction.md").id
    put_item(store, "context/files/odd", mode, blob)
    assert kinds(store) == {"hostileMode": "error"}
    put_item(store, "context/files/odd", EXECUTABLE, blob)
    assert kinds(store) == {}


def test_files_between_the_packages(store: Store) -> None:
    blob = store.find("HEAD:one/task/instruction.md").id
    with store.write("odd") as tx:
        edits = {"packages/README": TreeItem(FILE, blob), "resources/odd/x": TreeItem(FILE, blob)}
        tree = tx.edit_tree(store.commit().tree, edits)
        writer = PackWriter(store.git / "objects" / "pack")
        head = writer.add(COMMIT, encode_commit(tree, [store.resolve()], "Odd", AUTHOR, 0))
        writer.finish()
        tx.promote("main", head, expect=store.resolve())
    assert kinds(store) == {"strayFile": "warning"}


# --- evidence --------------------------------------------------------------------------------------------
def recorded(store: Store, context: str = "") -> Recorded:
    ids = store.package("one").components
    key = RolloutKey(context=context or ids["context"], task=ids["task"], harness=ids["harness"], policy="p", seed=1,
                     budget=Budget(), runtime="r")  # fmt: skip
    end = {"out.csv": TreeItem(FILE, blob_id(b"out"))}
    turns = (Turn(index=0, tree=tree_id(end)),)
    trajectory = Trajectory(key=key, package="one", start=tree_id(end), turns=turns)
    return Recorded(trajectory, {blob_id(b"out"): b"out"}, {tree_id(end): end})


def rewrite(store: Store, edits: dict[str, TreeItem | None], blobs: tuple[bytes, ...] = ()) -> None:
    """Change the evidence as no door of ours does."""
    evidence = store.evidence
    writer = PackWriter(evidence.git / "objects" / "pack")
    for data in blobs:
        writer.add(BLOB, data)

    def read(tree: str) -> dict[str, TreeItem]:
        return parse_tree(writer.get(tree)[1]) if tree in writer else evidence.objects.list_tree(tree)

    head = evidence.refs.get(EVIDENCE)
    assert head is not None
    tree = edit_tree(evidence.root(), edits, read, writer.add)
    commit = writer.add(COMMIT, encode_commit(tree, [head], "Odd", AUTHOR, 0))
    writer.finish()
    (evidence.git / EVIDENCE).write_text(commit + "\n")


def test_evidence_of_versions_that_do_not_exist(store: Store) -> None:
    store.evidence.put([recorded(store, "a" * 40)])
    (rollout,) = store.evidence.ids()
    store.evidence.put([], [Verdict(rollout=rollout, verifier="b" * 40, outcome="failed", score=0.0)])
    assert kinds(store) == {"unknownVersion": "warning"}
    assert store.fsck() == []
    said = [p.what for p in fsck(store)]
    assert [what.split()[0] for what in said] == ["context", "verifier"]


def test_evidence_that_was_changed_by_hand(store: Store) -> None:
    store.evidence.put([recorded(store)])
    (rollout,) = store.evidence.ids()
    assert kinds(store) == {}
    rewrite(store, {f"{rollout_path(rollout)}/turns": None})
    assert kinds(store) == {"missingTurnTree": "error"}
    rewrite(store, {f"{rollout_path(rollout)}/trajectory.json": None})
    assert kinds(store) == {"missingFile": "error"}


def test_a_rollout_under_another_id_and_a_verdict_of_another_rollout(store: Store) -> None:
    store.evidence.put([recorded(store)])
    (rollout,) = store.evidence.ids()
    other = "f" * 64
    folder = store.evidence.objects.subtree(store.evidence.root() or "", rollout_path(rollout))
    assert folder is not None
    verifier = store.package("one").components["verifier"]
    verdict = Verdict(rollout=other, verifier=verifier, outcome="passed", score=1.0).dump()
    odd = {rollout_path(other): TreeItem(FOLDER, folder.id),
           f"{rollout_path(rollout)}/verdicts/{verifier}.json": TreeItem(FILE, blob_id(verdict))}  # fmt: skip
    rewrite(store, odd, (verdict,))
    assert kinds(store) == {"wrongRolloutId": "error", "wrongVerdict": "error"}


# --- cases, operations, audits ---------------------------------------------------------------------------
def test_a_case_whose_candidates_are_missing(store: Store) -> None:
    case = {"candidates": [{"commit": "3" * 40}], "proposals": [{"tree": "4" * 40}]}
    with store.write("repair") as tx:
        commit = tx.detached_commit("Case", files={"case.json": json.dumps(case).encode()})
        tx.set_ref("refs/rover/cases/c1", commit, expect=None)
    assert kinds(store) == {"missingCandidate": "error", "missingProposal": "warning"}


def test_a_log_of_operations_that_cannot_be_read(store: Store) -> None:
    with store.write("odd") as tx:
        commit = tx.detached_commit("Odd", files={"op.json": b"[]"})
        tx.set_ref("refs/rover/odd", commit, expect=None)
    (store.git / "refs/rover/ops").write_text(commit + "\n")
    assert kinds(store)["badOperation"] == "error"


def test_the_audits_are_checked_and_never_told(store: Store) -> None:
    store.sealed.append("one", SealedAudit(package="one", answers={"secret": "forty-two"}))
    assert kinds(store) == {}
    (path,) = (store.folder / "sealed.git" / "objects" / "pack").glob("*.pack")
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)
    found = fsck(Store.open(store.root))
    assert any(p.where.startswith("sealed.git") for p in found)
    assert "forty" not in str(found)


def test_an_object_that_only_the_evidence_has_is_missing_from_the_packages(store: Store) -> None:
    blob = store.find("HEAD:one/task/instruction.md").id
    data = store.objects.read(blob)
    writer = PackWriter(store.folder / "evidence.git" / "objects" / "pack")
    writer.add(BLOB, data)
    writer.finish()
    for pack in store.objects.packs:
        records = [(bytes(r[0]), bytes(r[2])) for r in map(tuple, Pack(pack.path).records()) if r[0].hex() != blob]
        pack.path.unlink()
        pack.path.with_suffix(".idx").unlink()
        writer = PackWriter(store.git / "objects" / "pack")
        for name, content in records:
            writer.add_record(name, content)
        writer.finish()
    assert kinds(store)["missingBlob"] == "error"
