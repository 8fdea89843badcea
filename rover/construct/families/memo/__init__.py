"""A written memo whose figures and sources are checked."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from rover.construct.config import BuildConfig
from rover.construct.families.protocol import Draft, Dropped
from rover.policy.protocol import Plan

if TYPE_CHECKING:
    from rover.construct.profile import Profile


class Memo:
    """The family."""

    name = "memo"
    version = "1"

    def propose(self, profile: Profile, rng: random.Random, config: BuildConfig) -> Draft | Dropped:
        from rover.construct.families.memo.propose import propose

        return propose(profile, rng, config)

    def demonstrator(self) -> Plan:
        from rover.construct.families.memo.demonstrator import plan

        return plan

    def alternative(self) -> Plan:
        from rover.construct.families.memo.alternative import plan

        return plan


FAMILY = Memo()
