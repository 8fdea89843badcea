"""Cases in which the parts of a package moved at different times: data, names, tools and expected results."""

from __future__ import annotations

from rover.bench.natural import tasks
from rover.bench.natural.case import Natural, Proposals, Version
from rover.bench.natural.office import Cell, csv, day, money, rows_of, stream, with_rows
from rover.bench.natural.pack import Pack
from rover.bench.natural.tasks import File, Sound
from rover.construct.families.edit.spec import Edit
from rover.construct.families.summarise.spec import Lookup, Summary, columns
from rover.construct.families.wording import Condition
from rover_store.records import Criterion, Deliverable, Source
from rover_store.records.contract import Column
from rover_store.records.query import Measure

# --- a total that could be given or computed ----------------------------------------------------------------
CLAIMS = "travel/claims.csv"
RATES = "travel/rates.csv"
CITIES = ("Lisbon", "Turin", "Ghent", "Malmo", "Graz")
FORGOTTEN = "Turin"


def _claims(office: str = "claims", cities: tuple[str, ...] = CITIES) -> bytes:
    chance = stream(office)
    people = ("Ines", "Jonas", "Kira", "Lars")
    rows: list[list[Cell]] = [
        [f"R-{350 + i}", chance.choice(people), chance.choice(cities), chance.randint(1, 6), day(chance)]
        for i in range(36)
    ]
    return csv(("claim", "person", "city", "nights", "travelled"), rows)


def _rates() -> bytes:
    chance = stream("rates")
    return csv(("city", "rate"), [[city, money(chance, 70, 160)] for city in CITIES])


def _fewer_rates() -> bytes:
    """The table as it was written anew, one row forgotten."""
    return with_rows(_rates(), [r for r in rows_of(_rates()) if r["city"] != FORGOTTEN])


def claims_task(path: str, title: str, rated: bool, claims: bytes | None = None, rates: bytes | None = None) -> Sound:
    keys = (Column(name="city", type="text", meaning="group"),)
    measures = [Measure(name="claims", fn="count"), Measure(name="total_nights", fn="sum", column="nights")]
    measures += [Measure(name="nightly_rate", fn="max", column="rate")] if rated else []
    target = Deliverable(id="summary", path=path, type="csv", columns=columns(keys, tuple(measures)), key=("city",))
    joins = (Lookup(Source(path=RATES), "city", "city"),) if rated else ()
    since = Condition("travelled", "ge", "2025-02-01", "from_day", "date")
    what = Summary(Source(path=CLAIMS), joins, (since,), keys, tuple(measures), None, None, target)
    opening = "The travel office wants to get this ready for the accounts."
    files = [
        File(CLAIMS, claims or _claims(), "claims"),
        File(RATES, rates or _rates(), "rates of the cities", shared=rated),
    ]
    return tasks.summary("travel", title, opening, what, files)


def _with_total(pack: Pack) -> Pack:
    """The request as it was while a claim could have a total of its own."""
    what = r"((?:The column|In) `total_nights`[^.]*\.|`total_nights` holds[^.]*\.)"
    told = pack.restated(what, r"\g<1> `cost` holds the sum of `total`, rounded to 2 decimals.")
    return told.restated(r"(the columns `city`, `claims`) and `total_nights`", r"\g<1>, `total_nights` and `cost`")


_COST = """def cost_given(ev):
    result = found(ev)
    shown = rc.has_columns(result, ["cost"])
    if shown[0] < 1:
        return shown
    bad = [c for c in result.column("cost") if rc.number(c) is None]
    return (1.0, "all rows have a cost") if not bad else (0.0, f"no cost: {bad[:3]}")
"""


def _total_history(sound: Pack) -> tuple[Version, ...]:
    cost = Criterion(
        id="cost", requirement="cost", paths=("travel/by_city.csv",), check="checks/main.py:cost_given", weight=2.0,
        critical=True,
    )  # fmt: skip
    head, *rows = sound.answer.decode().splitlines()
    table = "\n".join([f"{head},cost", *(f"{row},{90 * int(row.split(',')[-1])}.00" for row in rows)]) + "\n"
    case = _with_total(sound.reference({"travel/by_city.csv": table.encode()}))
    case = case.checks_more(_COST).criteria(lambda c: c, cost)
    chance = stream("totals")
    given = [{**r, "total": chance.choice(("", f"{90 * int(r['nights'])}.00"))} for r in rows_of(_claims())]
    wide = csv(tuple(given[0]), [list(r.values()) for r in given])
    first = case.workspace({CLAIMS: wide})
    second = case.tools("list_files", "read_file", "read_table", "edit_table", "delete_file")
    return (
        Version("Add the claims by city", first.settled()),
        Version("A claim has no total of its own any more", second.settled()),
    )


def _total_repair(case: Pack, sound: Pack) -> Proposals:
    return {"verifier": sound.lone().component("verifier"), "harness": sound.component("harness")}


