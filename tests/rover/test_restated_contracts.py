"""A contract in the words of its family: whole requests come out as they are, damaged ones as they should be."""

from __future__ import annotations

import random
import re
from dataclasses import asdict
from typing import Any

import pytest
from workspaces import proposed, shop_workspace

from rover.construct.build import Workspace
from rover.construct.families.built_in import BuiltIn
from rover.construct.families.protocol import Draft
from rover.construct.families.registry import family
from rover_store.records import Contract

FAMILIES = ("summarise", "edit", "reconcile", "memo")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return shop_workspace(tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="module")
def drafts(workspace: Workspace) -> dict[str, list[Draft]]:
    return {name: list(proposed(family(name), workspace, 30)) for name in FAMILIES}


def known(name: str) -> BuiltIn:
    found = family(name)
    assert isinstance(found, BuiltIn)
    return found


@pytest.mark.parametrize("name", FAMILIES)
def test_a_whole_request_comes_out_as_it_is(drafts: dict[str, list[Draft]], name: str) -> None:
    same = [known(name).request(d.contract, d.instruction) == d.instruction for d in drafts[name]]
    assert len(same) >= 20
    assert sum(same) >= 0.9 * len(same)  # a phrase that another sentence has too may be taken for it


def damages(text: str, rng: random.Random) -> list[str]:
    """The request with a sentence less, a value less, other values, another file name, and a sentence too many."""
    lines = [line for line in text.splitlines() if "`" in line]
    gone = text.replace(rng.choice(lines), "")
    values = re.findall(r'"[^"]+"|(?<![\w.`-])\d[\d.-]*\d|(?<![\w.`-])\d+(?! decimal)', text)
    vague = text.replace(rng.choice(values), "the usual one", 1) if values else text
    other = re.sub(r"\d+", lambda m: str(int(m[0]) + 1), text)
    renamed = re.sub(r"(\w+)\.(csv|md|json|xlsx|tsv)", r"\1_new.\2", text)
    added = f"{text.rstrip()}\n\nThe total was 12345.67 when it was last looked at.\n"
    return [gone, vague, other, renamed, added]


def unordered(reading: Any) -> dict[str, Any]:
    """What was read; the order in which a sentence that is gone named some fields cannot be known."""
    assert reading is not None
    said = asdict(reading)
    return {**said, "fields": sorted(said["fields"])} if "fields" in said else said


@pytest.mark.parametrize("name", FAMILIES)
def test_a_damaged_request_says_again_what_the_contract_says(drafts: dict[str, list[Draft]], name: str) -> None:
    rng = random.Random(3)
    one = known(name)
    for draft in drafts[name]:
        meant = unordered(one.reads(draft.instruction))
        for damaged in damages(draft.instruction, rng):
            again = one.request(draft.contract, damaged)
            assert again is not None
            assert unordered(one.reads(again)) == meant, (damaged, again)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_contract_of_another_family_is_left_alone(drafts: dict[str, list[Draft]], name: str) -> None:
    others = [d for other in FAMILIES if other != name for d in drafts[other][:5]]
    assert all(known(name).request(d.contract, d.instruction) is None for d in others)
    assert known(name).request(Contract(), "Do it.") is None
    assert known(name).reads("Do it.") is None
