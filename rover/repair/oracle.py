"""The oracle, where gates and votes look for it: see rover.diagnose.oracle."""

from __future__ import annotations

from rover.diagnose.oracle.contract import (
    ContractUnanswerable,
    Opinion,
    Oracle,
    State,
    answers_of,
    state_after,
    state_of,
)
from rover.diagnose.oracle.program import oracle_of

__all__ = ["ContractUnanswerable", "Opinion", "Oracle", "State", "answers_of", "oracle_of", "state_after", "state_of"]
