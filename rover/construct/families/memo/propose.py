"""Choosing the figures of a memo: what the tables can tell, under labels that cannot be mixed up."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from rover.construct import cases
from rover.construct.columns import Column as Seen
from rover.construct.columns import words
from rover.construct.config import BuildConfig
from rover.construct.expand import expand
from rover.construct.families import guards
from rover.construct.families.choose import conditions, usable
from rover.construct.families.memo import checks, spec
from rover.construct.families.memo.spec import Figure, Fn, Memo, Partner
from rover.construct.families.protocol import Draft, Dropped
from rover.construct.families.wording import Condition, speakable
from rover.construct.profile import Profile, TableProfile

FIGURES = (3, 5)
_LABELS: dict[Fn, tuple[str, ...]] = {
    "count": ("Rows in {t}", "Entries of {t}"), "count_distinct": ("Different {c}", "Variety of {c}"),
    "sum": ("Total {c}", "Sum of {c}"), "mean": ("Average {c}", "Mean {c}"), "min": ("Smallest {c}", "Lowest {c}"),
    "max": ("Largest {c}", "Highest {c}"), "earliest": ("First {c}", "Earliest {c}"),
    "latest": ("Last {c}", "Latest {c}"),
    "most_rows": ("Most frequent {g}", "Commonest {g}"), "largest_sum": ("Leading {g} by {c}", "Top {g} by {c}"),
}  # fmt: skip


def propose(profile: Profile, rng: random.Random, config: BuildConfig) -> Draft | Dropped:
    """One memo, or why these files carry none."""
    tables = usable(profile, least=10)
    if not tables:
        return Dropped("no fit", "no table of a size that a memo can sum up")
    rng.shuffle(tables)
    first = tables[0]
    near = profile.neighbours(first.path) if config.expansion else ()
    chosen = [first, *sorted(tables[1:], key=lambda t: t.path not in near)][: max(1, config.inputs)]
    wanted = min(FIGURES[1], FIGURES[0] - 1 + config.complexity)
    figures: list[Figure] = []
    for again in range(40):
        table = chosen[again % len(chosen)]
        made = _figure(profile, table, f"figure-{len(figures) + 1}", rng, config)
        if made and _new(made, figures):
            figures.append(made)
        if len(figures) == wanted:
            break
    if len(figures) < FIGURES[0]:
        return Dropped("no fit", f"{first.path} gives no {FIGURES[0]} figures with labels of their own")
    path = _path(profile, rng)
    return _draft(profile, Memo(path, tuple(figures)), rng, config)


def _new(made: Figure, figures: list[Figure]) -> bool:
    """Neither label holds the other, and it is not the same figure again."""
    mine = f" {made.label.casefold()} "
    others = [f" {f.label.casefold()} " for f in figures]
    same = any((f.source, f.fn, f.column, f.group) == (made.source, made.fn, made.column, made.group) for f in figures)
    return not same and not any(mine in o or o in mine for o in others)


def _figure(
    profile: Profile, table: TableProfile, name: str, rng: random.Random, config: BuildConfig
) -> Figure | None:
    options = list(_options(table))
    fn, column, group = rng.choice(options)
    said = {"t": _said(_stem(table))}
    said |= {key: _said(c.name) if c else "" for key, c in (("c", column), ("g", group))}
    if (column and not said["c"]) or (group and not said["g"]) or not said["t"]:
        return None
    label = rng.choice(_LABELS[fn]).format(**said)
    used = {c.name for c in (column, group) if c}
    tests: tuple[Condition, ...] = ()
    if rng.random() < 0.25 * config.complexity:
        tests = conditions([c for c in table.columns if c.name not in used], rng, 1, f"{name}-kept")
    partner = _partner(profile, table, name, rng) if config.inputs > 1 and rng.random() < 0.3 else None
    decimals = None
    if column and (fn == "mean" or (fn in ("sum", "min", "max") and column.decimals > 2)):
        decimals = rng.choice((1, 2))
    return Figure(
        id=name, label=label, fn=fn, source=table.source, column=column.name if column else "",
        group=group.name if group else "", decimals=decimals, conditions=tests, partner=partner,
    )  # fmt: skip


def _options(table: TableProfile) -> Iterator[tuple[Fn, Seen | None, Seen | None]]:
    """What can be said of a table: function, column, group."""
    yield "count", None, None
    columns = [c for c in table.columns if speakable(c.name)]
    groups = [c for c in columns if _names_groups(c)]
    for c in columns:
        if c.numeric and c.measure and c.nulls * 3 <= c.rows and c.decimals <= 9 and c.distinct > 2:
            for fn in _NUMERIC:
                yield fn, c, None
            for g in groups:
                yield "largest_sum", c, g
        elif c.type == "date":
            yield "earliest", c, None
            yield "latest", c, None
        elif c.type == "text" and not c.nulls and c.distinct > 3:
            yield "count_distinct", c, None
    for g in groups:
        yield "most_rows", None, g


_NUMERIC: tuple[Fn, ...] = ("sum", "mean", "min", "max")


def _names_groups(c: Seen) -> bool:
    """A column whose values are words that can stand in a sentence."""
    values = [v for v, _ in c.common]
    return (
        c.grouping and c.type == "text" and not c.nulls and c.distinct == len(values)
        and len({v.casefold() for v in values}) == len(values)
        and all(speakable(v) and len(v) > 2 and v.replace(" ", "").replace("-", "").isalpha() for v in values)
    )  # fmt: skip


def _partner(profile: Profile, table: TableProfile, name: str, rng: random.Random) -> Partner | None:
    """Rows that have a partner in a related table, under a condition there."""
    known: Callable[[str], bool] = speakable
    sources = {t.source for t in usable(profile, least=2)}
    fit = [
        r for r in profile.relations_of(table.source)
        if r.one in sources and r.one.path != table.path and known(r.many_column) and known(r.one_column)
    ]  # fmt: skip
    if not fit:
        return None
    relation = rng.choice(fit[:4])
    right = profile.table(relation.one)
    columns = [c for c in right.columns if c.name != relation.one_column]
    tests = conditions(columns, rng, 1, f"{name}-partner")
    if not tests and relation.full:
        return None
    return Partner(relation.one, relation.many_column, relation.one_column, tests)


def _said(name: str) -> str:
    """A column's or file's name as words without digits."""
    return " ".join(w for w in words(name) if w.isalpha())[:40].strip()


def _stem(table: TableProfile) -> str:
    return table.sheet or table.path.rsplit("/", 1)[-1].rsplit(".", 1)[0]


def _path(profile: Profile, rng: random.Random) -> str:
    path = rng.choice(("", "memo/", "out/", "reports/")) + rng.choice(("memo", "summary", "note")) + ".md"
    taken = {f.path.casefold() for f in profile.files}
    return path if path.casefold() not in taken else f"out/new_{path.rsplit('/', 1)[-1]}"


def _draft(profile: Profile, memo: Memo, rng: random.Random, config: BuildConfig) -> Draft:
    needed = dict.fromkeys(memo.cited(), "holds rows that a figure needs")
    files = expand(profile, needed, rng, config)
    guard = guards.guards(files, [memo.path])
    contract = spec.contract(memo, guard)
    sources = {s for f in memo.figures for s in f.sources}
    used = [profile.table(f.source).column(f.column) for f in memo.figures if f.column]
    pages = sum(profile.table(s).rows // 4000 + profile.file(s.path).size // 500_000 + 1 for s in sources)
    return Draft(
        title=f"Memo on {' and '.join(p.rsplit('/', 1)[-1] for p in memo.cited()[:2])}",
        instruction=spec.request(memo, rng, gaps=any(c.nulls for c in used)),
        contract=contract,
        files=files,
        harness=guards.harness(("read_table", "write_file", "shell"), config, rng, 6 + pages),
        criteria=guards.criteria(contract, {f.id: (f.id,) for f in memo.figures}),
        checks={"main.py": checks.source(memo, guard)},
        negatives=cases.negatives(contract, rng),
        alternatives=cases.alternatives(contract, rng),
        capabilities=("tables", "writing"),
    )
