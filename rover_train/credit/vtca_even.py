"""The control of VTCA: the same alpha, eta and progress, spread evenly over the turns of the rollout.

What VTCA-GRPO gains over it comes from the place of credit; what both gain over GRPO comes from a denser signal.
"""

from __future__ import annotations

from rover_train.credit.progress import Numbers, even
from rover_train.credit.protocol import RolloutEvidence
from rover_train.credit.vtca_grpo import VtcaGrpo


class VtcaEven(VtcaGrpo):
    """delta_t = sum of the rollout's increments / its turns."""

    name = "vtca-even"

    def spread(self, rollout: RolloutEvidence, increment: Numbers) -> Numbers:
        return even(increment)
