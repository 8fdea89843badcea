"""Choosing chores that small tables can carry: a main table, a look-up table, a ledger."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from rover.construct import cases
from rover.construct.columns import Column as Seen
from rover.construct.families import guards
from rover.construct.families.chores import checks, spec
from rover.construct.families.chores.spec import Change, Chore, Lookup, Part, Report
from rover.construct.families.protocol import Draft, Dropped
from rover.construct.families.wording import speakable
from rover.construct.profile import Profile, TableProfile
from rover_store.ids import digest
from rover_store.records import Budget, ContextFile, Harness
from rover_store.records.contract import Column

#: level -> kinds of parts (see spec.letters), one of which is drawn
LEVELS: dict[int, tuple[str, ...]] = {
    1: ("RE",), 2: ("RV", "LE"), 3: ("LV", "REV"), 4: ("RL", "LEV"), 5: ("RLE", "RLV"), 6: ("RLEV",),
}  # fmt: skip
#: rows of a report, least and most
ROWS, LOOKED_UP = (3, 5), (2, 4)
TOOLS = ("read_file", "read_table", "write_file", "append_rows", "edit_table")
TURNS = 24
MOST_FILES, MOST_ROWS = 8, 40
#: values for a cell of text, beside those that its column holds
STATES = ("done", "open")
PATHS = ("out.csv", "list.csv")
_TYPES = ("text", "integer", "number", "date")


@dataclass(frozen=True, slots=True)
class Desk:
    """Tables that chores can be made of."""

    main: TableProfile
    #: columns of main: condition, plain value
    by: Seen
    plain: Seen
    key: Seen
    lookup: Lookup
    looked_up: Seen
    ledger: TableProfile | None


def propose(profile: Profile, rng: random.Random, *, levels: tuple[int, ...], strict: bool) -> Draft | Dropped:
    """One task, or why these files carry none."""
    if not any(t.rows <= MOST_ROWS for t in profile.tables) or len(profile.files) > MOST_FILES:
        return Dropped("no fit", "chores need a few small tables")
    desks = _desks(profile)
    if not desks:
        return Dropped("no fit", "no table has a key, a kind to pick rows by and a column that another table explains")
    # attempts of a number draw alike in every workspace: the files make the difference, so that levels mix
    rng = random.Random(int(digest([rng.getrandbits(48), sorted(f.sha256 for f in profile.files)])[:15], 16))
    level = rng.choice(levels)
    desk = rng.choice(desks)
    kinds = list(rng.choice(LEVELS[level]))
    rng.shuffle(kinds)
    parts = _parts(desk, kinds, rng)
    if isinstance(parts, Dropped):
        return parts
    chore = Chore(parts, strict=strict)
    if desk.ledger and chore.changes():
        chore = replace(chore, ledger=desk.ledger.path, ledger_columns=tuple(map(_column, desk.ledger.columns)))
    return _draft(profile, chore, level, rng)


def _desks(profile: Profile) -> list[Desk]:
    """Every way to take the tables with one of the largest as the main one, in the order of the files."""
    small = [
        t for t in profile.tables
        if 4 <= t.rows <= MOST_ROWS and t.path.endswith(".csv") and profile.file(t.path).delimiter in ("", ",")
        and all(speakable(c.name) and not c.nulls for c in t.columns)
    ]  # fmt: skip
    out = []
    for main in small:
        keys = [c for c in main.columns if c.unique and c.type == "integer"]
        for other in small:
            found = _lookup(main, other)
            if other is main or not keys or found is None:
                continue
            shared, value = found
            free = [c for c in main.columns if c.name not in (keys[0].name, shared)]
            kinds = [c for c in free if c.type == "text" and _fair(c, ROWS) and _fair(c, LOOKED_UP)]
            plain = [c for c in free if c.type == "integer"]
            if kinds and plain:
                lookup = Lookup(other.path, shared, value.name)
                ledger = next((t for t in small if t not in (main, other) and _ledger(t, shared, other)), None)
                out.append(Desk(main, kinds[0], plain[0], keys[0], lookup, value, ledger))
    return [d for d in out if d.main.rows == max(d.main.rows for d in out)]


def _lookup(main: TableProfile, other: TableProfile) -> tuple[str, Seen] | None:
    """The column that both share (a key of the other one, which knows all its values), and a value there."""
    own = {c.name for c in main.columns}
    for key in (c for c in other.columns if c.unique and c.type == "text" and c.name in own):
        known = set(other.values[key.name])
        values = [c for c in other.columns if c.name not in own and c.type == "integer"]
        if values and not main.column(key.name).unique and set(main.values[key.name]) <= known:
            return key.name, values[0]
    return None


def _ledger(table: TableProfile, shared: str, other: TableProfile) -> bool:
    """A key, the shared column, a text column to set and a number column to set."""
    return (
        _ledger_key(table) is not None and _state(table, shared) is not None and _amount(table) is not None
        and shared in {c.name for c in table.columns} and set(table.values[shared]) <= set(other.values[shared])
    )  # fmt: skip


def _ledger_key(table: TableProfile) -> Seen | None:
    return next((c for c in table.columns if c.unique and c.type == "integer"), None)


def _state(table: TableProfile, shared: str) -> Seen | None:
    return next((c for c in table.columns if c.type == "text" and not c.unique and c.name != shared), None)


def _amount(table: TableProfile) -> Seen | None:
    key = _ledger_key(table)
    return next((c for c in table.columns if c.type == "integer" and key and c.name != key.name), None)


def _fair(column: Seen, rows: tuple[int, int]) -> bool:
    return any(rows[0] <= n <= rows[1] and speakable(v) for v, n in column.common)


def _parts(desk: Desk, kinds: list[str], rng: random.Random) -> tuple[Part, ...] | Dropped:
    if set(kinds) & {"E", "V"} and desk.ledger is None:
        return Dropped("no fit", "there is no ledger")
    paths = iter(PATHS)
    places = rng.sample(range(desk.ledger.rows), 2) if desk.ledger else []
    parts: list[Part] = []
    for kind in kinds:
        if kind in "RL":
            parts.append(_report(desk, kind, f"report{len(parts) + 1}", next(paths), rng))
        else:
            parts.append(_change(desk, kind, f"cell{len(parts) + 1}", places.pop(), rng))
    return tuple(parts)


def _report(desk: Desk, kind: str, name: str, path: str, rng: random.Random) -> Report:
    least, most = ROWS if kind == "R" else LOOKED_UP
    values = [v for v, n in desk.by.common if least <= n <= most and speakable(v)]
    lookup = desk.lookup if kind == "L" else None
    value = _column(desk.looked_up if lookup else desk.plain)
    return Report(name, path, desk.main.path, (desk.by.name, rng.choice(values)), _column(desk.key), value, lookup)


def _change(desk: Desk, kind: str, name: str, place: int, rng: random.Random) -> Change:
    ledger = desk.ledger
    assert ledger
    key, state, amount = _ledger_key(ledger), _state(ledger, desk.lookup.key), _amount(ledger)
    assert key
    assert state
    assert amount
    where = key.name, int(str(ledger.values[key.name][place]))
    if kind == "V":
        return Change(name, where, amount.name, lookup=desk.lookup)
    return Change(name, where, state.name, told=_told(state, str(ledger.values[state.name][place]), rng))


def _told(state: Seen, held: str, rng: random.Random) -> str:
    """One of the values in use, but not the one that the row holds already."""
    values = {v for v, _ in state.common if speakable(v)} | set(STATES)
    return rng.choice(sorted(values - {held}))


def _column(c: Seen) -> Column:
    return Column(name=c.name, type=c.type if c.type in _TYPES else "text")


def _draft(profile: Profile, chore: Chore, level: int, rng: random.Random) -> Draft:
    needed = {r.source for r in chore.reports()} | {p.lookup.path for p in chore.parts if p.lookup}
    files = tuple(
        ContextFile(
            path=f.path, access="editable" if f.path == chore.ledger else "protected",
            role="input" if f.path in needed or f.path == chore.ledger else "distractor",
        )
        for f in profile.files
    )  # fmt: skip
    targets = [r.path for r in chore.reports()] + ([chore.ledger] if chore.ledger else [])
    guard = guards.guards(files, targets)
    contract = spec.contract(chore, guard)
    sizes = {r.id: LOOKED_UP if r.lookup else ROWS for r in chore.reports()}
    return Draft(
        title=f"Chores of level {level}: {spec.letters(chore.parts)}",
        instruction=spec.request(chore, rng),
        contract=contract,
        files=files,
        harness=Harness(tools=TOOLS, budget=Budget(turns=TURNS, seconds=300.0)),
        criteria=guards.criteria(contract, spec.anchors(chore)),
        checks={"main.py": checks.source(chore, guard)},
        negatives=cases.negatives(contract, rng),
        alternatives=cases.alternatives(contract, rng),
        sizes=sizes,
        capabilities=("tables",),
        pass_weight=1.0,
        notes={"level": level, "parts": spec.letters(chore.parts)},
    )


