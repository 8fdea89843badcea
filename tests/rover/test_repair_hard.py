"""What tries to fool a repair: checks that look where they may not, forged evidence, spent budgets, sealed audits."""

from __future__ import annotations

import ast
import dataclasses
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from packages import runtime, solution, summary_package, summary_resources, with_checks

import rover
from rover.policy.protocol import PolicyView
from rover.repair.budget import BudgetSpent, Meter, RepairBudget
from rover.repair.history import view
from rover.repair.ready import attacked
from rover.repair.session import CaseRequest, Considered, consider
from rover.rollout import grading
from rover.rollout.engine import Engine
from rover.rollout.env import Env, env_from_files, load_env, reference_state
from rover.rollout.records import MemoryEvidence, RolloutRequest
from rover.sandbox.protocol import Runtime
from rover.verify.shown import Conditions, Memo, groups, shown_to
from rover_store.errors import NotFound
from rover_store.ids import COMPONENTS
from rover_store.objects import Objects
from rover_store.records import Admission, Criterion, SealedAudit
from rover_store.refs import SEALED, Refs
from rover_store.sealed import FOLDER
from rover_store.store import Store

NAME = "order-summary"
SOLVER = solution()
CHECKS = summary_package()["verifier/checks/main.py"]
LAX = CHECKS.replace(b"def report_total(ev):\n", b"def report_total(ev):\n    return 1.0\n")


@pytest.fixture(scope="module")
def box() -> Iterator[Runtime]:
    kind = runtime()
    yield kind
    kind.close()


@pytest.fixture
def engine(box: Runtime) -> Iterator[Engine]:
    with Engine(box) as made:
        yield made


