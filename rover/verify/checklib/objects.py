"""Comparers of JSON objects: fields, sets and lists of records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rover.verify.checklib.bounds import Unreadable
from rover.verify.checklib.read import Table, objects_table
from rover.verify.checklib.tables import RIGHT, Key, counted, has_columns, kinds, share, shown
from rover.verify.checklib.tables import keys as row_keys
from rover.verify.checklib.values import Result, canonical, is_empty, kind_of, plain, same


def lookup(obj: Mapping[str, Any], name: str) -> Any:
    """A top-level field. Unreadable where there is none."""
    if name not in obj:
        raise Unreadable(f"there is no field {name!r}")
    return obj[name]


def has_fields(obj: Mapping[str, Any], fields: Sequence[str]) -> Result:
    missing = [f for f in fields if f not in obj]
    return share(len(fields) - len(missing), len(fields), f"missing field: {shown(missing)}")


def field_is(
    obj: Mapping[str, Any], name: str, expected: Any, *, tolerance: float = 0.0, kind: str | None = None
) -> Result:
    """A field holds the expected scalar (a Table counts as its only cell)."""
    value = scalar(expected)
    found = lookup(obj, name)
    if same(found, value, kind, tolerance):
        return RIGHT
    return 0.0, f"{name} is {_short(found)}, which is not right"


def scalar(expected: Any) -> Any:
    """The only cell of a Table; anything else as it is."""
    if isinstance(expected, Table):
        return expected.rows[0][0] if expected.rows and expected.rows[0] else None
    return expected


def set_is(obj: Mapping[str, Any], name: str, expected: Table | Sequence[Any]) -> Result:
    """A field is a list whose members are the expected ones (a Table's first column), in any order, none twice."""
    found = lookup(obj, name)
    if not isinstance(found, list):
        return 0.0, f"{name} is not a list"
    values = [row[0] for row in expected.rows] if isinstance(expected, Table) else list(expected)
    how = {kind_of(v) for v in values if not is_empty(v)}
    kind = how.pop() if len(how) == 1 else "text"
    if any(isinstance(v, dict | list) for v in found):
        return 0.0, f"{name} holds more than plain values"
    names: dict[Key, Any] = {(canonical(v, kind),): v for v in [*found, *values]}
    have: Counter[Key] = Counter((canonical(v, kind),) for v in found)
    want: Counter[Key] = Counter({(canonical(v, kind),): 1 for v in values})
    good, total, reason = counted(have, want, names)
    return share(good, total, f"{name}: {reason}")


def records_match(
    obj: Mapping[str, Any],
    name: str,
    expected: Table,
    key: Sequence[str],
    columns: Sequence[str],
    *,
    tolerances: Mapping[str, float] | None = None,
    kind: Mapping[str, str] | None = None,
) -> Result:
    """A field is a list of objects: keys exactly the expected ones, and each column's value within tolerance."""
    found = lookup(obj, name)
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        return 0.0, f"{name} is not a list of objects"
    table = objects_table(found, name)
    needed = [*key, *(c for c in columns if c not in key)]
    if found and (shape := has_columns(table, needed))[0] < 1:
        return 0.0, shape[1]
    how = kinds(expected, key, kind)
    want = dict(zip(row_keys(expected, key, how), expected.pick(needed), strict=True))
    have = row_keys(table, key, how) if found else []
    cells = dict(zip(have, table.pick(needed), strict=True)) if found else {}
    surplus = (Counter(have) - Counter(row_keys(expected, key, how))).total()
    wrong = []
    for k, row in want.items():
        bad = ["no such record"] if k not in cells else [
            f"{c} is {_short(got)}"
            for c, got, value in zip(needed, cells[k], row, strict=True)
            if c not in key and not same(got, value, (kind or {}).get(c), (tolerances or {}).get(c, 0.0))
        ]  # fmt: skip
        if bad:
            wrong.append(f"{' / '.join(plain(v) for v in row[: len(key)])}: {bad[0]}")
    parts = [f"{len(wrong)} of {len(want)} records wrong or missing ({shown(wrong)})"] if wrong else []
    parts += [f"{surplus} too many"] if surplus else []
    return share(len(want) - len(wrong), len(want) + surplus, f"{name}: {'; '.join(parts)}")


def _short(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return shown([value])
