"""`rover evolve`: generations on branches of their own, stopped by rule, resumed, drawn."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from packages import runtime, solution_calls, summary_package, summary_resources

from rover.cli import main as cli
from rover.ops.evolve import EvolveReport, EvolveRequest, evolve
from rover.ops.evolve_picture import chart, draw
from rover.ops.generations import Generation, Journal, Run, Score, Treated
from rover.ops.line_chart import svg
from rover.policy.registry import get_policy
from rover.rollout.env import env_from_files
from rover.sandbox.protocol import Runtime
from rover_store.errors import NotFound, StoreError, UsageError
from rover_store.ids import COMPONENTS
from rover_store.records import Admission
from rover_store.store import Store

CHECKS = summary_package()["verifier/checks/main.py"]
LAX = CHECKS.replace(b"def report_total(ev):\n", b"def report_total(ev):\n    return 1.0\n")
NAMES = ("orders-a", "orders-b", "orders-c")
BROKEN = "orders-b"


@pytest.fixture(scope="module")
def box() -> Iterator[Runtime]:
    kind = runtime()
    yield kind
    kind.close()


def opened(folder: Path) -> Store:
    ticks = count(1_800_000_000)
    return Store.open(folder, clock=lambda: next(ticks))


def named(name: str) -> dict[str, bytes]:
    """The package, admitted, under another name."""
    env = env_from_files(summary_package(), summary_resources())
    ids = {c: env.component_id(c) for c in COMPONENTS}
    record = env.record.model_copy(update={"name": name, "admission": Admission(components=ids, cases=9, digest="d")})
    return {**summary_package(), "package.json": record.dump()}


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Three packages, one of them with a lax check since the last commit; and a policy that solves the task."""
    folder = tmp_path_factory.mktemp("broken")
    ticks = count(1_700_000_000)
    store = Store.init(folder / "store", clock=lambda: next(ticks))
    with store.write("build") as tx:
        for name, files in summary_resources().items():
            tx.set_resource(name, tx.tree(files))
        for name in NAMES:
            tx.set_package(name, tx.tree(named(name)))
        tx.commit("Build")
    with store.write("edit") as tx:
        tx.set_package(BROKEN, tx.edit_tree(store.package(BROKEN).tree, {"verifier/checks/main.py": LAX}))
        tx.commit("Loosen a check")
    plan = folder / "plan.json"
    calls = [{"id": c.id, "tool": c.tool, "arguments": c.arguments} for c in solution_calls()]
    plan.write_text(json.dumps({"calls": calls, "message": "Wrote report.csv."}))
    return folder / "store", f"scripted:{plan}"


def asked(policy: str, **options: Any) -> EvolveRequest:
    return EvolveRequest("orders-*", policy=policy, models=[get_policy(policy)], **options)


@pytest.fixture(scope="module")
def evolved(
    broken: tuple[Path, str], box: Runtime, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, EvolveReport]:
    """The store after an evolution that was interrupted in its first repair, and then went on."""
    folder = tmp_path_factory.mktemp("evolved") / "store"
    shutil.copytree(broken[0], folder)
    store = opened(folder)

    def stop(generation: int, what: str, done: int, total: int) -> None:
        if what == f"repair {BROKEN}: confirm":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evolve(store, box, asked(broken[1]), tell=stop)
    assert set(store.branches()) == {"main", "evolve/1"}
    known = next((folder / ".rover/evolve").glob("*.json"))
    assert set(json.loads(known.read_text())["generations"][0]["treated"]) == {"orders-a"}
    return folder, evolve(store, box, asked(broken[1]))