@pytest.fixture(scope="module")
def lax(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An admitted package, and a commit that loosens a check of it."""
    folder = tmp_path_factory.mktemp("lax") / "store"
    folder.mkdir()
    ticks = count(1_700_000_000)
    store = Store.init(folder, clock=lambda: next(ticks))
    env = env_from_files(summary_package(), summary_resources())
    ids = {c: env.component_id(c) for c in COMPONENTS}
    record = env.record.model_copy(update={"admission": Admission(components=ids, cases=9, digest="d")})
    with store.write("build") as tx:
        for name, files in summary_resources().items():
            tx.set_resource(name, tx.tree(files))
        tx.set_package(NAME, tx.tree({**summary_package(), "package.json": record.dump()}))
        tx.commit("Build")
    with store.write("loosen") as tx:
        tx.set_package(NAME, tx.edit_tree(store.package(NAME).tree, {"verifier/checks/main.py": LAX}))
        tx.commit("Loosen a check")
    store.sealed.append(NAME, SealedAudit(package=NAME, contract=env.contract.model_dump(mode="json")))
    return folder


def considered(folder: Path, box: Runtime, workers: int = 1, **options: Any) -> Considered:
    store = Store.open(folder)
    with Engine(box, store.evidence, workers) as engine:
        return consider(store, engine, CaseRequest(NAME, store.resolve("HEAD"), models=[SOLVER], **options))


# --- what a check sees ---------------------------------------------------------------------------------------
def criterion(**fields: Any) -> Criterion:
    return Criterion(id="c", requirement="r", check="checks/main.py:c", **fields)


def test_a_criterion_is_shown_what_it_declares() -> None:
    files = {"a.csv": b"1", "b.csv": b"2", "out/c.csv": b"3"}
    one, folder, whole, message = (
        shown_to(c)
        for c in (
            criterion(paths=("a.csv",)),
            criterion(paths=("out",)),
            criterion(paths=("a.csv",), layer="state"),
            criterion(evidence="message"),
        )
    )
    assert [sorted(s.files(files)) for s in (one, folder, whole, message)] == [
        ["a.csv"], ["out/c.csv"], ["a.csv", "b.csv", "out/c.csv"], [],
    ]  # fmt: skip
    assert [s.message for s in (one, folder, whole, message)] == [False, False, False, True]
    assert one.irregular({"a.csv": "is a link", "b.csv": "is a FIFO"}) == {"a.csv": "is a link"}
    assert [g.paths for g in groups((criterion(paths=("a.csv",)), criterion(layer="state")))] == [None, ("a.csv",)]


def test_scores_are_known_by_all_that_they_rest_on() -> None:
    memo = Memo()
    base = memo.key(criterion(), {"a": 1}, "x")
    assert base == memo.key(criterion(weight=3.0), {"a": 1}, "x")  # a weight is no evidence
    others = {memo.key(criterion(), {"a": 2}, "x"), memo.key(criterion(), {"a": 1}, "y")}
    assert base not in others
    assert len(others) == 2
    data = b"x" * 10
    assert memo.ids({"p": data}) == memo.ids({"p": bytes(data)})


TRIGGERS = """
import os, time, datetime


def by_message(ev):
    return 1.0 if "replay" in ev.message else 0.0


def by_name(ev):
    return 1.0 if os.path.exists("end/orders.csv") or os.path.exists("start/notes.md") else 0.0


def by_clock(ev):
    return 1.0 if datetime.date.today().year < 2100 and time.time() < 4e9 else 0.0
"""


def test_a_check_that_looks_for_triggers(engine: Engine) -> None:
    names = ("by_message", "by_name", "by_clock")
    env = env_from_files(with_checks(TRIGGERS, names, paths=("report.csv",)), summary_resources())
    state = reference_state(env)
    seen = engine.grade_state(env, state, "this is a replay")
    assert [s.score for s in seen.scores] == [0.0, 0.0, 1.0]
    with engine.under(Conditions(clock=200 * 365 * 86400.0, seed=7)):
        later = engine.grade_state(env, state, "this is a replay")
    assert [s.score for s in later.scores] == [0.0, 0.0, 0.0], later
    alone = engine.grade_state(env, state, "this is a replay", now=Conditions(clock=200 * 365 * 86400.0, seed=7))
    assert [s.score for s in alone.scores] == [0.0, 0.0, 0.0]
    assert engine.grade_state(env, state, "this is a replay") == seen


# --- evidence -------------------------------------------------------------------------------------------------
def test_forged_evidence_is_run_again(box: Runtime) -> None:
    env = env_from_files(summary_package(), summary_resources())
    evidence = MemoryEvidence()
    request = RolloutRequest(env, SOLVER, 1)
    with Engine(box, evidence) as engine:
        (result, verdict), = engine.run([request])
        assert verdict.outcome == "passed"
        assert not result.reused
        other = engine.rollouts([RolloutRequest(env, SOLVER, 2)])[0]
        evidence._rollouts[result.id] = other.trajectory  # somebody else's run under this name
        again = engine.rollouts([request])[0]
        assert not again.reused
        assert again.trajectory.key == result.trajectory.key
        evidence._rollouts[result.id] = result.trajectory
        assert engine.rollouts([request])[0].reused
        evidence._blobs = {}  # its files are gone, but for those that every start has
        assert not engine.rollouts([request])[0].reused


def test_a_verdict_must_say_what_its_scores_say(engine: Engine) -> None:
    env = env_from_files(summary_package(), summary_resources())
    good = engine.grade_state(env, reference_state(env))
    assert grading.holds(good, good.rollout, env)
    failing = tuple(s.model_copy(update={"score": 0.0}) for s in good.scores)
    forged = [
        good.model_copy(update={"scores": failing}),
        good.model_copy(update={"scores": good.scores[1:]}),
        good.model_copy(update={"verifier": "0" * 40}),
        good.model_copy(update={"score": 0.1}),
    ]
    assert not any(grading.holds(one, good.rollout, env) for one in forged)
    assert not grading.holds(good, "another rollout", env)


# --- budgets and workers --------------------------------------------------------------------------------------
def test_a_meter_stops_at_its_bounds() -> None:
    now = [0.0]
    meter = Meter(RepairBudget(rollouts=1, seconds=5), clock=lambda: now[0])
    meter.rollout()
    with pytest.raises(BudgetSpent, match="1 rollouts is spent"):
        meter.rollout()
    assert meter.spent == "the budget of 1 rollouts is spent"
    now[0] = 5.0
    with pytest.raises(BudgetSpent, match="5 seconds is spent"):
        meter.work()
    assert RepairBudget(rollouts=0).nothing
    assert RepairBudget(seconds=0).nothing
    assert not RepairBudget().nothing


def test_a_spent_budget_is_undecided_and_goes_on(lax: Path, box: Runtime, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    shutil.copytree(lax, folder)
    nothing = considered(folder, box, budget=RepairBudget(rollouts=0))
    assert (nothing.record.outcome, nothing.rollouts_run) == ("undecided", 0)
    assert "nothing was run" in nothing.record.reason
    some = considered(folder, box, budget=RepairBudget(rollouts=4))
    assert (some.record.outcome, some.rollouts_run) == ("undecided", 4)
    assert "4 rollouts is spent" in some.record.reason
    lazy = considered(folder, box, history=True)
    assert lazy.rollouts_reused >= 4  # what was finished is not run again
    wide = considered(folder, box, workers=2, lazy=False)
    assert (wide.record.selected, wide.record.outcome) == (lazy.record.selected, lazy.record.outcome)


# --- never promoted -------------------------------------------------------------------------------------------
def test_a_package_that_an_attacker_passes_is_found_at_the_end(engine: Engine) -> None:
    source = "def always(ev):\n    return 1.0\n"
    open_door = env_from_files(with_checks(source, ("always",)), summary_resources())
    assert "passes" in attacked(engine, open_door, "case")
    assert attacked(engine, _sound(), "case") == ""


def _sound() -> Env:
    return env_from_files(summary_package(), summary_resources())


# --- sealed audits --------------------------------------------------------------------------------------------
def test_nobody_but_the_audit_imports_the_reader() -> None:
    """Neither probes, proposers, policies nor gates name the module that reads sealed audits, or the audit itself."""
    root = Path(rover.__file__).parent
    named: dict[str, set[str]] = {}
    for file in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.module in ("rover_store.sealed", "rover.repair.audit"):
                named.setdefault(node.module, set()).add(str(file.relative_to(root)))
    readers = {name for name in named.get("rover_store.sealed", set()) if "read_for_audit" in (root / name).read_text()}
    assert readers == {"repair/audit.py"}
    allowed = ("repair/", "bench/", "ops/", "cli/")
    asked = named["rover.repair.audit"]
    assert all(name.startswith(allowed) for name in asked)
    assert not any(name.startswith(("repair/proposals/", "repair/gates/")) for name in asked)


def test_no_object_that_proposers_probes_and_policies_get_holds_it(lax: Path, box: Runtime) -> None:
    store = Store.open(lax)
    env = load_env(store, store.package(NAME).tree)
    with Engine(box, store.evidence) as engine:
        seen = view(store, env, store.resolve("HEAD"), engine)
        objects = Objects(store.folder / FOLDER)
        head = Refs(objects.git).get(SEALED)
        assert head is not None
        assert seen.read is not None
        root = objects.read_commit(head).split(b"\n")[0].split()[1].decode()
        assert objects.exists(root)
        with pytest.raises(NotFound):
            seen.read(root)  # a tree of the sealed repository is no tree of the store
        blob = next(iter(objects.read_tree(root).values())).id
        for read in (engine.evidence.read, store.objects.read):
            with pytest.raises(NotFound):
                read(blob)
        fields = {f.name: getattr(seen, f.name) for f in dataclasses.fields(seen)}
        assert not any(isinstance(value, Store) for value in fields.values())
    assert not any("store" in name or "seal" in name for name in PolicyView.__dataclass_fields__)


def test_no_box_holds_it(lax: Path, box: Runtime) -> None:
    if box.kind == "local":
        pytest.skip("the local runtime confines nothing")
    opened = box.open({"a": b"1"})
    try:
        assert (lax / ".rover" / FOLDER).is_dir()
        look = f"find / -path /proc -prune -o -name {FOLDER} -print 2>/dev/null | head -3"
        assert opened.run(["/bin/sh", "-c", look]).stdout == b""
    finally:
        opened.close()
