"""Choosing a reconciliation that the files can carry: detail rows, a group, an amount, totals with errors."""

from __future__ import annotations

import random

from rover.construct import cases
from rover.construct.columns import Column as Seen
from rover.construct.config import BuildConfig
from rover.construct.expand import expand
from rover.construct.families import guards
from rover.construct.families.choose import conditions, usable
from rover.construct.families.protocol import Draft, Dropped
from rover.construct.families.reconcile import checks, spec, totals
from rover.construct.families.reconcile.spec import Fields, Lookup, Reconciliation
from rover.construct.families.wording import Condition, speakable
from rover.construct.profile import Profile, TableProfile
from rover_store.records import Source

#: groups, at least and at most
GROUPS = (3, 80)
#: tables, groups and amounts that one proposal looks at
TRIES = 8
FEWEST_ROWS = 20


def propose(profile: Profile, rng: random.Random, config: BuildConfig) -> Draft | Dropped:
    """One reconciliation, or why these files carry none."""
    options = [
        (table, group, lookup)
        for table in usable(profile, least=FEWEST_ROWS)
        if any(_amount(c) for c in table.columns)
        for group, lookup in _groups(profile, table, joined=config.inputs > 1 and config.expansion)
    ]
    if not options:
        return Dropped("no fit", "no table has amounts in groups that a total could be recorded for")
    wide = [o for o in options if o[2]] if config.inputs > 1 else []
    last = Dropped("no fit", "nothing was tried")
    for _ in range(TRIES):
        table, group, lookup = rng.choice(wide or options)
        found = _choose(profile, table, group, lookup, rng, config)
        if not isinstance(found, Dropped):
            return _draft(profile, *found, rng, config)
        last = found
    return last


def _groups(profile: Profile, table: TableProfile, *, joined: bool) -> list[tuple[Seen, Lookup | None]]:
    """Columns to group by: own ones, and those of tables in which each row finds its partner."""
    found: list[tuple[Seen, Lookup | None]] = [(c, None) for c in table.columns if _groups_by(c)]
    names = {c.name.casefold() for c in table.columns}
    known = {t.source for t in usable(profile, least=2)}
    for r in profile.relations_of(table.source) if joined else ():
        if r.one in known and r.one.path != table.path and speakable(r.many_column) and speakable(r.one_column):
            lookup = Lookup(r.one, r.many_column, r.one_column)
            right = profile.table(r.one)
            found += [
                (c, lookup) for c in right.columns
                if c.name.casefold() not in names and c.name != r.one_column
                and _told_apart(c) and (r.cardinality == "1:n" or c.distinct < right.rows)
            ]  # fmt: skip
    return found


def _groups_by(c: Seen) -> bool:
    return c.grouping and _told_apart(c)


def _told_apart(c: Seen) -> bool:
    """Values that name a group: few, none empty, none that differs from another by case or blanks alone."""
    folded = {" ".join(v.split()).casefold() for v, _ in c.common}
    return (
        c.type in ("text", "integer") and c.meaning in ("category", "code", "year", "name") and not c.nulls
        and GROUPS[0] <= c.distinct <= len(c.common) and len(folded) == len(c.common) and speakable(c.name)
        and all(len(v) <= 60 for v, _ in c.common)
    )  # fmt: skip


def _amount(c: Seen) -> bool:
    full = c.nulls * 5 <= c.rows
    return c.numeric and c.measure and c.decimals <= 6 and full and speakable(c.name) and c.distinct > 5


