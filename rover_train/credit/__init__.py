"""Credit: from graded rollouts of a group to an advantage for each turn. Pure Python, no torch.

    scheme(name, **settings)    a CreditScheme: grpo, dr-grpo, gdpo, gigpo, vtca-grpo, vtca-even, or an installed one
    evidence_of(...)            what a scheme reads, from a recorded rollout, its graded trees and its verdict
    group_of(...)               the rollouts of one package, with the weights of its criteria
    weighted(...)               rows with token weights folded into the advantage
"""

from rover_train.credit.evidence import evidence_of, group_of
from rover_train.credit.protocol import Credit, CreditScheme, Group, RolloutEvidence, TurnEvidence
from rover_train.credit.registry import aggregation, names, scheme, with_settings
from rover_train.credit.settings import CreditSettings
from rover_train.credit.weights import token_weights, turn_weights, weighted

__all__ = [
    "Credit", "CreditScheme", "CreditSettings", "Group", "RolloutEvidence", "TurnEvidence", "aggregation",
    "evidence_of", "group_of", "names", "scheme", "token_weights", "turn_weights", "weighted", "with_settings",
]  # fmt: skip
