"""The demonstrator of the reconcile family: reads the request strictly, the tables by tool, computes in Python."""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from rover.construct.families.desk import (
    MARKS,
    NAME,
    Desk,
    Test,
    clean,
    conditions,
    decimal,
    names_in,
    read_all,
    rounded,
)
from rover.policy.protocol import PolicyFailure, PolicyView
from rover_store.records import Call, ToolCall

_PLACE = r"(?:[Tt]he sheet `([^`]+)` of )?`([^`]+)`"
_NUMBER = r"(\d+(?:\.\d+)?)"
_PLACES = r"(?:, rounded to (\d+) decimals?)?"
_IGNORE = (
    r"[^`\"\d]*\b(?:books are being closed|typed the totals|report goes out)\b[^`\"\d]*",
    r"An empty cell meets no condition[^`\"\d]*", r"A row whose cell is empty[^`\"\d]*",
    r"Cells that are empty or say NA are left out[^`\"\d]*", r"Sums, averages and extremes skip[^`\"\d]*",
    r"Halves are rounded away from zero", r"Round halves away from zero",
    r"Leave every other file as it is and create no other file", r"Do not change, add or delete any other file",
    r"No other file may be changed, created or deleted",
)  # fmt: skip

Place = tuple[str | None, str]
_NEEDED = (
    "details", "amount", "totals", "tolerance", "path", "findings", "computed", "checked", "count", "largest",
)  # fmt: skip


@dataclass(slots=True)
class Reading:
    """The request as understood."""

    details: Place | None = None
    lookup: tuple[Place, str, str] | None = None
    tests: list[Test] = field(default_factory=list)
    amount: str = ""
    group: str = ""
    places: int | None = None
    totals: Place | None = None
    recorded: str = ""
    tolerance: Decimal | None = None
    path: str = ""
    fields: tuple[str, ...] = ()
    findings: str = ""
    computed: str = ""
    difference: str = ""
    checked: str = ""
    count: str = ""
    largest: str = ""


def read(instruction: str) -> Reading:
    """Parse the request. PolicyFailure where a sentence or a needed part cannot be read."""
    r = Reading()

    def put(**parts: Any) -> None:
        for name, value in parts.items():
            setattr(r, name, value)

    def summed(amount: str, group: str, places: str | None) -> None:
        put(amount=amount, group=group, places=int(places) if places else None)

    def limit(m: re.Match[str]) -> None:
        put(tolerance=Decimal(next(g for g in m.groups() if g and re.fullmatch(r"[\d.]+", g))))

    read_all(instruction, [
        (rf"(?:The detail rows are in|Take the detail rows from) {_PLACE}", lambda m: put(details=(m[1], m[2]))),
        (rf"{_PLACE} has the detail rows", lambda m: put(details=(m[1], m[2]))),
        (rf"The {NAME} of a detail row stands in {_PLACE}, where {NAME} equals its {NAME}, and a row that is not found "
         "there is left out", lambda m: put(lookup=((m[2], m[3]), m[5], m[4]))),
        (rf"Look up the {NAME} of each detail row in {_PLACE} by matching {NAME} with {NAME} there, leaving out rows "
         "without a match", lambda m: put(lookup=((m[2], m[3]), m[4], m[5]))),
        (r"(?:Only detail rows count where|Use only the detail rows where) (.+)",
         lambda m: r.tests.extend(conditions(m[1]))),
        (rf"Add up {NAME} for each {NAME}{_PLACES}", lambda m: summed(m[1], m[2], m[3])),
        (rf"For each {NAME}, compute the sum of {NAME}{_PLACES}", lambda m: summed(m[2], m[1], m[3])),
        (rf"The computed sum of a {NAME} is the sum of {NAME} over its detail rows{_PLACES}",
         lambda m: summed(m[2], m[1], m[3])),
        (rf"Compare this with {_PLACE}, where {NAME} is the recorded total of each {NAME}",
         lambda m: put(totals=(m[1], m[2]), recorded=m[3])),
        (rf"The recorded totals are in the column {NAME} of {_PLACE}, one for each {NAME}",
         lambda m: put(totals=(m[2], m[3]), recorded=m[1])),
        (rf"Hold it against {_PLACE}, which has the recorded total of each {NAME} in {NAME}",
         lambda m: put(totals=(m[1], m[2]), recorded=m[4])),
        (rf"A {NAME} differs if its recorded total and its computed sum are more than {_NUMBER} apart", limit),
        (rf"Differences of up to {_NUMBER} are accepted, and a {NAME} with a larger one differs", limit),
        (rf"Report a {NAME} only if its recorded total is off by more than {_NUMBER}", limit),
        (rf"(?:Write the findings to|Save them in|The findings go to) {NAME}(?:,| as) (?:a|one) JSON object "
         r"(?:with|that has) the fields (.+)", lambda m: put(path=m[1], fields=names_in(m[2]))),
        (rf"{NAME} is a list of objects, one for each {NAME} that differs, with (.+)", lambda m: put(findings=m[1])),
        (rf"In {NAME} put a list with one object for each {NAME} that differs, holding (.+)",
         lambda m: put(findings=m[1])),
        (rf"There {NAME} is the computed sum and {NAME} is {NAME} minus {NAME}",
         lambda m: put(computed=m[1], difference=m[2])),
        (rf"In each object, {NAME} holds the computed sum, and {NAME} holds {NAME} minus {NAME}",
         lambda m: put(computed=m[1], difference=m[2])),
        (rf"{NAME} (?:is the number of recorded totals|says how many totals are recorded)",
         lambda m: put(checked=m[1])),
        (rf"{NAME} (?:is how many of them differ|is the number of totals that differ)", lambda m: put(count=m[1])),
        (rf"{NAME} is the {NAME} with the largest difference, whatever its sign", lambda m: put(largest=m[1])),
        (rf"{NAME} names the {NAME} whose difference is the largest, plus or minus", lambda m: put(largest=m[1])),
    ], _IGNORE)  # fmt: skip
    for part in _NEEDED:
        if not getattr(r, part):
            raise PolicyFailure(f"the request does not say: {part}")
    return r


