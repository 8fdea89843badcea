"""Log and diff: by package, component, resource and time; never `no change` where ids differ."""

from __future__ import annotations

from pathlib import Path

import pytest
from store_samples import START, add, edit, new_store

from rover_store.diffs.diff import diff
from rover_store.records import Contract, Harness, Requirement
from rover_store.records.contract import FormatRule, NoExtraRule
from rover_store.store import Store
from rover_store.trees import EXECUTABLE, TreeItem


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = new_store(tmp_path)
    add(store, "orders-1", resources={"files/shared": b"1"})
    add(store, "orders-2")
    edit(store, "orders-1", {"task/instruction.md": b"Other."})
    edit(store, "orders-2", {"context/files/data.csv": b"3"})
    return store


def _subjects(store: Store, **filters: object) -> list[str]:
    return [e.subject for e in store.log(**filters)]  # type: ignore[arg-type]


def test_log_filters(store: Store) -> None:
    assert _subjects(store) == ["Edit orders-2", "Edit orders-1", "Add orders-2", "Add orders-1"]
    assert _subjects(store, package="orders-1") == ["Edit orders-1", "Add orders-1"]
    assert _subjects(store, package="orders-*", limit=2) == ["Edit orders-2", "Edit orders-1"]
    assert _subjects(store, package="orders-1", component="context") == ["Add orders-1"]
    assert _subjects(store, component="task") == ["Edit orders-1", "Add orders-2", "Add orders-1"]
    assert _subjects(store, resource="files/shared") == ["Add orders-1"]
    assert _subjects(store, rev="HEAD~1", package="orders-2") == ["Add orders-2"]
    assert _subjects(store, limit=0) == []
    times = [e.time for e in store.log()]
    assert times == sorted(times, reverse=True)
    assert times[-1] >= START
    assert _subjects(store, since=times[1]) == ["Edit orders-2", "Edit orders-1"]
    assert _subjects(store, until=times[2]) == ["Add orders-2", "Add orders-1"]


def test_entries_name_what_changed(store: Store) -> None:
    entry = next(store.log(package="orders-1"))
    assert [c.node for c in entry.changes] == ["orders-1", "orders-1/task"]
    assert entry.changes[1].new == store.package("orders-1").components["task"]
    assert entry.parents == (store.resolve("HEAD~2"),)


def test_log_is_paged(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    with store.write() as tx:
        for i in range(450):
            tx.commit(f"{i}", parents=[tx.ref("refs/heads/main") or ""])
    assert _subjects(store) == [*(f"{i}" for i in reversed(range(450))), "Add one"]
    assert len(_subjects(store, limit=300)) == 300


def test_a_candidate_has_a_log(store: Store) -> None:
    with store.write() as tx:
        tree = tx.edit_tree(store.package("orders-1").tree, {"task/instruction.md": b"Third."})
        candidate = tx.detached_commit("Candidate", packages={"orders-1": tree})
    assert _subjects(store, rev=candidate, package="orders-1", limit=2) == ["Candidate", "Edit orders-1"]
    assert len(_subjects(store)) == 4


def test_diff_by_package_component_and_file(store: Store) -> None:
    found = store.diff("HEAD~2")
    assert [(p.name, p.status, [c.name for c in p.components]) for p in found.packages] == [
        ("orders-1", "changed", ["task"]), ("orders-2", "changed", ["context"]),
    ]  # fmt: skip
    assert found.packages[0].components[0].files[0][:2] == ("instruction.md", "changed")
    added = store.diff("HEAD~3", "HEAD~2")
    assert [(p.name, p.status) for p in added.packages] == [("orders-2", "added")]
    assert store.diff("HEAD~2", "HEAD~3").packages[0].status == "removed"
    assert store.diff("HEAD", "HEAD").packages == ()
    assert [p.name for p in store.diff("HEAD~2", "HEAD", "*-2").packages] == ["orders-2"]
    with store.write() as tx:
        tx.set_resource("files/shared", tx.tree({"files/data.csv": b"2", "resource.json": b"{}\n"}))
        tx.commit("Data")
    (resource,) = store.diff("HEAD~1").resources
    assert [f.path for f in resource.files] == ["files/data.csv"]


def test_a_mode_is_a_difference(store: Store) -> None:
    item = store.objects.subtree(store.package("orders-1").tree, "verifier/checks/main.py")
    assert item is not None
    with store.write() as tx:
        tree = tx.edit_tree(store.package("orders-1").tree, {"verifier/checks/main.py": TreeItem(EXECUTABLE, item.id)})
        tx.set_package("orders-1", tree)
        tx.commit("Mode")
    (package,) = store.diff("HEAD~1").packages
    assert package.components[0].files[0].mode == "100644 -> 100755"


def test_a_file_that_becomes_a_folder(store: Store) -> None:
    edit(store, "orders-1", {"context/files/data.csv": None, "context/files/data.csv/x": b"1"})
    files = store.diff("HEAD~1").packages[0].components[0].files
    assert [(f.path, f.status) for f in files] == [("files/data.csv", "removed"), ("files/data.csv/x", "added")]


def test_never_no_change_where_ids_differ(store: Store) -> None:
    edit(store, "orders-1", {"README.md": b"x\n"})
    (package,) = store.diff("HEAD~1").packages
    assert [(c.name, c.files[0].path) for c in package.components] == [("package", "README.md")]
    with store.write() as tx:
        commit = tx.detached_commit("Case", files={"case.json": b"{}"})
    assert [f.path for f in store.diff("HEAD", commit).other] == ["case.json"]


def test_requirements_and_criteria_by_id(store: Store) -> None:
    one = Requirement(id="exists", statement="It exists.", rule=FormatRule())
    two = Requirement(id="alone", statement="Nothing else.", rule=NoExtraRule())
    edit(store, "orders-1", {"task/contract.json": Contract(requirements=(one, two)).dump()})
    changed = one.model_copy(update={"weight": 2.0})
    edit(
        store, "orders-1",
        {"task/contract.json": Contract(requirements=(changed,)).dump(),
         "harness/harness.json": Harness(tools=("read_file", "shell")).dump()},
    )  # fmt: skip
    (package,) = store.diff("HEAD~1").packages
    items = {c.name: [tuple(i) for i in c.items] for c in package.components}
    assert items == {
        "task": [("requirement", "exists", "changed"), ("requirement", "alone", "removed")],
        "harness": [("tool", "shell", "added")],
    }


def test_records_that_cannot_be_read_do_not_stop_a_diff(store: Store) -> None:
    edit(store, "orders-1", {"task/contract.json": b"\xff not json"})
    edit(store, "orders-1", {"task/contract.json": b"[1]"})
    (package,) = diff(store.objects, store.commit("HEAD~1").tree, store.commit().tree).packages
    assert package.components[0].items == ()
    assert package.components[0].files[0].path == "contract.json"
