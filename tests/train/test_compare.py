"""Comparison of evaluations: pairs, tables, refusals. Expected counts are worked out in the docstrings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rover_store.errors import NotFound, PackageError, UsageError
from rover_train import config as configs
from rover_train.compare import Side, compare, load
from rover_train.evaluation import FOLDER, EvalRow, Evaluation, place_in
from rover_train.rl.schedule import number

REVISION = "a" * 40
#: package -> workspace, family, level
PACKAGES = {"p1": ("north", "edit", 1), "p2": ("north", "memo", 2), "p3": ("south", "edit", None)}
MORE = {"p4": ("west", "edit", None)}


def evaluation(outcomes: str, *, names: tuple[str, ...] = ("p1", "p2", "p3"), **more: Any) -> Evaluation:
    """A letter a rollout, two a package: P passed, F failed, I infra_error, V verifier_error, E policy_error."""
    words = {"P": "passed", "F": "failed", "I": "infra_error", "V": "verifier_error", "E": "policy_error"}
    rows = []
    for at, letter in enumerate(outcomes):
        name, attempt = names[at // 2], at % 2
        workspace, family, level = (PACKAGES | MORE)[name]
        rows.append(
            EvalRow(
                package=name, workspace=workspace, family=family, difficulty=level, attempt=attempt,
                seed=number("eval", 0, name, attempt), rollout=f"r{at}", outcome=words[letter],
                score={"P": 1.0, "F": 0.25, "E": 0.5}.get(letter), turns=3, tokens=10,
            )
        )  # fmt: skip
    fields = {"revision": REVISION, "policy": "p", "part": "held_out", "attempts": 2, "temperature": 0.0, **more}
    return Evaluation(rows=tuple(rows), **fields)


def test_pairs() -> None:
    """a FFPFFP, b PFPPIF: of p1 one win and a tie, of p2 a tie and a win, of p3 one left out (I) and a loss."""
    found = compare([Side("a", evaluation("FFPFFP")), Side("b", evaluation("PFPPIF"))])
    (b,) = found.against
    assert (b.name, b.pairs, b.left_out, b.unpaired) == ("b", 5, 1, 0)
    assert (b.success.wins, b.success.losses, b.success.ties) == (2, 1, 2)
    assert b.success.difference.value == pytest.approx(0.2)
    assert b.success.difference.clusters == 2
    assert b.score.value == pytest.approx((0.75 + 0.75 - 0.75) / 5)
    families = {name: (p.wins, p.losses, p.ties) for name, p in b.families.items()}
    assert families == {"edit": (1, 1, 1), "memo": (1, 0, 1)}
    assert {name: (p.wins, p.losses) for name, p in b.difficulties.items()} == {
        "1": (1, 0),
        "2": (1, 0),
        "unknown": (0, 1),
    }


def test_the_interval_is_clustered_by_workspace() -> None:
    """All of north gains, south and west do not: of three that are drawn none is north (8 of 27), or all are (1 of 27),
    so the interval is [0, 1]."""
    names = (*PACKAGES, *MORE)
    before, after = (Side(n, evaluation(o, names=names)) for n, o in (("a", "FFFFFFFF"), ("b", "PPPPFFFF")))
    (b,) = compare([before, after]).against
    assert (b.success.difference.low, b.success.difference.high) == (0.0, 1.0)


def test_two_workspaces_that_agree_are_no_certainty() -> None:
    (b,) = compare([Side("a", evaluation("FFFFFF")), Side("b", evaluation("PPPPPP"))]).against
    found = b.success.difference
    assert (found.value, found.low, found.high, found.clusters) == (1.0, None, None, 2)


def test_a_policy_error_is_no_pass_and_stays() -> None:
    (b,) = compare([Side("a", evaluation("EEFFFF")), Side("b", evaluation("PEFFFF"))]).against
    assert (b.pairs, b.success.wins, b.success.ties) == (6, 1, 5)


def test_every_one_is_held_against_the_first() -> None:
    sides = [Side(name, evaluation(found)) for name, found in (("a", "FFFFFF"), ("b", "PFFFFF"), ("c", "PPFFFF"))]
    assert [(x.name, x.success.wins) for x in compare(sides).against] == [("b", 1), ("c", 2)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"revision": "b" * 40}, "revision (a: aaaaaaaaaaaa, b: bbbbbbbbbbbb)"),
        ({"part": "validation"}, "part of the split (a: held_out, b: validation)"),
        ({"split": "c" * 64}, "split (a: none, b: cccccccccccc)"),
        ({"seed": 7}, "seed (a: 0, b: 7)"),
        ({"attempts": 3}, "attempts (a: 2, b: 3)"),
        ({"temperature": 1.0}, "temperature (a: 0.0, b: 1.0)"),
        ({"turn_tokens": 32}, "tokens of a turn (a: 16, b: 32)"),
    ],
)
def test_unequal_conditions_are_refused(change: dict[str, Any], said: str) -> None:
    sides = [
        Side("a", evaluation("FFFFFF", turn_tokens=16)),
        Side("b", evaluation("PFFFFF", **{"turn_tokens": 16, **change})),
    ]
    with pytest.raises(UsageError) as raised:
        compare(sides)
    assert raised.value.message == f"unequal: {said}"
    assert compare(sides, unequal=True).unequal == (said,)


def test_other_packages_are_unequal() -> None:
    sides = [Side("a", evaluation("FFFFFF")), Side("b", evaluation("PF", names=("p2",)))]
    with pytest.raises(UsageError, match=r"packages and seeds \(2 in common of 6, 2\)"):
        compare(sides)
    (b,) = compare(sides, unequal=True).against
    assert (b.pairs, b.unpaired, b.success.wins) == (2, 4, 1)


def test_conditions_that_a_policy_does_not_have_are_not_held_against_it() -> None:
    sides = [Side("a", evaluation("FFFFFF", turn_tokens=16)), Side("solver", evaluation("PPPPPP", temperature=None))]
    assert compare(sides).unequal == ()


def test_nothing_to_compare() -> None:
    with pytest.raises(UsageError, match="nothing to compare with"):
        compare([Side("a", evaluation("FF"))])
    with pytest.raises(UsageError, match="no package and seed in common that count"):
        compare([Side("a", evaluation("II")), Side("b", evaluation("PP"))])


def test_json_has_everything() -> None:
    found = compare([Side("a", evaluation("FFPFFP")), Side("b", evaluation("PFPPIF"))]).to_json()
    assert [s["name"] for s in found["sides"]] == ["a", "b"]
    assert found["sides"][1]["outcomes"] == {"failed": 2, "infra_error": 1, "passed": 3}
    assert found["against"][0]["success"]["difference"]["n"] == 5


# --- reading -----------------------------------------------------------------------------------------------
@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Path]:
    """Makes the folder of a run with a config and evaluations."""

    def make(name: str, found: dict[str, Evaluation], method: str = "grpo", *sets: str) -> Path:
        folder = tmp_path / name
        (folder / FOLDER).mkdir(parents=True)
        text = configs.dump(configs.load(sets=sets, revision=REVISION, method=method))
        (folder / "config.toml").write_text(text)
        for file, one in found.items():
            (folder / FOLDER / file).write_text(one.dump())
        return folder

    return make


def test_runs_and_files(run: Callable[..., Path], tmp_path: Path) -> None:
    file = tmp_path / "solver.json"
    file.write_text(evaluation("PPPPPP", temperature=None).dump())
    sides = load([run("one", {"held-out.json": evaluation("FFFFFF")}), file])
    assert [s.name for s in sides] == ["one", "solver"]
    assert sides[0].budget["rollouts of training"] == 40 * 8 * 8
    assert sides[1].budget == {}
    assert compare(sides).against[0].success.wins == 6


def test_the_evaluation_like_the_others_is_taken(run: Callable[..., Path]) -> None:
    greedy, warm = evaluation("PPPPPP"), evaluation("FFFFFF", temperature=1.0)
    several = run("several", {"a.json": greedy, "b.json": warm})
    sides = load([several, run("one", {"a.json": evaluation("FFFFFF", temperature=1.0)})])
    assert [s.found.temperature for s in sides] == [1.0, 1.0]
    with pytest.raises(UsageError, match="several: 2 evaluations of the same kind"):
        load([several, several])


def test_unequal_training_is_refused(run: Callable[..., Path]) -> None:
    one = run("one", {"a.json": evaluation("FFFFFF")})
    two = run("two", {"a.json": evaluation("PFFFFF")}, "vtca-grpo", "rl.steps=50")
    with pytest.raises(UsageError, match=r"rollouts of training \(one: 2560, two: 3200\)"):
        compare(load([one, two]))
    three = run("three", {"a.json": evaluation("PFFFFF")}, "sft")
    with pytest.raises(UsageError, match=r"rollouts of training \(one: 2560, three: 0\)"):
        compare(load([one, three]))


def test_bad_files(run: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="run or evaluation not found"):
        load([tmp_path / "none", tmp_path / "none"])
    with pytest.raises(UsageError, match="no evaluation is there"):
        load([run("empty", {})])
    (tmp_path / "bad.json").write_text("[1]")
    with pytest.raises(PackageError, match="is no evaluation"):
        load([tmp_path / "bad.json"])


def test_names_tell_sides_apart(run: Callable[..., Path]) -> None:
    found = {"x.json": evaluation("FFFFFF")}
    assert [s.name for s in load([run("a/run", found), run("b/run", found)])] == ["a/run", "b/run"]


def test_a_run_keeps_one_file_for_each_design(tmp_path: Path) -> None:
    assert place_in(tmp_path, evaluation("FF")) == tmp_path / FOLDER / "held-out-greedy-k2-s0.json"
    warm = place_in(tmp_path, evaluation("FF", temperature=1.0, part="", seed=3, step=40))
    assert warm.name == "packages-T1-k2-s3-step40.json"
    some, others = (place_in(tmp_path, evaluation(rows), whole=False).name for rows in ("FF", "FFFF"))
    assert some != others  # other packages
    assert some.startswith("held-out-greedy-k2-s0-")