def plan(view: PolicyView, seed: int) -> Generator[ToolCall, Call, str]:
    """Read both sides, add up, compare, write the findings."""
    asked = read(view.instruction)
    if not view.offers("write_file"):
        raise PolicyFailure("the tool write_file is needed and not offered")
    desk = Desk(view)
    assert asked.details is not None
    assert asked.totals is not None
    rows = yield from desk.table(asked.details[1], asked.details[0])
    if asked.lookup:
        (sheet, path), left, right = asked.lookup
        partners = {_key(p.get(right)): p for p in (yield from desk.table(path, sheet))}
        rows = [{**partners[_key(row.get(left))], **row} for row in rows if _key(row.get(left)) in partners]
    sums = _sums([row for row in rows if all(t.holds(row) for t in asked.tests)], asked)
    totals = yield from desk.table(asked.totals[1], asked.totals[0])
    found = report(totals, sums, asked)
    content = json.dumps(found, ensure_ascii=False, indent=2) + "\n"
    yield from desk.use("write_file", path=asked.path, content=content)
    return f"{found[asked.count]} of {len(totals)} totals differ; the findings are in {asked.path}."


def _sums(rows: list[dict[str, Any]], asked: Reading) -> dict[str, Decimal]:
    """Exact sums by group; empty amounts add nothing."""
    sums: dict[str, Decimal] = {}
    for row in rows:
        if asked.group not in row or asked.amount not in row:
            raise PolicyFailure(f"the detail rows lack {asked.group} or {asked.amount}")
        amount = clean(row[asked.amount])
        if amount is not None and str(amount) and str(amount).lower() not in MARKS:
            key = _key(row[asked.group])
            sums[key] = sums.get(key, Decimal(0)) + decimal(amount)
    return sums


def report(totals: list[dict[str, Any]], sums: dict[str, Decimal], asked: Reading) -> dict[str, Any]:
    """The findings as an object."""
    assert asked.tolerance is not None
    listed = []
    for row in totals:
        if asked.group not in row or asked.recorded not in row:
            raise PolicyFailure(f"the totals lack {asked.group} or {asked.recorded}")
        key = _key(row[asked.group])
        if key not in sums:
            continue
        recorded, computed = decimal(row[asked.recorded]), Decimal(str(rounded(sums[key], asked.places)))
        if abs(recorded - computed) > asked.tolerance:
            listed.append((abs(recorded - computed), {
                asked.group: row[asked.group], asked.recorded: rounded(recorded, None),
                asked.computed: rounded(computed, None), asked.difference: rounded(recorded - computed, None),
            }))  # fmt: skip
    worst = max(listed, key=lambda item: item[0])[1][asked.group] if listed else None
    return {
        asked.checked: len(totals), asked.count: len(listed), asked.largest: worst,
        asked.findings: [item for _, item in listed],
    }  # fmt: skip


def _key(cell: Any) -> str:
    """A cell as a key: 7 and 7.0 are one; empty cells have none."""
    text = "" if cell is None else str(cell).strip()
    return text[:-2] if text.endswith(".0") else text