def test_generations(evolved: tuple[Path, EvolveReport]) -> None:
    store, report = opened(evolved[0]), evolved[1]
    run = report.run
    assert report.resumed
    assert run.stopped == "no trigger is left"
    first, second = run.generations
    assert (first.triggered, first.repaired, len(first.treated), first.changed) == (1, 1, 3, (BROKEN,))
    assert first.srr == 0.0  # no sealed audit is kept of these: repaired, and not counted as resolved
    assert first.audit_pass is None
    assert (first.success_before, first.success) == (1.0, 1.0)
    assert first.treated[BROKEN].edits == "V"
    assert (second.triggered, second.changed, second.srr) == (0, (), None)
    assert [t.package for t in second.treated.values() if not t.carried] == [BROKEN]
    assert second.rollouts_run < first.rollouts_run
    # one branch a generation, one commit a repair; the user's own stays
    branches = store.branches()
    assert branches["main"] == run.start
    assert branches["evolve/1"] == branches["evolve/2"] == first.head == second.base
    repair = store.commit("evolve/1")
    assert repair.parents == (run.start,)
    assert repair.trailers["Rover-Case"] == first.treated[BROKEN].case
    before, after = (store.package(BROKEN, rev).components for rev in ("main", "evolve/1"))
    assert [c for c in COMPONENTS if before[c] != after[c]] == ["verifier"]


def test_the_same_call_has_nothing_left_to_do(
    evolved: tuple[Path, EvolveReport], broken: tuple[Path, str], box: Runtime, tmp_path: Path
) -> None:
    shutil.copytree(evolved[0], tmp_path / "store")
    store = opened(tmp_path / "store")
    before = store.refs.all()
    again = evolve(store, box, asked(broken[1], generations=9))
    assert again.run == evolved[1].run
    assert store.refs.all() == before
    last = evolve(store, box, asked(broken[1], promote=True))
    assert last.promoted == store.resolve("main") == again.run.head


def test_what_landed_before_an_interrupt_is_not_lost(
    evolved: tuple[Path, EvolveReport], broken: tuple[Path, str], box: Runtime, tmp_path: Path
) -> None:
    shutil.copytree(evolved[0], tmp_path / "store")
    store = opened(tmp_path / "store")
    journal = Journal(store, evolved[1].run.id)
    state = journal.read()
    assert state is not None
    del state.generations[1]
    state.generations[0].head = state.stopped = ""
    lost = state.generations[0].treated.pop(BROKEN)
    journal.write(state)
    store.delete_branch("evolve/2")
    again = evolve(store, box, asked(broken[1], generations=1)).run
    assert again.generations[0].treated[BROKEN] == lost
    assert again.stopped == "1 generations are done"


