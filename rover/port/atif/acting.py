"""Who acts itself when its rollout comes in: every policy that can be made here, from its id and the package.

Calibration, diagnosis and repair rely on attackers, on a package's own solution and on its family's solvers. A script
is made of the document's own calls: its id is a digest of them.
"""

from __future__ import annotations

from rover.construct.families.registry import installed
from rover.construct.solved import solution_of
from rover.policy.protocol import Policy
from rover.policy.registry import get_policy
from rover.policy.scripted import ScriptedPolicy
from rover.rollout.env import Env
from rover_store.errors import UsageError
from rover_store.records import ToolCall, Trajectory

_KINDS = ("null", "solution", "solver", "scripted")


def acts(policy: str) -> bool:
    """Whether a policy of this id is believed only where it does the work itself."""
    return policy.partition(":")[0] in _KINDS


def acting(recorded: Trajectory, env: Env) -> Policy | None:
    """The policy of a rollout, made here; None where there is none of that very id: another version, another
    package's, a script whose calls are not all there."""
    try:
        found = _made(recorded, env)
    except UsageError:
        return None
    return found if found is not None and found.id == recorded.key.policy else None


def _made(recorded: Trajectory, env: Env) -> Policy | None:
    policy = recorded.key.policy
    kind, _, rest = policy.partition(":")
    if kind == "null":
        return get_policy(policy.rpartition(":")[0])
    if kind == "solution":
        return solution_of(env, "".join(rest.split(":")[2:]))
    if kind == "scripted":
        turns = [tuple(ToolCall(id=c.id, tool=c.tool, arguments=c.arguments) for c in t.calls) for t in recorded.turns]
        return ScriptedPolicy([turn for turn in turns if turn], recorded.final_message)
    _, role, _, slip = (*rest.split(":", 3), "", "", "", "")[:4]
    return get_policy(f"solver:{role}" + (f"+{slip}" if slip else ""), family=installed(env.record.family))
