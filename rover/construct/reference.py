"""The reference state: what the family's demonstrator makes of a clean start, run through the harness.

The only way to one is `demonstrate`, which takes a FrozenContract: no contract is written with a reference at
hand. A refused or failing write in a reference run is an error, never a silent no-op.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rover.construct.families.protocol import Dropped, Family, FrozenContract
from rover.harness.tools.specs import WRITERS
from rover.policy.slip import Slip
from rover.policy.solver import Role, SolverPolicy
from rover.rollout.engine import Engine
from rover.rollout.env import Env
from rover.rollout.records import RolloutRequest, RolloutResult
from rover.sandbox.protocol import Files
from rover_store.errors import HarnessError
from rover_store.records import Reference, StateFile, Trajectory

#: reference runs have one seed, so that a rebuild gives the same bytes
SEED = 0


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A verified run of a solver: the change it made, and how."""

    reference: Reference
    files: Mapping[str, bytes]
    trajectory: Trajectory


def demonstrate(
    engine: Engine, family: Family, contract: FrozenContract, env: Env, *, role: Role = "demonstrator", seed: int = SEED
) -> Demonstration | Dropped:
    """Run a solver of the family on the env, whose contract must be the frozen one."""
    if not isinstance(contract, FrozenContract):
        raise TypeError("a reference needs a frozen contract")
    contract.check(env.contract, env.instruction)
    result = engine.rollouts([RolloutRequest(env, solver(family, role), seed, None, "reference")])[0]
    problem = failure(result.trajectory)
    if problem:
        return Dropped(role, problem)
    return _change(role, env.start, result)


def solver(family: Family, role: Role, slip: Slip | None = None) -> SolverPolicy:
    """A family's solver as a policy, careful or with a slip."""
    plan = family.demonstrator() if role == "demonstrator" else family.alternative()
    return SolverPolicy(family.name, role, plan, slip, version=family.version)


def failure(trajectory: Trajectory) -> str:
    """Why a run gives no reference; empty where it does. HarnessError where the infrastructure failed."""
    if trajectory.end == "infra_error":
        raise HarnessError(f"{trajectory.package}: {trajectory.error}")
    if trajectory.end != "completed":
        return trajectory.error or trajectory.end
    for turn in trajectory.turns:
        for call in turn.calls:
            if call.tool in WRITERS and call.status != "ok":
                return f"{call.tool} failed: {call.output[:200]}"
    return ""


def _change(role: str, start: Files, result: RolloutResult) -> Demonstration | Dropped:
    if result.end.links:
        return Dropped(role, f"it left a link: {result.end.links[0]}")
    end = dict(result.end)
    files = {path: data for path, data in sorted(end.items()) if start.get(path) != data}
    gone = sorted(set(start) - set(end))
    if not files and not gone:
        return Dropped(role, "it changed nothing")
    changes = sorted([StateFile(path=p) for p in files] + [StateFile(path=p, deleted=True) for p in gone], key=_path)
    reference = Reference(
        changes=tuple(changes), final_message=result.trajectory.final_message, policy=result.trajectory.key.policy
    )
    return Demonstration(reference, files, result.trajectory)


def _path(change: StateFile) -> str:
    return change.path
