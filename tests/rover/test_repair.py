"""`rover repair` on a store: selection becomes promotion, or nothing moves and the reason is told."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from packages import ORDERS, REPORT, runtime, solution, solution_calls, summary_package, summary_resources

from rover.cli import main as cli
from rover.ops.repair import RepairReport, RepairRequest, repair
from rover.repair.history import history
from rover.rollout.env import env_from_files
from rover.sandbox.protocol import Runtime
from rover_store.errors import PackageError, UsageError
from rover_store.ids import COMPONENTS
from rover_store.records import Admission, Repair, SealedAudit
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


def admitted(files: dict[str, bytes]) -> dict[str, bytes]:
    env = env_from_files(files, summary_resources())
    ids = {c: env.component_id(c) for c in COMPONENTS}
    record = env.record.model_copy(update={"admission": Admission(components=ids, cases=9, digest="d")})
    return {**files, "package.json": record.dump()}


def commit(store: Store, message: str, edits: dict[str, bytes | None], **options: Any) -> str:
    with store.write(message) as tx:
        tx.set_package(NAME, tx.edit_tree(store.package(NAME).tree, edits))
        return tx.commit(message, **options)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the admitted package."""
    folder = tmp_path_factory.mktemp("sound")
    ticks = count(1_700_000_000)
    store = Store.init(folder, clock=lambda: next(ticks))
    with store.write("build") as tx:
        for name, files in summary_resources().items():
            tx.set_resource(name, tx.tree(files))
        tx.set_package(NAME, tx.tree(admitted(dict(summary_package()))))
        tx.commit("Build")
    return folder


