"""A family that ships with rover: a package with modules `propose`, `demonstrator` and `alternative`.

Each module is imported when it is used: a run of a solver needs no builder, and no solver another one.
"""

from __future__ import annotations

import importlib
import random
from typing import TYPE_CHECKING, Any, cast

from rover.construct.config import BuildConfig
from rover.construct.families.protocol import Draft, Dropped
from rover.policy.protocol import Plan

if TYPE_CHECKING:
    from rover.construct.profile import Profile


class BuiltIn:
    """A Family made of the modules of rover.construct.families.NAME."""

    def __init__(self, name: str, version: str) -> None:
        self.name = name
        self.version = version

    def propose(self, profile: Profile, rng: random.Random, config: BuildConfig) -> Draft | Dropped:
        return cast("Draft | Dropped", self._module("propose").propose(profile, rng, config))

    def demonstrator(self) -> Plan:
        return cast(Plan, self._module("demonstrator").plan)

    def alternative(self) -> Plan:
        return cast(Plan, self._module("alternative").plan)

    def _module(self, part: str) -> Any:
        return importlib.import_module(f"rover.construct.families.{self.name}.{part}")
