"""The pages of `rover help` name what the code has: no more, no less."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from rover.policy.null import NULL_POLICIES
from rover.policy.registry import KINDS
from rover.policy.slip import SLIPS
from rover.verify import checklib
from rover.verify.checklib.evidence import Evidence
from rover.verify.mutate import ALTERNATIVES, NEGATIVES
from rover_store.records.contract import Rule
from rover_store.records.query import Filter, Measure

DOCS = Path(__file__).parents[2] / "rover/docs"
RULES = tuple(get_args(part.model_fields["kind"].annotation)[0] for part in get_args(get_args(Rule)[0]))


@pytest.mark.parametrize(
    ("page", "begin", "end", "names"),
    [
        ("package.md", "A requirement has a rule. The kinds:", ". ", RULES),
        ("package.md", "compares a column with a given:", ". ", get_args(Filter.model_fields["op"].annotation)),
        ("package.md", "A measure is one of", ".\n", get_args(Measure.model_fields["fn"].annotation)),
        ("package.md", "Ops that break something:", ". ", tuple(NEGATIVES)),
        ("package.md", "Ops that change the form alone:", ".\n", tuple(ALTERNATIVES)),
        ("policies.md", "an attacker that does no honest work:", "(", NULL_POLICIES),
        ("policies.md", "The slips are", ".\n", SLIPS),
    ],
)
def test_lists_are_whole(page: str, begin: str, end: str, names: tuple[str, ...]) -> None:
    text = (DOCS / page).read_text()
    said = text[text.index(begin) + len(begin) :]
    assert set(re.findall(r"[a-z_]+", said[: said.index(end)])) - {"and"} == set(names)


def test_the_library_of_checks_is_named_whole() -> None:
    text = (DOCS / "package.md").read_text()
    functions = {n for n in checklib.__all__ if callable(getattr(checklib, n)) and n.islower()}
    offered = text[text.index("What `rc` offers:") : text.index("Read with these:")]
    assert functions <= set(re.findall(r"[a-z_]+", offered))
    ev = text[text.index("`ev` gives") : text.index("What `rc` offers:")]
    members = {n for n in vars(Evidence) if not n.startswith("_")} | set(Evidence.__dataclass_fields__)
    assert set(re.findall(r"`([a-z_]+)", ev)) - {"ev"} == members - {"root", "criterion", "anchors", "irregular"}


def test_every_kind_of_policy_has_a_line() -> None:
    text = (DOCS / "policies.md").read_text()
    assert all(re.search(rf"^    {kind}\b", text, re.MULTILINE) for kind in KINDS)
