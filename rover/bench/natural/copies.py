"""Cases of tasks that are kept in two copies which no longer agree."""

from __future__ import annotations

from rover.bench.natural import tasks
from rover.bench.natural.case import Natural, Proposals, Version
from rover.bench.natural.office import csv, money, rows_of, stream, total
from rover.bench.natural.pack import Pack
from rover.bench.natural.tasks import File, Sound
from rover.construct.families.reconcile.spec import Fields, Reconciliation
from rover.construct.families.summarise.spec import Summary, columns
from rover.construct.families.wording import Condition
from rover_store.records import Deliverable, Source
from rover_store.records.contract import Column
from rover_store.records.query import Measure

# --- two copies of one task ---------------------------------------------------------------------------------
SLIPS = "cards/slips.csv"
STATEMENT = "cards/statement.csv"


def _slips() -> bytes:
    chance = stream("slips")
    cards = [f"card-{n}" for n in (11, 14, 23, 27, 31, 38, 42)]
    rows = [[f"S{900 + i}", chance.choice(cards), money(chance, 4, 320)] for i in range(48)]
    return csv(("slip", "card", "amount"), rows)


def _statement() -> bytes:
    """Booked totals: some as they are, some off by cents, two by a few, two by more."""
    rows = rows_of(_slips())
    off = (0.0, 0.3, 2.4, -3.15, 18.0, -0.2, 41.5)
    cards = sorted({r["card"] for r in rows})
    sums = {c: float(total(r["amount"] for r in rows if r["card"] == c)) for c in cards}
    return csv(("card", "booked"), [[c, f"{sums[c] + more:.2f}"] for c, more in zip(cards, off, strict=True)])


def card_task() -> Sound:
    fields = Fields("differences", "count", "checked", "largest", "computed", "gap")
    what = Reconciliation(
        details=Source(path=SLIPS), lookup=None, conditions=(), group="card", group_type="text", amount="amount",
        places=2, totals=Source(path=STATEMENT), recorded="booked", tolerance=0.5, fields=fields,
        path="cards/check.json",
    )  # fmt: skip
    opening = "The books are being closed and the card statement needs a check against the slips."
    files = (File(SLIPS, _slips(), "slips"), File(STATEMENT, _statement(), "booked totals", "starter"))
    return tasks.reconciliation("cards", "Check the card statement", opening, what, files)


def _copies_history(sound: Pack) -> tuple[Version, ...]:
    def says(amount: str) -> Pack:
        return sound.lone().restated(r"(more than|up to) 0\.5\b", rf"\g<1> {amount}")

    return (
        Version("Import the card check from the joint list", says("20").settled()),
        Version("Import it again", says("3").settled()),
    )


def _task_repair(case: Pack, sound: Pack) -> Proposals:
    return {"task": sound.component("task")}


TWO_COPIES = Natural(
    key="two-copies",
    line=7,
    source="a suite that keeps each task twice, in a joint file and in a folder of its own",
    symptom="the request names another amount than the check goes by; workers who read carefully fail",
    fault="the request was taken from one copy of the task and contract and verifier from the other, and the copies "
    "differ in one number (T)",
    repair="the request was taken from the copy that the verifier was made from",
    outcome="right",
    components=("task",),
    expects=(("wrong_given", "task"),),
    right=(2,),
    shows={"demonstrator": ("passed", "failed"), "reference": ("passed", "passed")},
    sound=card_task,
    history=_copies_history,
    proposals=_task_repair,
)

HOURS = "teams/hours.csv"


def _hours() -> bytes:
    chance = stream("hours")
    teams = ("blue", "green", "red", "white", "yellow")
    rows = [
        [f"H{i:03}", chance.choice(teams), chance.choice(("day", "night")), f"{chance.randint(10, 95) / 10:.1f}"]
        for i in range(44)
    ]
    return csv(("entry", "team", "shift", "hours"), rows)


def hours_task(path: str, title: str, shift: str) -> Sound:
    """The hours of each team in one kind of shift."""
    keys = (Column(name="team", type="text", meaning="group"),)
    measures = (
        Measure(name="entries", fn="count"),
        Measure(name="total_hours", fn="sum", column="hours", decimals=1),
    )
    target = Deliverable(id="summary", path=path, type="csv", columns=columns(keys, measures), key=("team",))
    of = Condition("shift", "eq", shift, "shift", "text")
    what = Summary(Source(path=HOURS), (), (of,), keys, measures, None, None, target)
    opening = "A colleague asked for this piece of work on the hours of the teams."
    return tasks.summary("teams", title, opening, what, (File(HOURS, _hours(), "hours as entered"),))


def _joint_history(sound: Pack) -> tuple[Version, ...]:
    rows = [line.split(",") for line in sound.answer.decode().splitlines()[1:]]
    pairs = [(team, float(hours)) for team, _, hours in rows]

    def joint(table: list[tuple[str, float]]) -> Pack:
        lines = "".join(f"        ({team!r}, {hours!r}),\n" for team, hours in table)
        body = (
            "    # from the joint list of all tasks\n"
            f"    joint = rc.Table(('team', 'total_hours'), (\n{lines}    ), 'joint list')\n"
            "    return rc.cells_match(\n"
            "        found(ev), joint, KEY, 'total_hours', tolerance=0.1, kind='number', key_kind=KEY_KINDS,\n"
            "    )\n"
        )
        return sound.lone().check("cells_2", body)

    def off(number: int, by: float) -> list[tuple[str, float]]:
        return [(t, round(h + by, 1) if i == number else h) for i, (t, h) in enumerate(pairs)]

    return (
        Version("Add the hours of the night shift", joint(off(0, 2.0)).settled()),
        Version("Take the amounts of the joint list", joint(off(3, -4.5)).settled()),
    )


def _verifier_repair(case: Pack, sound: Pack) -> Proposals:
    return {"verifier": sound.lone().component("verifier")}


JOINT_LIST = Natural(
    key="joint-list",
    line=7,
    source="a suite that keeps each task twice, in a joint file and in a folder of its own",
    symptom="the reference itself fails, in one number of one row",
    fault="a check has its own copy of the expected amounts, and one of them differs from the anchors (V)",
    repair="the check reads the one copy that is derived",
    outcome="right",
    components=("verifier",),
    expects=(("strict_verifier", "verifier"),),
    right=(8,),
    shows={"reference": ("passed", "failed"), "demonstrator": ("passed", "failed")},
    sound=lambda: hours_task("teams/night_hours.csv", "Add up the night hours", "night"),
    history=_joint_history,
    proposals=_verifier_repair,
)

CASES = (TWO_COPIES, JOINT_LIST)
