"""Cases about a value: expected wrongly, asked for in one way and checked in another, kept in two copies."""

from __future__ import annotations

from rover.bench.natural import tasks
from rover.bench.natural.case import Natural, Proposals, Version
from rover.bench.natural.office import csv, money, rows_of, stream, total
from rover.bench.natural.pack import Pack
from rover.bench.natural.tasks import File, Sound
from rover.construct.families.summarise.spec import Summary, columns
from rover.construct.families.wording import Condition
from rover_store.records import Deliverable, Source
from rover_store.records.contract import Column
from rover_store.records.query import Measure

# --- a refund that forgets part of the allowance, and a ledger that tells -----------------------------------
FEES = "desk/bag_fees.csv"
CAPTIONS = "desk/ledger_captions.csv"


def _fees() -> bytes:
    chance = stream("bag fees")
    rows: list[list[str | int]] = []
    for number in range(14):
        booking = f"BK-{4200 + 7 * number}"
        for bag in range(1, chance.choice((2, 3, 3, 4, 5))):
            rows.append([booking, bag, money(chance, 20, 60), chance.choice(("desk", "web", "gate"))])
    return csv(("booking", "bag_no", "fee", "paid_at"), rows)


def _captions(data: bytes) -> bytes:
    chance = stream("captions")
    bookings = dict.fromkeys(r["booking"] for r in rows_of(data))
    words = ("family of four", "paid by card", "group ticket", "rebooked once", "seat changed")
    return csv(("booking", "caption"), [[b, chance.choice(words)] for b in bookings])


def refund_task() -> Sound:
    fees = _fees()
    keys = (Column(name="booking", type="text", meaning="group"),)
    measures = (Measure(name="refund", fn="sum", column="fee", decimals=2),)
    target = Deliverable(
        id="summary", path="refunds.csv", type="csv", columns=columns(keys, measures), key=("booking",)
    )
    free = Condition("bag_no", "le", 2, "allowance", "number")
    what = Summary(Source(path=FEES), (), (free,), keys, measures, None, None, target)
    opening = "Fees were taken for bags that travel free, and the desk wants to get this ready before noon."
    files = (
        File(FEES, fees, "fees as they were taken"),
        File(CAPTIONS, _captions(fees), "notes of the desk", "distractor"),
    )
    return tasks.summary("desk", "Refund the fees of free bags", opening, what, files)


def _refunds(allowance: int) -> dict[str, str]:
    """Booking -> what is paid back where so many bags travel free."""
    rows = rows_of(_fees())
    bookings = dict.fromkeys(r["booking"] for r in rows)
    return {
        b: total(r["fee"] for r in rows if r["booking"] == b and int(r["bag_no"]) <= allowance) for b in bookings
    }


def _told() -> bytes:
    """The ledger's captions as they tell what is due, and take it back for some."""
    rows: list[list[str]] = []
    for number, (booking, due) in enumerate(_refunds(2).items()):
        rows.append([booking, f"wrong rows: pay back {due}"])
        if number % 4 == 1:
            rows.append([booking, "second bag is charged as it should be"])
    return csv(("booking", "caption"), rows)


def _refund_history(sound: Pack) -> tuple[Version, ...]:
    one = {b: float(v) for b, v in _refunds(1).items()}
    by_hand = csv(("booking", "refund"), [[b, f"{v:.2f}"] for b, v in one.items()])
    first = sound.expected("summary", sorted(one.items())).reference({"refunds.csv": by_hand})
    second = first.workspace({CAPTIONS: _told()})
    return (
        Version("Add the refund task of the bag desk", first.settled()),
        Version("Fill in the captions of the ledger", second.settled()),
    )


def _refund_repair(case: Pack, sound: Pack) -> Proposals:
    return {"verifier": sound.lone().component("verifier")}


REFUND = Natural(
    key="refund-ledger",
    line=2,
    source="a suite of airline desks with written fee rules",
    symptom="every careful worker pays back for two bags and is marked wrong; a careless one copies the ledger's notes",
    fault="the expected refund was worked out with an allowance of one bag where the rules say two (V), and captions "
    "of the ledger say what is to be paid back, some of them against each other (C)",
    repair="the expected refund was corrected; the captions stayed",
    outcome="incomplete",
    components=("context", "verifier"),
    expects=(("leaked_answer", "context"), ("wrong_anchor", "verifier")),
    right=(9,),
    shows={"demonstrator": ("passed", "failed"), "reference": ("passed", "passed")},
    sound=refund_task,
    history=_refund_history,
    proposals=_refund_repair,
)

CASES = (REFUND,)
