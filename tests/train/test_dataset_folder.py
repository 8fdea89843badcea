"""Dataset folders: rows come back as they were, conversations as other trainers take them; bad folders are refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from learnable import Place, demonstration, tagged, with_demonstrations
from store_samples import edit, new_store

from rover.policy.protocol import PolicyView
from rover_store.errors import PackageError, UsageError
from rover_store.records import Trajectory
from rover_store.store import Store
from rover_train.dataset import build, rows
from rover_train.dataset.card import CardInfo
from rover_train.dataset.conversation import completion
from rover_train.render.drift import DoesNotFit
from rover_train.rows import Row, WeightedRow

datasets = pytest.importorskip("datasets")

INFO = CardInfo("Rows", "a" * 40, versions={"one": {"context": "b" * 40}})


def row(**changes: Any) -> Row:
    whole = Row([5, 6, 7, 8], [0, 1, 1, 0], [-1, 0, 0, -1], [0.0, -0.1, -1e-9, 0.0], "r1", "one")
    return replace(whole, **changes)


def test_rows_come_back_bit_for_bit(tmp_path: Path) -> None:
    given = [row(), WeightedRow(row(rollout="r2"), [0.0, 0.1 + 0.2, -1 / 3, 0.0]), row(ids=[2**31 - 1] * 4)]
    assert rows.write(tmp_path / "out", given, INFO, messages={"r1": '[{"role": "user"}]'}) == 3
    assert rows.read(tmp_path / "out") == given
    found = datasets.load_from_disk(str(tmp_path / "out"))
    assert (found[0]["messages"], found[1]["messages"], found[0]["advantage"]) == ('[{"role": "user"}]', "", None)
    again = datasets.Dataset.from_parquet(str(tmp_path / "out/parquet/data.parquet"), cache_dir=str(tmp_path / "c"))
    assert again[1]["advantage"] == [0.0, 0.1 + 0.2, -1 / 3, 0.0]
    card = (tmp_path / "out/README.md").read_text()
    assert "data_files: parquet/data.parquet" in card
    assert "a" * 40 in card


def test_what_the_card_says_opens_it_does(store: Store, tmp_path: Path) -> None:
    out = tmp_path / "out"
    build.write(build.Selection(store, "HEAD"), out, renderer=Lengths())
    card = (out / "README.md").read_text()
    assert 'load_from_disk("FOLDER")' in card
    assert 'load_dataset("FOLDER/parquet")' in card

    def opened(*where: str) -> list[str]:
        return [one["package"] for one in datasets.load_dataset(*where, split="train", cache_dir=str(tmp_path / "c"))]

    whole = [one["package"] for one in datasets.load_from_disk(str(out))]
    assert opened(str(out / "parquet")) == whole == ["one", "two"]
    with pytest.raises(ValueError, match="saved using `save_to_disk`"):
        opened(str(out))
    for state in out.rglob("state.json"):  # what makes the library refuse a folder on a disk; on a hub it does not look
        state.unlink()
    assert opened(str(out)) == opened(str(out), "default") == whole
    assert set(opened(str(out), "rows")) == {"two"}  # what fits


def test_equal_rows_give_equal_bytes(tmp_path: Path) -> None:
    for name in "ab":
        rows.write(tmp_path / name, [row(ids=[n] * 4) for n in range(300)], INFO)
    files = [{p.name: p.read_bytes() for p in (tmp_path / name).rglob("*") if p.is_file()} for name in "ab"]
    assert files[0] == files[1]
    assert len(rows.read(tmp_path / "a")) == 300


def test_nothing_is_overwritten_and_nothing_left_over(tmp_path: Path) -> None:
    rows.write(tmp_path / "out", [row()], INFO)
    with pytest.raises(UsageError, match="exists and is not empty"):
        rows.write(tmp_path / "out", [row()], INFO)
    with pytest.raises(ZeroDivisionError):
        rows.write(tmp_path / "new", (row(ids=[1 // n] * 4) for n in (1, 0)), INFO)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("loss_mask", [0, 1, 1], "has 3 entries, ids have 4"),
        ("loss_mask", [0, 1, 2, 0], "something other than 0 and 1"),
        ("ids", [5, -6, 7, 8], "-6 is no id"),
        ("ids", [5, 900, 7, 8], "900 is no id of a vocabulary of 100"),
        ("turn_id", [-1, -1, 0, -1], "belongs to a turn"),
        ("logprobs", [0.0, 0.5, 0.0, 0.0], "no log-probability"),
        ("logprobs", [0.0, None, 0.0, 0.0], "holds no value"),
        ("advantage", [1.0], "has 1 entries"),
    ],
)
def test_rows_are_checked_when_read(tmp_path: Path, column: str, value: list[Any], words: str) -> None:
    one = {**rows.example(row(), {}), column: value}
    datasets.Dataset.from_list([rows.example(row(), {}), one], features=rows.features()).save_to_disk(tmp_path / "out")
    with pytest.raises(PackageError, match=words) as error:
        rows.read(tmp_path / "out", vocabulary=100)
    assert error.value.field == f"row 1, {column}"


def test_what_is_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no dataset can be read there"):
        rows.read(tmp_path / "none")
    datasets.Dataset.from_list([{"text": "x"}]).save_to_disk(tmp_path / "other")
    with pytest.raises(UsageError, match="has no column 'ids'; it holds text"):
        rows.read(tmp_path / "other")
    datasets.DatasetDict({"a": datasets.Dataset.from_list([{"x": 1}])}).save_to_disk(tmp_path / "two")
    with pytest.raises(UsageError, match="holds several datasets"):
        rows.read(tmp_path / "two")


# --- conversations -------------------------------------------------------------------------------------------
@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = new_store(tmp_path / "s")
    tagged(store, {"one": Place("a"), "two": Place("b"), "three": Place("c")})
    one, two = store.package("one"), store.package("two")
    some = {"one": [demonstration(one, n) for n in (1, 2)], "two": [demonstration(two)]}
    with_demonstrations(store, some, {"one": (2, 2), "two": (1, 1)})
    return store


class Lengths:
    """A renderer that says how long things are, and refuses long ones."""

    def demonstration(self, view: PolicyView, trajectory: Trajectory) -> Sequence[Row]:
        if trajectory.key.seed == 2:
            raise DoesNotFit(0, 9, 4)
        size = len(view.instruction)
        return (Row([size, 1], [0, 1], [-1, 0], [0.0, 0.0]), Row([size, 2], [0, 1], [-1, 1], [0.0, 0.0]))


def test_conversations(store: Store, tmp_path: Path) -> None:
    report = build.write(build.Selection(store, "HEAD"), tmp_path / "out", system="Be good.")
    assert (report.kept, report.dropped, report.without, report.revision) == (2, {"prefix": 1}, 1, store.resolve())
    found = datasets.load_from_disk(str(tmp_path / "out"))
    one = found[0]
    assert one["prompt"] == [{"role": "system", "content": "Be good."}, {"role": "user", "content": "Do one."}]
    assert [m["role"] for m in one["completion"]] == ["assistant", "tool", "assistant", "tool", "assistant"]
    call = one["completion"][0]["tool_calls"][0]
    assert call["function"] == {"name": "read_file", "arguments": {"path": "data.csv", "offset": 0}}
    assert one["completion"][1]["tool_call_id"] == call["id"]
    assert one["tools"][0]["function"]["name"] == "read_file"
    assert (one["task"], one["workspace"]) == (store.package("one").components["task"], "a")
    said = json.loads((tmp_path / "out/report.json").read_text())
    assert [(line["package"], line["kept"], line["band"]) for line in said["lines"]] == [
        ("one", 1, "always"), ("three", 0, "uncounted"), ("two", 1, "always"),
    ]  # fmt: skip
    assert not (tmp_path / "out/rows").exists()


def test_token_rows_beside_conversations(store: Store, tmp_path: Path) -> None:
    selection = build.Selection(store, "HEAD", curation=None)
    report = build.write(selection, tmp_path / "out", renderer=Lengths())
    assert (report.kept, report.rows, report.too_long) == (3, 4, 1)
    found = rows.read(tmp_path / "out/rows")
    assert [(r.package, r.ids) for r in found if isinstance(r, Row)] == [
        ("one", [7, 1]), ("one", [7, 2]), ("two", [7, 1]), ("two", [7, 2]),
    ]  # fmt: skip
    messages = datasets.load_from_disk(str(tmp_path / "out/rows"))[0]["messages"]
    assert json.loads(messages)[0] == {"role": "user", "content": "Do one."}


def test_nothing_to_write(store: Store, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no verified demonstrations$"):
        build.write(build.Selection(store, "HEAD", ["three"]), tmp_path / "out")
    strict = build.Selection(store, "HEAD", curation=build.CurationSettings(calls=(9, 9)))
    with pytest.raises(UsageError, match="no demonstration is left: 3 more or fewer calls"):
        build.write(strict, tmp_path / "out")
    edit(store, "one", {"task/instruction.md": b"Something else.\n"})
    with pytest.raises(UsageError, match=r"2 are stale \(2 by task\)"):
        build.write(build.Selection(store, "HEAD", ["one"]), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_conversation_ends_with_the_assistant(store: Store) -> None:
    trajectory = demonstration(store.package("one"), said="All done.").trajectory
    assert completion(trajectory)[-1] == {"role": "assistant", "content": "All done."}
    cut = trajectory.turns[0].calls[0].model_copy(update={"truncated": True})
    turns = (trajectory.turns[0].model_copy(update={"calls": (cut,)}),)
    shown = completion(trajectory.model_copy(update={"turns": turns}))
    assert shown[1]["content"] == "a,b\n[the output was cut here]"
