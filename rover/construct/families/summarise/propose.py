"""Choosing a summary that the files can carry: table, joins along real relations, filters, groups, measures."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from typing import TypeVar

from rover.construct import cases
from rover.construct.columns import Column as Seen
from rover.construct.config import BuildConfig
from rover.construct.expand import expand
from rover.construct.families import guards
from rover.construct.families.choose import conditions, usable
from rover.construct.families.protocol import Draft, Dropped
from rover.construct.families.summarise import checks, spec
from rover.construct.families.summarise.spec import Lookup, Summary
from rover.construct.families.wording import Condition, speakable
from rover.construct.profile import Profile, TableProfile
from rover_store.records import Contract, Deliverable
from rover_store.records.contract import CellsRule, Column, RowsRule
from rover_store.records.query import Measure, Order

T = TypeVar("T")

#: answers with fewer groups are trivial, with more a chore
SIZE = (2, 150)


def propose(profile: Profile, rng: random.Random, config: BuildConfig) -> Draft | Dropped:
    """One summary, or why these files carry none."""
    for table in _shuffled(usable(profile), rng):
        lookups, joined = _joins(profile, table, rng, config)
        own = [c for c in table.columns if speakable(c.name)]
        far = [c for t, key in joined for c in t.columns if c.name != key and speakable(c.name)]
        groups = _pick_groups(table, own, far, rng, config)
        if groups:
            break
    else:
        return Dropped("no fit", "no table has a column to group by")
    tests = conditions(
        [c for c in own + far if c.name not in {g.name for g in groups}], rng, _how_many(config, rng), "kept"
    )
    measures = _pick_measures(own + far, groups, rng, config)
    summary = _finish(profile, table, lookups, groups, measures, tests, rng, config)
    return _draft(profile, summary, [table, *(t for t, _ in joined)], own + far, rng, config)


def _joins(
    profile: Profile, table: TableProfile, rng: random.Random, config: BuildConfig
) -> tuple[list[Lookup], list[tuple[TableProfile, str]]]:
    """Joins whose right side brings columns worth grouping by or measuring, without a clash of names."""
    lookups: list[Lookup] = []
    joined: list[tuple[TableProfile, str]] = []
    names = {c.name.casefold() for c in table.columns}
    known = {t.source for t in usable(profile, least=2)}
    todo = _shuffled(profile.relations_of(table.source), rng) if config.expansion else []
    while todo and len(lookups) + 1 < config.inputs:
        r = todo.pop(0)
        if r.one not in known or r.one == table.source:
            continue
        right = profile.table(r.one)
        new = {c.name.casefold() for c in right.columns if c.name != r.one_column}
        others = [c for c in right.columns if c.name != r.one_column]
        brings = any(_far_group(c, table) or _measurable(c) for c in others)
        sayable = speakable(r.many_column) and speakable(r.one_column)
        if new & names or not brings or not sayable or right.source in [t.source for t, _ in joined]:
            continue
        names |= new
        lookups.append(Lookup(r.one, r.many_column, r.one_column))
        joined.append((right, r.one_column))
        # what it leads to may be joined as well, except along the key, which the join leaves out
        todo += [q for q in _shuffled(profile.relations_of(right.source), rng) if q.many_column != r.one_column]
    return lookups, joined


def _groups_by(c: Seen) -> bool:
    return c.grouping and c.type in ("text", "integer") and not c.nulls and c.distinct <= SIZE[1] and speakable(c.name)


def _far_group(c: Seen, table: TableProfile) -> bool:
    """Whether the rows of the many side can be grouped by a column of the one side."""
    fits = 2 <= c.distinct <= min(SIZE[1], table.rows // 2) and not c.nulls and c.type in ("text", "integer")
    return fits and c.meaning in ("category", "code", "name", "flag", "year") and speakable(c.name)


def _measurable(c: Seen) -> bool:
    return c.numeric and c.measure and c.nulls * 10 <= c.rows and speakable(c.name)


def _shuffled(items: Sequence[T], rng: random.Random) -> list[T]:
    return rng.sample(items, k=len(items))


def _pick_groups(
    table: TableProfile, own: list[Seen], far: list[Seen], rng: random.Random, config: BuildConfig
) -> list[Seen]:
    """One or two columns; where tables were joined, one of theirs, so that the join is needed."""
    near, distant = [c for c in own if _groups_by(c)], [c for c in far if _far_group(c, table)]
    first = rng.choice(distant or near) if distant or near else None
    if first is None:
        return []
    more = [c for c in near if c is not first and c.distinct * first.distinct <= SIZE[1]]
    return [first, rng.choice(more)] if more and config.complexity > 1 and rng.random() < 0.4 else [first]


def _how_many(config: BuildConfig, rng: random.Random) -> int:
    return min(2, rng.randint(0, 1) + config.complexity - 1)


def _pick_measures(seen: list[Seen], groups: list[Seen], rng: random.Random, config: BuildConfig) -> list[Measure]:
    """A count or an aggregate each; names made of the columns', none twice."""
    numeric = [c for c in seen if _measurable(c)]
    things = [c for c in seen if c.type == "text" and not c.nulls and c.distinct > 5 and c not in groups]
    taken = {g.name.casefold() for g in groups}
    options: list[Measure] = [Measure(name="row_count", fn="count")]
    for c in rng.sample(numeric, k=min(3, len(numeric))):
        fn = rng.choice(("sum", "mean", "sum", "mean", "min", "max"))
        label = {"sum": "total", "mean": "average", "min": "smallest", "max": "largest"}[fn]
        decimals = rng.choice((1, 2)) if fn == "mean" else 2 if fn == "sum" and c.decimals else None
        options.append(Measure(name=f"{label}_{slug(c.name)}", fn=fn, column=c.name, decimals=decimals))
    if things and rng.random() < 0.4:
        c = rng.choice(things)
        options.append(Measure(name=f"different_{slug(c.name)}", fn="count_distinct", column=c.name))
    options = [m for m in options if m.name.casefold() not in taken]
    count = min(len(options), 1 + config.complexity)
    best = options[1:] + options[:1] if rng.random() < 0.5 else options
    return list({m.name: m for m in best}.values())[: max(1, count)]


