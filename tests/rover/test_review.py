"""A choice that waits for a person: review, the question, promotion on a head that moved; and why it was made."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from packages import REPORT, runtime, solution, solution_calls, summary_package, summary_resources

from rover.cli import main as cli
from rover.cli.choose import Question
from rover.ops.explain import explain, read_mask
from rover.ops.promote import promote
from rover.ops.repair import RepairReport, RepairRequest, repair
from rover.repair.words import case_message
from rover.rollout.env import env_from_files
from rover.sandbox.protocol import Runtime
from rover_store.cases import find_case, open_cases
from rover_store.errors import NotFound, UsageError
from rover_store.ids import COMPONENTS
from rover_store.records import Admission, Repair
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


def opened(folder: Path) -> Store:
    ticks = count(1_800_000_000)
    return Store.open(folder, clock=lambda: next(ticks))


def edit(store: Store, message: str, edits: dict[str, bytes | None], name: str = NAME) -> str:
    with store.write(message) as tx:
        tx.set_package(name, tx.edit_tree(store.package(name).tree, edits))
        return tx.commit(message)


@pytest.fixture(scope="module")
def reviewed(box: Runtime, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RepairReport]:
    """An admitted package, broken in two places, and the choice of its repair left for review."""
    folder = tmp_path_factory.mktemp("reviewed")
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
    edit(store, "Two mistakes", {"context/files/old/final.csv": REPORT, "verifier/checks/main.py": LAX})
    report = repair(store, box, request(review=True))
    return folder, report


def request(**options: Any) -> RepairRequest:
    return RepairRequest(NAME, **{"from_rev": "HEAD~1", "models": [SOLVER], "lazy": False, **options})


@pytest.fixture
def waiting(reviewed: tuple[Path, RepairReport], tmp_path: Path) -> tuple[Store, Repair]:
    shutil.copytree(reviewed[0], tmp_path / "store")
    return opened(tmp_path / "store"), reviewed[1].repair


def case_of(store: Store, case: str) -> Repair:
    item = store.objects.subtree(store.commit(store.cases()[case]).tree, "case.json")
    assert item is not None
    return Repair.load(store.objects.read(item.id), "case.json")


# --- review ------------------------------------------------------------------------------------------------
def test_the_choice_waits_on_a_branch(reviewed: tuple[Path, RepairReport]) -> None:
    store, report = opened(reviewed[0]), reviewed[1]
    found = report.repair
    assert (found.outcome, found.selected, found.joint, found.promoted) == ("review", 9, True, None)
    assert store.resolve("HEAD") == found.parent
    assert report.review == f"review/{found.case}"
    assert store.branches()[report.review] == next(c.commit for c in found.candidates if c.mask == 9)
    message = store.commit(report.case).message
    assert message.startswith(case_message(found))
    assert "- C fails " in message
    assert store.commit(report.case).trailers == {"Rover-Case": found.case}


def test_it_is_promoted(waiting: tuple[Store, Repair]) -> None:
    store, found = waiting
    done = promote(store, found.case[:16])
    assert (done.action, done.branch, done.previous, done.moved) == ("promoted", "main", found.parent, False)
    assert store.resolve("HEAD") == done.commit
    assert store.branches().keys() == {"main"}
    record = case_of(store, found.case)
    assert (record.outcome, record.promoted) == ("promoted", done.commit)
    with pytest.raises(UsageError, match="was promoted already"):
        promote(store, found.case)
    store.undo()
    assert store.resolve("HEAD") == found.parent
    assert f"review/{found.case}" in store.branches()
    assert case_of(store, found.case).outcome == "review"


def test_a_head_that_moved_elsewhere_takes_it(waiting: tuple[Store, Repair]) -> None:
    store, found = waiting
    other = json.loads(summary_package()["package.json"])
    with store.write("other") as tx:
        record = json.dumps({**other, "name": "other"}).encode()
        tx.set_package("other", tx.tree({**summary_package(), "package.json": record}))
        head = tx.commit("Another package")
    done = promote(store, f"review/{found.case}")
    assert done.moved
    new = store.commit("HEAD")
    assert (new.id, new.parents, new.trailers["Rover-Mask"]) == (done.commit, (head,), "9")
    assert {p.name for p in store.packages()} == {NAME, "other"}
    tree = store.package(NAME).tree
    assert store.objects.read(store.objects.subtree(tree, "verifier/checks/main.py").id) == CHECKS  # type: ignore[union-attr]
    assert store.fsck() == []


def test_a_head_that_changed_the_package_refuses_it(waiting: tuple[Store, Repair]) -> None:
    store, found = waiting
    edit(store, "Meanwhile", {"demonstrations/note.md": b"Seen.\n"})
    before = store.refs.all()
    with pytest.raises(UsageError, match=f"the branch moved, and {NAME} changed since"):
        promote(store, found.case)
    assert store.refs.all() == before


def test_it_is_dropped(waiting: tuple[Store, Repair]) -> None:
    store, found = waiting
    done = promote(store, found.case, drop=True)
    assert done.action == "dropped"
    assert store.branches() == {"main": found.parent}
    record = case_of(store, found.case)
    assert (record.outcome, record.reason.partition(":")[0]) == ("kept", "dropped in review")
    with pytest.raises(UsageError, match="has nothing to promote"):
        promote(store, found.case)


def test_commits_that_no_case_judged_are_not_promoted(waiting: tuple[Store, Repair]) -> None:
    store, found = waiting
    store.switch(f"review/{found.case}")
    with pytest.raises(UsageError, match="the current branch is review/"):
        promote(store, found.case)
    with pytest.raises(UsageError, match="switch away first"):
        promote(store, found.case, drop=True)
    edit(store, "By hand", {"demonstrations/note.md": b"Seen.\n"})
    store.switch("main")
    with pytest.raises(UsageError, match="has commits that no case has judged"):
        promote(store, found.case)


@pytest.mark.parametrize(
    ("word", "error", "said"),
    [
        ("nobody", NotFound, "case not found: nobody"), ("main", UsageError, "main is a branch of yours"),
        ("evolve/7", NotFound, "branch not found: evolve/7"), ("", NotFound, "case not found"),
        ("review/", NotFound, "case not found"), ("../../HEAD", NotFound, "case not found"),
    ],
)  # fmt: skip
def test_what_cannot_be_promoted(waiting: tuple[Store, Repair], word: str, error: type[Exception], said: str) -> None:
    store, _ = waiting
    before = store.refs.all()
    with pytest.raises(error, match=said):
        promote(store, word)
    assert store.refs.all() == before


def test_a_detached_head_takes_nothing(waiting: tuple[Store, Repair]) -> None:
    store, found = waiting
    with store.write("detach") as tx:
        tx.move_head(found.parent)
    with pytest.raises(UsageError, match="HEAD is detached"):
        promote(store, found.case)


def test_a_branch_of_an_evolution(waiting: tuple[Store, Repair]) -> None:
    store, found = waiting
    candidate = store.branches()[f"review/{found.case}"]
    store.create_branch("evolve/1", candidate)
    assert promote(store, "evolve/1").commit == store.resolve("main") == candidate
    with pytest.raises(UsageError, match="main is at evolve/1 already"):
        promote(store, "evolve/1")
    store.undo()
    edit(store, "Meanwhile", {"demonstrations/note.md": b"Seen.\n"})
    with pytest.raises(UsageError, match="main has commits that evolve/1 has not"):
        promote(store, "evolve/1")
    assert promote(store, "evolve/1", drop=True).action == "dropped"
    assert "evolve/1" not in store.branches()


# --- the question --------------------------------------------------------------------------------------------
def test_only_what_passes_can_be_chosen(
    reviewed: tuple[Path, RepairReport], tmp_path: Path, box: Runtime,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    shutil.copytree(reviewed[0], tmp_path / "store")
    store = opened(tmp_path / "store")
    # a check is lax, and the context has a harmless file more: V alone passes, and so does CV
    tree = store.package(NAME, "HEAD~1").tree
    with store.write("edit") as tx:
        edits: dict[str, bytes | None] = {"context/files/more.md": b"More.\n", "verifier/checks/main.py": LAX}
        tx.set_package(NAME, tx.edit_tree(tree, edits))
        base = tx.commit("A mistake and a file", parents=[store.resolve("HEAD~1")])
    plan = tmp_path / "plan.json"
    calls = [{"id": c.id, "tool": c.tool, "arguments": c.arguments} for c in solution_calls()]
    plan.write_text(json.dumps({"calls": calls, "message": "Wrote report.csv."}))
    monkeypatch.setenv("ROVER_STORE", str(store.root))
    monkeypatch.setattr("sys.stdin", io.StringIO("C\nnonsense\nvc\n"))
    words = ["repair", NAME, "--from", "HEAD~1", "--policy", f"scripted:{plan}", "--sandbox", box.kind]
    assert cli.run([*words, "--interactive"]) == 0
    said = capsys.readouterr()
    assert said.err.count("which to take: V, CV or none, V comes first?") == 3
    assert "C: does not pass every gate" in said.err
    assert "nonsense: names no combination" in said.err
    assert "promoted: CV: a person chose it among those that pass every gate" in said.out
    assert "confirm: holds" in said.out  # it was not the one that the case had confirmed
    assert store.commit("HEAD").parents == (base,)
    case = next(name for name in store.cases() if case_of(store, name).parent == base)
    assert [c.why for c in explain(store, case, "CV").combinations] == ["chosen by a person"]


def test_none_is_an_answer_and_no_answer_is_none(
    waiting: tuple[Store, Repair], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store, found = waiting
    for answer in ("none\n", "\n", "No\n"):
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        assert Question()(found) is None
    assert "CV" in capsys.readouterr().err
    monkeypatch.setenv("ROVER_STORE", str(store.root))
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert cli.run(["repair", NAME, "--interactive"]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert lines[0] == "rover: --interactive: nobody answers"
    assert len(lines) == 2


# --- why -----------------------------------------------------------------------------------------------------
def test_why_this_and_not_that(reviewed: tuple[Path, RepairReport]) -> None:
    store, found = opened(reviewed[0]), reviewed[1].repair
    said = explain(store, found.case[:15])
    why = {c.name: c.why for c in said.combinations}
    assert next(iter(why)) == "-"
    assert why["CV"].startswith("chosen: the first")
    assert why["C"].startswith("fails ")
    assert "verifier: accepts the negative wrong-total" in why["C"]
    assert "old/final.csv" in why["V"]
    assert said.joint.startswith("CV is joint: no part of it passes alone (")
    commands = [c for combination in said.combinations for c in combination.commands]
    assert f"rover diff {found.parent[:12]} {(found.candidates[1].commit or '')[:12]}" in commands
    rollouts = [p for c in said.combinations for gate in c.evidence for p in gate if p.what.startswith("rollout of")]
    assert rollouts
    assert all(store.evidence.get_rollout(p.id) is not None for p in rollouts)
    only = explain(store, found.case, "vc").combinations
    assert [c.name for c in only] == ["CV"]


@pytest.mark.parametrize(
    ("text", "mask"), [("TV", 10), ("vt", 10), ("C", 1), ("15", 15), ("-", 0), ("0", 0), ("16", None), ("CC", None),
                       ("X", None), ("", None), ("²", None)],
)  # fmt: skip
def test_masks_are_read(text: str, mask: int | None) -> None:
    assert read_mask(text) == mask


def test_the_command_that_explains(
    waiting: tuple[Store, Repair], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store, found = waiting
    monkeypatch.setenv("ROVER_STORE", str(store.root))
    assert cli.run(["explain", found.case]) == 0
    text = capsys.readouterr().out
    heads = ("What was found", "What was proposed", "What was asked of the choice")
    assert all(f"\n{head}\n" in text for head in heads)
    assert f"next: rover promote {found.case}" in text
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if words[:2] == ["rover", "show"]:
            assert cli.run(words[1:]) == 0, line
    assert "rover show" in text
    capsys.readouterr()
    assert cli.run(["explain", found.case, "--json", "--mask", "CV"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["outcome"], [c["name"] for c in value["combinations"]]) == ("review", ["CV"])
    assert cli.run(["explain", found.case, "--mask", "CV"]) == 0
    assert "resolved holds" in capsys.readouterr().out
    before = store.refs.all()
    for words, message in (
        (["explain", "nobody"], "case not found"), (["explain", found.case, "--mask", "TH"], "has no combination TH"),
        (["explain", found.case, "--mask", "Q"], "letters of C, T, H and V"), (["promote", "nobody"], "not found"),
        (["promote", "main"], "a branch of yours"),
    ):  # fmt: skip
        assert cli.run(words) == 2
        err = capsys.readouterr().err
        assert message in err
        assert len(err.strip().splitlines()) <= 2
    assert store.refs.all() == before
    assert cli.run(["promote", found.case, "--drop"]) == 0
    assert cli.run(["status"]) == 0
    assert found.case in capsys.readouterr().out


def test_cases_are_found_by_the_beginning_of_their_names(waiting: tuple[Store, Repair]) -> None:
    store, found = waiting
    with store.write("copies") as tx:
        for name in ("twin-1", "twin-2"):
            tx.set_ref(f"refs/rover/cases/{name}", store.cases()[found.case])
    commit = store.cases()[found.case]
    assert find_case(store, "order")[0] == found.case
    assert find_case(store, "twin-2") == ("twin-2", commit)
    for word in ("twin", commit[:8]):
        with pytest.raises(UsageError, match="cases begin like this"):
            find_case(store, word)
    assert len([c for c in open_cases(store) if c.outcome == "review"]) == 3
