"""The solver policy: runs a family's plan, which works from the view and the tools alone."""

from __future__ import annotations

from typing import Literal

from rover.policy.plan import PlanSession
from rover.policy.protocol import Plan, PolicyView, Session
from rover.policy.slip import Slip

#: hasty: with habits that often do no harm, where the family has such a plan
Role = Literal["demonstrator", "alternative", "hasty"]


class SolverPolicy:
    """A family's demonstrator or its independent second solver, careful or with one seeded slip.

    The id names family, role and version: a family raises its version when its plans behave differently.
    """

    attacker = False

    def __init__(
        self,
        family: str,
        role: Role,
        plan: Plan,
        slip: Slip | None = None,
        *,
        version: str = "1",
    ) -> None:
        self.family = family
        self.role = role
        self.slip = slip
        self.id = f"solver:{family}:{role}:{version}" + (f":{slip.kind}" if slip else "")
        self._plan = plan

    def start(self, view: PolicyView, seed: int) -> Session:
        return PlanSession(self._plan, view, seed, self.slip)
