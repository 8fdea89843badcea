"""Defects of the data: values that changed under the anchors, other units and formats, headers that drifted."""

from __future__ import annotations

import random
import re
from typing import Any

from rover.diagnose.inject.edits import binding, replaced
from rover.diagnose.inject.grids import DAY, Grid, Uses, decimals_of, empty, is_number, like, read, uses
from rover.diagnose.inject.protocol import C, Components, Damage, Expects, Masks, Unfit, V, rng_for
from rover.rollout.env import Env


class ChangedData:
    kind = "changed_data"
    summary = "the data of a source file changed after the anchors were taken"
    repair = "V: derive the anchors again; or C: bind the former data again"
    expects: Expects = (("changed_data", "context"),)
    components: Components = ("context",)
    right: Masks = (C, V)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        path, data, what = changed_table(env, self.kind, rng_for(self.kind, seed))
        return replaced(env, self.kind, path, data, f"{path}: {what}")


class WrongUnit:
    kind = "wrong_unit"
    summary = "a column of a source is written in another unit than its name and the request say"
    repair = "C: write the column in its unit again"
    expects: Expects = (("wrong_unit", "context"),)
    components: Components = ("context",)
    right: Masks = (C,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        choices = [
            (grid, at)
            for use, grid in _grids(env)
            for at, name in enumerate(grid.header)
            if name in use.measured | use.compared and grid.numeric(at) and not _years(grid, at)
        ]
        if not choices:
            raise Unfit(self.kind, "no answer measures a column of numbers")
        grid, at = rng.choice(choices)
        factor, unit = rng.choice(_factors(grid.header[at]))
        decimals = 0 if factor >= 1000 else 4
        for row in grid.rows:
            if is_number(row[at]):
                row[at] = _trimmed(row[at], float(row[at]) * factor, decimals)
        note = f"{grid.path}: {grid.header[at]} is now in {unit}"
        return replaced(env, self.kind, grid.path, grid.render(), note)


class OtherFormat:
    kind = "reformatted_values"
    summary = "a column of a source writes its dates or numbers in another format"
    repair = "C: write them as before"
    expects: Expects = (("wrong_unit", "context"),)
    components: Components = ("context",)
    right: Masks = (C,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        path, data, what = reformatted(env, self.kind, rng)
        return replaced(env, self.kind, path, data, f"{path}: {what}")


class RenamedColumn:
    kind = "renamed_column"
    summary = "a source's header calls a column otherwise than the request and the contract do"
    repair = "C: call the column as before"
    expects: Expects = (("changed_data", "context"),)
    components: Components = ("context",)
    right: Masks = (C,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        path, data, what = renamed(env, self.kind, rng_for(self.kind, seed))
        return replaced(env, self.kind, path, data, f"{path}: {what}")


class SharedFault:
    kind = "shared_file_fault"
    summary = "a resource that several packages share was saved with another header or another format of its values"
    repair = "C: put the resource right (its siblings then follow), or fork it"
    expects: Expects = (("changed_data", "context"),)
    components: Components = ("context",)
    right: Masks = (C,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        ways = [(renamed, self.expects), (reformatted, OtherFormat.expects)]
        rng.shuffle(ways)
        for way, expects in ways:
            try:
                path, data, what = way(env, self.kind, rng, shared=True)
            except Unfit:
                continue
            note = f"{path}: {what}, for every package that is bound to it"
            damage = replaced(env, self.kind, path, data, note, siblings=True)
            return Damage(damage.files, note, damage.resources, True, expects=expects)
        raise Unfit(self.kind, "no resource holds a table that an answer comes from")


# --- ways to change a table ----------------------------------------------------------------------------------
def changed_table(env: Env, kind: str, rng: random.Random) -> tuple[str, bytes, str]:
    """Path, new bytes and what was done: other values, or other rows, in a table that an answer measures."""
    found = _grids(env)
    rng.shuffle(found)
    for use, grid in found:
        at = [i for i, n in enumerate(grid.header) if n in use.measured and grid.numeric(i)]
        way = rng.choice(("values", "values", "dropped", "doubled")) if at else "dropped"
        if way == "values":
            what = _other_values(grid, rng.choice(at), rng)
        elif way == "doubled":
            what = _doubled(grid, use, rng)
        else:
            kept = [row for row in grid.rows if rng.random() < 0.6]
            grid.rows[:] = kept or grid.rows[:1]
            what = "about 4 in 10 rows are gone"
        data = grid.render()
        if data != env.start[grid.path]:
            return grid.path, data, what
    raise Unfit(kind, "no table that an answer comes from can be changed")


def reformatted(env: Env, kind: str, rng: random.Random, *, shared: bool = False) -> tuple[str, bytes, str]:
    """The same values in another spelling, in a column that an answer measures or compares."""
    choices = [
        (grid, at)
        for use, grid in _grids(env, shared)
        for at, name in enumerate(grid.header)
        if name in use.measured | use.compared and (grid.numeric(at) or grid.dated(at))
    ]
    if not choices:
        raise Unfit(kind, "no answer measures or compares a column of numbers or dates")
    grid, at = rng.choice(choices)
    day = grid.dated(at)
    how = rng.choice(_DATES if day else _NUMBERS)
    for row in grid.rows:
        if not empty(row[at]):
            row[at] = _date(str(row[at]), how) if day else _spelled(row[at], how, grid.header[at])
    return grid.path, grid.render(), f"{grid.header[at]} is written like {_first(grid, at)}"


def renamed(env: Env, kind: str, rng: random.Random, *, shared: bool = False) -> tuple[str, bytes, str]:
    """The same table with one needed column under another header."""
    choices = [
        (grid, at) for use, grid in _grids(env, shared) for at, name in enumerate(grid.header) if name in use.every
    ]
    if not choices:
        raise Unfit(kind, "no answer comes from a table whose header can be changed")
    grid, at = rng.choice(choices)
    old = grid.header[at]
    names = [n for n in _headers(old) if n != old and n not in grid.header]
    grid.header[at] = rng.choice(names)
    return grid.path, grid.render(), f"the column {old} is now called {grid.header[at]}"


def _grids(env: Env, shared: bool = False) -> list[tuple[Uses, Grid]]:
    found = [(use, read(env, use.source)) for use in uses(env) if not shared or binding(env, use.source.path)]
    return [(use, grid) for use, grid in found if grid is not None]


def _other_values(grid: Grid, at: int, rng: random.Random) -> str:
    changed = False
    while not changed:
        for row in grid.rows:
            if is_number(row[at]) and rng.random() < 0.5:
                row[at], changed = _other_number(row[at], rng), True
    return f"about half of the values of {grid.header[at]} changed"


def _doubled(grid: Grid, use: Uses, rng: random.Random) -> str:
    """Some rows twice, as an import that ran again leaves them."""
    begin = rng.randrange(max(1, len(grid.rows) // 2))
    again = grid.rows[begin : begin + max(2, len(grid.rows) // 3)]
    grid.rows.extend([list(row) for row in again])
    return f"{len(again)} rows stand there twice"


def _other_number(cell: Any, rng: random.Random) -> Any:
    """Another number in the same form, near enough that the table keeps its shape."""
    decimals = decimals_of(cell)
    if not decimals:
        return like(cell, float(cell) + rng.choice((1, 2)), 0)
    return like(cell, float(cell) * rng.choice((1.02, 1.05, 1.1)) + 10.0**-decimals, decimals)


#: end of a column's name -> other units with what one of the old unit is in them
_UNITS = {
    "_mm": ((0.1, "cm"), (0.001, "m")), "_cm": ((10.0, "mm"), (0.01, "m")), "_m": ((100.0, "cm"), (0.001, "km")),
    "_km": ((1000.0, "m"), (0.621371, "miles")), "_ft": ((0.3048, "m"), (12.0, "inches")),
    "_g": ((0.001, "kg"), (1000.0, "mg")), "_kg": ((1000.0, "g"), (2.204623, "pounds")),
    "_eur": ((100.0, "cents"), (0.001, "thousands")), "_usd": ((100.0, "cents"), (0.001, "thousands")),
    "_pct": ((0.01, "shares of one"),), "_percent": ((0.01, "shares of one"),),
}  # fmt: skip


def _factors(column: str) -> tuple[tuple[float, str], ...]:
    for end, found in _UNITS.items():
        if column.lower().endswith(end):
            return found
    return ((0.001, "thousands"), (100.0, "hundredths"))


def _trimmed(cell: Any, value: float, decimals: int) -> Any:
    if isinstance(cell, int | float):
        found = round(value, decimals)
        return int(found) if float(found).is_integer() else found
    return f"{value:.{decimals}f}".rstrip("0").rstrip(".") if decimals else f"{value:.0f}"


_DATES = ("{d}/{m}/{y}", "{m}/{d}/{y}", "{d}.{m}.{y}", "{y}{m}{d}")
_NUMBERS = ("comma", "unit", "about")


def _date(text: str, how: str) -> str:
    year, month, day = text[:10].split("-") if DAY.match(text) else ("", "", "")
    return how.format(y=year, m=month, d=day) if year else text


def _spelled(cell: Any, how: str, column: str) -> str:
    decimals = decimals_of(cell)
    text = f"{float(cell):.{decimals}f}"
    if how == "comma":  # as a German or French sheet writes it
        whole, _, rest = f"{float(cell):,.{decimals or 1}f}".partition(".")
        return f"{whole.replace(',', '.')},{rest}"
    unit = column.rpartition("_")[2] if "_" in column else "units"
    return f"{text} {unit}" if how == "unit" else f"~{text}"


def _years(grid: Grid, at: int) -> bool:
    """Numbers that nobody writes in another unit."""
    return all(empty(c) or (decimals_of(c) == 0 and 1800 <= float(c) <= 2100) for c in grid.column(at))


def _headers(name: str) -> list[str]:
    words = [w for w in re.split(r"[_\s]+", name) if w]
    spaced = " ".join(words)
    return [spaced.title(), f"{name}_new", "".join(w.title() for w in words) + "1", f"{words[0]}_value", f"{name}."]


def _first(grid: Grid, at: int) -> str:
    return next((str(c) for c in grid.column(at) if not empty(c)), "")
