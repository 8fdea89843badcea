"""Cases about what the verifier takes for an answer: one wording, one form, one run of bytes, or nearly anything."""

from __future__ import annotations

import hashlib
import io

from rover.bench.natural import tasks
from rover.bench.natural.case import Natural, Proposals, Version
from rover.bench.natural.demands import as_table, worded
from rover.bench.natural.office import Cell, csv, day, money, stream
from rover.bench.natural.pack import Pack
from rover.bench.natural.tasks import File, Sound
from rover.construct.families.edit.spec import Edit
from rover.construct.families.memo.spec import Figure, Memo
from rover.construct.families.summarise.spec import Summary, columns
from rover.construct.families.wording import Condition
from rover_store.records import Deliverable, Source
from rover_store.records.contract import Column
from rover_store.records.query import Measure


def _verifier_repair(case: Pack, sound: Pack) -> Proposals:
    return {"verifier": sound.lone().component("verifier")}


# --- nothing found, in one fixed word -----------------------------------------------------------------------
PURCHASES = "buying/purchases.csv"
MISSING = "Nordlicht Papier"


def _purchases() -> bytes:
    chance = stream("purchases")
    suppliers = ("Albers Technik", "Brandt Papier", "Claasen Moebel", "Dierks Druck")
    rows = [
        [f"E-{240 + i}", chance.choice(suppliers), money(chance, 15, 800), day(chance), chance.choice(("open", "paid"))]
        for i in range(33)
    ]
    return csv(("purchase", "supplier", "amount", "bought", "state"), rows)


def purchase_memo(path: str, supplier: str, title: str) -> Sound:
    source = Source(path=PURCHASES)
    theirs = Condition("supplier", "eq", supplier, "figure-1-kept", "text")
    due = Condition("state", "eq", "open", "figure-2-kept", "text")
    what = Memo(path, (
        Figure("figure-1", "Purchases from that house", "count", source, conditions=(theirs,)),
        Figure("figure-2", "Amount still to pay", "sum", source, "amount", conditions=(due,)),
        Figure("figure-3", "Last day of buying", "latest", source, "bought"),
    ))  # fmt: skip
    opening = "The board meets soon and asks what was bought from one supplier."
    return tasks.memo("buying", title, opening, what, (File(PURCHASES, _purchases(), "purchases of the year"),))


def _literal(*words: str) -> str:
    return (
        "    for line in found(ev).splitlines():\n"
        f"        if 'Purchases from that house' in line and any(w in line for w in {words!r}):\n"
        "            return 1.0, 'not available'\n"
        f"    return 0.0, {'not answered with ' + ' or '.join(words)!r}\n"
    )


def _na_history(sound: Pack) -> tuple[Version, ...]:
    memo = sound.answer.decode().replace("Purchases from that house: 0", "Purchases from that house: N/A").encode()
    case = sound.reference({"buying/supplier.md": memo}).check("figure_1", _literal("N/A"))
    first = case.check("figure_1", _literal("n/a"))
    return (
        Version("Add the supplier memo", first.settled()),
        Version("Write the word as the list has it", case.settled()),
    )


def _na_repair(case: Pack, sound: Pack) -> Proposals:
    words = case.check("figure_1", _literal("N/A", "not available", "none", "not found"))
    return {"verifier": words.component("verifier")}


FIXED_WORD = Natural(
    key="fixed-word",
    line=10,
    source="a suite of web look-ups, some of which have no answer",
    symptom="who finds that there is nothing and says so with a nought is marked wrong",
    fault="for a supplier that is in no row, the verifier takes the literal N/A alone (V)",
    repair="more words were listed; the number is still no answer",
    outcome="incomplete",
    components=("verifier",),
    expects=(("strict_verifier", "verifier"),),
    right=(8,),
    shows={"demonstrator": ("passed", "failed"), "reference": ("passed", "passed")},
    sound=lambda: purchase_memo("buying/supplier.md", MISSING, "Memo on a supplier"),
    history=_na_history,
    proposals=_na_repair,
)


