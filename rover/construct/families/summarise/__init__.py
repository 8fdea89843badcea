"""Join and summarise into a new table."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from rover.construct.config import BuildConfig
from rover.construct.families.protocol import Draft, Dropped
from rover.policy.protocol import Plan

if TYPE_CHECKING:
    from rover.construct.profile import Profile


class Summarise:
    """The family."""

    name = "summarise"
    version = "1"

    def propose(self, profile: Profile, rng: random.Random, config: BuildConfig) -> Draft | Dropped:
        from rover.construct.families.summarise.propose import propose

        return propose(profile, rng, config)

    def demonstrator(self) -> Plan:
        from rover.construct.families.summarise.demonstrator import plan

        return plan

    def alternative(self) -> Plan:
        from rover.construct.families.summarise.alternative import plan

        return plan


FAMILY = Summarise()
