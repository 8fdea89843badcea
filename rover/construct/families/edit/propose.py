"""Choosing an edit that the files can carry: a table with a key, rows by a rule, one column, one new value."""

from __future__ import annotations

import random

from rover.construct import cases
from rover.construct.columns import Column as Seen
from rover.construct.config import BuildConfig
from rover.construct.expand import expand
from rover.construct.families import guards
from rover.construct.families.choose import conditions, usable
from rover.construct.families.edit import checks, spec
from rover.construct.families.edit.demonstrator import MANY
from rover.construct.families.edit.spec import Edit, Membership
from rover.construct.families.protocol import Draft, Dropped
from rover.construct.families.wording import speakable
from rover.construct.profile import Profile, TableProfile
from rover_store.records import Contract, Deliverable
from rover_store.records.contract import Column, EditRule
from rover_store.records.query import Scalar

MOST_ROWS = 4_000
#: new values that a table hardly holds already
CODES = ("REVIEW", "ON HOLD", "CHECKED", "VOID", "PENDING-2", "RECOUNT", "ESCALATED", "Q-17")
_TYPES = ("text", "integer", "number", "date")


def propose(profile: Profile, rng: random.Random, config: BuildConfig) -> Draft | Dropped:
    """One edit, or why these files carry none."""
    tables = usable(profile, most=MOST_ROWS)
    for table in rng.sample(tables, k=len(tables)):
        edit = _edit(profile, table, rng, config)
        if edit:
            return _draft(profile, edit, table, rng, config)
    return Dropped("no fit", "no table has a key, a column to edit and a rule to pick rows by")


def _edit(profile: Profile, table: TableProfile, rng: random.Random, config: BuildConfig) -> Edit | None:
    """An edit of one table; None where it has no key, no column to edit or no rule to pick rows by."""
    key = _key(table)
    member = _membership(profile, table, rng, config)
    taken = {*key, member.column if member else ""}
    columns = [c for c in _targets(table) if c.name not in taken]
    if not key or not columns:
        return None
    column = rng.choice(columns)
    own = [c for c in table.columns if c.name != column.name and not c.unique]
    tests = conditions(own, rng, 1 if member else min(2, max(1, config.complexity - 1)), "picked")
    if not (tests or member):
        return None
    return Edit(_target(profile, table, key), key, tests, member, column.name, _new_value(column, rng))


def _key(table: TableProfile) -> tuple[str, ...]:
    """The first column, or pair of columns, that tells every row from every other; empty where there is none."""
    names = [
        c.name
        for c in table.columns
        if c.type in ("text", "integer") and not c.nulls and c.meaning != "amount" and speakable(c.name)
    ]
    single = [(n,) for n in names if table.column(n).unique]
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if _tells(table, a, b)] if not single else []
    return (*single, *pairs, ())[0]


def _tells(table: TableProfile, first: str, second: str) -> bool:
    cells = zip(table.values[first], table.values[second], strict=True)
    return len({(str(a).casefold(), str(b).casefold()) for a, b in cells}) == table.rows


def _targets(table: TableProfile) -> list[Seen]:
    """Columns whose cells can be given another value: short text or numbers, no key."""
    return [
        c for c in table.columns
        if not c.unique and speakable(c.name)
        and ((c.type == "text" and c.meaning in ("category", "code", "name")) or (c.numeric and c.measure))
    ]  # fmt: skip


def _membership(profile: Profile, table: TableProfile, rng: random.Random, config: BuildConfig) -> Membership | None:
    if config.inputs < 2 or not config.expansion:
        return None
    known = {t.source for t in usable(profile, least=2)}
    relations = [
        r for r in profile.relations_of(table.source)
        if r.one in known and r.one.path != table.path and speakable(r.many_column) and speakable(r.one_column)
    ]  # fmt: skip
    rng.shuffle(relations)
    for r in relations:
        other = profile.table(r.one)
        tests = conditions([c for c in other.columns if c.name != r.one_column], rng, 1, "there")
        if tests:
            return Membership(r.many_column, r.one, r.one_column, tests)
    return None


def _target(profile: Profile, table: TableProfile, key: tuple[str, ...]) -> Deliverable:
    kind = profile.file(table.path).format
    cols = tuple(
        Column(name=c.name, type=c.type if c.type in _TYPES else "text") for c in table.columns if speakable(c.name)
    )
    return Deliverable(
        id="edited", path=table.path, type="json" if kind == "jsonl" else kind,
        sheet=table.sheet, columns=cols, key=key, in_place=True,
    )  # fmt: skip


def _new_value(column: Seen, rng: random.Random) -> Scalar:
    if column.type == "text":
        held = {v.casefold() for v, _ in column.common}
        return rng.choice([c for c in CODES if c.casefold() not in held])
    return int(float(column.maximum)) + rng.choice((1, 10, 100))


def _draft(profile: Profile, edit: Edit, table: TableProfile, rng: random.Random, config: BuildConfig) -> Draft:
    needed = {table.path: "the table to edit"}
    if edit.membership:
        needed[edit.membership.other.path] = "says which rows count"
    files = expand(profile, needed, rng, config, editable=(table.path,))
    guard = guards.guards(files, [table.path])
    contract = spec.contract(edit, guard)
    tools = {"read_table", "edit_table", "shell"}
    tools |= {"read_workbook", "edit_workbook"} if edit.target.type == "xlsx" else {"write_table"}
    turns = MANY + 6 + sum(profile.file(p).size // 500_000 + 1 for p in needed)
    return Draft(
        title=f"Set {edit.column} in {table.path.rsplit('/', 1)[-1]}",
        instruction=spec.request(edit, rng),
        contract=contract,
        files=files,
        harness=guards.harness(tools, config, rng, turns),
        criteria=guards.criteria(contract, _anchors(contract)),
        checks={"main.py": checks.source(contract, guard, edit.value)},
        negatives=cases.negatives(contract, rng),
        alternatives=cases.alternatives(contract, rng),
        sizes={checks.ANCHOR: (1, max(1, table.rows - 1))},
        capabilities=("tables",),
    )


def _anchors(contract: Contract) -> dict[str, tuple[str, ...]]:
    return {r.id: (checks.ANCHOR,) for r in contract.requirements if isinstance(r.rule, EditRule)}
