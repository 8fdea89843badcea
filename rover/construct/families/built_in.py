"""A family that ships with rover: a package with modules `propose`, `demonstrator` and `alternative`.

Each module is imported when it is used: a run of a solver needs no builder, and no solver another one.
"""

from __future__ import annotations

import importlib
import importlib.util
import random
from typing import TYPE_CHECKING, Any, cast

from rover.construct.config import BuildConfig
from rover.construct.families.protocol import Draft, Dropped
from rover.policy.protocol import Plan, PolicyFailure
from rover_store.records import Contract

if TYPE_CHECKING:
    from rover.construct.profile import Profile


class BuiltIn:
    """A Family made of the modules of rover.construct.families.NAME, or of the package `module` there."""

    def __init__(self, name: str, version: str, module: str = "") -> None:
        self.name = name
        self.version = version
        self._package = module or name

    def propose(self, profile: Profile, rng: random.Random, config: BuildConfig) -> Draft | Dropped:
        return cast("Draft | Dropped", self._module("propose").propose(profile, rng, config))

    def demonstrator(self) -> Plan:
        return cast(Plan, self._module("demonstrator").plan)

    def alternative(self) -> Plan:
        return cast(Plan, self._module("alternative").plan)

    def hasty(self) -> Plan | None:
        """The demonstrator with habits that often do no harm; None where the family has none such."""
        if importlib.util.find_spec(f"rover.construct.families.{self._package}.hasty") is None:
            return None
        return cast(Plan, self._module("hasty").plan)

    def request(self, contract: Contract, present: str) -> str | None:
        """The request of a contract, worded as near to `present` as can be; None where the contract is no such task."""
        from rover.construct.families.author import Author, Misfit

        try:
            return cast(str, self._module("restate").request(contract, Author(present)))
        except Misfit:
            return None

    def reads(self, instruction: str) -> Any:
        """What the demonstrator reads in a request, to compare two; None where it cannot read it."""
        try:
            return self._module("demonstrator").read(instruction)
        except PolicyFailure:
            return None

    def _module(self, part: str) -> Any:
        return importlib.import_module(f"rover.construct.families.{self._package}.{part}")
