"""From a recorded rollout, its graded trees and its verdict to what credit is computed from.

G is the verdict's gate. H is told by the criteria of the canonical state difference: a critical criterion of layer
`state` is a check of integrity, protected state or safety if it held on the start state (or cannot be told there);
where such a one fails at the end, H is 0. One of layer `function`, or one that did not hold at the start either, is a
demand: an unfinished rollout fails it and keeps its progress credit. H = 0 implies G = 0, since both are critical.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rover_store.ids import digest
from rover_store.records import Criterion, Trajectory, Turn, Verdict
from rover_train.credit.cost import costs
from rover_train.credit.protocol import Group, RolloutEvidence, TurnEvidence
from rover_train.credit.uses import uses

#: status of each criterion on one tree, in the verifier's order; None: not supported
Statuses = Sequence[float | None]


def evidence_of(
    trajectory: Trajectory,
    statuses: Sequence[Statuses],
    verdict: Verdict,
    criteria: Sequence[Criterion],
    instruction: str,
    tokens: Sequence[int] = (),
) -> RolloutEvidence:
    """The evidence of one rollout.

    `statuses`: one line a tree, the start first, then after each turn. `tokens`: what the policy wrote, by turn. A
    criterion with progress=False is not supported on any tree. ValueError for a verdict without a score: a rollout
    that the infrastructure or the verifier spoilt has no reward, not a reward of 0.
    """
    if verdict.score is None or verdict.gate is None:
        raise ValueError(f"a rollout with outcome {verdict.outcome} has no reward")
    if len(statuses) != len(trajectory.turns) + 1:
        raise ValueError(f"{len(trajectory.turns)} turns have {len(trajectory.turns) + 1} trees, not {len(statuses)}")
    lines = [_supported(line, criteria) for line in statuses]
    used, cost = uses(trajectory.turns, instruction), costs(trajectory.turns, trajectory.start)
    anchors = _anchors(trajectory, instruction)
    turns = tuple(
        TurnEvidence(lines[t], lines[t + 1], used[t], cost[t], tokens[t] if t < len(tokens) else 0, anchors[t])
        for t in range(len(trajectory.turns))
    )
    return RolloutEvidence(
        outcome=verdict.score,
        gate=verdict.gate,
        intact=intact(statuses[0], verdict, criteria),
        turns=turns,
        components=_components(verdict),
    )


def group_of(criteria: Sequence[Criterion], rollouts: Sequence[RolloutEvidence]) -> Group:
    """Rollouts of one package, with the weights of its criteria as shares of their sum."""
    whole = sum(c.weight for c in criteria)
    return Group(tuple(c.weight / whole if whole else 0.0 for c in criteria), tuple(rollouts))


def intact(start: Statuses, verdict: Verdict, criteria: Sequence[Criterion]) -> int:
    """H: 0 where a check of integrity, protected state or safety failed at the end, else 1."""
    scores = {s.criterion: s.score for s in verdict.scores}
    for criterion, before in zip(criteria, start, strict=True):
        guards = criterion.critical and criterion.layer == "state" and (before is None or before >= 1)
        if guards and scores.get(criterion.id, 1.0) < 1:
            return 0
    return 1


def _supported(line: Statuses, criteria: Sequence[Criterion]) -> tuple[float | None, ...]:
    return tuple(s if c.progress else None for s, c in zip(line, criteria, strict=True))


def _components(verdict: Verdict) -> Mapping[str, float]:
    """Each criterion's score as a reward of its own, for schemes that take several."""
    return {f"criterion-{s.criterion}": s.score for s in verdict.scores}


def _anchors(trajectory: Trajectory, instruction: str) -> list[str]:
    """The state before each turn: the workspace, and what the policy saw last."""
    out = []
    tree, seen = trajectory.start, digest(["task", instruction])
    for turn in trajectory.turns:
        out.append(digest(["anchor", tree, seen]))
        tree, seen = turn.tree, _seen(turn)
    return out


def _seen(turn: Turn) -> str:
    return digest(["outputs", [[c.tool, c.status, c.output] for c in turn.calls]])
