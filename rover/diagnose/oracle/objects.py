"""The rules about JSON objects, as the oracle reads them: fields, sets, records. Runs inside the sandbox."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rover.diagnose.oracle import files
from rover.diagnose.oracle.case import Case, Found, Json, say, spec_for
from rover.diagnose.oracle.files import Unreadable, fold
from rover.diagnose.oracle.values import equal, key_of


def field_of(case: Case) -> Any:
    value = files.document(case.path)
    name = case.rule["field"]
    if not isinstance(value, dict):
        raise Unreadable("is no JSON object")
    if name not in value:
        raise Unreadable(f"field {name!r} is missing")
    return value[name]


def field_rule(case: Case) -> Found:
    got, want = field_of(case), case.value()
    spec = spec_for(case, case.rule["field"], want)
    return (True, "") if equal(got, want, spec, case.same) else (False, f"{case.rule['field']} is {say(got)}")


def set_rule(case: Case) -> Found:
    got = field_of(case)
    if not isinstance(got, list):
        return False, f"{case.rule['field']} is no list"
    if any(isinstance(v, list | dict) for v in got):
        return False, f"{case.rule['field']} holds more than plain values"
    want = [row[0] for row in case.answer()["rows"]]
    spec = spec_for(case, case.rule["field"], want[0] if want else "")
    a = Counter(key_of(v, spec, case.same) for v in got)
    b = Counter({key_of(v, spec, case.same): 1 for v in want})
    if a == b:
        return True, ""
    return False, f"{(b - a).total()} members missing, {(a - b).total()} too many"


def records_rule(case: Case) -> Found:
    got, table = field_of(case), case.answer()
    if not isinstance(got, list) or not all(isinstance(v, dict) for v in got):
        return False, f"{case.rule['field']} is no list of objects"
    specs = {fold(c["name"]): c for c in case.rule["columns"]}
    names = [fold(n) for n in case.rule["key"]]
    there = [fold(c) for c in table["columns"]]
    rows = [dict(zip(there, row, strict=True)) for row in table["rows"]]
    objects = [{fold(k): v for k, v in item.items()} for item in got]

    def key(item: Json) -> tuple[Any, ...]:
        return tuple(key_of(item.get(n), specs.get(n, {}), case.same) for n in names)

    if Counter(map(key, objects)) != Counter(map(key, rows)):
        return False, f"{case.rule['field']} lists other items than it should"
    have = {key(item): item for item in objects}
    for row in rows:
        for name, spec in specs.items():
            if name in names or name not in there:
                continue
            cell = have[key(row)].get(name)
            if not equal(cell, row[name], spec, case.same):
                return False, f"{spec['name']} of {say(key(row))} is {say(cell)}"
    return True, ""
