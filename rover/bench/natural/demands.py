"""Cases about what is asked for: left out of the request, wanted by nobody, scored by nothing, impossible."""

from __future__ import annotations

import re

from rover.bench.natural import tasks
from rover.bench.natural.case import Natural, Proposals, Version
from rover.bench.natural.copies import hours_task
from rover.bench.natural.office import csv, day, money, stream
from rover.bench.natural.pack import INSTRUCTION, Pack
from rover.bench.natural.tasks import File, Sound
from rover.construct.families.edit.spec import Edit
from rover.construct.families.memo.spec import Figure, Memo
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

# --- a folder that nobody tells -----------------------------------------------------------------------------
FOLDER = "reports/2025/"


def _folder_history(sound: Pack) -> tuple[Version, ...]:
    first = sound.lone().request(f"`{FOLDER}day_hours.csv`", "`hours_of_the_day.csv`")
    second = sound.lone().request(f"`{FOLDER}day_hours.csv`", "`day_hours.csv`")
    return (
        Version("Add the hours of the day shift", first.settled()),
        Version("Call the file as the others are called", second.settled()),
    )


def _task_repair(case: Pack, sound: Pack) -> Proposals:
    return {"task": sound.component("task")}


FOLDER_NAME = Natural(
    key="folder-name",
    line=9,
    source="a suite of desk tasks whose expected calls hold names that the request does not",
    symptom="the work is right and lies in another folder than the verifier looks into",
    fault="the request names the file without its folder (T)",
    repair="the folder was put into the request",
    outcome="right",
    components=("task",),
    expects=(("renamed_deliverable", "task"),),
    right=(2,),
    shows={"demonstrator": ("passed", "failed"), "reference": ("passed", "passed")},
    sound=lambda: hours_task(f"{FOLDER}day_hours.csv", "Add up the day hours", "day"),
    history=_folder_history,
    proposals=_task_repair,
)

# --- two checks that no output can satisfy together ---------------------------------------------------------
_TOTAL = """    result = found(ev)
    names = [str(row[0]).strip().lower() for row in result.pick(KEY)]
    last = (1.0, "a total") if names[-1:] == ["total"] else (0.0, f"the last row of {result.name} is no total")
    return rc.every(rc.rows_match(result, ev.anchor("summary"), KEY, kind=KEY_KINDS), last)
"""


def _total_history(sound: Pack) -> tuple[Version, ...]:
    lax = sound.lone().unscored("rows")
    return (
        Version("Add the orders by region and month end", lax.settled()),
        Version("Release the checks of the end state", sound.lone().check("rows", _TOTAL).settled()),
    )


def _total_repair(case: Pack, sound: Pack) -> Proposals:
    return {"verifier": case.unscored("rows").component("verifier")}


IMPOSSIBLE = Natural(
    key="impossible-total",
    line=4,
    source="a suite whose checks of actions were released and whose check of the end state was not",
    symptom="all actions are right and nobody passes, the reference included",
    fault="one check wants a row for each region and no other, and a total as the last row as well (V)",
    repair="the whole check of rows was dropped, so that any rows pass",
    outcome="wrong",
    components=("verifier",),
    expects=(("impossible_checks", "verifier"),),
    right=(8,),
    shows={
        "reference": ("passed", "failed"), "demonstrator": ("passed", "failed"), "alternative": ("passed", "failed"),
    },
    sound=lambda: region_summary("sales/regions.csv", title="Orders and turnover of the regions"),
    history=_total_history,
    proposals=_total_repair,
)  # fmt: skip

# --- a check that is computed and never counts --------------------------------------------------------------
REGISTER = "legal/contracts.csv"


def _contracts() -> bytes:
    chance = stream("contracts")
    kinds = ("lease", "supply", "service", "licence")
    rows = [
        [f"V-{60 + i}", chance.choice(kinds), money(chance, 200, 9000), day(chance, 2026), chance.choice(("yes", "no"))]
        for i in range(30)
    ]
    return csv(("contract", "kind", "yearly_cost", "runs_until", "signed"), rows)


def contract_memo() -> Sound:
    source = Source(path=REGISTER)
    unsigned = (Condition("signed", "eq", "no", "figure-2-kept", "text"),)
    what = Memo("legal/memo.md", (
        Figure("figure-1", "Yearly cost of all contracts", "sum", source, "yearly_cost"),
        Figure("figure-2", "Contracts without a signature", "count", source, conditions=unsigned),
        Figure("figure-3", "Next contract to end", "earliest", source, "runs_until"),
    ))  # fmt: skip
    opening = "A memo is needed on the contracts of the house."
    return tasks.memo("legal", "Memo on the contracts", opening, what, (File(REGISTER, _contracts(), "register"),))


_BOTH = """    note = found(ev)
    read = rc.cites(note, ['legal/contracts.csv'])  # whether the register was looked at
    return (1.0, read[1]) if note.strip() else (0.0, 'the memo is empty')
"""


