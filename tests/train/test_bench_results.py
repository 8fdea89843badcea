"""From a folder of finished runs to tables, JSON and curves: numbers that were put in come out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rover.cli import bench_credit
from rover_train.bench.credit import MARK
from rover_train.bench.plan import QUICK, THREE, Plan
from rover_train.bench.results import result
from rover_train.bench.stages import Stages
from rover_train.evaluation import EvalRow, Evaluation

PACKAGES = {f"p{n}": f"w{n // 2}" for n in range(6)}
REVISION = "c" * 40


def evaluated(file: Path, passing: set[str], attempts: int = 1, error: str = "") -> None:
    rows = tuple(
        EvalRow(
            package=name, workspace=workspace, attempt=k, seed=k, rollout=f"{name}-{k}",
            outcome="infra_error" if name == error else "passed" if name in passing else "failed",
        )
        for name, workspace in PACKAGES.items() for k in range(attempts)
    )  # fmt: skip
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(Evaluation(revision=REVISION, policy="x", rows=rows, attempts=attempts).dump())


def logged(folder: Path, curve: list[tuple[int, float]], tied: float) -> None:
    folder.mkdir(parents=True)
    rows = [{"kind": "eval", "step": s, "success": y} for s, y in curve]
    rows += [
        {
            "kind": "train", "step": n, "rollouts": 64, "sampled_tokens": 500, "trained_tokens": 400, "reward": 0.5,
            "tied_groups": tied, "credit_turns": 0.25, "time": {"step": 8.0, "update": 4.0, "tokens_s": 100.0},
        }
        for n in (1, 2)
    ]  # fmt: skip
    (folder / "log.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))


@pytest.fixture
def made(tmp_path: Path) -> Stages:
    """Two seeds of grpo and vtca-grpo, none of the control; grpo passes two of six packages, vtca-grpo four."""
    (tmp_path / MARK).touch()
    stages = Stages(tmp_path, Plan(("dense",), THREE, (1, 2), QUICK))
    for what in ("greedy", "sampled", "validation"):
        evaluated(stages.evaluation("dense", "sft", what), {"p0"}, attempts=2 if what == "sampled" else 1)
    for arm, passing in (("grpo", {"p0", "p1"}), ("vtca-grpo", {"p0", "p1", "p2", "p4"})):
        for seed in (1, 2):
            logged(stages.folder("dense", arm, seed), [(10, 0.3), (20, 0.5)], tied=0.5)
            for what in ("greedy", "sampled"):
                evaluated(stages.evaluation("dense", f"{arm}-{seed}", what), passing, attempts=2, error="p5")
    return stages


def test_success_and_differences(made: Stages) -> None:
    """An error leaves the count: of the five packages left grpo passes 2, vtca-grpo 4; the difference is 2 / 5."""
    found = result(made, REVISION)["sets"]["dense"]
    assert found["sft"] == {"greedy": pytest.approx(1 / 6), "sampled": pytest.approx(1 / 6)}
    grpo, vtca = found["arms"]["grpo"], found["arms"]["vtca-grpo"]
    assert grpo["greedy"]["mean"] == pytest.approx(0.4)
    assert vtca["greedy"]["mean"] == pytest.approx(0.8)
    assert vtca["greedy"]["sd"] == 0.0
    against = vtca["greedy"]["minus"]["grpo"]
    assert against["value"] == pytest.approx(0.4)
    assert (against["wins"], against["losses"], against["ties"]) == (2, 0, 3)
    assert against["low"] <= 0.4 <= against["high"]


def test_curves_begin_at_the_shared_checkpoint(made: Stages) -> None:
    """(0, 1/6), (10, 0.3), (20, 0.5): area (10 * 0.2333 + 10 * 0.4) / 20 = 0.31667."""
    arm = result(made, REVISION)["sets"]["dense"]["arms"]["grpo"]
    assert [b[0] for b in arm["band"]] == [0, 10, 20]
    assert arm["area"] == pytest.approx(0.316667, abs=1e-5)


def test_budgets_and_reasons_are_means(made: Stages) -> None:
    arm = result(made, REVISION)["sets"]["dense"]["arms"]["vtca-grpo"]
    assert arm["budget"] == {"rollouts": 128, "sampled_tokens": 1000, "trained_tokens": 800}
    assert arm["why"]["tied_groups"] == 0.5
    assert arm["seconds"] == {"step": 8.0, "update": 4.0}


def test_what_is_not_finished_is_named(made: Stages) -> None:
    assert result(made, REVISION)["missing"] == ["dense/vtca-even-1", "dense/vtca-even-2"]


def test_the_tables_fit_a_terminal(made: Stages, capsys: pytest.CaptureFixture[str]) -> None:
    bench_credit._report(json.loads(json.dumps(result(made, REVISION))), None, None, False)
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 80
    assert "+40.0 [" in said
    assert "vtca-grpo  2  80.0 ± 0.0" in said


def test_the_picture_is_the_same_for_the_same_curves(made: Stages, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    value = result(made, REVISION)
    for name in ("a", "b"):
        bench_credit._report(value, tmp_path / "r.json", tmp_path / name, True)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    assert json.loads((tmp_path / "r.json").read_text())["sets"]["dense"]["packages"] == 6
