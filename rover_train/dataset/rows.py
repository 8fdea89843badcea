"""Training rows as a Hugging Face dataset folder, and back, unchanged to the last bit.

    columns: ids, loss_mask, turn_id, logprobs, advantage (empty where there is none), package, rollout, messages

`messages` is for people and other tools: JSON text of the conversation, or empty. Rows are checked when they are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rover_store.errors import PackageError
from rover_train.dataset import card, folder
from rover_train.rows import Row, WeightedRow

if TYPE_CHECKING:
    from rover_train.dataset.card import CardInfo

COLUMNS = ("ids", "loss_mask", "turn_id", "logprobs", "package", "rollout")


def write(
    out: Path, rows: Iterable[Row | WeightedRow], info: CardInfo, *, messages: Mapping[str, str] | None = None
) -> int:
    """Write a new folder; how many rows. `messages`: rollout id -> JSON text of its conversation."""
    with folder.new_folder(out) as begun:
        with folder.Writer(begun, features()) as writer:
            for row in rows:
                writer.add(example(row, messages or {}))
        (begun / "README.md").write_text(card.text(info, rows=writer.rows))
    return writer.rows


def features() -> Any:
    """datasets.Features of the columns."""
    datasets = folder.library()
    some, value = datasets.List, datasets.Value
    return datasets.Features({
        "ids": some(value("int32")), "loss_mask": some(value("int8")), "turn_id": some(value("int32")),
        "logprobs": some(value("float64")), "advantage": some(value("float64")), "package": value("string"),
        "rollout": value("string"), "messages": value("string"),
    })  # fmt: skip


def read(out: Path, *, vocabulary: int | None = None) -> list[Row | WeightedRow]:
    """All rows of a folder, in order. `vocabulary`: ids must be below it."""
    return list(iterate(out, vocabulary=vocabulary))


def iterate(out: Path, *, vocabulary: int | None = None) -> Iterator[Row | WeightedRow]:
    """The rows of a folder one by one. PackageError names the row, the column and what is wrong with it."""
    for number, one in enumerate(folder.read(out, COLUMNS)):
        wrong = _wrong(one, vocabulary)
        if wrong:
            raise PackageError(str(out), f"row {number}, {wrong[0]}", wrong[1])
        row = Row(**{name: one[name] for name in COLUMNS})
        advantage = one.get("advantage")
        yield row if advantage is None else WeightedRow(row, advantage)


def example(row: Row | WeightedRow, messages: Mapping[str, str]) -> dict[str, Any]:
    """A row as the columns hold it."""
    plain = row.row if isinstance(row, WeightedRow) else row
    return {
        **{name: getattr(plain, name) for name in COLUMNS},
        "advantage": row.advantage if isinstance(row, WeightedRow) else None,
        "messages": messages.get(plain.rollout, ""),
    }


def _wrong(one: Mapping[str, Any], vocabulary: int | None) -> tuple[str, str] | None:
    """Column and reason of the first fault of a row."""
    ids, mask, turns = one["ids"], one["loss_mask"], one["turn_id"]
    lists = [*COLUMNS[:4], *(["advantage"] if one.get("advantage") is not None else [])]
    for name in lists:
        if one[name] is None or any(value is None for value in one[name]):
            return name, "holds no value somewhere"
        if len(one[name]) != len(ids):
            return name, f"has {len(one[name])} entries, ids have {len(ids)}"
    if not ids:
        return "ids", "is empty"
    if min(ids) < 0 or (vocabulary is not None and max(ids) >= vocabulary):
        return "ids", f"{min(ids) if min(ids) < 0 else max(ids)} is no id of a vocabulary of {vocabulary or 'any size'}"
    if not set(mask) <= {0, 1}:
        return "loss_mask", "holds something other than 0 and 1"
    if min(turns) < -1 or any(m and turn < 0 for turn, m in zip(turns, mask, strict=True)):
        return "turn_id", "a token that is trained on belongs to a turn, from 0 on"
    if any(p > 0 or p != p for p in one["logprobs"]):
        return "logprobs", "holds a value that is no log-probability"
    return None