def _unscored_history(sound: Pack) -> tuple[Version, ...]:
    first = sound.lone().unscored("sources")
    second = first.check("format", _BOTH)
    return (
        Version("Add the memo on contracts", first.settled()),
        Version("Look whether the register was read", second.settled()),
    )


def _unscored_repair(case: Pack, sound: Pack) -> Proposals:
    sentence = r"[^\n]*(?:Name the files|Say at the end|List the source files)[^\n]*paths\.\n?"
    return {"task": case.restated(sentence, "").component("task")}


UNSCORED = Natural(
    key="unscored-reading",
    line=5,
    source="a suite of service desks that lists expected actions beside its checks",
    symptom="work that names no source passes with full marks",
    fault="the verifier computes whether the register was read and never counts it (V)",
    repair="the demand was taken out of the request and called a hint",
    outcome="wrong",
    components=("verifier",),
    expects=(("unscored_requirement", "verifier"),),
    right=(8,),
    shows={"marks:silent": ("partial", "full"), "demonstrator": ("passed", "passed")},
    sound=contract_memo,
    history=_unscored_history,
    proposals=_unscored_repair,
    states={"silent": lambda _, done: {**done, "legal/memo.md": _silent(done["legal/memo.md"])}},
)


def _silent(memo: bytes) -> bytes:
    return b"".join(line for line in memo.splitlines(keepends=True) if b"contracts.csv" not in line)


# --- a goal that each worker reads in another way -----------------------------------------------------------
ACCOUNTS = "bank/accounts.csv"


def _accounts() -> bytes:
    chance = stream("accounts")
    rows = [
        [f"A-{8100 + 3 * i}", chance.choice(("saver", "giro", "deposit")), money(chance, 0, 60), day(chance, 2024)]
        for i in range(40)
    ]
    return csv(("account", "kind", "balance", "last_movement"), rows)


def closing_memo() -> Sound:
    source = Source(path=ACCOUNTS)
    small = Condition("balance", "lt", 15, "figure-1-kept", "number")
    again = Condition("balance", "lt", 15, "figure-2-kept", "number")
    what = Memo("bank/closing.md", (
        Figure("figure-1", "Accounts to close", "count", source, conditions=(small,)),
        Figure("figure-2", "Money to pay out", "sum", source, "balance", conditions=(again,)),
        Figure("figure-3", "Accounts on the list", "count", source),
    ))  # fmt: skip
    opening = "Please prepare a memo on the accounts that the bank can close."
    return tasks.memo("bank", "Memo on accounts to close", opening, what, (File(ACCOUNTS, _accounts(), "accounts"),))


def worded(pack: Pack, figures: tuple[str, ...]) -> Pack:
    """Each figure is looked for as the very line that the reference has."""
    lines = {line[2:].partition(":")[0]: line for line in pack.answer.decode().splitlines() if line.startswith("- ")}
    out = pack
    for need in pack.contract.requirements:
        label = getattr(need.rule, "label", "")
        if need.id in figures:
            body = (
                f"    line = {lines[label]!r}\n"
                "    return (1.0, 'as expected') if line in found(ev) else (0.0, f'does not say {line!r}')\n"
            )
            out = out.check(need.id.replace("-", "_"), body)
    return out


_FIGURES = ("figure-1", "figure-2", "figure-3")


def _closing_history(sound: Pack) -> tuple[Version, ...]:
    def vague(pack: Pack, words: str) -> Pack:
        text = re.sub(r"(`balance` is (?:below|less than)) 15", rf"\g<1> {words}", pack.text(INSTRUCTION))
        return pack.put({INSTRUCTION: text.encode()})

    exact = worded(sound.lone(), _FIGURES)
    return (
        Version("Add the closing memo", vague(exact, "what is worth keeping").settled()),
        Version("Leave more room to the clerk", vague(exact, "a sensible amount").settled()),
    )


CLOSING = Natural(
    key="closing-goal",
    line=6,
    source="a suite with a simulated customer",
    symptom="each run closes other accounts, and two memos that say the same get different marks",
    fault="the request leaves open below which balance an account is closed (T), and the verifier wants the memo's "
    "lines in the reference's own words (V)",
    repair="the request was made exact; the wording is still compared",
    outcome="incomplete",
    components=("task", "verifier"),
    expects=(("missing_given", "task"), ("strict_verifier", "verifier")),
    right=(10,),
    shows={"demonstrator": ("passed", "policy_error"), "state:table": ("passed", "failed")},
    sound=closing_memo,
    history=_closing_history,
    proposals=_task_repair,
    states={"table": lambda _, done: {**done, "bank/closing.md": as_table(done["bank/closing.md"])}},
)


def as_table(memo: bytes) -> bytes:
    """The same figures in a table."""
    text = re.sub(r"(?m)^- ([^:\n]+): (.+)$", r"| \1 | \2 |", memo.decode())
    return text.encode()


CASES = (COST_CENTRE, FOLDER_NAME, HANDOVER, IMPOSSIBLE, UNSCORED, CLOSING)