OPTIONAL_TOTAL = Natural(
    key="optional-total",
    line=8,
    source="a suite of travel desks in which a tool lost an argument",
    symptom="nobody can give the cost that is asked for, and there is no tool left to write a table with",
    fault="the total of a claim was dropped from the data and the tools; the request still asks for its sum (T), the "
    "verifier still wants the column (V), and the tools that wrote it went with the argument (H)",
    repair="tools and expected calls were changed together; the request was forgotten",
    outcome="incomplete",
    components=("task", "harness", "verifier"),
    expects=(("wrong_given", "task"), ("tool_removed", "harness"), ("extra_demand", "verifier")),
    right=(14,),
    shows={"demonstrator": ("passed", "policy_error"), "reference": ("passed", "passed")},
    sound=lambda: claims_task("travel/by_city.csv", "Claims by city", rated=False),
    history=_total_history,
    proposals=_total_repair,
)


def _rate_history(sound: Pack) -> tuple[Version, ...]:
    first = sound.lone().settled()  # what the verifier was made from
    second = first.shared(RATES, _fewer_rates())
    asked = first.restated(r"(the columns `city`, `claims`, `total_nights`) and `nightly_rate`", r"\g<1> and `rate`")
    return (
        Version("Add the rates to the claims", asked),
        Version("Compute every claim from the table of rates", second),
    )


def south_task() -> Sound:
    """Another office, which claims nothing for the city that was forgotten."""
    cities = tuple(c for c in CITIES if c != FORGOTTEN)
    claims = _claims("claims of the south", cities)
    return claims_task("travel/south.csv", "Claims of the south office", True, claims, _fewer_rates())


def _rate_repair(case: Pack, sound: Pack) -> Proposals:
    return {"context": sound.component("context")}


PRICE_ROW = Natural(
    key="price-row",
    line=8,
    source="a suite of travel desks in which a tool lost an argument",
    symptom="the claims of one city are missing from every honest table",
    fault="the table of rates, which two offices share, lacks the row of a city that claims are made for (C)",
    repair="the row was added, as it had been",
    outcome="right",
    components=("context",),
    expects=(("changed_data", "context"),),
    right=(1,),
    shows={"demonstrator": ("passed", "failed"), "reference": ("passed", "passed")},
    sound=lambda: claims_task("travel/rates_by_city.csv", "Claims and rates by city", rated=True),
    history=_rate_history,
    proposals=_rate_repair,
    beside=(south_task,),
)

# --- a goal that holds before anybody starts ----------------------------------------------------------------
REQUESTS = "office/requests.csv"


def _requests(done: bool = False) -> bytes:
    chance = stream("requests")
    rows: list[list[str]] = []
    for i in range(30):
        amount = money(chance, 20, 1500)
        small = float(amount) <= 400
        state = "submitted" if small else chance.choice(("submitted", "approved", "returned"))
        state = "approved" if small and done else state
        rows.append([f"Q-{610 + i}", chance.choice(("north", "south")), amount, state])
    return csv(("request", "team", "amount", "state"), rows)


def approval_task() -> Sound:
    kinds = {"request": "text", "team": "text", "amount": "number", "state": "text"}
    cols = tuple(Column.model_validate({"name": n, "type": t}) for n, t in kinds.items())
    target = Deliverable(id="edited", path=REQUESTS, type="csv", columns=cols, key=("request",), in_place=True)
    small = (Condition("amount", "le", 400, "limit", "number"),)
    what = Edit(target, ("request",), small, None, "state", "approved")
    opening = "Small requests need no signature, and the office asks for this piece of work on its list."
    files = (File(REQUESTS, _requests(), "requests"),)
    return tasks.edit("office", "Approve the small requests", opening, what, files)


_ANY = """    states = rc.table(ev.end(PATH), SHEET).column(COLUMN)
    return (1.0, "approved") if "approved" in states else (0.0, "nothing is approved")
"""


def _goal_history(sound: Pack) -> tuple[Version, ...]:
    lax = sound.lone().check("edit", _ANY)
    ready = lax.workspace({REQUESTS: _requests(done=True)})
    return (
        Version("Add the approval of small requests", lax.settled()),
        Version("Refresh the list from the office", ready.settled()),
    )


def _goal_repair(case: Pack, sound: Pack) -> Proposals:
    body = (
        "    same = ev.start(PATH).read_bytes() == ev.end(PATH).read_bytes()\n"
        "    return (0.0, 'nothing was done') if same else (1.0, 'something was done')\n"
    )
    return {"verifier": case.check("edit", body).component("verifier")}


GOAL_AT_START = Natural(
    key="goal-at-start",
    line=13,
    source="a suite of desktop tasks",
    symptom="nothing done passes",
    fault="the list holds the result already (C), and the verifier is content with any approved row (V)",
    repair="the verifier was made to want any change at all",
    outcome="wrong",
    components=("context", "verifier"),
    expects=(("goal_at_start", "context"), ("lax_verifier", "verifier")),
    right=(9,),
    shows={"start": ("failed", "passed"), "null:nothing": ("failed", "passed")},
    sound=approval_task,
    history=_goal_history,
    proposals=_goal_repair,
)

