"""What a contract asks for and a request states, and how a value goes back into its hole. Nothing runs here."""

from __future__ import annotations

import pytest
from packages import summary_package, summary_resources

from rover.diagnose.demands import asked, columns_of, contract_sources, keyed, states, states_given
from rover.diagnose.inside import significant
from rover.diagnose.probes.static import named_files
from rover.diagnose.restate import missing, restated, words
from rover.rollout.env import env_from_files
from rover_store.records import Contract, Given, GivenValue, Query, Requirement, Source, Table
from rover_store.records.contract import Answer, EditRule, RowsRule
from rover_store.records.query import Filter


def test_answers_are_listed_with_sources_and_keys() -> None:
    contract = env_from_files(summary_package(), summary_resources()).contract
    assert [a.id for a in asked(contract)] == ["rows", "orders", "total"]
    assert contract_sources(contract) == ("orders.csv",)
    table = Table(columns=("region", "orders", "total"), rows=(("East", 1, 310.1),))
    total = asked(contract)[2]
    assert keyed(table, total) == (Table(columns=("region", "total"), rows=(("East", 310.1),)), 1)
    assert keyed(table, asked(contract)[0])[1] == 3


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("at least 1,250.50 EUR", 1250.5, True),
        ("at least 12500", 1250, False),
        ("above 5 %", 0.05, True),
        ("since 5 March 2024", "2024-03-05", True),
        ("since 2024-03-05", "2024-03-05", True),
        ("code `K-7` please", "K-7", True),
        ("code K-71", "K-7", False),
        ("it is True", True, True),
    ],
)
def test_what_counts_as_stated(text: str, value: str | float, expected: bool) -> None:
    assert states(text, value) is expected


def contract_with(op: str, value: str | float, column: str = "amount") -> Contract:
    query = Query(
        source=Source(path="a.csv"),
        filters=(Filter(column=column, op=op, value=Given(given="limit")),),  # type: ignore[arg-type]
        select=("id",),
    )
    need = Requirement(id="r", statement="rows", rule=RowsRule(value=Answer(answer=query)))
    return Contract(givens=(GivenValue(name="limit", value=value),), requirements=(need,))


def test_a_value_may_stand_in_backticks_like_its_column() -> None:
    contract = contract_with("eq", "shipped", "status")
    given = contract.givens[0]
    assert states_given("Keep the orders whose `status` is `shipped`.", contract, given)
    named_alike = contract_with("eq", "status", "status")
    assert not states_given("Keep the orders whose `status` is right.", named_alike, named_alike.givens[0])


def test_the_number_of_a_list_states_nothing() -> None:
    contract = contract_with("gt", 2)
    given = contract.givens[0]
    assert not states_given("1. Take `a.csv`.\n2. Keep rows where `amount` is above the limit.", contract, given)
    assert not states_given("1. Take it.\n2. Keep the large ones.", contract, given)
    assert states_given("1. Keep rows where `amount` is above 2.", contract, given)


@pytest.mark.parametrize(
    ("op", "value", "whole", "broken"),
    [
        ("gt", 250, "Keep `amount` is above 250 and `x` is 3.", "Keep `amount` is above the limit and `x` is 3."),
        ("ge", "2024-01-31", "Only `amount` is on or after 2024-01-31.", "Only `amount` is on or after the usual day."),
        ("eq", "K-7", 'Rows where `amount` is "K-7" count.\n', 'Rows where `amount` is "K-7" count.\n'),
        ("le", 0.5, "Take those where `amount` is at most 0.5.\nDone.", "Take those where `amount` is at most.\nDone."),
    ],
)
def test_a_value_goes_back_into_its_hole(op: str, value: str | float, whole: str, broken: str) -> None:
    contract = contract_with(op, value)
    assert restated(broken, contract, missing(broken, contract)) == whole


@pytest.mark.parametrize(
    ("before", "column"),
    [
        ("Join `b.csv` to it where `amount` equals `code` there.", "amount"),  # what stands there is no hole
        ('Count rows where `amount` is not "B6".', "amount"),
        ("Rows whose `amount` is found in the column `amount` of `b.csv`.", "amount"),
        ("Count rows where `amount` is no later than the day before.", "amount"),
    ],
)
def test_another_condition_on_the_column_is_no_hole(before: str, column: str) -> None:
    contract = contract_with("eq", "K-7", column)
    for verb in ("is", "equals"):
        whole = f'{before} Only rows count where `amount` {verb} "K-7".'
        broken = f"{before} Only rows count where `amount` {verb} the agreed code."
        assert restated(broken, contract, missing(broken, contract)) == whole


def test_a_value_without_a_hole_is_said_at_the_end() -> None:
    contract = contract_with("gt", 250)
    assert restated("Do it.", contract, missing("Do it.", contract)).endswith("limit is 250.\n")
    assert (words("K-7"), words("2024-01-31"), words(0.25), words(3.0)) == ('"K-7"', "2024-01-31", "0.25", "3")


def test_a_value_to_be_written_belongs_to_its_column() -> None:
    rule = EditRule(
        column="status",
        rows=Answer(answer=Query(source=Source(path="a.csv"), select=("id",))),
        value=Given(given="new"),
    )
    contract = Contract(
        givens=(GivenValue(name="new", value="Q-1"),), requirements=(Requirement(id="e", statement="edit", rule=rule),)
    )
    assert columns_of(contract, "new") == ("status",)
    text = "These rows get the code in the column `status`."
    assert restated(text, contract, contract.givens) == 'These rows get "Q-1" in the column `status`.'


def test_file_names_are_found_in_a_text() -> None:
    assert named_files("Read `in/a b.csv`, data/x.xlsx and y.jsonl; see e.g. z.md.") == (
        "b.csv", "data/x.xlsx", "y.jsonl", "z.md",
    )  # fmt: skip
    assert [significant(v) for v in (1200, 12.5, 0, 310.1, 0.05)] == [2, 3, 0, 4, 1]
