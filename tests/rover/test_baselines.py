"""The other methods on toy boards: what each picks, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rover.repair.baselines import Standing, apply_all, blamed_bits, greedy, in_order, local_only, nothing
from rover_store.records import Diagnosis, Finding

TREE = "0" * 40


@dataclass
class Toy:
    """A board by table: standings of masks; a mask without one stands as the parent does."""

    proposed: Sequence[int]
    standings: dict[int, Standing]
    conflicts: dict[int, str] = field(default_factory=dict)

    def conflict(self, mask: int) -> str | None:
        return self.conflicts.get(mask)

    def standing(self, mask: int) -> Standing:
        return self.standings.get(mask, self.standings[0])


BROKEN, HALF, GONE = Standing(2, False), Standing(1, False), Standing(0, True)


def test_standings_compare_by_findings_then_by_the_run() -> None:
    assert HALF.better_than(BROKEN)
    assert Standing(2, True).better_than(BROKEN)
    assert not BROKEN.better_than(BROKEN)
    assert not Standing(3, True).better_than(BROKEN)
    assert GONE.gone
    assert not Standing(0, False).gone


def test_apply_all_takes_everything_or_nothing() -> None:
    assert apply_all(Toy((1, 8), {0: BROKEN}), ()).mask == 9
    assert apply_all(Toy((), {0: BROKEN}), ()).mask == 0
    clash = apply_all(Toy((1, 8), {0: BROKEN}, {9: "both write a"}), ())
    assert clash.mask == 0
    assert "both write a" in clash.trace[0]


def test_local_only_looks_at_the_first_blamed_component_alone() -> None:
    board = Toy((1, 8), {0: BROKEN}, {1: "context needs path:x"})
    assert local_only(board, (8, 1)).mask == 8
    assert local_only(board, (2, 8)).mask == 0  # blamed first, nobody proposed for it
    assert local_only(board, (1, 8)).mask == 0  # cannot be applied
    assert local_only(board, ()).mask == 0
    assert nothing(board, (8,)).mask == 0


def test_greedy_adds_while_the_trigger_gets_better() -> None:
    board = Toy((1, 2, 8), {0: BROKEN, 2: HALF, 3: HALF, 10: GONE})
    pick = greedy(board, (8, 2))
    assert pick.mask == 10  # 8 alone does nothing; 2 helps; then 8 ends it, 1 is not needed
    assert [line.partition(":")[0] for line in pick.trace] == ["-", "V", "T", "TV"]


def test_greedy_sees_no_pair_of_which_neither_part_helps() -> None:
    assert greedy(Toy((1, 8), {0: BROKEN, 9: GONE}), (1, 8)).mask == 0


def test_greedy_stops_at_the_first_thing_that_silences_the_trigger() -> None:
    """The verifier that is bent to the request silences the finding as the right edit of the request would."""
    assert greedy(Toy((2, 8), {0: BROKEN, 2: GONE, 8: GONE}), (8, 2)).mask == 8


def test_greedy_passes_over_combinations_in_conflict() -> None:
    board = Toy((1, 8), {0: BROKEN, 1: HALF, 9: GONE}, {9: "both write a"})
    pick = greedy(board, (1,))
    assert pick.mask == 1
    assert "both write a" in pick.trace[-1]


def test_order_of_blame_then_of_the_mask() -> None:
    assert in_order((1, 2, 4, 8), (8, 2)) == [8, 2, 1, 4]
    assert in_order((4,), (8, 2)) == [4]


def test_blame_of_a_diagnosis_or_else_the_suspects_of_its_findings() -> None:
    finding = Finding(probe="p", kind="k", message="m", components=("verifier", "task"))
    plain = Diagnosis(package="p", tree=TREE, verdict="environment", findings=(finding,))
    assert blamed_bits(plain) == [8, 2]
    weighed = plain.model_copy(update={"blame": {"context": 0.2, "task": 0.7, "verifier": 0.0, "harness": 0.1}})
    assert blamed_bits(weighed) == [2, 1, 4]
