"""Mutations of tables: rows, cells and columns."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from rover.verify.checklib.values import is_empty, number, plain, same
from rover.verify.mutate.grids import Grid, load
from rover.verify.mutate.state import Change, Nothing, State
from rover.verify.mutate.values import other, reformatted

Arguments = Mapping[str, Any]
Edit = Callable[[Grid, Arguments, random.Random], None]
Op = Callable[[State, str, Arguments, random.Random], Change]


def _op(edit: Edit) -> Op:
    """An edit of a grid as a mutation of a file. Nothing where the file stays the same."""

    def run(state: State, path: str, arguments: Arguments, rng: random.Random) -> Change:
        grid = load(state, path, arguments)
        before = repr((grid.header, grid.rows))
        if arguments.get("edited"):
            arguments = {**arguments, "rows": _differing(grid, state, path, arguments)}
        edit(grid, arguments, rng)
        if repr((grid.header, grid.rows)) == before:
            raise Nothing(f"the rule changes nothing in {path}")
        return {path: grid.render()}

    return run


def _rows(grid: Grid, arguments: Arguments) -> list[int]:
    """Numbers of the rows that `where` allows. Nothing where there is none."""
    where = {grid.at(c): v for c, v in (arguments.get("where") or {}).items()}
    rows = arguments.get("rows", range(len(grid.rows)))
    if "row" in arguments:
        rows = [int(arguments["row"])]
    out = [i for i in rows if 0 <= i < len(grid.rows) and all(same(grid.rows[i][c], v) for c, v in where.items())]
    if not out:
        raise Nothing("the table has no such row")
    return out


def _differing(grid: Grid, state: State, path: str, arguments: Arguments) -> list[int]:
    """Rows whose cell in `column` (else any) is another one than at the start, by position."""
    if state.start is None or not state.start.exists(path):
        return list(range(len(grid.rows)))
    before = load(state.start, path, arguments)
    columns = [grid.at(arguments["column"])] if "column" in arguments else range(len(grid.header))
    both = zip(grid.rows, before.rows, strict=False)
    return [i for i, (now, was) in enumerate(both) if any(plain(now[c]) != plain(was[c]) for c in columns)]


def _free(grid: Grid, arguments: Arguments) -> list[int]:
    """Columns that may be changed: those named, else all but the excepted."""
    named = arguments.get("columns") or ([arguments["column"]] if "column" in arguments else [])
    if named:
        return [grid.at(c) for c in named]
    return [i for i, c in enumerate(grid.header) if c not in (arguments.get("except") or ())]


def _drop_row(grid: Grid, arguments: Arguments, rng: random.Random) -> None:
    del grid.rows[rng.choice(_rows(grid, arguments))]


def _add_row(grid: Grid, arguments: Arguments, rng: random.Random) -> None:
    """A row with a key of its own, like one that is there."""
    row = list(grid.rows[rng.choice(_rows(grid, arguments))])
    values = arguments.get("values") or {}
    keys = [grid.at(c) for c in arguments.get("key") or grid.header[:1]]
    for c in keys[:1]:
        row[c] = _unseen([r[c] for r in grid.rows], row[c])
    for name, value in values.items():
        row[grid.at(name)] = value
    grid.rows.append(row)


def _unseen(seen: list[Any], like: Any) -> Any:
    value = other(like)
    known = {plain(v) for v in seen}
    while plain(value) in known:
        value = other(value)
    return value


def _duplicate_row(grid: Grid, arguments: Arguments, rng: random.Random) -> None:
    i = rng.choice(_rows(grid, arguments))
    grid.rows.insert(i, list(grid.rows[i]))


def _change_cell(grid: Grid, arguments: Arguments, rng: random.Random) -> None:
    column = grid.at(arguments["column"]) if "column" in arguments else rng.choice(_free(grid, arguments))
    rows = _rows(grid, arguments)
    filled = [i for i in rows if not is_empty(grid.rows[i][column])] or rows
    row = grid.rows[rng.choice(filled)]
    row[column] = _written(grid, arguments["value"] if "value" in arguments else other(row[column], _delta(arguments)))


def _delta(arguments: Arguments) -> float | None:
    return float(arguments["delta"]) if "delta" in arguments else None


def _written(grid: Grid, value: Any) -> Any:
    return plain(value) if grid.kind == "text" else value


def _change_other_cell(grid: Grid, arguments: Arguments, rng: random.Random) -> None:
    """A cell that the task does not touch: of a column that is neither edited nor part of a key."""
    named = [n for k in ("except", "key", "columns") for n in arguments.get(k) or ()]
    spared = {*named, *([arguments["column"]] if "column" in arguments else [])}
    left = [i for i, c in enumerate(grid.header) if c not in spared]
    if not left or not grid.rows:
        raise Nothing("every column is spared")
    places = [(r, c) for r in range(len(grid.rows)) for c in left if not is_empty(grid.rows[r][c])]
    r, c = rng.choice(places or [(rng.randrange(len(grid.rows)), rng.choice(left))])
    grid.rows[r][c] = _written(grid, other(grid.rows[r][c]))


def _drop_column(grid: Grid, arguments: Arguments, rng: random.Random) -> None:
    c = grid.at(arguments["column"]) if "column" in arguments else rng.choice(_free(grid, arguments))
    del grid.header[c]
    for row in grid.rows:
        del row[c]


def _rename_column(grid: Grid, arguments: Arguments, rng: random.Random) -> None:
    c = grid.at(arguments["column"]) if "column" in arguments else rng.choice(_free(grid, arguments))
    grid.header[c] = str(arguments.get("to", f"{grid.header[c]}_2"))


def _shuffle_rows(grid: Grid, arguments: Arguments, rng: random.Random) -> None:
    before = list(grid.rows)
    if all(row == before[0] for row in before):
        raise Nothing("there are not two different rows")
    while grid.rows == before:
        rng.shuffle(grid.rows)


def _unsort(grid: Grid, arguments: Arguments, rng: random.Random) -> None:
    """Rows in an order in which the column is not sorted, neither way."""
    c = grid.at(arguments["column"])
    lowest, highest = _ends(grid, c)
    if lowest == highest or len(grid.rows) < 3:
        grid.rows.reverse()
        return
    rest = [row for i, row in enumerate(grid.rows) if i not in (lowest, highest)]
    rng.shuffle(rest)
    inner = next((i for i, row in enumerate(rest) if not same(row[c], grid.rows[lowest][c])), None)
    middle = [rest.pop(inner)] if inner is not None else []
    # an extreme stands between two others: sorted neither up nor down
    first = middle or [grid.rows[highest]]
    last = [grid.rows[highest]] if middle else []
    grid.rows[:] = [*first, grid.rows[lowest], *last, *rest]


def _ends(grid: Grid, c: int) -> tuple[int, int]:
    """Rows of the least and the greatest value of a column."""
    values = [row[c] for row in grid.rows]
    numbers = [number(v) for v in values]
    ranks: list[Any] = numbers if None not in numbers else [plain(v).casefold() for v in values]
    return ranks.index(min(ranks)), ranks.index(max(ranks))


def _reorder_columns(grid: Grid, arguments: Arguments, rng: random.Random) -> None:
    order = list(range(len(grid.header)))
    if len(order) < 2:
        raise Nothing("there is only one column")
    while order == sorted(order):
        rng.shuffle(order)
    grid.header[:] = [grid.header[i] for i in order]
    for row in grid.rows:
        row[:] = [row[i] if i < len(row) else "" for i in order]


def _reformat_numbers(grid: Grid, arguments: Arguments, rng: random.Random) -> None:
    """Columns that hold numbers alone, and in text files a decimal point or what `columns` names."""
    for c in _free(grid, arguments):
        cells = [row[c] for row in grid.rows if not is_empty(row[c])]
        if not cells or any(number(v) is None or isinstance(v, bool) or _identifier(v) for v in cells):
            continue
        if grid.kind == "text" and not _named(arguments) and not any("." in plain(v) for v in cells):
            continue
        for row in grid.rows:
            row[c] = reformatted(row[c])


def _named(arguments: Arguments) -> bool:
    return bool(arguments.get("columns") or "column" in arguments)


def _identifier(value: Any) -> bool:
    words = plain(value).strip()
    return len(words) > 1 and words[0] == "0" and words[1].isdigit()


def _extra_column(grid: Grid, arguments: Arguments, rng: random.Random) -> None:
    name = str(arguments.get("to", "remark"))
    while name in grid.header:
        name += "_2"
    grid.header.append(name)
    for row in grid.rows:
        row.append("checked")


drop_row = _op(_drop_row)
add_row = _op(_add_row)
duplicate_row = _op(_duplicate_row)
change_cell = _op(_change_cell)
change_other_cell = _op(_change_other_cell)
drop_column = _op(_drop_column)
rename_column = _op(_rename_column)
shuffle_rows = _op(_shuffle_rows)
unsort = _op(_unsort)
reorder_columns = _op(_reorder_columns)
reformat_numbers = _op(_reformat_numbers)
extra_column = _op(_extra_column)
