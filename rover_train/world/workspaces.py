"""Small workspaces of CSV files for the family `chores`: real folders, one for each cluster of packages.

Each holds a main table, a look-up table, a ledger, and a file that nobody asked to touch. All values come from the
seed: equal seeds give equal bytes.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from rover_store.errors import UsageError
from rover_store.ids import digest

SITES = ("north", "south", "east", "west")
ITEMS = ("cord", "bolt", "gear", "pipe", "rope", "lamp")
STATES = ("open", "done", "held")
#: the value that most of the look-up table holds: what somebody guesses who does not look (chores.hasty)
USUAL, MOSTLY = 200, 0.6
#: all numbers have three digits, and words four letters: credit finds where such a value came from
NUMBERS = range(100, 400)

Table = list[list[str]]


def write(folder: Path, count: int, seed: int) -> list[Path]:
    """Write `count` workspaces as folders below `folder`. UsageError where one is there already."""
    made = [folder / f"w{number:04d}" for number in range(count)]
    for path in made:
        if path.exists():
            raise UsageError(f"{path} is there already")
    for number, path in enumerate(made):
        path.mkdir(parents=True)
        for name, table in tables(seed, number).items():
            (path / name).write_text(csv_text(table), encoding="utf-8")
    return made


def tables(seed: int, number: int) -> dict[str, Table]:
    """File name -> rows, the header first."""
    rng = random.Random(int(digest(["world", seed, number])[:15], 16))
    return draw(rng)


def draw(rng: random.Random) -> dict[str, Table]:
    """The tables of one workspace."""
    return {
        "main.csv": [["id", "site", "item", "qty"], *_main(rng)],
        "rates.csv": [["item", "rate"], *([item, _rate(rng)] for item in _shuffled(rng, ITEMS))],
        "ledger.csv": [["id", "item", "state", "paid"], *_ledger(rng)],
        "notes.csv": [["place", "chief"], *([site, str(rng.choice(NUMBERS))] for site in SITES)],
    }


def csv_text(table: Table) -> str:
    return "".join(",".join(row) + "\n" for row in table)


def _main(rng: random.Random) -> Table:
    while True:
        size = rng.randint(10, 13)
        ids = rng.sample(NUMBERS, size)
        sites = [rng.choice(SITES) for _ in ids]
        counts = Counter(sites)
        if len(counts) >= 3 and any(3 <= n <= 5 for n in counts.values()) and any(2 <= n <= 4 for n in counts.values()):
            return [
                [str(i), site, rng.choice(ITEMS), str(rng.choice(NUMBERS))] for i, site in zip(ids, sites, strict=True)
            ]


def _rate(rng: random.Random) -> str:
    return str(USUAL if rng.random() < MOSTLY else rng.choice([n for n in NUMBERS if n != USUAL]))


def _ledger(rng: random.Random) -> Table:
    ids = rng.sample(NUMBERS, 6)
    return [[str(i), rng.choice(ITEMS), rng.choice(STATES), str(rng.choice(NUMBERS))] for i in ids]


def _shuffled(rng: random.Random, items: tuple[str, ...]) -> list[str]:
    return rng.sample(items, k=len(items))
