"""The file of recorded totals: true sums of real rows, some of them with an error as people make it.

The errors are part of the context, not an answer: what differs is derived from the files by the engines.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

from rover.construct.families.reconcile.spec import Reconciliation
from rover.construct.families.wording import Condition
from rover.construct.profile import Profile, TableProfile
from rover.harness.tools import delimited, workbooks

#: groups that differ, at least and at most, where there are enough of them
WRONG = (2, 5)
_MARKS = ("na", "n/a", "nan", "null")


@dataclass(frozen=True, slots=True)
class Recorded:
    """Rows of the totals file: group and total as text. `wrong`: how many are off by more than the tolerance."""

    rows: tuple[tuple[str, Decimal], ...]
    wrong: int


def amounts(profile: Profile, r: Reconciliation) -> dict[str, list[Decimal]]:
    """The amounts of the detail rows that count, by group."""
    table = profile.table(r.details)
    keep = [_test(table, c) for c in r.conditions]
    groups = table.values[r.group] if r.lookup is None else _looked_up(profile, r, table)
    out: dict[str, list[Decimal]] = {}
    for at, (group, amount) in enumerate(zip(groups, table.values[r.amount], strict=True)):
        if group is not None and all(test(at) for test in keep):
            out.setdefault(group, [])
            if amount is not None:
                out[group].append(Decimal(amount))
    return {group: found for group, found in out.items() if found}


def _looked_up(profile: Profile, r: Reconciliation, table: TableProfile) -> tuple[str | None, ...]:
    assert r.lookup is not None
    right = profile.table(r.lookup.right)
    known = dict(zip(right.values[r.lookup.right_column], right.values[r.group], strict=True))
    return tuple(None if k is None else known.get(k) for k in table.values[r.lookup.left_column])


def _test(table: TableProfile, c: Condition) -> Callable[[int], bool]:
    """Whether the row at a position meets a condition, on cells as text."""
    cells = table.values[c.column]

    def holds(at: int) -> bool:
        cell = cells[at]
        if c.op in ("is_null", "not_null"):
            return (cell is None) == (c.op == "is_null")
        if cell is None or c.value is None or (c.kind != "text" and cell.lower() in _MARKS):
            return False
        if c.op == "contains":
            return str(c.value) in cell
        a, b = (Decimal(cell), Decimal(str(c.value))) if c.kind == "number" else (cell, str(c.value))
        less, equal = a < b, a == b  # type: ignore[operator]
        return {
            "eq": equal, "ne": not equal, "lt": less, "le": less or equal, "ge": not less, "gt": not less and not equal,
        }[c.op]  # fmt: skip

    return holds


def record(r: Reconciliation, groups: Mapping[str, list[Decimal]], rng: random.Random) -> Recorded | None:
    """Totals with errors in some groups, all of different size; None where the numbers allow none."""
    unit = Decimal(1).scaleb(-(r.places or 0))
    limit = Decimal(str(r.tolerance))
    names = sorted(groups)
    rng.shuffle(names)
    wanted = min(rng.randint(*WRONG), max(1, len(names) // 2))
    rows: list[tuple[str, Decimal]] = []
    sizes: list[Decimal] = []
    for group in names:
        true = sum(groups[group], Decimal(0)).quantize(unit, rounding=ROUND_HALF_UP)
        if len(sizes) < wanted:
            wrong = _mistaken(true, groups[group], unit, rng)
            if wrong is not None and abs(wrong - true) > limit + 2 * unit and _apart(abs(wrong - true), sizes, unit):
                sizes.append(abs(wrong - true))
                rows.append((group, wrong))
                continue
        if limit > unit and rng.random() < 0.3:  # off by less than what counts
            true += rng.choice((-1, 1)) * unit
        rows.append((group, true))
    if len(sizes) < 1:
        return None
    if rng.random() < 0.5:
        rows.sort()
    else:
        rng.shuffle(rows)
    return Recorded(tuple(rows), len(sizes))


def _apart(size: Decimal, sizes: list[Decimal], unit: Decimal) -> bool:
    return all(abs(size - other) > 2 * unit for other in sizes)


def _mistaken(true: Decimal, parts: list[Decimal], unit: Decimal, rng: random.Random) -> Decimal | None:
    """A row forgotten, a row entered twice, two digits exchanged, or a digit too many."""
    kind = rng.choice(("forgotten", "twice", "exchanged", "forgotten", "twice"))
    part = rng.choice(sorted(parts))
    if kind in ("forgotten", "twice"):
        wrong = true - part if kind == "forgotten" and len(parts) > 1 else true + part
        return wrong.quantize(unit, rounding=ROUND_HALF_UP)
    digits = f"{abs(true):f}"
    places = [i for i in range(len(digits) - 1) if digits[i].isdigit() and digits[i + 1].isdigit()]
    places = [i for i in places if digits[i] != digits[i + 1] and not (i == 0 and digits[1] == "0")]
    if not places:
        return None
    at = rng.choice(places)
    swapped = digits[:at] + digits[at + 1] + digits[at] + digits[at + 2 :]
    try:
        return Decimal(swapped).copy_sign(true)
    except InvalidOperation:
        return None


def written(r: Reconciliation, recorded: Recorded) -> bytes:
    """The bytes of the totals file, by its ending."""
    whole = r.group_type == "integer"
    rows = [[int(group) if whole else group, _number(total)] for group, total in recorded.rows]
    columns = [r.group, r.recorded]
    path = r.totals.path
    if path.endswith(".xlsx"):
        return workbooks.write(path, None, r.totals.sheet, columns, rows)
    if path.endswith(".json"):
        records = [dict(zip(columns, row, strict=True)) for row in rows]
        return (json.dumps(records, ensure_ascii=False, indent=1) + "\n").encode()
    mark = "\t" if path.endswith(".tsv") else ","
    text = [[str(group), f"{total:f}"] for group, total in recorded.rows]
    return delimited.render(mark, columns, text).encode()


def _number(total: Decimal) -> int | float:
    return int(total) if total == total.to_integral_value() else float(total)