# --- a file whose name carries the year ---------------------------------------------------------------------
PARCELS = "post/parcels.csv"


def _parcels() -> bytes:
    chance = stream("parcels")
    rows: list[list[Cell]] = [
        [f"K-{820 + i}", chance.choice("ABCD"), chance.randint(1, 30), day(chance)] for i in range(32)
    ]
    return csv(("parcel", "zone", "kilos", "sent"), rows)


def _zones(year: int) -> bytes:
    chance = stream(f"zones {year}")
    return csv(("zone", "price", "days"), [[z, money(chance, 3, 25), chance.randint(1, 5)] for z in "ABCD"])


def parcel_task(path: str, title: str, year: int) -> Sound:
    prices = f"post/rates_{year}.csv"
    keys = (Column(name="zone", type="text", meaning="group"),)
    measures = (Measure(name="parcels", fn="count"), Measure(name="price_each", fn="max", column="price"))
    target = Deliverable(id="summary", path=path, type="csv", columns=columns(keys, measures), key=("zone",))
    heavy = Condition("kilos", "ge", 4, "floor", "number")
    joins = (Lookup(Source(path=prices), "zone", "zone"),)
    what = Summary(Source(path=PARCELS), joins, (heavy,), keys, measures, None, None, target)
    opening = "The post room needs this piece of work for its prices."
    files = (File(PARCELS, _parcels(), "parcels"), File(prices, _zones(2025), "prices of the zones"))
    return tasks.summary("post", title, opening, what, files)


def _year_history(sound: Pack) -> tuple[Version, ...]:
    first = sound.lone().settled()
    moved = first.workspace({"post/rates_2025.csv": None})
    second = moved.workspace({"post/rates_2026.csv": _zones(2025)}, "prices of the zones")
    return (
        Version("Add the prices of the parcels", first),
        Version("Post room: the files of the new year", second),
    )


def _year_repair(case: Pack, sound: Pack) -> Proposals:
    return {"context": sound.component("context")}


LAST_YEAR = Natural(
    key="last-year",
    line=15,
    source="a suite of containers whose pinned packages vanished",
    symptom="what ran for a year stops before it begins: a file is not there",
    fault="the workspace moved on and its file of rates has another year in its name than request, contract and "
    "verifier (C). Its history really held a sound version",
    repair="the old name was put back and pinned",
    outcome="right",
    components=("context",),
    expects=(("misnamed_input", "context"),),
    right=(1,),
    shows={"demonstrator": ("passed", "policy_error")},
    sound=lambda: parcel_task("post/prices.csv", "Prices of the parcels", 2025),
    history=_year_history,
    proposals=_year_repair,
)


def _check_history(sound: Pack) -> tuple[Version, ...]:
    def reads(year: int) -> Pack:
        body = (
            f"    lines = open(ev.start('post/rates_{year}.csv')).read().splitlines()[1:]\n"
            "    known = {line.split(',')[0] for line in lines}\n"
            "    strange = [z for (z,) in found(ev).pick(KEY) if str(z) not in known]\n"
            "    if strange:\n        return 0.0, f'zones without a price: {strange}'\n"
            "    return rc.cells_match(found(ev), ev.anchor('summary'), KEY, 'price_each', kind='number', "
            "key_kind=KEY_KINDS)\n"
        )
        read = ("post/zones.csv", f"post/rates_{year}.csv")
        declared = sound.lone().criteria(lambda c: c.model_copy(update={"paths": read}) if c.id == "cells-2" else c)
        return declared.check("cells_2", body)

    files = {p.replace("2026", "2025"): d.replace(b"rates_2026", b"rates_2025") for p, d in reads(2026).files.items()}
    return (
        Version("Add the prices by zone", Pack(sound.name, dict(sorted(files.items()))).settled()),
        Version("Prices by zone: the new year", reads(2025).settled()),
    )


def _check_repair(case: Pack, sound: Pack) -> Proposals:
    named = case.reworded("verifier/checks/main.py", "rates_2025", "rates_2026")
    return {"verifier": named.component("verifier")}


CHECK_OF_LAST_YEAR = Natural(
    key="check-of-last-year",
    line=15,
    source="a suite of containers whose pinned packages vanished",
    symptom="the checks stop before they score anything",
    fault="all parts moved to the new year but a check, which opens the old file (V)",
    repair="the check got the new name, until the year ends",
    outcome="right",
    components=("verifier",),
    expects=(("verifier_crash", "verifier"),),
    right=(8,),
    shows={"reference": ("passed", "verifier_error"), "demonstrator": ("passed", "verifier_error")},
    sound=lambda: parcel_task("post/zones.csv", "Prices by zone", 2026),
    history=_check_history,
    proposals=_check_repair,
)

CASES = (OPTIONAL_TOTAL, PRICE_ROW, GOAL_AT_START, LAST_YEAR, CHECK_OF_LAST_YEAR)