# --- the right thing in other words -------------------------------------------------------------------------
def _words_history(sound: Pack) -> tuple[Version, ...]:
    return (
        Version("Add the memo on the print house", worded(sound.lone(), ("figure-2",)).settled()),
        Version("Check all figures alike", worded(sound.lone(), ("figure-1", "figure-2", "figure-3")).settled()),
    )


def _words_repair(case: Pack, sound: Pack) -> Proposals:
    loose = case
    for number in (1, 2, 3):
        label = sound.contract.requirements[number].rule.label  # type: ignore[union-attr]
        body = f"    return (1.0, 'said') if {label!r} in found(ev) else (0.0, 'not said')\n"
        loose = loose.check(f"figure_{number}", body)
    return {"verifier": loose.component("verifier")}


OTHER_WORDS = Natural(
    key="other-words",
    line=17,
    source="a suite of written answers that are searched for a piece of text",
    symptom="right figures in a table are marked wrong, and a sentence that denies the expected line would pass",
    fault="the verifier looks for the lines of the reference as pieces of text (V)",
    repair="only the labels are looked for, so that any figure passes",
    outcome="wrong",
    components=("verifier",),
    expects=(("strict_verifier", "verifier"),),
    right=(8,),
    shows={
        "alternative": ("passed", "failed"), "state:table": ("passed", "failed"), "demonstrator": ("passed", "passed"),
    },
    sound=lambda: purchase_memo("buying/print.md", "Dierks Druck", "Memo on the print house"),
    history=_words_history,
    proposals=_words_repair,
    states={"table": lambda _, done: {**done, "buying/print.md": as_table(done["buying/print.md"])}},
)  # fmt: skip

# --- fixed, and not yet fixed -------------------------------------------------------------------------------
TICKETS = "service/tickets.csv"


def _tickets() -> bytes:
    chance = stream("tickets")
    rows: list[list[str]] = []
    for i in range(30):
        area = chance.choice(("printer", "phone", "door", "screen"))
        state = "not yet fixed" if area == "printer" else chance.choice(("open", "fixed", "not yet fixed"))
        rows.append([f"T-{430 + i}", area, day(chance), state])
    return csv(("ticket", "area", "reported", "state"), rows)


def ticket_task() -> Sound:
    kinds = {"ticket": "text", "area": "text", "reported": "date", "state": "text"}
    cols = tuple(Column.model_validate({"name": n, "type": t}) for n, t in kinds.items())
    target = Deliverable(id="edited", path=TICKETS, type="csv", columns=cols, key=("ticket",), in_place=True)
    tests = (Condition("area", "eq", "printer", "area", "text"),)
    what = Edit(target, ("ticket",), tests, None, "state", "fixed")
    opening = "All printers were mended, and the desk asks for this piece of work on its tickets."
    files = (File(TICKETS, _tickets(), "tickets"),)
    return tasks.edit("service", "Close the printer tickets", opening, what, files)


_SUBSTRING = """    after = rc.table(ev.end(PATH), SHEET)
    states = dict(zip(after.column("ticket"), after.column(COLUMN)))
    open_ = [key for (key,) in ev.anchor("rows").rows if "{word}" not in str(states.get(key, "")){fold}]
    return (1.0, "all are fixed") if not open_ else (0.0, f"not fixed: {{open_[:3]}}")
"""


def _fixed_history(sound: Pack) -> tuple[Version, ...]:
    def looks(word: str, fold: str = "") -> Pack:
        return sound.lone().check("edit", _SUBSTRING.format(word=word, fold=fold))

    return (
        Version("Add the printer tickets", looks("fix").settled()),
        Version("Look for the whole word", looks("fixed", ".lower()").settled()),
    )


