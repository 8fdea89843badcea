"""Agents that fail in a package: careless solvers, with seeds under which they really failed when they were run.

Null attackers never count: that they fail says nothing of a package or of an agent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rover.bench.suites.battery import sown
from rover.bench.suites.manifest import AgentRun
from rover.construct.families.registry import family
from rover.policy.registry import get_policy
from rover.repair.oracle import ContractUnanswerable, Oracle, state_after
from rover.rollout.engine import Engine
from rover.rollout.env import Env
from rover.rollout.records import RolloutRequest, RolloutResult, seed_for
from rover_store.errors import SandboxError
from rover_store.records import Verdict

POLICIES = (
    "solver+skip_write",
    "solver:alternative+drop_row",
    "solver+perturb_number",
    "solver:alternative+wrong_column",
    "solver+drop_row",
    "solver:alternative+perturb_number",
    "solver+stop_early",
    "solver+wrong_column",
)
#: agents that make no mistake: where they fail, it is the package's fault
CAREFUL = ("solver", "solver:alternative")
#: runs that are tried for a decoy
TRIES = 12


def request(env: Env, run: AgentRun) -> RolloutRequest:
    """The rollout of an agent's run: the first attempt of `rover run PACKAGE --policy P --seed S`."""
    policy = get_policy(run.policy, family=family(env.record.family or ""))
    return RolloutRequest(env, policy, seed_for(f"run:{run.seed}", policy.id, 0))


def play(engine: Engine, env: Env, runs: Sequence[AgentRun]) -> list[tuple[RolloutResult, Verdict]]:
    """The runs with their verdicts; from the engine's evidence where it holds them."""
    return engine.run([request(env, run) for run in runs])


def failing(engine: Engine, env: Env, wanted: int, *seed: object) -> tuple[AgentRun, ...]:
    """So many runs, or fewer, that the verifier fails and the contract calls wrong, of different policies."""
    found: list[AgentRun] = []
    oracle = Oracle(engine, env.contract, env.start)
    for run in _tried(*seed):
        if len(found) == wanted:
            break
        if run.policy in {r.policy for r in found}:
            continue
        if _fails(engine, env, run, oracle):
            found.append(run)
    return tuple(found)


def _tried(*seed: object) -> Iterator[AgentRun]:
    for number in range(TRIES):
        drawn = sown("agent", *seed, number)
        yield AgentRun(policy=POLICIES[drawn % len(POLICIES)], seed=drawn // len(POLICIES) % 1000)


def _fails(engine: Engine, env: Env, run: AgentRun, oracle: Oracle) -> bool:
    result, verdict = play(engine, env, [run])[0]
    if verdict.outcome == "infra_error":
        raise SandboxError(verdict.reason)
    if verdict.outcome not in ("failed", "policy_error"):
        return False
    try:
        return not oracle.judge([state_after(env.start, result)])[0].accepts
    except ContractUnanswerable:
        return False
