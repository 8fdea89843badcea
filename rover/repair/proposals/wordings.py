"""The request as the family words the contract, and whether a request says what the contract says."""

from __future__ import annotations

from typing import Any

from rover.construct.families.registry import installed
from rover.repair.proposals.protocol import PackageView


def worded(view: PackageView, text: str | None = None) -> str | None:
    """The contract in the family's words, as near to `text` as can be; None where no family can put it so."""
    family = installed(view.env.record.family)
    request = getattr(family, "request", None)
    if request is None:
        return None
    found = request(view.contract, view.env.instruction if text is None else text)
    return found if isinstance(found, str) else None


def says_the_contract(view: PackageView, text: str) -> bool | None:
    """Whether the family's demonstrator reads in `text` what it reads in the contract's own wording; None: unknown."""
    family = installed(view.env.record.family)
    reads = getattr(family, "reads", None)
    wanted = worded(view, text)
    if reads is None or wanted is None:
        return None
    mine: Any = reads(text)
    return mine is not None and mine == reads(wanted)
