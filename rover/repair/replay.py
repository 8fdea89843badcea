"""Matched replay: every candidate under the same policies, budgets and seeds.

The policies are functions of the candidate's own context, task and harness: the family's demonstrator, the
independent solver, three variants of them with seeded slips, all null attackers; models where configured. A
seed comes from (case, policy, k), never from the mask, so candidates with equal C, T and H share their rollouts
through the evidence of the engine.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rover.construct.families.protocol import Family
from rover.policy.protocol import Policy
from rover.policy.slip import SlipKind
from rover.policy.solver import Role
from rover.rollout.engine import Engine
from rover.rollout.env import Env
from rover.rollout.records import RolloutRequest, RolloutResult, seed_for
from rover_store.records import Trajectory, Verdict

Kind = Literal["solver", "slip", "attacker", "model", "recorded"]
#: solver and slip of the three careless variants
SLIPS: tuple[tuple[Role, SlipKind], ...] = (
    ("demonstrator", "perturb_number"),
    ("alternative", "drop_row"),
    ("demonstrator", "wrong_column"),
)


@dataclass(frozen=True, slots=True)
class Actor:
    """A replay policy and what it stands for."""

    policy: Policy
    kind: Kind


class Grades:
    """The verdicts of one play, all made when the first is asked for."""

    def __init__(self, engine: Engine, env: Env, results: Sequence[RolloutResult]) -> None:
        self._engine = engine
        self._env = env
        self._results = results
        self._lock = threading.Lock()
        self._made: list[Verdict] | None = None

    def __getitem__(self, number: int) -> Verdict:
        with self._lock:
            if self._made is None:
                self._made = self._engine.grade([(result, self._env) for result in self._results])
        return self._made[number]


@dataclass(frozen=True, slots=True)
class Run:
    """One replayed rollout; graded when its verdict is asked for. `k` numbers the seed."""

    actor: Actor
    k: int
    result: RolloutResult
    grades: Grades
    number: int

    @property
    def verdict(self) -> Verdict:
        return self.grades[self.number]

    @property
    def id(self) -> str:
        return self.result.id

    @property
    def weak(self) -> bool:
        """A slip or an attacker: nobody expects it to do the task."""
        return self.actor.kind in ("slip", "attacker")

    @property
    def calls(self) -> int:
        """Length of its solution in tool calls."""
        return sum(len(turn.calls) for turn in self.result.trajectory.turns)


def actors(
    env: Env, parent: Env, models: Sequence[Policy] = (), recorded: Sequence[Trajectory] = ()
) -> tuple[Actor, ...]:
    """The replay policies of a candidate. Recorded ones only where nothing they rest on changed.

    A package whose verifier is a program is solved by the solution that it brings along.
    """
    from rover.construct.families.registry import installed
    from rover.construct.solved import solution_of
    from rover.policy.null import attackers
    from rover.policy.registry import get_policy
    from rover.policy.replay import ReplayPolicy
    from rover.policy.solution import SLIPS as SPOILT

    found: list[Actor] = []
    known = installed(env.record.family)
    own = solution_of(env) if env.verifier.program is not None else None
    if known is not None:
        found += solvers(known)
    elif own is not None:
        careless = [solution_of(env, slip) for slip in SPOILT]
        found += [Actor(own, "solver"), *(Actor(policy, "slip") for policy in careless if policy is not None)]
    if known is None and (env.task_id, env.harness_id) == (parent.task_id, parent.harness_id):
        found += [Actor(ReplayPolicy(t), "recorded") for t in recorded]
    found += [Actor(model, "model") for model in models]
    found += [Actor(get_policy(f"null:{name}"), "attacker") for name in attackers(env.verifier.program is not None)]
    return tuple(found)


def solvers(family: Family) -> list[Actor]:
    """Both solvers of a family, and three careless variants."""
    from rover.construct.reference import solver
    from rover.policy.slip import Slip

    careful = [Actor(solver(family, role), "solver") for role in ("demonstrator", "alternative")]
    return careful + [Actor(solver(family, role, Slip(kind)), "slip") for role, kind in SLIPS]


@dataclass(frozen=True)
class Replay:
    """Runs candidates of one case on its seeds."""

    engine: Engine
    case: str
    seeds: tuple[int, ...] = (0,)

    def play(self, env: Env, cast: Sequence[Actor]) -> tuple[Run, ...]:
        """Every actor on every seed; the candidate's own verifier grades them when it is asked to."""
        order = [(actor, k) for k in self.seeds for actor in cast]
        seeds = [seed_for(self.case, a.policy.id, k) for a, k in order]
        requests = [RolloutRequest(env, a.policy, s, None, "replay") for (a, _), s in zip(order, seeds, strict=True)]
        results = self.engine.rollouts(requests)
        grades = Grades(self.engine, env, results)
        return tuple(
            Run(actor, k, result, grades, number)
            for number, ((actor, k), result) in enumerate(zip(order, results, strict=True))
        )


def attacked(runs: Sequence[Run]) -> dict[str, tuple[str, Verdict]]:
    """Rollout and verdict of each attacker on its first seed, as calibration takes them."""
    found: dict[str, tuple[str, Verdict]] = {}
    for run in runs:
        if run.actor.kind == "attacker":
            found.setdefault(run.actor.policy.id, (run.id, run.verdict))
    return found