def test_a_bound_stops_it_and_a_wider_one_goes_on(
    broken: tuple[Path, str], box: Runtime, tmp_path: Path
) -> None:
    shutil.copytree(broken[0], tmp_path / "store")
    store = opened(tmp_path / "store")
    request = replace(asked(broken[1], max_rollouts=1), pattern="orders-a")
    first = evolve(store, box, request).run
    assert first.stopped.startswith("the budget is used: 1 rollouts were run")
    assert first.generations[0].treated == {}
    second = evolve(store, box, replace(request, max_rollouts=1000)).run
    assert second.stopped == "no trigger is left"
    assert second.generations[0].branch == "evolve/1"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"generations": 0}, "--generations must be at least 1"), ({"max_rollouts": 0}, "--max-rollouts"),
        ({"attempts": 0}, "-k must be"), ({"max_tokens": 0}, "--max-tokens"), ({"pattern": "x*"}, "no package of HEAD"),
        ({"policy": "solver"}, "solver fits no package"), ({"policy": "nonsense"}, "no policy is called"),
    ],
)  # fmt: skip
def test_bad_requests_change_nothing(
    broken: tuple[Path, str], box: Runtime, tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    shutil.copytree(broken[0], tmp_path / "store")
    store = opened(tmp_path / "store")
    before = store.refs.all()
    with pytest.raises(UsageError, match=said):
        evolve(store, box, replace(asked(broken[1]), **options))
    assert store.refs.all() == before
    assert not (store.folder / "evolve").exists()


def test_a_detached_head_and_an_empty_store(broken: tuple[Path, str], box: Runtime, tmp_path: Path) -> None:
    shutil.copytree(broken[0], tmp_path / "store")
    store = opened(tmp_path / "store")
    with store.write("detach") as tx:
        tx.move_head(store.resolve("HEAD"))
    with pytest.raises(UsageError, match="HEAD is detached"):
        evolve(store, box, asked(broken[1]))
    with pytest.raises(UsageError, match="no package of HEAD matches"):
        evolve(Store.init(tmp_path / "new"), box, asked(broken[1]))


# --- the journal ---------------------------------------------------------------------------------------------
def sample() -> Run:
    mended = Treated("a", "t", "environment", "promoted", case="a-1", edits="CT", changed=("a/context", "b/verifier"),
                     audited=True, admitted=True)  # fmt: skip
    first = Generation(1, "evolve/1", "c0", "c1", True, {"a": Score(0, 2), "b": Score(2, 2)}, {"a": Score(1, 2)})
    first.treated = {
        "a": mended,
        "b": replace(mended, package="b", audited=False, outcome="kept", changed=("b/task",)),
        "c": replace(mended, package="c", outcome="abstained", audited=None),
        "d": replace(mended, package="d", audited=None),
    }
    return Run("run", "main", "c0", [first], "no trigger is left")


def test_measures() -> None:
    first = sample().generations[0]
    assert (first.triggered, first.repaired, first.resolved) == (3, 2, 1)
    assert first.srr == pytest.approx(1 / 3)
    assert first.audit_pass == pytest.approx(1 / 2)
    assert (first.success_before, first.success) == (0.5, 0.5)
    assert first.changed == ("a", "b")
    assert first.measures()["treated"][0]["resolved"] is True
    run = sample()
    later = replace(first.treated["b"], package="b", audited=True, outcome="promoted")
    run.generations.append(Generation(2, "evolve/2", "c1", "c2", treated={"b": later}))
    assert [run.srr_so_far(n) for n in (0, 1, 2)] == [None, pytest.approx(1 / 3), pytest.approx(2 / 3)]


def test_the_journal_keeps_a_run_and_refuses_what_is_none(broken: tuple[Path, str], tmp_path: Path) -> None:
    shutil.copytree(broken[0], tmp_path / "store")
    store = opened(tmp_path / "store")
    journal = Journal(store, "run")
    assert journal.read() is None
    with journal.held():
        journal.write(sample())
        with pytest.raises(UsageError, match="in another process"), Journal(store, "run").held():
            pass
    assert journal.read() == sample()
    for text in ("{", "[]", '{"schema_version": 2}', '{"schema_version": 1, "id": "x"}'):
        journal.path.write_text(text)
        with pytest.raises(StoreError, match=r"run\.json"):
            journal.read()
    assert store.fsck() == []


# --- the picture ---------------------------------------------------------------------------------------------
def test_the_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = sample()
    made, missing = draw(run, tmp_path)
    text = made[0].read_text()
    assert text == svg(chart(run))
    assert text.count("<polyline") == 1  # success alone has two points
    assert all(f">{name}</text>" in text for name in ("task success", "SRR", "audit pass", "packages changed", "start"))
    if missing:
        assert missing == "no PNG: it needs matplotlib; pip install 'workrover[report]'"
    else:
        assert made[1].read_bytes().startswith(b"\x89PNG")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert draw(run, tmp_path / "new")[1].startswith("no PNG")
    assert svg(chart(Run("run", "main", "c0"))).startswith("<svg")


# --- the command -----------------------------------------------------------------------------------------------
def test_the_command(
    evolved: tuple[Path, EvolveReport], broken: tuple[Path, str], box: Runtime, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    shutil.copytree(evolved[0], tmp_path / "store")
    monkeypatch.setenv("ROVER_STORE", str(tmp_path / "store"))
    words = ["evolve", "orders-*", "--policy", broken[1], "--sandbox", box.kind]
    out = tmp_path / "out"
    assert cli.run([*words, "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert max(map(len, said.out.splitlines())) <= 80
    assert "stopped: no trigger is left" in said.out
    assert "take it: rover promote evolve/2" in said.out
    assert {"evolve.json", "evolve.svg"} <= {p.name for p in out.iterdir()}
    assert cli.run([*words, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value == {**json.loads((out / "evolve.json").read_text()), "resumed": True}
    assert [g["triggered"] for g in value["generations"]] == [1, 0]
    (tmp_path / "file").write_text("")
    for more in (["--max-rollouts", "0"], ["--generations", "0"], ["--out", str(tmp_path / "file/x")]):
        assert cli.run([*words, *more]) == 2
        assert len(capsys.readouterr().err.strip().splitlines()) <= 2
    with pytest.raises(NotFound):
        opened(tmp_path / "store").resolve("evolve/3")
