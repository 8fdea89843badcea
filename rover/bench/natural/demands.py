"""Cases about what is asked for: left out of the request, wanted by nobody, scored by nothing, impossible."""

from __future__ import annotations

from rover.bench.natural import tasks
from rover.bench.natural.case import Natural, Proposals, Version
from rover.bench.natural.office import csv, day, money, stream
from rover.bench.natural.pack import Pack
from rover.bench.natural.tasks import File, Sound
from rover.construct.families.edit.spec import Edit
from rover.construct.families.summarise.spec import Summary, columns
from rover.construct.families.wording import Condition
from rover_store.records import Criterion, Deliverable, Source
from rover_store.records.contract import Column
from rover_store.records.query import Measure

# --- a code that nobody tells -------------------------------------------------------------------------------
POSTINGS = "books/postings.csv"
CODE = "CC-4410"


def _postings() -> bytes:
    chance = stream("postings")
    accounts = ("Travel", "Printing", "Rent", "Training", "Postage")
    rows = [
        [f"P-{3100 + i}", day(chance), chance.choice(accounts), money(chance, 10, 900), chance.choice(("", "CC-1000"))]
        for i in range(32)
    ]
    return csv(("posting", "posted", "account", "amount", "cost_centre"), rows)


def code_task() -> Sound:
    kinds = {"posting": "text", "posted": "date", "account": "text", "amount": "number", "cost_centre": "text"}
    cols = tuple(Column.model_validate({"name": n, "type": t}) for n, t in kinds.items())
    target = Deliverable(
        id="edited", path=POSTINGS, type="csv", columns=cols, key=("posting",), in_place=True
    )
    tests = (
        Condition("account", "eq", "Training", "account", "text"),
        Condition("posted", "ge", "2025-04-01", "from_day", "date"),
    )
    what = Edit(target, ("posting",), tests, None, "cost_centre", CODE)
    opening = "Bookkeeping closes the half year and asks for this piece of work on its postings."
    files = (File(POSTINGS, _postings(), "postings of the year"),)
    return tasks.edit("books", "Put postings on a cost centre", opening, what, files)


def _code_history(sound: Pack) -> tuple[Version, ...]:
    def vague(words: str) -> Pack:
        return sound.lone().request(f'"{CODE}"', words)

    return (
        Version("Add the posting task", vague("the cost centre of the department").settled()),
        Version("Shorten the request", vague("our cost centre").settled()),
    )


def _code_repair(case: Pack, sound: Pack) -> Proposals:
    return {"task": sound.component("task")}


COST_CENTRE = Natural(
    key="cost-centre",
    line=9,
    source="a suite of desk tasks whose expected calls hold ids that the request does not",
    symptom="nobody can know the code that the expected posting has",
    fault="the request speaks of the cost centre and does not say which one the verifier wants (T)",
    repair="the code was put into the request",
    outcome="right",
    components=("task",),
    expects=(("missing_given", "task"),),
    right=(2,),
    shows={"demonstrator": ("passed", "policy_error"), "reference": ("passed", "passed")},
    sound=code_task,
    history=_code_history,
    proposals=_code_repair,
)

# --- a file that the request never mentions -----------------------------------------------------------------
SALES = "sales/orders.csv"


def orders() -> bytes:
    chance = stream("orders")
    rows = [
        [f"O-{700 + i}", chance.choice(("Ada", "Bela", "Cem", "Dana")), chance.choice(("north", "south", "coast")),
         money(chance, 40, 1900), day(chance)]
        for i in range(36)
    ]  # fmt: skip
    return csv(("order", "clerk", "region", "amount", "ordered"), rows)


def region_summary(path: str, group: str = "region", title: str = "Sum up the orders by region") -> Sound:
    keys = (Column(name=group, type="text", meaning="group"),)
    measures = (
        Measure(name="orders", fn="count"),
        Measure(name="turnover", fn="sum", column="amount", decimals=2),
    )
    target = Deliverable(id="summary", path=path, type="csv", columns=columns(keys, measures), key=(group,))
    since = Condition("ordered", "ge", "2025-03-01", "from_day", "date")
    what = Summary(Source(path=SALES), (), (since,), keys, measures, None, None, target)
    opening = "The quarterly review needs the orders in short form."
    return tasks.summary("sales", title, opening, what, (File(SALES, orders(), "orders of the year"),))


_HANDOVER = """def handed_over(ev):
    note = ev.end("sales/handover.txt")
    if not note.is_file():
        return 0.0, "there is no handover note"
    return (1.0, "handed over") if len(note.read_text(errors="replace").split()) >= 5 else (0.0, "too short")
"""


def _handover_history(sound: Pack) -> tuple[Version, ...]:
    note = Criterion(
        id="handed-over", requirement="handed-over", paths=("sales/handover.txt",),
        check="checks/main.py:handed_over", weight=3.0, critical=True,
    )  # fmt: skip
    first = sound.lone().checks_more(_HANDOVER)
    light = note.model_copy(update={"weight": 1.0})
    return (
        Version("Add the order summary", first.criteria(lambda c: c, light).settled()),
        Version("Weigh the checks", first.criteria(lambda c: c, note).settled()),
    )


def _handover_repair(case: Pack, sound: Pack) -> Proposals:
    """The request was made to ask for the note: what the verifier wants became the task."""
    opening = "The quarterly review needs"
    asked = case.request(opening, f"Leave a note of five words in `sales/handover.txt`.\n\n{opening}")
    return {"task": asked.component("task")}


HANDOVER = Natural(
    key="hidden-demand",
    line=12,
    source="tasks labelled by hand, a third of which want what the request does not say",
    symptom="all workers get the same marks and miss the same check",
    fault="the verifier also looks for a note that neither request nor contract asks for (V)",
    repair="the request was made to ask for the note, so that the verifier's whim became the task",
    outcome="wrong",
    components=("verifier",),
    expects=(("extra_demand", "verifier"),),
    right=(8,),
    shows={"demonstrator": ("passed", "failed"), "alternative": ("passed", "failed")},
    sound=lambda: region_summary("sales/by_region.csv"),
    history=_handover_history,
    proposals=_handover_repair,
)

CASES = (COST_CENTRE, HANDOVER)