def slug(name: str) -> str:
    """A column's name as a part of another name."""
    return re.sub(r"\W+", "_", name.lower(), flags=re.ASCII).strip("_")[:30] or "value"


def _finish(
    profile: Profile, table: TableProfile, lookups: list[Lookup], groups: list[Seen], measures: list[Measure],
    tests: tuple[Condition, ...], rng: random.Random, config: BuildConfig,
) -> Summary:  # fmt: skip
    """Deliverable, order and floor."""
    keys = tuple(
        Column(name=g.name, type="integer" if g.type == "integer" else "text", meaning="group") for g in groups
    )
    cols = spec.columns(keys, tuple(measures))
    kind = rng.choice(("csv", "csv", "xlsx", "json", "tsv"))
    stem = f"{slug(measures[0].name)}_by_{slug(groups[0].name)}"[:48]
    path = f"{rng.choice(('', 'reports/', 'out/', 'results/'))}{stem}.{kind}"
    if path in {f.path for f in profile.files}:
        path = f"results/new_{stem}.{kind}"
    target = Deliverable(
        id="summary", path=path, type=kind, columns=cols, key=tuple(k.name for k in keys),
        sheet=rng.choice(("Summary", "Result")) if kind == "xlsx" else None,
    )  # fmt: skip
    floor = None
    if config.complexity > 2 and any(m.fn == "count" for m in measures) and rng.random() < 0.5:
        groups_seen = max(1, min(groups[0].distinct, table.rows))
        floor = spec.floor_given("row_count", float(max(2, table.rows // groups_seen // 4)))
    order = None
    if rng.random() < 0.5:
        order = Order(column=rng.choice(measures).name, descending=rng.random() < 0.7)
    return Summary(table.source, tuple(lookups), tests, keys, tuple(measures), floor, order, target)


def _draft(
    profile: Profile, summary: Summary, tables: Iterable[TableProfile], seen: list[Seen], rng: random.Random,
    config: BuildConfig,
) -> Draft:  # fmt: skip
    tables = list(tables)
    files = expand(profile, {t.path: "holds rows that the summary needs" for t in tables}, rng, config)
    guard = guards.guards(files, [summary.deliverable.path])
    contract = spec.contract(summary, guard)
    measured = {m.column for m in summary.measures}
    gaps = any(c.nulls for c in seen if c.name in measured)
    turns = 6 + sum(t.rows // 4000 + profile.file(t.path).size // 500_000 + 1 for t in tables)
    return Draft(
        title=f"Summarise {tables[0].path.rsplit('/', 1)[-1]} by {summary.groups[0].name}",
        instruction=spec.request(summary, rng, gaps=gaps),
        contract=contract,
        files=files,
        harness=guards.harness(("read_table", "write_table", "shell"), config, rng, turns),
        criteria=guards.criteria(contract, _anchors(contract)),
        checks={"main.py": checks.source(contract, guard)},
        negatives=cases.negatives(contract, rng),
        alternatives=cases.alternatives(contract, rng),
        sizes={checks.ANCHOR: SIZE},
        capabilities=("tables",),
    )


def _anchors(contract: Contract) -> dict[str, tuple[str, ...]]:
    return {r.id: (checks.ANCHOR,) for r in contract.requirements if isinstance(r.rule, RowsRule | CellsRule)}