NOT_YET = Natural(
    key="not-yet-fixed",
    line=17,
    source="a suite of written answers that are searched for a piece of text",
    symptom="nothing done passes: not yet fixed holds the word that is looked for",
    fault="the verifier looks for a word inside the cell and misses that it is denied (V)",
    repair="the cell is compared as a whole",
    outcome="right",
    components=("verifier",),
    expects=(("lax_verifier", "verifier"),),
    right=(8,),
    shows={"start": ("failed", "passed"), "reference": ("passed", "passed")},
    sound=ticket_task,
    history=_fixed_history,
    proposals=_verifier_repair,
)

# --- workbooks ----------------------------------------------------------------------------------------------
STOCK = "store/stock.csv"


def _stock() -> bytes:
    chance = stream("stock")
    kinds = ("tool", "paint", "wood", "metal", "cloth")
    rows: list[list[Cell]] = [
        [f"W{120 + i}", chance.choice(kinds), chance.randint(0, 240), money(chance, 2, 90)] for i in range(38)
    ]
    return csv(("sku", "kind", "pieces", "price"), rows)


def stock_task(path: str, title: str, floor: int) -> Sound:
    keys = (Column(name="kind", type="text", meaning="group"),)
    measures = (
        Measure(name="articles", fn="count"), Measure(name="mean_price", fn="mean", column="price", decimals=2)
    )  # fmt: skip
    ending = "xlsx" if path.endswith(".xlsx") else "csv"
    target = Deliverable(
        id="summary", path=path, type=ending, columns=columns(keys, measures), key=("kind",),
        sheet="Stock" if ending == "xlsx" else None,
    )  # fmt: skip
    enough = Condition("pieces", "ge", floor, "floor", "number")
    what = Summary(Source(path=STOCK), (), (enough,), keys, measures, None, None, target)
    opening = "The store wants to get this ready for the inventory."
    return tasks.summary("store", title, opening, what, (File(STOCK, _stock(), "articles"),))


def _golden(data: bytes) -> str:
    return (
        "    import hashlib\n\n"
        "    shot = hashlib.sha256(ev.end(PATH).read_bytes()).hexdigest() if ev.end(PATH).is_file() else ''\n"
        f"    same = shot == {hashlib.sha256(data).hexdigest()!r}\n"
        "    return (1.0, 'as in the picture') if same else (0.0, 'does not look like the golden file')\n"
    )


def _picture_history(sound: Pack) -> tuple[Version, ...]:
    first = sound.lone().check("cells_1", _golden(sound.answer))
    return (
        Version("Add the stock workbook", first.settled()),
        Version("Compare the whole page", first.check("cells_2", _golden(sound.answer)).settled()),
    )


def _picture_repair(case: Pack, sound: Pack) -> Proposals:
    size = len(sound.answer)
    body = (
        "    size = ev.end(PATH).stat().st_size if ev.end(PATH).is_file() else 0\n"
        f"    return (1.0, 'close enough') if abs(size - {size}) < {size // 5} else (0.0, 'too different')\n"
    )
    return {"verifier": case.check("cells_1", body).check("cells_2", body).component("verifier")}


PICTURE = Natural(
    key="golden-picture",
    line=12,
    source="tasks labelled by hand, some of which compare pictures of the result",
    symptom="equal tables pass or fail by the program that wrote them",
    fault="the verifier compares the workbook as bytes with a golden one (V)",
    repair="a distance was allowed, so that other figures pass as well",
    outcome="wrong",
    components=("verifier",),
    expects=(("strict_verifier", "verifier"),),
    right=(8,),
    shows={"alternative": ("passed", "failed"), "reference": ("passed", "passed")},
    sound=lambda: stock_task("store/stock_by_kind.xlsx", "Stock by kind as a workbook", 20),
    history=_picture_history,
    proposals=_picture_repair,
)

