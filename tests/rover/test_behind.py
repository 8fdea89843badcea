"""What a defect hides, and whose versions of a resource a repair may read."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from packages import CHECKS, runtime, solution, summary_package, summary_resources

from rover.repair.behind import joined, put_right
from rover.repair.candidates import Parent, freeze
from rover.repair.history import view
from rover.repair.proposals.protocol import Draft
from rover.repair.session import CaseRequest, consider
from rover.rollout.engine import Engine
from rover.rollout.env import env_from_files, load_env
from rover_store.errors import NotFound
from rover_store.records import Context, Diagnosis, Finding
from rover_store.store import Store

NAME = "order-summary"
SOLVER = solution()
STRICT = CHECKS.replace(
    "def report_total(ev):\n", 'def report_total(ev):\n    return 0.0, "another spelling"\n\n\ndef _unused(ev):\n'
)


def store_of(folder: Path) -> Store:
    folder.mkdir()
    ticks = count(1_700_000_000)
    return Store.init(folder, clock=lambda: next(ticks))


def unbound() -> dict[str, bytes]:
    """The package without its orders, and with a check that rejects what is right."""
    files = dict(summary_package())
    context = Context.load(files["context/context.json"], "context.json")
    files["context/context.json"] = context.model_copy(update={"resources": ()}).dump()
    files["verifier/checks/main.py"] = STRICT.encode()
    return files


def test_a_check_behind_a_missing_file_is_found_with_it(tmp_path: Path) -> None:
    store = store_of(tmp_path / "s")
    with store.write("build") as tx:
        for name, content in summary_resources().items():
            tx.set_resource(name, tx.tree(content))
        tx.set_package(NAME, tx.tree(unbound()))
        tx.commit("Add")
    box = runtime()
    try:
        with Engine(box, store.evidence) as engine:
            found = consider(store, engine, CaseRequest(NAME, store.resolve("HEAD"), models=[SOLVER]))
    finally:
        box.close()
    seen = {(f.kind, f.components[0]): f for f in found.diagnosis.findings if f.status == "confirmed"}
    assert ("missing_input", "context") in seen
    strict = [f for f in seen.values() if f.components[0] == "verifier" and "behind" in f.details]
    assert strict
    assert "behind" not in seen["missing_input", "context"].details
    assert {p.record.component for p in found.proposals} >= {"context", "verifier"}
    assert found.record.selected is None or found.record.selected & 9 == 9


def test_only_context_task_and_harness_put_a_package_right() -> None:
    env = env_from_files(summary_package(), summary_resources())
    parent = Parent("0" * 40, NAME, {NAME: env})
    checks = {p.removeprefix("verifier/"): d for p, d in env.files.items() if p.startswith("verifier/")}
    verifier = freeze(Draft("verifier", {**checks, "checks/main.py": STRICT.encode()}))
    assert put_right(parent, [verifier]) is None
    text = {p.removeprefix("task/"): d for p, d in env.files.items() if p.startswith("task/")}
    task = freeze(Draft("task", {**text, "instruction.md": b"Write report.csv.\n"}))
    right = put_right(parent, [task, verifier])
    assert right is not None
    assert right.instruction == "Write report.csv.\n"
    assert right.verifier_id == env.verifier_id


def test_a_finding_from_behind_adds_its_blame() -> None:
    first = Finding(probe="inputs", kind="missing_input", message="gone", components=("context",))
    more = Finding(
        probe="agreement", kind="strict_verifier", message="no", components=("verifier", "task"), confidence=0.9
    )
    found = Diagnosis(
        package=NAME, tree="0" * 40, verdict="environment", findings=(first,), summary="s", blame={"context": 0.8}
    )
    assert joined(found, ()) is found
    wider = joined(found, [more])
    assert wider.findings == (first, more)
    assert wider.blame == {"verifier": 0.9, "context": 0.8}
    assert wider.summary.endswith("strict_verifier (verifier)")


def test_another_branch_keeps_its_versions_to_itself(tmp_path: Path) -> None:
    store = store_of(tmp_path / "s")
    now = summary_resources()["files/orders"]
    old = {**now, "files/orders.csv": now["files/orders.csv"] + b"9,north,1,2024-01-01\n"}
    foreign = {**now, "files/orders.csv": b"a\n1\n"}
    with store.write("old") as tx:
        past = tx.tree(old)
        tx.set_resource("files/orders", past)
        tx.commit("Old orders")
    with store.write("new") as tx:
        present = tx.tree(now)
        tx.set_resource("files/orders", present)
        tx.set_package(NAME, tx.tree(summary_package()))
        tx.commit("New orders and a package")
    head = store.resolve("HEAD")
    with store.write("elsewhere") as tx:
        other = tx.tree(foreign)
        tx.set_ref("refs/rover/other", tx.detached_commit("Other", base=head, resources={"files/orders": other}))
    read = view(store, load_env(store, store.package(NAME).tree), head, None).read
    assert read is not None
    assert read(present) == dict(now)
    assert read(past) == old
    with pytest.raises(NotFound):
        read(other)
