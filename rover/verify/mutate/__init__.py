"""Mutation rules: how a negative or an alternative is made of a reference state. Runs inside a box.

Entry `rover.verify.mutate:apply` takes one rule {op, path, arguments} and a seed, `apply_all` many. The state lies
in end/, what it grew from in start/ (see `laid`). Nothing is written there: the answer is what the rule changes,
{"writes": {path: base64}, "deletes": [path]}, or {"error": reason} where it can change nothing. The same state,
rule and seed give the same bytes. `changed` gives the state after it.

Negatives   delete, empty, touch, extra_file, revert (an edit of a file of the start taken back);
            drop_row, add_row, duplicate_row, change_cell, change_other_cell, drop_column, rename_column, unsort
            (csv, tsv, xlsx, json, jsonl); change_field, drop_field (json objects);
            change_figure, drop_figure, drop_mention (text)
Alternatives  shuffle_rows, reorder_columns, reformat_numbers, extra_column (tables); trailing_newline (text);
            reindent_json; rewrite_xlsx

Arguments, all optional unless named: `sheet` (xlsx), `field` (a list in a JSON object, as a table), `column`,
`columns` (those to reformat; for change_other_cell those to spare), `except` (columns to leave alone), `key`
(columns that identify a row), `row` (its number, from 0), `where` ({column: value}, picks the row), `edited` (true:
a row that differs from the start), `values` ({column: value} of a new row), `value` (the new value), `delta` (how
far a number moves), `to` (a new name), `label` (needed near a figure), `was` (the value near the label, where it is
no number), `text` (content of an extra file, or the words to drop).
What is not said, the seed picks.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Mapping
from typing import Any

from rover.verify.checklib import Unreadable
from rover.verify.mutate import files, objects, tables, texts
from rover.verify.mutate.state import Change, Nothing, State

WARM_FOR = {".xlsx": "openpyxl", ".xlsm": "openpyxl"}

Op = Callable[[State, str, Mapping[str, Any], random.Random], Change]

NEGATIVES: dict[str, Op] = {
    "delete": files.delete,
    "empty": files.empty,
    "touch": files.touch,
    "extra_file": files.extra_file,
    "revert": files.revert,
    "drop_row": tables.drop_row,
    "add_row": tables.add_row,
    "duplicate_row": tables.duplicate_row,
    "change_cell": tables.change_cell,
    "change_other_cell": tables.change_other_cell,
    "drop_column": tables.drop_column,
    "rename_column": tables.rename_column,
    "unsort": tables.unsort,
    "change_field": objects.change_field,
    "drop_field": objects.drop_field,
    "change_figure": texts.change_figure,
    "drop_figure": texts.drop_figure,
    "drop_mention": texts.drop_mention,
}
ALTERNATIVES: dict[str, Op] = {
    "shuffle_rows": tables.shuffle_rows,
    "reorder_columns": tables.reorder_columns,
    "reformat_numbers": tables.reformat_numbers,
    "extra_column": tables.extra_column,
    "trailing_newline": files.trailing_newline,
    "reindent_json": objects.reindent_json,
    "rewrite_xlsx": files.rewrite_xlsx,
}
OPS: dict[str, Op] = NEGATIVES | ALTERNATIVES
ARGUMENTS = frozenset(
    ("sheet", "field", "column", "columns", "except", "key", "row", "where", "edited", "values", "value", "delta", "to",
     "label", "was", "text")
)  # fmt: skip


def apply(payload: Mapping[str, Any]) -> dict[str, Any]:
    """What one rule {op, path, arguments, seed} changes of the state."""
    op, path = str(payload["op"]), str(payload.get("path", ""))
    if op not in OPS:
        return {"error": f"there is no mutation called {op!r}"}
    if unknown := sorted(set(payload.get("arguments") or {}) - ARGUMENTS):
        return {"error": f"no mutation has an argument {unknown[0]!r}"}
    rng = random.Random(f"{payload.get('seed', 0)}:{op}:{path}:{payload.get('id', '')}")
    try:
        change = OPS[op](State(), path, payload.get("arguments") or {}, rng)
    except (Nothing, Unreadable) as reason:
        return {"error": " ".join(str(reason).split())}
    except (KeyError, IndexError, ValueError, TypeError, AttributeError) as error:
        return {"error": f"{op} does not fit {path}: {type(error).__name__}: {error}"}
    return {
        "writes": {p: base64.b64encode(d).decode() for p, d in sorted(change.items()) if d is not None},
        "deletes": sorted(p for p, d in change.items() if d is None),
    }


def apply_all(payload: Mapping[str, Any]) -> list[dict[str, Any]]:
    """`apply` for each of `rules`, all on the same state, with one `seed`."""
    return [apply({**rule, "seed": payload.get("seed", 0)}) for rule in payload["rules"]]


def laid(state: Mapping[str, bytes], start: Mapping[str, bytes]) -> dict[str, bytes]:
    """The box in which rules are applied to a state that grew from a start."""
    return {f"end/{p}": d for p, d in state.items()} | {f"start/{p}": d for p, d in start.items()}


def changed(state: Mapping[str, bytes], answer: Mapping[str, Any]) -> dict[str, bytes]:
    """The state after a rule, from what `apply` answered."""
    out = {p: d for p, d in state.items() if p not in answer["deletes"]}
    out |= {p: base64.b64decode(d) for p, d in answer["writes"].items()}
    return dict(sorted(out.items()))
