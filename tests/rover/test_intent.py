"""The frozen intent: which revision it is taken from, what counts as kept, and the vote of a package's parts."""

from __future__ import annotations

from typing import Any

import pytest
from packages import summary_package, summary_resources

from rover.repair.intent import Intent, differences, is_admitted, last_admitted
from rover.repair.oracle import Opinion
from rover.repair.vote import by_vote
from rover.rollout.env import Env, env_from_files
from rover_store.ids import COMPONENTS
from rover_store.records import Admission, Contract, GivenValue, Package


def env(**changed: bytes) -> Env:
    """The hand-made package with some files of its task or verifier changed."""
    files = dict(summary_package())
    places = {"instruction": "task/instruction.md", "contract": "task/contract.json"}
    files.update({places.get(name, f"{name}/{name}.json"): data for name, data in changed.items()})
    return env_from_files(files, summary_resources())


def admitted(of: Env) -> Env:
    """The same version with an admission that names it."""
    ids = {c: of.component_id(c) for c in COMPONENTS}
    record = of.record.model_copy(update={"admission": Admission(components=ids, cases=9, digest="d")})
    return env_from_files({**of.files, "package.json": record.dump()}, of.resources)


def changed(**update: Any) -> bytes:
    """The contract with some fields replaced."""
    return env().contract.model_copy(update=update).dump()


def requirement(name: str, **update: Any) -> bytes:
    contract = env().contract
    new = tuple(r.model_copy(update=update) if r.id == name else r for r in contract.requirements)
    return contract.model_copy(update={"requirements": new}).dump()


INTENT = Intent(env().contract, env().instruction, "admission")


def test_last_admitted_revision() -> None:
    broken = env_from_files({**admitted(env()).files, "task/instruction.md": b"Do it.\n"}, summary_resources())
    assert is_admitted(admitted(env()))
    assert not is_admitted(broken)
    found = last_admitted([("c3", broken), ("c2", env()), ("c1", admitted(env()))])
    assert found is not None
    assert (found.commit, found.origin, found.instruction) == ("c1", "admission", env().instruction)
    assert set(found.start) == {"orders.csv", "notes.md"}
    assert last_admitted([("c2", env())]) is None


def test_an_unchanged_task_is_the_intended_one() -> None:
    assert differences(INTENT, env()) == []


def test_other_words_for_the_same_demands() -> None:
    text = env().instruction.replace("Summarise the file", "Please make a summary of the file")
    assert differences(INTENT, env(instruction=text.encode())) == []


@pytest.mark.parametrize(
    ("contract", "said"),
    [
        (changed(requirements=env().contract.requirements[1:]), "format is gone"),
        (changed(deliverables=()), "deliverable report is gone"),
        (requirement("rows", weight=0.5), "rows is weaker"),
        (requirement("rows", weight=9.0), "rows is stronger"),
        (requirement("orders", critical=not env().contract.requirements[2].critical), "orders is"),
        (requirement("total", role="constraint"), "total says something else"),
        (changed(givens=(GivenValue(name="year", value=2024),)), ""),
        (changed(same=env().contract.same.model_copy(update={"extra_columns": False})), "the same answer"),
    ],
)
def test_changed_contracts(contract: bytes, said: str) -> None:
    found = differences(INTENT, env(contract=contract))
    assert (not found) if not said else any(said in line for line in found), found


def test_tolerance_path_and_columns() -> None:
    (report,) = env().contract.deliverables
    wide = tuple(c.model_copy(update={"tolerance": 5.0}) for c in report.columns)
    for update, said in (
        ({"columns": wide}, "tolerance of"),
        ({"columns": report.columns[:1]}, "column orders is gone"),
        ({"path": "other.csv"}, "the path is other.csv instead of report.csv"),
        ({"key": ()}, "key differs"),
    ):
        found = differences(INTENT, env(contract=changed(deliverables=(report.model_copy(update=update),))))
        assert any(said in line for line in found), found


def test_a_demand_may_not_be_added() -> None:
    more = env().contract.requirements[0].model_copy(update={"id": "more", "role": "invariant"})
    found = differences(INTENT, env(contract=changed(requirements=(*env().contract.requirements, more))))
    assert found == ["invariant more was added"]


def test_a_requirement_may_be_renamed() -> None:
    assert differences(INTENT, env(contract=requirement("rows", id="keys", statement="other words"))) == []


