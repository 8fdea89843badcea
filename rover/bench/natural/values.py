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
from rover_store.records.query import Filter, Given, Measure

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
    right=(1, 9),  # a new context has the expected refund derived again
    shows={"demonstrator": ("passed", "failed"), "reference": ("passed", "passed")},
    sound=refund_task,
    history=_refund_history,
    proposals=_refund_repair,
)

# --- a maximum that is taken for the amount -----------------------------------------------------------------
BOXES = "buying/box_orders.csv"
HANDBOOK = "buying/handbook.md"
_RULES = b"""# Handbook of the buying office

An order of at most 20 boxes goes out without a signature.
Orders are booked on the day they are made.
"""


def _box_orders() -> bytes:
    chance = stream("box orders")
    rows = [
        [f"B-{510 + i}", chance.choice(("Lindau", "Marburg", "Neuss")), chance.choice((5, 8, 12, 20, 20, 30))]
        for i in range(34)
    ]  # fmt: skip
    return csv(("order", "branch", "boxes"), rows)


def box_task(path: str, exact: bool) -> Sound:
    keys = (Column(name="branch", type="text", meaning="group"),)
    measures = (Measure(name="orders", fn="count"), Measure(name="boxes_ordered", fn="sum", column="boxes"))
    target = Deliverable(id="summary", path=path, type="csv", columns=columns(keys, measures), key=("branch",))
    limit = Condition("boxes", "eq" if exact else "le", 20, "limit", "number")
    what = Summary(Source(path=BOXES), (), (limit,), keys, measures, None, None, target)
    opening = "The buying office counts its orders before the planning round."
    files = [File(BOXES, _box_orders(), "orders for boxes")]
    files += [] if exact else [File(HANDBOOK, _RULES, "rules of the office", "distractor")]
    title = "Count the full box orders" if exact else "Count the unsigned box orders"
    return tasks.summary("buying", title, opening, what, files)


def _of_twenty() -> list[tuple[str, int, int]]:
    rows = [r for r in rows_of(_box_orders()) if r["boxes"] == "20"]
    branches = sorted({r["branch"] for r in rows})
    counts = {b: sum(r["branch"] == b for r in rows) for b in branches}
    return [(b, counts[b], 20 * counts[b]) for b in branches]


def _exact_history(sound: Pack) -> tuple[Version, ...]:
    query = sound.query("summary").model_copy(
        update={"filters": (Filter(column="boxes", op="eq", value=Given(given="limit")),)}
    )
    table = csv(("branch", "orders", "boxes_ordered"), _of_twenty())
    second = sound.expected("summary", _of_twenty(), query).reference({"buying/unsigned.csv": table})
    first = second.workspace({HANDBOOK: _RULES.replace(b"of at most 20", b"of up to 20")})
    return (
        Version("Add the count of unsigned orders", first.settled()),
        Version("Word the handbook as the office does", second.settled()),
    )


def _sentence_repair(case: Pack, sound: Pack) -> Proposals:
    said = case.restated(r"`boxes` is (?:at most|no more than) 20", "`boxes` is 20")
    return {"task": said.component("task")}


AT_MOST = Natural(
    key="at-most",
    line=3,
    source="a suite with policy handbooks",
    symptom="who orders less than the maximum, as the handbook allows, is marked wrong",
    fault="handbook, request and contract give a maximum, and the verifier's expected values take only orders of "
    "exactly that size (V)",
    repair="the sentence was changed to the exact amount, and the handbook's rule with it lost its use",
    outcome="wrong",
    components=("verifier",),
    expects=(("stale_anchor", "verifier"),),
    right=(8,),
    shows={"demonstrator": ("passed", "failed"), "reference": ("passed", "passed")},
    sound=lambda: box_task("buying/unsigned.csv", exact=False),
    history=_exact_history,
    proposals=_sentence_repair,
)


def _loose_history(sound: Pack) -> tuple[Version, ...]:
    def said(words: str) -> Pack:
        return sound.lone().restated(r"`boxes` (?:is|equals) 20", f"`boxes` is {words} 20")

    return (
        Version("Add the count of full orders", said("no more than").settled()),
        Version("Use the words of the handbook", said("at most").settled()),
    )


def _exact_repair(case: Pack, sound: Pack) -> Proposals:
    return {"task": sound.component("task")}


EXACTLY = Natural(
    key="exactly",
    line=3,
    source="a suite with policy handbooks",
    symptom="the request gives a maximum; only work that takes it as the amount passes",
    fault="the request says at most where contract and verifier go by exactly (T)",
    repair="the sentence of the request was changed to the exact amount",
    outcome="right",
    components=("task",),
    expects=(("wrong_given", "task"),),
    right=(2,),
    shows={"demonstrator": ("passed", "failed"), "reference": ("passed", "passed")},
    sound=lambda: box_task("buying/full_boxes.csv", exact=True),
    history=_loose_history,
    proposals=_exact_repair,
)

CASES = (REFUND, AT_MOST, EXACTLY)
