"""`rover fsck`, `gc`, `prune`, `stats`, `du`: what they print, JSON, exit codes, and that dry runs change nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from store_samples import add, edit, new_store

from rover.cli.main import run
from rover_store.errors import StoreError
from rover_store.evidence import Recorded
from rover_store.names import blob_id
from rover_store.records import Budget, RolloutKey, Trajectory, Turn, Verdict
from rover_store.store import Store
from rover_store.trees import FILE, TreeItem, tree_id

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    store = new_store(tmp_path / "store")
    add(store, "one", resources={"files/shared": b"1" * 300})
    add(store, "two", resources={"files/shared": b"1" * 300})
    edit(store, "one", {"task/instruction.md": b"Again, at some length.\n" * 20})
    monkeypatch.setenv("ROVER_STORE", str(store.root))
    return store


def rollout(store: Store, package: str = "one") -> str:
    ids = store.package(package).components
    key = RolloutKey(context=ids["context"], task=ids["task"], harness=ids["harness"], policy="solver:x", seed=1,
                     budget=Budget(), runtime="r")  # fmt: skip
    end = {"out.csv": TreeItem(FILE, blob_id(b"out" * 500))}
    turns = (Turn(index=0, tree=tree_id(end)),)
    trajectory = Trajectory(key=key, package=package, start=tree_id(end), turns=turns)
    store.evidence.put([Recorded(trajectory, {blob_id(b"out" * 500): b"out" * 500}, {tree_id(end): end})])
    (name,) = list(store.evidence.ids())
    store.evidence.put([], [Verdict(rollout=name, verifier=ids["verifier"], outcome="passed", score=1.0)])
    return name


def said(capsys: Capture, *argv: str, code: int = 0) -> tuple[str, str]:
    assert run(list(argv)) == code
    out, err = capsys.readouterr()
    if "--json" not in argv:
        assert all(len(line) <= 80 for line in out.splitlines()), out
    return out, err


def test_a_sound_store(store: Store, capsys: Capture) -> None:
    assert said(capsys, "fsck")[0] == "all is well\n"
    assert said(capsys, "fsck", "--quick")[0] == "all is well\n"
    assert json.loads(said(capsys, "fsck", "--json")[0]) == []


def test_problems_and_their_remedies(store: Store, capsys: Capture) -> None:
    (store.git / "refs/heads/bad").write_text("7" * 40 + "\n")
    out, err = said(capsys, "fsck", code=1)
    assert "refs/heads/bad names" in out
    assert "1 error" in err
    assert "hint: point it at a commit of `rover op log`" in err
    (problem,) = json.loads(said(capsys, "fsck", "--json", code=1)[0])
    assert (problem["kind"], problem["severity"], problem["where"]) == ("badRefTarget", "error", "store.git")


def test_a_warning_is_no_failure(store: Store, capsys: Capture) -> None:
    lock = store.git / "refs/heads/main.lock"
    lock.write_text("")
    os.utime(lock, (1_600_000_000, 1_600_000_000))
    out, err = said(capsys, "fsck")
    assert "staleLock" not in out
    assert "a lock that nobody holds" in " ".join(out.split())
    assert "1 warning" in err
    assert "repaired: store.git: refs/heads/main.lock" in said(capsys, "fsck", "--repair")[0]
    assert json.loads(said(capsys, "fsck", "--repair", "--json")[0]) == {"problems": [], "repaired": []}


def test_dangling_objects_are_told_on_request(store: Store, capsys: Capture) -> None:
    tree = store.put_files({"a": b"x"})
    found = json.loads(said(capsys, "fsck", "--dangling", "--json")[0])
    assert f"dangling tree {tree}" in [problem["what"] for problem in found]
    assert {problem["severity"] for problem in found} == {"info"}


def test_a_source_that_is_none(store: Store, capsys: Capture, tmp_path: Path) -> None:
    _, err = said(capsys, "fsck", "--repair", "--from", str(tmp_path / "none"), code=2)
    assert "holds no git repository to take objects from" in err


def test_gc_says_and_does(store: Store, capsys: Capture) -> None:
    store.put_files({"a": b"unneeded" * 100})
    before = sorted((store.git / "objects/pack").iterdir())
    assert "would free 0 B" in said(capsys, "gc")[0]
    out, err = said(capsys, "gc", "--grace", "0")
    assert "store.git" in out
    assert "nothing was changed; `rover gc --yes` does it" in err
    assert sorted((store.git / "objects/pack").iterdir()) == before
    report = json.loads(said(capsys, "gc", "--grace", "0", "--yes", "--json")[0])
    assert (report["dry_run"], report["repositories"][0]["packs_after"]) == (False, 1)
    assert {row["kind"] for row in report["repositories"][0]["gone"]} == {"tree", "blob"}
    assert report["freed"] > 0
    assert said(capsys, "fsck")[0] == "all is well\n"
    assert "back at" in said(capsys, "undo")[0]


@pytest.mark.parametrize("words", [("--grace", "soon"), ("--grace", "-1d"), ("--forget-operations-before", "never")])
def test_gc_with_bad_words(store: Store, capsys: Capture, words: tuple[str, str]) -> None:
    _, err = said(capsys, "gc", *words, code=2)
    assert words[0] in err


def test_gc_forgets_operations_only_when_told(store: Store, capsys: Capture) -> None:
    number = len(store.op_log())
    out, _ = said(capsys, "gc", "--grace", "0", "--yes", "--forget-operations-before", "2100-01-01")
    assert f"{number - 1} operations forgotten" in out
    assert len(Store.open(store.root).op_log()) == 1


def test_prune_says_and_does(store: Store, capsys: Capture) -> None:
    name = rollout(store)
    _, err = said(capsys, "prune", code=2)
    assert "say what to prune" in err
    out, err = said(capsys, "prune", "--trajectories")
    assert "1 rollout would be pruned" in out
    assert "cannot be undone" in err
    assert "0 rollouts would" in said(capsys, "prune", "two", "--trajectories", "--yes")[0].replace("pruned", "would")
    report = json.loads(said(capsys, "prune", "--trajectories", "--yes", "--json")[0])
    assert (report["rollouts"], report["dry_run"]) == ([name], False)
    assert report["parts"] == [{"package": "one", "policy": "solver:x", "rollouts": 1, "turns": 1, "verdicts": 1}]
    stub = Store.open(store.root).evidence.get_rollout(name)
    assert stub is not None
    assert stub.pruned
    assert stub.pruned[:12] in said(capsys, "show", name)[0].replace("\n", "")
    assert "pruned" in said(capsys, "du", "--evidence")[0]


def test_stats(store: Store, capsys: Capture) -> None:
    rollout(store)
    out, _ = said(capsys, "stats")
    assert "2 packages, 1 resource, 3 commits, 1 rollout, 1 verdict" in out
    assert "store.git: " in out
    assert "sharing" in out
    found = json.loads(said(capsys, "stats", "--json", "--biggest", "1")[0])
    assert found["counts"]["packages"] == 2
    (big,) = found["biggest"]
    assert big["size"] >= big["stored"] > 100
    assert found["total"] >= sum(part["size"] for part in found["repositories"]) > 0
    assert found["logical"] > found["distinct"] > 0


def test_du(store: Store, capsys: Capture) -> None:
    out, _ = said(capsys, "du")
    assert [line.split()[-1] for line in out.splitlines()[2:]] == ["one", "two"]
    one, two = json.loads(said(capsys, "du", "--json")[0])
    assert one["shared"] == two["shared"] > 0, "the resource and the equal components"
    assert one["size"] > two["size"]
    assert len(json.loads(said(capsys, "du", "t*", "--json")[0])) == 1
    assert said(capsys, "du", "nothing*", code=2)[1].startswith("rover: no package of HEAD matches")
    assert said(capsys, "du", "--evidence")[1] == "nothing is recorded\n"
    rollout(store)
    (row,) = json.loads(said(capsys, "du", "--evidence", "--json")[0])
    assert (row["package"], row["policy"]) == ("one", "solver:x")
    assert (row["rollouts"], row["turns"], row["verdicts"]) == (1, 1, 1)
    assert row["own"] > 0


def test_in_an_empty_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    new_store(tmp_path)
    monkeypatch.setenv("ROVER_STORE", str(tmp_path))
    assert said(capsys, "fsck")[0] == "all is well\n"
    for words in (["gc"], ["gc", "--yes"], ["stats"], ["du"], ["prune", "--trajectories"]):
        said(capsys, *words)


def test_gc_of_a_damaged_store(store: Store, capsys: Capture) -> None:
    pack = max((p.path for p in store.objects.packs), key=lambda p: p.stat().st_size)
    pack.chmod(0o644)
    pack.write_bytes(pack.read_bytes()[:200])
    _, err = said(capsys, "gc", "--yes", code=StoreError.exit_code)
    assert "hint: rover fsck, before gc" in err