@pytest.fixture(scope="module")
def lax(sound: Path, box: Runtime, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same store after somebody loosened a check; its evidence is there already."""
    folder = tmp_path_factory.mktemp("lax") / "store"
    shutil.copytree(sound, folder)
    store = opened(folder)
    commit(store, "Loosen a check", {"verifier/checks/main.py": LAX})
    repair(store, box, RepairRequest(NAME, dry_run=True, from_rev="HEAD~1", models=[SOLVER]))
    return folder


@pytest.fixture
def copied(lax: Path, tmp_path: Path) -> Store:
    shutil.copytree(lax, tmp_path / "store")
    return opened(tmp_path / "store")


def opened(folder: Path) -> Store:
    ticks = count(1_800_000_000)
    return Store.open(folder, clock=lambda: next(ticks))


def run(store: Store, box: Runtime, progress: Callable[[str], None] | None = None, **options: Any) -> RepairReport:
    return repair(store, box, RepairRequest(NAME, **{"models": [SOLVER], **options}), progress=progress)


def test_the_choice_is_promoted(copied: Store, box: Runtime) -> None:
    head = copied.resolve("HEAD")
    report = run(copied, box, from_rev="HEAD~1")
    found = report.repair
    assert (found.outcome, found.selected, found.joint) == ("promoted", 8, False)
    assert report.rollouts_run < report.rollouts_reused * 4  # the dry run's rollouts were not run again
    assert [g.gate for g in found.confirmation] == ["confirm", "audit"]
    assert all(g.passed for g in found.confirmation)
    assert not found.audited  # none is kept
    # the branch is at the candidate, and holds the sound check again
    assert copied.resolve("HEAD") == found.promoted
    promoted = copied.commit("HEAD")
    assert promoted.parents == (head,)
    assert promoted.trailers["Rover-Case"] == found.case
    assert (promoted.trailers["Rover-Mask"], promoted.trailers["Rover-Rebuilt"]) == ("8", "-")
    assert promoted.trailers["Rover-Changed"] == f"{NAME}/verifier"
    tree = copied.package(NAME).tree
    assert copied.objects.read(copied.objects.subtree(tree, "verifier/checks/main.py").id) == CHECKS  # type: ignore[union-attr]
    # the case commit: the head and every candidate are its parents, its tree has the record
    case = copied.commit(copied.cases()[found.case])
    assert case.id == report.case
    assert case.parents == (head, found.promoted)
    item = copied.objects.subtree(case.tree, "case.json")
    assert item is not None
    assert Repair.load(copied.objects.read(item.id), "case.json") == found
    assert copied.objects.subtree(case.tree, "proposals/verifier/checks/main.py") is not None
    # taking it back is one step
    copied.undo()
    assert copied.resolve("HEAD") == head


def test_a_head_that_moved_is_replayed_on(copied: Store, box: Runtime) -> None:
    said: list[str] = []

    def progress(text: str) -> None:
        if text == "audit" and "audit" not in said:
            commit(opened(copied.root), "Meanwhile", {"demonstrations/note.md": b"Seen.\n"})
        said.append(text)

    report = run(copied, box, progress, from_rev="HEAD~1")
    assert report.promoted
    assert said.count("audit") == 2
    assert copied.commit("HEAD~1").subject == "Meanwhile"
    tree = copied.package(NAME).tree
    assert copied.objects.subtree(tree, "demonstrations/note.md") is not None


def test_an_audit_may_veto(copied: Store, box: Runtime) -> None:
    head = copied.resolve("HEAD")
    contract = env_from_files(summary_package(), summary_resources()).contract
    fewer = contract.model_copy(update={"requirements": contract.requirements[1:]})
    copied.sealed.append(NAME, SealedAudit(package=NAME, contract=fewer.model_dump(mode="json")))
    report = run(copied, box, from_rev="HEAD~1")
    assert (report.repair.outcome, report.repair.promoted) == ("kept", None)
    assert "failed audit: against the sealed contract" in report.repair.reason
    assert copied.resolve("HEAD") == head
    assert set(copied.cases()) == {report.repair.case}


def test_held_out_cases_and_a_proposal_by_hand(copied: Store, box: Runtime, tmp_path: Path) -> None:
    env = env_from_files(summary_package(), summary_resources())
    rules = {m.id: {**m.model_dump(mode="json", exclude_none=True), "seed": 5} for m in env.cases.negatives}
    forms = tuple({**m.model_dump(mode="json", exclude_none=True), "seed": 5} for m in env.cases.alternatives)
    table = env.anchors.anchors[0].value.model_dump(mode="json")
    record = SealedAudit(
        package=NAME,
        contract=env.contract.model_dump(mode="json"),
        negatives=(rules["wrong-total"], rules["lost-row"]),
        alternatives=forms,
        answers={"total": [table]},
    )
    copied.sealed.append(NAME, record)
    folder = tmp_path / "verifier"
    for path, data in summary_package().items():
        if path.startswith("verifier/"):
            target = folder / path.removeprefix("verifier/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    report = run(copied, box, propose={"verifier": folder})
    assert report.promoted
    assert report.repair.proposals[0].source == "hand"
    assert "2 negatives" in report.repair.confirmation[-1].reason
    assert report.repair.audited


def test_joint_edits(sound: Path, box: Runtime, tmp_path: Path) -> None:
    shutil.copytree(sound, tmp_path / "store")
    store = opened(tmp_path / "store")
    commit(store, "Two mistakes", {"context/files/old/final.csv": REPORT, "verifier/checks/main.py": LAX})
    report = run(store, box, from_rev="HEAD~1", lazy=False)
    found = report.repair
    assert (found.outcome, found.selected, found.joint) == ("promoted", 9, True)
    by_mask = {c.mask: c for c in found.candidates}
    assert {m: c.status for m, c in by_mask.items()} == {0: "control", 1: "rejected", 8: "rejected", 9: "passed"}
    reasons = {m: " ".join(g.reason for g in c.gates if not g.passed) for m, c in by_mask.items()}
    assert "old/final.csv" in reasons[8]
    assert "wrong-total" in reasons[1]
    assert by_mask[9].rollouts_run == 0  # C alone ran them: C, T and H are the same
    assert len(store.commit(report.case).parents) == 4


def test_a_tie_is_for_a_person(lax: Path, box: Runtime, tmp_path: Path) -> None:
    shutil.copytree(lax, tmp_path / "store")
    store = Store.init(tmp_path / "new")
    files = dict(summary_package())  # never admitted
    verifier = env_from_files(files, summary_resources()).verifier
    silent = tuple(c for c in verifier.criteria if c.requirement != "total")
    files["verifier/verifier.json"] = verifier.model_copy(update={"criteria": silent}).dump()
    files["verifier/reference/files/report.csv"] = REPORT.replace(b"1200.00", b"1300.00")
    with store.write("build") as tx:
        for name, content in summary_resources().items():
            tx.set_resource(name, tx.tree(content))
        tx.set_package(NAME, tx.tree(files))
        tx.commit("By hand")
    report = run(store, box)
    assert report.repair.outcome == "undecided"
    assert "disagree on total" in report.repair.reason


def test_recorded_rollouts_stand_in_for_a_solver(copied: Store, box: Runtime) -> None:
    report = run(copied, box, from_rev="HEAD~1", models=())
    assert report.promoted
    evidence = {e for g in report.repair.candidates[-1].gates for e in g.evidence}
    policies = {t.key.policy for e in evidence if (t := copied.evidence.get_rollout(e)) is not None}
    assert any(policy.startswith("replay:") for policy in policies)


def test_history_goes_back_to_an_injection_and_no_further(sound: Path, tmp_path: Path) -> None:
    shutil.copytree(sound, tmp_path / "store")
    store = opened(tmp_path / "store")
    text = env_from_files(summary_package(), summary_resources()).instruction
    steps: list[tuple[str, dict[str, str]]] = [
        ("Edit", {}), ("Inject", {"Rover-Injected": "lax"}), ("Repair", {"Rover-Case": "c"}), ("Edit again", {}),
        ("Inject again", {"Rover-Injected": "lax"}), ("Edit after", {}),
    ]  # fmt: skip
    counts = []
    for number, (message, trailers) in enumerate(steps):
        commit(store, message, {"task/instruction.md": f"{text}{number}".encode()}, trailers=trailers)
        earlier = history(store, NAME)
        counts.append(None if earlier is None else len(list(earlier("task"))))
    # the last: an injection that nobody repaired lies behind it, and what came before would take it back
    assert counts == [1, None, 2, 3, None, 0]


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"propose": {"verifier": Path("empty")}}, PackageError, "verifier/verifier.json: missing"),
        ({"propose": {"tests": Path("empty")}}, UsageError, "a component is one of"),
        ({"propose": {"task": Path("nowhere")}}, UsageError, "not a folder"),
        ({"from_rev": "HEAD"}, UsageError, "nothing to propose"),
    ],
)
def test_bad_proposals(
    copied: Store, box: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any], error: type[Exception], said: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    head = copied.resolve("HEAD")
    with pytest.raises(error, match=said):
        run(copied, box, **options)
    assert copied.resolve("HEAD") == head


# --- the command -----------------------------------------------------------------------------------------
def test_the_command(
    copied: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], box: Runtime, tmp_path: Path
) -> None:
    monkeypatch.setenv("ROVER_STORE", str(copied.root))
    plan = tmp_path / "plan.json"
    calls = [{"id": c.id, "tool": c.tool, "arguments": c.arguments} for c in solution_calls()]
    plan.write_text(json.dumps({"calls": calls, "message": "Wrote report.csv."}))
    command = ["repair", NAME, "--from", "HEAD~1", "--policy", f"scripted:{plan}", "--sandbox", box.kind]
    head = copied.resolve("HEAD")
    assert cli.run([*command, "--dry-run"]) == 0
    said = capsys.readouterr()
    assert "would promote V" in said.out
    assert max(map(len, said.out.split("\n\n")[1].splitlines())) <= 80
    assert said.err.startswith("0 rollouts run")  # all of it is evidence by now
    assert copied.resolve("HEAD") == head
    assert copied.cases() == {}
    assert cli.run([*command, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["outcome"], value["selected"]) == ("promoted", 8)
    assert {"mask", "changed", "rebuilt", "gates", "rollouts_run", "rollouts_reused"} <= set(value["candidates"][0])
    head = copied.resolve("HEAD")
    assert cli.run(command[:2] + command[4:]) == 1  # sound by now: nothing to promote
    assert "abstained" in capsys.readouterr().out
    assert copied.resolve("HEAD") == head


@pytest.mark.parametrize("words", [["no-such-package"], [NAME, "--propose", "verifier"], [NAME, "--from", "nowhere"]])
def test_bad_usage(
    copied: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], box: Runtime, words: list[str]
) -> None:
    monkeypatch.setenv("ROVER_STORE", str(copied.root))
    assert cli.run(["repair", *words, "--sandbox", box.kind]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) <= 2


def test_orders_are_the_fixture() -> None:
    assert ORDERS in summary_resources()["files/orders"].values()
