"""The case of a register whose every reading leaves a trace in the state that is compared."""

from __future__ import annotations

import hashlib

from rover.bench.natural import tasks
from rover.bench.natural.case import Natural, Proposals, Version
from rover.bench.natural.office import csv, day, money, stream
from rover.bench.natural.pack import Pack
from rover.bench.natural.tasks import File, Sound
from rover.construct.families.summarise.spec import Lookup, Summary, columns
from rover.construct.families.wording import Condition
from rover.harness.tools.workbooks import write
from rover_store.records import Deliverable, Mutation, Source
from rover_store.records.contract import Column
from rover_store.records.query import Measure

INVOICES = "invoices/open_invoices.csv"
INDEX = "invoices/index.xlsx"
LOG = "invoices/access_log.csv"
TARGET = "invoices/by_department.csv"
_NOTICE = b"""# Register of suppliers

The index says which department a supplier works for.
Whoever opens it signs in the access log.
"""


def _invoices() -> bytes:
    chance = stream("invoices")
    rows = [
        [f"I-{1300 + i}", f"S{chance.randint(1, 9)}", money(chance, 30, 2500), day(chance)] for i in range(34)
    ]
    return csv(("invoice", "supplier_no", "amount", "due"), rows)


def _index() -> bytes:
    chance = stream("index")
    rows = [[f"S{n}", f"House {chr(64 + n)}", chance.choice(("press", "fleet", "canteen"))] for n in range(1, 10)]
    return write("index.xlsx", None, "Index", ["supplier_no", "supplier", "department"], rows)


def _log() -> bytes:
    return csv(("day", "who", "what"), [["2025-05-02", "Ada", "index"], ["2025-05-09", "Cem", "index"]])


def invoice_task() -> Sound:
    keys = (Column(name="department", type="text", meaning="group"),)
    measures = (
        Measure(name="invoices", fn="count"), Measure(name="open_amount", fn="sum", column="amount", decimals=2)
    )  # fmt: skip
    target = Deliverable(id="summary", path=TARGET, type="csv", columns=columns(keys, measures), key=("department",))
    joins = (Lookup(Source(path=INDEX, sheet="Index"), "supplier_no", "supplier_no"),)
    due = Condition("due", "lt", "2025-09-01", "until", "date")
    what = Summary(Source(path=INVOICES), joins, (due,), keys, measures, None, None, target)
    opening = "Payments are due, and every department wants to get this ready for its own round."
    files = (
        File(INVOICES, _invoices(), "invoices that are open"),
        File(INDEX, _index(), "suppliers and their departments"),
        File(LOG, _log(), "who opened the index", open=True),
        File("invoices/README.md", _NOTICE, "notice at the register", "distractor"),
    )
    return tasks.summary("invoices", "Open invoices by department", opening, what, files)


def _whole(files: dict[str, bytes], spare: tuple[str, ...] = ()) -> str:
    """A check that wants a whole folder to be, byte by byte, what it was when the reference ended."""
    state = {path: hashlib.sha256(data).hexdigest() for path, data in sorted(files.items()) if path not in spare}
    lines = "".join(f"    {path!r}: {digest!r},\n" for path, digest in state.items())
    return (
        '"""The state of the folder when the reference ended."""\n\nimport hashlib\n\n'
        f"STATE = {{\n{lines}}}\nSPARED = {spare!r}\n\n\n"
        "def whole(ev):\n"
        "    found = {p: hashlib.sha256(ev.end(p).read_bytes()).hexdigest() for p in ev.files() if p not in SPARED}\n"
        "    other = sorted(p for p in {*found, *STATE} if found.get(p) != STATE.get(p))\n"
        "    return (1.0, 'the same state') if not other else (0.0, f'another state: {other[:3]}')\n"
    )


def _by_hand(sound: Pack) -> bytes:
    """The reference as somebody typed it who knew the departments by heart: no look at the index, no trace of one."""
    head, *rows = sound.answer.decode().splitlines()
    return ("\r\n".join([head, *sorted(rows, reverse=True)]) + "\r\n").encode()


def _compared(sound: Pack, spare: tuple[str, ...] = ()) -> Pack:
    typed = sound.reference({TARGET: _by_hand(sound)})
    state = {**typed.env().start, TARGET: _by_hand(sound)}
    source = _whole(state, spare).encode()
    pack = typed.put({"verifier/checks/main.py": None, "verifier/checks/state.py": source})
    return pack.criteria(lambda c: c.model_copy(update={"check": "checks/state.py:whole", "layer": "state"}))


_TOOLS = ("list_files", "read_file", "write_file", "write_table", "delete_file")


def _history(sound: Pack) -> tuple[Version, ...]:
    second = _compared(sound).tools(*_TOOLS)
    first = second.workspace({LOG: csv(("day", "who", "what"), [["2025-05-02", "Ada", "index"]])})
    return (
        Version("Add the open invoices", first.settled()),
        Version("Compare the whole folder", second.settled()),
    )


def _repair(case: Pack, sound: Pack) -> Proposals:
    spared = _compared(sound, (LOG,))
    return {"harness": sound.component("harness"), "verifier": spared.component("verifier")}


ACCESS_LOG = Natural(
    key="access-log",
    line=1,
    source="a suite that compares the whole state of an office with that of a reference",
    symptom="whoever looks the departments up, as the notice at the register asks, leaves a state that differs",
    fault="the verifier compares the whole folder, access log included, with a reference that was typed without "
    "reading the index (V), and no tool that could read the index is offered, which that reference never missed (H)",
    repair="the tool was offered and the log left out of the comparison; the result is still compared as bytes",
    outcome="incomplete",
    components=("harness", "verifier"),
    expects=(("tool_removed", "harness"), ("strict_verifier", "verifier")),
    right=(12,),
    shows={
        "state:signed": ("passed", "failed"), "demonstrator": ("passed", "policy_error"),
        "reference": ("passed", "passed"),
    },
    sound=invoice_task,
    history=_history,
    proposals=_repair,
    states={"signed": lambda _, done: {**done, LOG: done[LOG] + b"2025-06-01,Dana,index\n"}},
    held_out=(Mutation(id="sealed-signed", op="touch", path=LOG),),
)  # fmt: skip

CASES = (ACCESS_LOG,)
