"""Ballots of the vote on the intent: values in dispute, and references that were made on other data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from packages import ORDERS, runtime, summary_package, summary_resources

from rover.repair.ballots import (
    Dispute,
    ballot,
    combinations,
    concerned_anchors,
    concerned_requirements,
    disputes,
    made_on_other_data,
    settle,
    with_values,
)
from rover.repair.oracle import Opinion
from rover.repair.poll import polled
from rover.repair.proposals.protocol import PackageView
from rover.repair.proposals.rules_task import TaskByRule
from rover.repair.renamed import named, renamed
from rover.repair.vote import by_vote
from rover.rollout.engine import Engine
from rover.rollout.env import Env, env_from_files
from rover_store.ids import blob_id
from rover_store.records import (
    Anchors,
    Contract,
    Diagnosis,
    Finding,
    GivenValue,
    Package,
    Query,
    Requirement,
    Table,
)
from rover_store.records.contract import Answer
from rover_store.records.query import Filter, Given

ASKED = "Summarise the file", "Take the orders whose `amount` is at least {}. Summarise the file"
ROWS = (("East", 1, 310.1), ("North", 2, 219.75), ("South", 1, 80.0), ("West", 1, 1200.0))
REPORT = b"region,orders,total\n" + b"".join(f"{a},{b},{c}\n".encode() for a, b, c in ROWS)


def filtered(query: Query) -> Query:
    return query.model_copy(update={"filters": (Filter(column="amount", op="ge", value=Given(given="least")),)})


def package(said: object = 50, held: object = 50, report: bytes = REPORT, rows: Any = ROWS) -> dict[str, bytes]:
    """The order summary of orders from 50 on: as the request says it, and as the contract holds it."""
    files = dict(summary_package())
    contract = Contract.load(files["task/contract.json"], "contract.json")
    needs: list[Requirement] = []
    for need in contract.requirements:
        value = getattr(need.rule, "value", None)
        if isinstance(value, Answer):
            rule = need.rule.model_copy(update={"value": Answer(answer=filtered(value.answer))})
            need = need.model_copy(update={"rule": rule})
        needs.append(need)
    given = GivenValue(name="least", value=held)
    anchors = Anchors.load(files["verifier/anchors.json"], "anchors.json").anchors
    value = Table(columns=("region", "orders", "total"), rows=rows)
    anchor = anchors[0].model_copy(update={"query": filtered(anchors[0].query), "value": value})
    return files | {
        "task/instruction.md": files["task/instruction.md"].decode().replace(ASKED[0], ASKED[1].format(said)).encode(),
        "task/contract.json": contract.model_copy(update={"givens": (given,), "requirements": tuple(needs)}).dump(),
        "verifier/anchors.json": Anchors(anchors=(anchor,)).dump(),
        "verifier/reference/files/report.csv": report,
    }


def env(files: dict[str, bytes], orders: bytes = ORDERS, *, built: bytes | None = None) -> Env:
    """The package on these orders; `built`: the orders that the edges say the verifier read."""
    resources = {"files/orders": {**summary_resources()["files/orders"], "files/orders.csv": orders}}
    found = env_from_files(files, resources)
    edges = []
    for edge in found.record.edges:
        if edge.source == "verifier" and edge.target == "context":
            version = found.context_id if built is None else "0" * 40
            edge = edge.model_copy(update={"version": version, "blobs": (blob_id(built or orders),)})
        edges.append(edge)
    record = found.record.model_copy(update={"edges": tuple(edges)})
    return env_from_files({**files, "package.json": record.dump()}, resources)


def opinion(of: Env, **broken: bool) -> Opinion:
    ids = [r.id for r in of.contract.requirements]
    return Opinion({i: broken.get(i, True) for i in ids}, {})


NOTHING = Opinion({}, {})


# --- a reference that was made on other data ---------------------------------------------------------------
def test_only_what_follows_from_changed_data_is_a_matter_of_data() -> None:
    same, other = env(package()), env(package(), ORDERS.replace(b"80.00", b"8000"), built=ORDERS)
    for need in same.contract.requirements:
        assert not made_on_other_data(same, need)
    found = {n.id for n in other.contract.requirements if made_on_other_data(other, n)}
    assert found == {"rows", "orders", "total"}


def test_another_context_on_the_same_sources_is_the_same_data() -> None:
    moved = env(package(), built=ORDERS)
    assert not any(made_on_other_data(moved, n) for n in moved.contract.requirements)


def test_without_blobs_the_version_of_the_context_decides() -> None:
    other = env(package(), built=ORDERS)
    edges = tuple(e.model_copy(update={"blobs": ()}) for e in other.record.edges)
    bare = replace(other, record=other.record.model_copy(update={"edges": edges}))
    assert {n.id for n in bare.contract.requirements if made_on_other_data(bare, n)} == {"rows", "orders", "total"}
    assert isinstance(bare.record, Package)


@pytest.mark.parametrize(("built", "undecided"), [(None, ("orders", "total")), (ORDERS, ())])
def test_a_reference_of_other_data_does_not_vote_against_a_demand(
    built: bytes | None, undecided: tuple[str, ...]
) -> None:
    files = package(said="the agreed amount")  # the request lacks the value: instruction against, criteria for
    found = env(files, ORDERS.replace(b"80.00", b"8000"), built=built)
    intent = by_vote(found, opinion(found, orders=False, total=False), NOTHING)
    assert intent.undecided == undecided


# --- a value that the request states otherwise -------------------------------------------------------------
def test_a_dispute_is_a_value_that_the_request_states_otherwise() -> None:
    assert disputes(env(package(50, 50))) == ()
    assert disputes(env(package(50, 90))) == (Dispute("least", 90, 50),)
    assert disputes(env(package("the agreed amount", 90))) == ()


def test_what_a_value_has_a_part_in() -> None:
    found = env(package())
    assert concerned_requirements(found.contract, "least") == {"rows", "orders", "total"}
    assert concerned_anchors(found.anchors.anchors, "least") == {"totals"}
    assert concerned_anchors(found.anchors.anchors, "lea") == set()


def test_who_fits_neither_or_both_has_no_ballot() -> None:
    one = Dispute("least", 90, 50)
    own, said = {"least": 90}, {"least": 50}
    assert ballot(one, {"a"}, [(own, frozenset()), (said, frozenset("a"))]) == 50
    assert ballot(one, {"a"}, [(own, frozenset("a")), (said, frozenset("a"))]) is None
    assert ballot(one, {"a"}, [(own, frozenset()), (said, frozenset())]) is None
    assert ballot(one, {"a", "b"}, [(own, frozenset("a")), (said, frozenset("b"))]) is None
    assert ballot(one, {"a", "b"}, [(own, frozenset("b")), (said, frozenset("ab"))]) == 50


def test_most_ballots_settle_a_value() -> None:
    found = env(package(50, 90))
    one = disputes(found)
    own, said = combinations(one)
    assert (own, said) == ({"least": 90}, {"least": 50})
    reference = [(own, frozenset[str]()), (said, frozenset({"rows", "total"}))]
    anchors = [(own, frozenset({"totals"})), (said, frozenset[str]())]
    nobody = [(own, frozenset[str]()), (said, frozenset[str]())]
    outvoted = settle(found, one, reference, nobody)
    assert outvoted.contract == with_values(found.contract, {"least": 50})
    assert (outvoted.undecided, outvoted.notes) == ((), ("least is 50, not 90",))
    assert settle(found, one, nobody, anchors).contract == found.contract
    for tie in (settle(found, one, nobody, nobody), settle(found, one, reference, anchors)):
        assert tie.undecided == ("the value of least, 90 or 50",)


def test_the_same_in_another_unit_is_no_vote_for_another_value() -> None:
    found = env(package("5000 cents", 50))
    one = disputes(found)
    assert one == (Dispute("least", 50, 5000, unit=True),)
    own, said = combinations(one)
    neither = settle(found, one, [(own, frozenset()), (said, frozenset())], [])
    assert (neither.contract, neither.undecided) == (found.contract, ())
    assert neither.disputed == {"least"}
    rest = [(own, frozenset[str]()), (said, frozenset({"totals", "rows"}))]
    assert settle(found, one, rest, rest).notes == ("least is 5000, not 50",)


def test_another_value_is_no_silence_about_the_demand() -> None:
    found = env(package(50, 90))
    silent = found.verifier.model_copy(
        update={"criteria": tuple(c for c in found.verifier.criteria if c.requirement != "total")}
    )
    without = replace(found, verifier=silent)
    assert by_vote(without, None, None).notes == ("total is outvoted and not demanded",)
    assert by_vote(without, None, None, disputed=frozenset({"least"})).undecided == ()


# --- a column that the contract alone calls as it does -----------------------------------------------------
def renaming(**others: bytes) -> Env:
    """The order summary whose contract alone says `orders_total` for `total`, with some files changed on top."""
    files = package()
    contract = Contract.load(files["task/contract.json"], "contract.json")
    files["task/contract.json"] = renamed(contract, "report", "total", "orders_total").dump()
    return env(files | others)


def test_a_name_that_the_contract_alone_uses_is_outvoted() -> None:
    sound, other = env(package()), renaming()
    assert named(sound).contract == sound.contract
    found = named(other)
    assert (found.contract, found.undecided) == (sound.contract, ())
    assert found.notes == ("a column of report.csv is total, not orders_total",)


def test_a_name_on_which_criteria_and_reference_differ_is_for_a_person() -> None:
    report = {"verifier/reference/files/report.csv": REPORT.replace(b"total", b"orders_total")}
    found = named(renaming(**report))
    assert found.undecided == ("the name of orders_total, or total, in report.csv",)
    assert found.contract == renaming().contract


def test_a_request_that_only_lacks_a_name_renames_nothing() -> None:
    files = package()
    text = files["task/instruction.md"].replace(b"`total`", b"a sum").replace(b"`orders`", b"`count_of_orders`")
    found = env(files | {"task/instruction.md": text})
    assert named(found).contract == found.contract


# --- asked for real ----------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    kind = runtime()
    with Engine(kind) as made:
        yield made
    kind.close()


def test_reference_and_anchors_decide_for_the_value_that_they_hold(engine: Engine) -> None:
    intent = polled(engine, env(package(50, 90)))
    assert [g.value for g in intent.contract.givens] == [50]
    assert (intent.undecided, intent.notes) == ((), ("least is 50, not 90",))
    kept = polled(engine, env(package(90, 50)))
    assert [g.value for g in kept.contract.givens] == [50]
    assert (kept.undecided, kept.notes) == ((), ())


def test_a_contract_with_a_name_of_its_own_is_put_right(engine: Engine) -> None:
    intent = polled(engine, renaming())
    assert intent.contract == env(package()).contract
    assert intent.undecided == ()


def test_votes_on_the_data_that_the_verifier_was_built_on(engine: Engine) -> None:
    files, fewer = package(50, 90), ORDERS.partition(b"1004")[0]
    now = env(files, fewer, built=ORDERS)
    assert polled(engine, now).undecided == ("the value of least, 90 or 50",)
    assert [g.value for g in polled(engine, now, env(files)).contract.givens] == [50]


def elsewhere(path: str) -> Env:
    """The order summary whose contract alone wants the report at another path."""
    files = package()
    contract = Contract.load(files["task/contract.json"], "contract.json")
    moved = tuple(d.model_copy(update={"path": path}) for d in contract.deliverables)
    return env(files | {"task/contract.json": contract.model_copy(update={"deliverables": moved}).dump()})


VALUE = {"subject": "least", "value": 90, "found": "50", "stated_in": "instruction"}
PATH = {"subject": "sums.csv", "found": "report.csv"}
NAME = {"subject": "report.orders_total", "value": "orders_total", "stated_in": "instruction"}


@pytest.mark.parametrize(
    ("found", "meant", "kind", "details"),
    [
        (env(package(50, 90)), env(package(50, 50)).contract, "wrong_given", VALUE),
        (renaming(), env(package()).contract, "missing_given", NAME),
        (elsewhere("sums.csv"), env(package()).contract, "renamed_deliverable", PATH),
    ],
)
def test_the_task_rule_corrects_the_copy_that_is_outvoted(
    found: Env, meant: Contract, kind: str, details: dict[str, Any]
) -> None:
    view = PackageView("order-summary", "c", found.tree, found, found.files, found.resources, intent=meant)
    finding = Finding(
        probe="static",
        kind=kind,
        message="request and contract differ",
        components=("task",),
        details=details,
        status="confirmed",
    )
    diagnosis = Diagnosis(package=found.package, tree=found.tree, verdict="environment", findings=(finding,))
    made = TaskByRule().propose(view, diagnosis)
    assert made is not None
    assert {p for p, data in made.files.items() if data != view.component("task")[p]} == {"contract.json"}
    assert made.files["contract.json"] == meant.dump()