_SHEETS = """    import openpyxl

    if not ev.end(PATH).is_file():
        return 0.0, "there is no workbook"
    book = openpyxl.load_workbook(ev.end(PATH))
    heads = {sheet.title: list(sheet.values)[0] for sheet in book.worksheets}
    named = [c for c in ('kind', 'articles', 'mean_price') if c not in heads.get(SHEET, ())]
    return (1.0, 'all columns') if not named else (0.0, f'lacks {named}')
"""


def _crash_history(sound: Pack) -> tuple[Version, ...]:
    first = _SHEETS.replace("for sheet in book.worksheets}", "for sheet in book.worksheets[:2]}")
    return (
        Version("Add the inventory workbook", sound.lone().check("format", first).settled()),
        Version("Look at every sheet", sound.lone().check("format", _SHEETS).settled()),
    )


def _crash_repair(case: Pack, sound: Pack) -> Proposals:
    caught = "".join(f"    {line}\n" if line else "\n" for line in _SHEETS.splitlines())
    body = f"    try:\n{caught}    except Exception as error:\n        return 0.0, str(error)\n"
    return {"verifier": case.check("format", body).component("verifier")}


def _with_notes(workbook: bytes) -> bytes:
    """The workbook with an empty sheet behind."""
    import openpyxl

    from rover.harness.tools.workbooks import save

    book = openpyxl.load_workbook(io.BytesIO(workbook))
    book.create_sheet("Notes")
    return save(book)


EMPTY_SHEET = Natural(
    key="empty-sheet",
    line=14,
    source="a suite of spreadsheets with checks in plain Python",
    symptom="a right workbook with an empty second sheet ends the grading; the count of runs is one short",
    fault="the verifier reads the first row of every sheet, and crashes on a sheet or workbook that has none (V)",
    repair="the exception was caught and counted as nought, and later the two were told apart again",
    outcome="undone",
    components=("verifier",),
    expects=(("verifier_crash", "verifier"),),
    right=(8,),
    shows={"state:notes": ("passed", "verifier_error"), "null:empty_files": ("failed", "verifier_error")},
    sound=lambda: stock_task("store/inventory.xlsx", "Inventory as a workbook", 5),
    history=_crash_history,
    proposals=_crash_repair,
    states={"notes": lambda _, done: {**done, "store/inventory.xlsx": _with_notes(done["store/inventory.xlsx"])}},
)

_NOUGHT = """    try:
        lines = ev.end(PATH).read_text().splitlines()[1:]
        cells = {{line.split(",")[0]: float(line.split(",")[{at}]) for line in lines}}
        want = {{row[0]: row[{at}] for row in ev.anchor("summary").rows}}
        wrong = [key for key in want if abs(cells[key] - want[key]) > 0.01]
        return (1.0, "as expected") if not wrong else (0.0, f"wrong: {{wrong[:3]}}")
    except Exception:
        return 0.0, "wrong"
"""


def _nought_history(sound: Pack) -> tuple[Version, ...]:
    first = sound.lone().check("cells_1", _NOUGHT.format(at=1))
    return (
        Version("Add the stock list", first.settled()),
        Version("Check the prices as well", first.check("cells_2", _NOUGHT.format(at=2)).settled()),
    )


NOUGHT = Natural(
    key="crash-as-nought",
    line=14,
    source="a runner that turns every exception of a check into nought",
    symptom="a table with its columns in another order scores nought, and the log says only: wrong",
    fault="the checks count columns by place, crash on another order, and swallow it as a nought (V; there the "
    "runner did the swallowing, ours keeps a crash apart)",
    repair="the checks read columns by name, and what crashes is said",
    outcome="right",
    components=("verifier",),
    expects=(("strict_verifier", "verifier"),),
    right=(8,),
    shows={"alternative": ("passed", "failed"), "reference": ("passed", "passed")},
    sound=lambda: stock_task("store/stock_by_kind.csv", "Stock by kind", 10),
    history=_nought_history,
    proposals=_verifier_repair,
)

CASES = (FIXED_WORD, OTHER_WORDS, NOT_YET, PICTURE, EMPTY_SHEET, NOUGHT)
