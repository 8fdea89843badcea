"""Work that several machines share: parts of a run, evidence brought together, and the CI example as it stands."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from packages import runtime, solution_calls, summary_package, summary_resources

from rover.cli.main import run as cli
from rover.ops.shard import Shard, piece
from rover_store.errors import UsageError
from rover_store.ids import digest
from rover_store.store import Store

ROOT = Path(__file__).parents[2]
PLAN = {
    "calls": [{"tool": c.tool, "arguments": c.arguments} for c in solution_calls()],
    "message": "Wrote report.csv.",
}
PACKAGES = 4


@pytest.fixture(scope="module")
def kind() -> str:
    made = runtime()
    made.close()  # type: ignore[attr-defined]
    return made.kind


Rover = Callable[..., tuple[int, str, str]]


@pytest.fixture
def rover(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str) -> Rover:
    """Runs the command line in a folder that has a store with four tasks in `source`."""
    store = Store.init(tmp_path / "source", clock=lambda: 0)
    with store.write("test") as tx:
        for n in range(PACKAGES):
            files = summary_package(f"orders-{n}")
            files["task/task.json"] = files["task/task.json"].replace(b'"title": "', b'"title": "%d ' % n)
            tx.set_package(f"orders-{n}", tx.tree(files))
        tx.set_resource("files/orders", tx.tree(summary_resources()["files/orders"]))
        tx.commit("four packages")
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROVER_STORE", raising=False)

    def call(*words: str) -> tuple[int, str, str]:
        more = ["--sandbox", kind] if "run" in words else []
        code = cli([*words, *more])
        out = capsys.readouterr()
        return code, out.out, out.err

    return call


def test_each_attempt_is_in_one_part_and_stays_there() -> None:
    pieces = [digest(n) for n in range(200)]
    for of in (1, 2, 3, 7):
        parts = [Shard(n, of) for n in range(1, of + 1)]
        where = {
            (p, k): [s.number for s in parts if s.takes(p, k)] for p in pieces for k in range(5)
        }
        assert all(len(found) == 1 for found in where.values())
        sizes = [sum(found == [s.number] for found in where.values()) for s in parts]
        assert max(sizes) <= 1.2 * min(sizes)
    three = [Shard(n, 3) for n in (1, 2, 3)]
    assert all({s.number for s in three for k in range(3) if s.takes(p, k)} == {1, 2, 3} for p in pieces)


def test_packages_with_equal_rollouts_meet() -> None:
    one = {"context": "a" * 40, "task": "b" * 40, "harness": "c" * 40, "verifier": "d" * 40}
    assert piece(one, "x") == piece({**one, "verifier": "e" * 40}, "y") != piece({**one, "task": "e" * 40}, "x")
    assert piece({}, "x") != piece({}, "y")


@pytest.mark.parametrize("text", ["0/3", "4/3", "1/0", "1", "1/", "a/b", "-1/3", "1/3 ", "1/10001", "1/2/3"])
def test_what_is_no_part(text: str) -> None:
    with pytest.raises(UsageError, match="--shard"):
        Shard.parse(text)


def commands(job: str, part: int, source: str) -> list[list[str]]:
    """What a job of the CI example runs of rover, with the policy that these packages have."""
    text = (ROOT / "examples/ci/matrix.yml").read_text()
    body = text[text.index(f"\n  {job}:") :]
    body = body[: m.start() + 1] if (m := re.search(r"\n  \w+:", body[2:])) else body
    lines = re.findall(r"- run: rover (.+)", body)
    filled = [line.replace("${{ matrix.part }}", str(part)).replace('"$STORE"', source) for line in lines]
    return [shlex.split(line.replace("--policy solver", "--policy scripted:plan.json")) for line in filled]


def evidence_of(folder: Path) -> tuple[str | None, dict[str, bytes]]:
    """Tree of all evidence, and the bytes of every verdict."""
    evidence = Store.open(folder).evidence
    root = evidence.root()
    assert root is not None
    files = evidence.objects.read_tree(root)
    return root, {path: evidence.read(item.id) for path, item in files.items() if "/verdicts/" in path}


def test_three_machines_give_what_one_gives(rover: Rover, tmp_path: Path) -> None:
    ran = []
    for part in (1, 2, 3):
        for words in commands("part", part, "source"):
            if words[0] == "clone":
                words = [*words[:-1], f"machine-{part}"]
            words = [f"machine-{part}" if word == "work" else word for word in words]
            code, _, err = rover(*words)
            assert code == 0, err
            ran += re.findall(r"(\d+) run, 0 reused", err)
        folder = tmp_path / "parts" / f"part-{part}"  # as artifacts are downloaded
        folder.mkdir(parents=True)
        (tmp_path / f"part-{part}.bundle").rename(folder / f"part-{part}.bundle")
    assert sum(map(int, ran)) == PACKAGES * 4
    assert min(map(int, ran)) >= 4
    said = ""
    for words in commands("whole", 0, "source"):
        code, out, err = rover(*words)
        assert code == 0, out + err
        said = err
    assert "16 rollouts: 16 passed; 0 run, 16 reused" in said
    assert rover("--store", "source", "run", "*", "--policy", "scripted:plan.json", "-k", "4")[0] == 0
    whole, one = evidence_of(tmp_path / "work"), evidence_of(tmp_path / "source")
    assert whole[1] == one[1]
    assert whole[0] == one[0]
    assert len(whole[1]) == PACKAGES * 4
    work, source = Store.open(tmp_path / "work"), Store.open(tmp_path / "source")
    assert work.fsck() == source.fsck()


def test_a_part_with_nothing_in_it_is_done_at_once(rover: Rover) -> None:
    words = ("--store", "source", "run", "orders-0", "--policy", "scripted:plan.json", "--shard")
    found = [rover(*words, f"{n}/8") for n in range(1, 9)]
    assert {code for code, _, _ in found} == {0}
    empty = [err for _, out, err in found if not out]
    assert len(empty) == 7
    assert empty[0].endswith("0 rollouts: none; 0 run, 0 reused\n")
    code, _, err = rover(*words, "9/8")
    assert (code, "--shard 9/8" in err) == (2, True)


def test_parts_of_an_evaluation(rover: Rover, kind: str) -> None:
    words = ("--store", "source", "eval", "--policy", "null:nothing", "--revision", "main", "--packages", "orders-*",
             "-n", "1", "--sandbox", kind)  # fmt: skip
    played = []
    for n in (1, 2, 3):
        code, out, err = rover(*words, "--shard", f"{n}/3")
        assert (code, out) == (0, "")
        said = re.fullmatch(rf"part {n}/3: (\d+) rollouts? of it; .+\n", err)
        assert said is not None, err
        played.append(int(said[1]))
    assert sum(played) == PACKAGES
    code, out, err = rover(*words)
    assert code == 0, err
    assert "0 run, 4 reused" in err


def test_pull_names_what_it_does_not_take(rover: Rover, tmp_path: Path) -> None:
    policy = ("run", "orders-0", "--policy", "scripted:plan.json")
    assert rover("clone", "source", "a")[0] == rover("clone", "source", "b")[0] == 0
    assert rover("--store", "a", *policy)[0] == 0
    rollout, trajectory = next(iter(Store.open(tmp_path / "a").evidence.iter_rollouts()))
    other = Store.open(tmp_path / "b").evidence
    changed = trajectory.model_copy(update={"turns": (), "final_message": "Nothing was done."})
    other.put([(changed, {}, {trajectory.start: Store.open(tmp_path / "a").evidence.tree(trajectory.start)})])
    code, out, err = rover("--store", "a", "evidence", "pull", "b")
    assert code == 0
    assert err.splitlines() == [
        f"not taken: b holds another run of rollout {rollout[:12]} (orders-0); the first stands",
        "0 rollouts and 0 verdicts new; 1 differ from what was here first",
    ]
    code, out, _ = rover("--store", "a", "evidence", "pull", "b", "--json")
    assert json.loads(out)["divergences"] == [
        {"rollout": rollout, "package": "orders-0", "source": "b", "verifier": ""}
    ]
    assert Store.open(tmp_path / "a").evidence.get_rollout(rollout) == trajectory


def test_a_verdict_that_its_scores_do_not_give_is_refused(rover: Rover, tmp_path: Path) -> None:
    for name in "abc":
        rover("clone", "source", name)
    rover("--store", "a", "run", "orders-0", "--policy", "null:nothing")
    evidence = Store.open(tmp_path / "a").evidence
    (rollout, trajectory), verdict = next(iter(evidence.iter_rollouts())), next(iter(evidence.iter_verdicts()))
    lies: tuple[tuple[dict[str, Any], str], ...] = (
        ({"outcome": "passed"}, "its criteria are not those of its verifier, or it says otherwise than they do"),
        ({"outcome": "passed", "score": 1.0, "gate": 1}, "score 1 and gate 1, which its criteria do not give"),
        ({"scores": ()}, "its criteria are not those of its verifier, or it says otherwise than they do"),
        ({"outcome": "policy_error"}, "policy_error, though its rollout ended as completed"),
        ({"outcome": "infra_error"}, "infra_error, and a score"),
        ({"score": None}, "failed, without a score"),
    )
    for n, (lie, reason) in enumerate(lies):
        store = Store.init(tmp_path / f"liar-{n}", clock=lambda: 0)
        trees = {tree: evidence.tree(tree) for tree in {trajectory.start, trajectory.end_tree}}
        blobs = {item.id: evidence.read(item.id) for tree in trees.values() for item in tree.values()}
        store.evidence.put([(trajectory, blobs, trees)], [verdict.model_copy(update=lie)])
        code, _, err = rover("--store", "b", "evidence", "pull", f"liar-{n}")
        assert code == 2
        assert err == (
            f"rover: liar-{n}: rollout {rollout[:12]}: verdicts/{verdict.verifier}.json: {reason}; refused\n"
        )
    assert list(Store.open(tmp_path / "b").evidence.ids()) == []
    strange = Store.init(tmp_path / "d", clock=lambda: 0)
    assert strange.packages() == []
    code, _, err = rover("--store", "d", "evidence", "pull", "a")
    assert (code, err.splitlines()[0]) == (
        0, "1 verdict of verifiers that this store does not hold: taken as they stand"
    )  # fmt: skip


def test_list_and_pack(rover: Rover, tmp_path: Path) -> None:
    rover("--store", "source", "run", "*", "--policy", "null:nothing")
    code, out, err = rover("--store", "source", "evidence", "list", "orders-[01]")
    assert (code, err) == (0, "2 rollouts\n")
    assert [line.split() for line in out.splitlines()[2:]] == [
        [name, "null:nothing:1", "1", "1", "failed"] for name in ("orders-0", "orders-1")
    ]
    out = rover("--store", "source", "evidence", "list", "orders-[01]", "--each", "--json")[1]
    told = json.loads(out)
    assert [(one["package"], one["verdicts"]) for one in told] == [(f"orders-{n}", {"failed": 1}) for n in (0, 1)]
    assert len({one["rollout"] for one in told}) == 2
    code, out, _ = rover("--store", "source", "evidence", "pack", "x.bundle", "-p", "orders-0", "--json")
    assert (code, json.loads(out)["rollouts"]) == (0, 1)
    code, _, err = rover("--store", "source", "evidence", "pack", "absent/x.bundle")
    assert (code, err.startswith("rover: ")) == (2, True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["plan.json", "source", "x.bundle"]