def test_the_value_of_a_given_stays() -> None:
    old = Intent(Contract(givens=(GivenValue(name="year", value=2023),)), "In 2023.", "admission")
    new = env(contract=Contract(givens=(GivenValue(name="year", value=2024),)).dump())
    assert any("2024 instead of 2023" in line for line in differences(old, new))


def test_the_request() -> None:
    text = env().instruction
    silent = differences(INTENT, env(instruction=b"Summarise orders.csv."))
    assert any("no longer names report.csv" in d for d in silent)
    extra = text + "\nAlso write `summary.json` with 17 rows.\n"
    found = differences(INTENT, env(instruction=extra.encode()))
    assert {"the request newly says 'summary.json'", "the request newly says '17'"} <= set(found)


# --- the vote --------------------------------------------------------------------------------------------
def opinion(**broken: bool) -> Opinion:
    ids = [r.id for r in env().contract.requirements]
    return Opinion({i: broken.get(i, True) for i in ids}, dict.fromkeys(ids, ""))


def nothing() -> Opinion:
    return Opinion(dict.fromkeys([r.id for r in env().contract.requirements], False), {})


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("Do not change, add or delete any other file.", True),
        ("Nothing else may change.", True),
        ("", False),
        ("Leave the other sheets alone.", False),
    ],
)
def test_a_request_goes_on_saying_that_the_rest_stays(said: str, kept: bool) -> None:
    text = env().instruction.replace("Change no other file.", "")
    before = f"{text}\nLeave every other file as it is and create no other file.\n"
    intended = Intent(env().contract, before, "admission")
    found = differences(intended, env(instruction=f"{text}\n{said}\n".encode()))
    assert found == ([] if kept else ["the request no longer says that other files stay as they are"])


def test_parts_that_agree_leave_the_contract_as_it_is() -> None:
    found = by_vote(env(), opinion(), nothing())
    assert (found.contract, found.origin, found.undecided, found.notes) == (env().contract, "vote", (), ())


def test_a_demand_that_only_the_contract_makes_is_outvoted() -> None:
    contract = env().contract
    hidden = contract.requirements[0].model_copy(
        update={"id": "hidden", "rule": contract.requirements[2].rule.model_copy(update={"column": "median"})}
    )
    new = changed(requirements=(*contract.requirements, hidden))
    reference = Opinion({**opinion().satisfied, "hidden": False}, {})
    found = by_vote(env(contract=new), reference, nothing())
    assert "hidden" not in {r.id for r in found.contract.requirements}
    assert found.notes == ("hidden is outvoted and not demanded",)


def test_a_tie_is_for_a_person() -> None:
    verifier = env().verifier
    without = tuple(c for c in verifier.criteria if c.requirement != "total")
    silent = env(verifier=verifier.model_copy(update={"criteria": without}).dump())
    # contract and instruction for it, criteria silent, the reference breaks it
    found = by_vote(silent, opinion(total=False), nothing())
    assert found.undecided == ("total",)


def test_the_path_that_most_parts_name() -> None:
    (report,) = env().contract.deliverables
    renamed = env(contract=changed(deliverables=(report.model_copy(update={"path": "result.csv"}),)))
    found = by_vote(renamed, None, None)
    assert found.contract.deliverables[0].path == "report.csv"
    assert found.notes == ("report is report.csv, not result.csv",)
    assert isinstance(renamed.record, Package)


@pytest.mark.parametrize(("guard", "kept"), [(" Change no other cell.", True), ("", False)])
def test_who_asks_to_leave_the_rest_asks_for_the_columns_that_are_there(guard: str, kept: bool) -> None:
    contract, verifier = env().contract, env().verifier
    edited = contract.deliverables[0].model_copy(update={"path": "orders.csv", "in_place": True})
    need = next(r for r in contract.requirements if r.id == "format")
    new = contract.model_copy(update={"deliverables": (edited,), "requirements": (need,)})
    unscored = verifier.model_copy(
        update={"criteria": tuple(c for c in verifier.criteria if c.requirement != "format")}
    )
    text = f"Set `day` to 2024-02-03 in orders.csv where `order_id` is 1001.{guard}\n"
    found = by_vote(
        env(contract=new.dump(), instruction=text.encode(), verifier=unscored.dump()), None, None
    )
    assert ("format" in {r.id for r in found.contract.requirements}) is kept
    assert found.undecided == ()