def _choose(
    profile: Profile, table: TableProfile, group: Seen, lookup: Lookup | None, rng: random.Random, config: BuildConfig
) -> tuple[Reconciliation, bool, totals.Recorded] | Dropped:
    amount = rng.choice([c for c in table.columns if _amount(c) and c.name != group.name])
    tests: tuple[Condition, ...] = ()
    if config.complexity > 1:
        free = [c for c in table.columns if c.name not in (group.name, amount.name)]
        tests = conditions(free, rng, rng.randint(0, config.complexity - 1), "kept")
    places = None if not amount.decimals else min(amount.decimals, 2)
    unit = 10.0 ** -(places or 0)
    tolerance = round(unit * rng.choice((1, 2, 5, 5)), 6)
    found = Reconciliation(
        details=table.source, lookup=lookup, conditions=tests, group=group.name,
        group_type="integer" if group.type == "integer" else "text", amount=amount.name,
        places=places, totals=_totals_file(profile, table, rng), recorded=rng.choice(_RECORDED), tolerance=tolerance,
        fields=_fields(rng), path=_path(profile, rng),
    )  # fmt: skip
    names = [group.name, found.recorded, found.fields.computed, found.fields.difference]
    if len({n.casefold() for n in names}) < len(names) or amount.name in (found.fields.computed, found.recorded):
        return Dropped("no fit", "a column has the name of a field of the findings")
    groups = totals.amounts(profile, found)
    if not GROUPS[0] <= len(groups) <= GROUPS[1]:
        return Dropped("no fit", f"{len(groups)} groups are left of {table.path}")
    recorded = totals.record(found, groups, rng)
    if recorded is None:
        return Dropped("no fit", f"no error of a good size fits into the totals of {amount.name}")
    return found, bool(amount.nulls), recorded


_RECORDED = ("recorded_total", "booked", "total_on_file", "recorded")


def _fields(rng: random.Random) -> Fields:
    return Fields(
        findings=rng.choice(("findings", "differences", "discrepancies", "mismatches")),
        count=rng.choice(("differing", "number_of_differences", "count")),
        checked=rng.choice(("checked", "totals_checked", "groups_checked")),
        largest=rng.choice(("largest", "worst", "largest_difference_in")),
        computed=rng.choice(("computed", "computed_total", "actual")),
        difference=rng.choice(("difference", "gap", "off_by")),
    )


def _totals_file(profile: Profile, table: TableProfile, rng: random.Random) -> Source:
    stem = (table.sheet or table.path.rsplit("/", 1)[-1].rsplit(".", 1)[0]).lower().replace(" ", "_")
    ending = rng.choice(("csv", "csv", "xlsx", "tsv", "json"))
    path = _free(profile, f"{rng.choice(('control', 'books', 'totals'))}/{stem[:40]}_totals.{ending}")
    return Source(path=path, sheet=rng.choice(("Totals", "Control")) if ending == "xlsx" else None)


def _path(profile: Profile, rng: random.Random) -> str:
    folder = rng.choice(("", "reports/", "out/", "control/"))
    return _free(profile, f"{folder}{rng.choice(('findings', 'check'))}.json")


def _free(profile: Profile, path: str) -> str:
    taken = {f.path.casefold() for f in profile.files}
    while path.casefold() in taken:
        folder, _, last = path.rpartition("/")
        path = f"{folder}/new_{last}" if folder else f"new_{last}"
    return path


def _draft(
    profile: Profile, r: Reconciliation, gaps: bool, recorded: totals.Recorded, rng: random.Random, config: BuildConfig
) -> Draft:
    sources = [r.details, *((r.lookup.right,) if r.lookup else ())]
    needed = {r.details.path: "holds the detail rows"}
    if r.lookup:
        needed[r.lookup.right.path] = f"says the {r.group} of a detail row"
    files = expand(profile, needed, rng, config, starters={r.totals.path: "holds the recorded totals"})
    guard = guards.guards(files, [r.path])
    contract = spec.contract(r, guard)
    turns = 6 + sum(profile.table(s).rows // 4000 + profile.file(s.path).size // 500_000 + 1 for s in sources)
    return Draft(
        title=f"Reconcile {r.amount} of {r.details.path.rsplit('/', 1)[-1]} with {r.totals.path.rsplit('/', 1)[-1]}",
        instruction=spec.request(r, rng, gaps=gaps),
        contract=contract,
        files=files,
        harness=guards.harness(("read_table", "write_file", "shell"), config, rng, turns),
        criteria=guards.criteria(contract, {n: (n,) for n in ("findings", "count", "checked", "largest")}),
        checks={"main.py": checks.source(r, contract, guard)},
        negatives=cases.negatives(contract, rng),
        alternatives=cases.alternatives(contract, rng),
        own={r.totals.path: totals.written(r, recorded)},
        sizes={"findings": (1, GROUPS[1])},
        capabilities=("tables", "reconciliation"),
    )
