"""`rover bisect PACKAGE --check`: the commit that brought a defect, by evidence where there is some."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from packages import runtime, summary_package, summary_resources

from rover.cli import main as cli
from rover.ops.bisect_check import Asked, Brought, Judgement, bisect_check
from rover.ops.check_expression import parse
from rover.rollout.env import load_env
from rover.sandbox.protocol import Runtime
from rover_store.errors import NotFound, UsageError
from rover_store.records import Diagnosis, Finding, Repair, RolloutKey, Trajectory, Verdict
from rover_store.store import Store
from rover_store.trees import EMPTY_TREE

NAME, WHO = "order-summary", "model:tiny"
CHECKS = summary_package()["verifier/checks/main.py"]
LAX = CHECKS.replace(b"def report_total(ev):\n", b"def report_total(ev):\n    return 1.0\n")
#: the commit that breaks the package, of twenty
BAD = 13


def nowhere() -> Runtime:
    raise AssertionError("nothing is to be replayed")


def made(folder: Path, edits: Callable[[int], dict[str, bytes | None]], commits: int = 20) -> tuple[Store, list[str]]:
    """A store in which each commit edits the package, and the commits."""
    ticks = count(1_700_000_000)
    store = Store.init(folder, clock=lambda: next(ticks))
    ids = []
    for number in range(commits):
        with store.write("edit") as tx:
            for name, files in summary_resources().items():
                tx.set_resource(name, tx.tree(files))
            tree = store.package(NAME).tree if ids else tx.tree(summary_package())
            tx.set_package(NAME, tx.edit_tree(tree, edits(number)))
            ids.append(tx.commit(f"Edit {number}"))
    return store, ids


def turns(number: int) -> dict[str, bytes | None]:
    """Another harness with each commit; the request changes once, where the defect comes in."""
    package = summary_package()
    harness = json.loads(package["harness/harness.json"])
    harness["budget"] = {"turns": 40 + number}
    edited: dict[str, bytes | None] = {"harness/harness.json": json.dumps(harness).encode()}
    if number >= BAD:
        edited["task/instruction.md"] = package["task/instruction.md"].replace(b"`region`", b"`area`")
    return edited


def record(store: Store, commit: str, passed: bool, *, policy: str = WHO, seed: int = 1, **budget: int) -> None:
    """What a rollout of a version gave, as evidence."""
    env = load_env(store, store.package(NAME, commit).tree)
    key = RolloutKey(
        context=env.context_id, task=env.task_id, harness=env.harness_id, policy=policy, seed=seed,
        budget=env.harness.budget.model_copy(update=budget), runtime="r",
    )  # fmt: skip
    trajectory = Trajectory(key=key, package=NAME, start=EMPTY_TREE)
    store.evidence.put([(trajectory, {})])
    rollout = next(r for r, t in store.evidence.iter_rollouts(harness=env.harness_id, policy=policy) if t.key == key)
    verdict = Verdict(
        rollout=rollout, verifier=env.verifier_id, outcome="passed" if passed else "failed",
        score=1.0 if passed else 0.4, gate=1, runtime="r",
    )  # fmt: skip
    store.evidence.put((), [verdict])


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, list[str]]:
    """Twenty versions that a model ran on: it passes until the request was edited."""
    store, ids = made(tmp_path_factory.mktemp("graded") / "store", turns)
    for number, commit in enumerate(ids):
        record(store, commit, number < BAD)
        record(store, commit, True, seed=2, turns=4000)  # with budget to spare: says nothing of the package
        record(store, commit, number >= BAD, policy="null:echo:1")
    return store, ids


def asked(store: Store, check: str, told: list[Judgement] | None = None, **options: Any) -> Brought:
    tell = (lambda step: None) if told is None else told.append
    return bisect_check(store, nowhere, Asked(NAME, check, **options), tell)


# --- expressions -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "kind", "name", "bound"),
    [
        ("finding:missing_given", "finding", "missing_given", ""), ("probe:replay", "probe", "replay", ""),
        ("passes:openai:NAME", "passes", "openai:NAME", ""), ("score:solver>=0.75", "score", "solver", ">=0.75"),
        ("score:openai:a-1 < 1", "score", "openai:a-1", "<1"), ("rejects:null:echo", "rejects", "null:echo", ""),
        ("verdict:sound", "verdict", "sound", ""), ("accepts:reference", "accepts", "reference", ""),
    ],
)  # fmt: skip
def test_expressions(text: str, kind: str, name: str, bound: str) -> None:
    found = parse(text)
    assert (found.kind, found.name, found.negated) == (kind, name, False)
    assert (f"{found.op}{found.bound:g}" if found.op else "") == bound
    assert parse(f"not  {text}").negated


@pytest.mark.parametrize(
    "text",
    ["", "finding", "finding:", "nonsense:x", "not", "finding:nothing_such", "probe:nobody", "verdict:fine",
     "score:solver", "score:>=1", "score:solver>=x", "rejects:null:nobody", "passes", "finding: "],
)  # fmt: skip
def test_what_is_no_expression(text: str) -> None:
    with pytest.raises((UsageError, NotFound)) as caught:
        parse(text)
    assert "\n" not in caught.value.message


# --- by evidence -------------------------------------------------------------------------------------------
def test_the_commit_is_found_without_running_anything(graded: tuple[Store, list[str]]) -> None:
    store, ids = graded
    told: list[Judgement] = []
    found = asked(store, f"passes:{WHO}", told)
    assert found.commit == ids[BAD]
    assert (found.commits, found.versions, found.since_start) == (20, 20, False)
    assert len(told) == found.count("evidence") <= 7
    assert found.count("replay") == 0
    assert [store.evidence.get_rollout(e).key.policy for e in found.evidence] == [WHO]  # type: ignore[union-attr]
    assert asked(store, f"score:{WHO}>=0.75").commit == ids[BAD]
    assert asked(store, "rejects:null:echo").commit == ids[BAD]
    assert asked(store, f"passes:{WHO}", good=ids[5], bad=ids[BAD]).commit == ids[BAD]


def test_ends_that_are_not_what_they_are_said_to_be(graded: tuple[Store, list[str]]) -> None:
    store, ids = graded
    for options, said in (
        ({"bad": ids[4]}, "fulfils the check"), ({"good": ids[BAD + 1]}, "does not fulfil"),
        ({"good": "HEAD"}, "both good and bad"), ({"good": "HEAD", "bad": ids[3]}, "is not before"),
        ({"check": "passes:openai:unknown"}, "cannot be judged: openai:unknown: neither a server"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=said):
            asked(store, **{"check": f"passes:{WHO}", **options})
    with pytest.raises(NotFound, match="package not found: nobody"):
        bisect_check(store, nowhere, Asked("nobody", f"passes:{WHO}"))
    found = asked(store, f"not passes:{WHO}", bad=ids[4])
    assert (found.commit, found.since_start) == (ids[0], True)


def test_versions_that_say_nothing_are_skipped_and_those_that_say_the_same_are_judged_once(tmp_path: Path) -> None:
    def edits(number: int) -> dict[str, bytes | None]:
        out = turns(number // 2 * 2)  # every second commit is the one before with another README
        if number in (12, 13):
            out["harness/harness.json"] = b"{"
        return {**out, "demonstrations/note.md": b"%d" % number}

    store, ids = made(tmp_path / "store", edits)
    for number, commit in enumerate(ids):
        if number not in (12, 13):
            record(store, commit, number < BAD)
    found = asked(store, f"passes:{WHO}")
    assert (found.commit, found.commits, found.versions) == (ids[14], 20, 10)
    assert found.skipped == (ids[12],)
    reasons = [j.reason for j in found.judged if j.good is None]
    assert reasons[0].startswith("harness/harness.json: not valid JSON")


def test_the_diagnosis_of_a_case_is_evidence(tmp_path: Path) -> None:
    store, ids = made(tmp_path / "store", turns, commits=2)
    trees = [store.package(NAME, c).tree for c in ids]
    finding = Finding(probe="givens", kind="missing_given", message="a value is lacking", components=("task",))
    for tree, found, commit in zip(trees, ((), (finding,)), ids, strict=True):
        verdict: Any = "environment" if found else "sound"
        diagnosis = Diagnosis(package=NAME, tree=tree, verdict=verdict, findings=found)
        case = Repair(case=f"case-{commit[:4]}", package=NAME, parent=commit, diagnosis=diagnosis, outcome="kept")
        with store.write("case") as tx:
            stored = tx.detached_commit("Case", base=commit, files={"case.json": case.dump()})
            tx.set_ref(f"refs/rover/cases/{case.case}", stored)
    for check in ("finding:missing_given", "verdict:sound"):
        found_one = asked(store, check)
        assert (found_one.commit, found_one.count("evidence")) == (ids[1], 2)


# --- by replay ---------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def box() -> Iterator[Runtime]:
    kind = runtime()
    yield kind
    kind.close()


def test_what_no_evidence_tells_is_replayed(tmp_path: Path, box: Runtime) -> None:
    def edits(number: int) -> dict[str, bytes | None]:
        checks = LAX if number >= 4 else CHECKS
        return {"verifier/checks/main.py": checks + b"# %d\n" % number}

    store, ids = made(tmp_path / "store", edits, commits=6)
    found = bisect_check(store, lambda: box, Asked(NAME, "rejects:wrong-total"))
    assert (found.commit, found.count("replay"), found.count("evidence")) == (ids[4], len(found.judged), 0)
    with pytest.raises(UsageError, match="has no calibration case"):
        asked(store, "accepts:no-such-case")
    with pytest.raises(UsageError, match="fulfils the check: accepted"):
        bisect_check(store, lambda: box, Asked(NAME, "accepts:reference"))


# --- the command -------------------------------------------------------------------------------------------
def test_the_command(
    graded: tuple[Store, list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store, ids = graded
    monkeypatch.setenv("ROVER_STORE", str(store.root))
    assert cli.run(["bisect", NAME, "--check", f"passes:{WHO}"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith(f"first bad commit {ids[BAD]}\n")
    assert max(map(len, said.out.splitlines())) <= 80
    assert "commits of 20 judged" in said.err
    assert " 0 by replay" in said.err
    assert cli.run(["bisect", NAME, "--check", f"passes:{WHO}", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["commit"], value["by_replay"], value["by_evidence"]) == (ids[BAD], 0, len(value["judged"]))
    for words, message in (
        ([NAME], "name one of --run and --check"), ([NAME, "--check", "x", "--run", "y"], "name one of"),
        ([NAME, "HEAD", "--check", "probe:replay"], "--good and --bad"),
        ([NAME, "--check", "what"], "is not an expression"),
        (["HEAD~1", "--run", "true", "--good", "HEAD"], "go with --check"),
        (["no", "--check", "probe:replay"], "found"),
        ([NAME, "--check", "probe:replay", "--bad", "nope"], "revision not found"),
    ):  # fmt: skip
        assert cli.run(["bisect", *words]) == 2, words
        err = capsys.readouterr().err
        assert message in err
        assert len(err.strip().splitlines()) <= 2
