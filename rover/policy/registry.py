"""Policies by name: solver, scripted:FILE, null:NAME, solution, replay:ROLLOUT, openai:MODEL, and installed ones.

What a name needs from higher layers (a package's family, a recorded rollout) is handed in as a function, so that
nothing here knows of families or stores. Only the named policy is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from rover.policy.protocol import Plan, Policy
from rover_store.errors import UsageError

if TYPE_CHECKING:
    from rover.policy.slip import Slip
    from rover_store.records import Trajectory

GROUP = "rover.policies"
KINDS = ("solver", "scripted", "null", "solution", "replay", "openai", "command")


class Solvers(Protocol):
    """What a family brings: its name, its version and two plans."""

    name: str
    version: str

    def demonstrator(self) -> Plan: ...

    def alternative(self) -> Plan: ...


def get_policy(
    spec: str,
    *,
    family: Solvers | None = None,
    recorded: Callable[[str], Trajectory] | None = None,
    solution: Callable[[str], Policy] | None = None,
    server: str = "",
    key: str = "",
    **options: Any,
) -> Policy:
    """The policy of a spec; UsageError where it makes no sense.

        solver[:demonstrator|:alternative|:hasty][+SLIP]   needs `family`
        scripted:FILE[+SLIP]
        null:NAME, null:tamper:NAME
        solution[+SLIP]                             needs `solution`: the package's own, as one shell turn
        replay:ROLLOUT                              needs `recorded`
        openai:MODEL                                takes `server`, `key` and options of OpenAIPolicy
        command:ARGV, command:FILE.toml             the same, `model` and `agent`; see rover.policy.program
    """
    kind, _, rest = spec.partition(":")
    if kind.partition("+")[0] == "solver":
        return _solver(rest or kind.removeprefix("solver"), spec, family)
    if kind == "scripted":
        from rover.policy.scripted import ScriptedPolicy

        rest, slip = _slip(rest)
        return ScriptedPolicy.load(Path(_named(spec, rest, "FILE")), slip)
    if kind == "null":
        from rover.policy.null import NullPolicy

        name, _, beside = _named(spec, rest, "NAME").partition(":")
        return NullPolicy(name, beside)
    if kind.partition("+")[0] == "solution":
        if solution is None:
            raise UsageError(f"{spec}: a solution belongs to a package, and there is none here")
        return solution(kind.partition("+")[2])
    if kind == "replay":
        from rover.policy.replay import ReplayPolicy

        if recorded is None:
            raise UsageError(f"{spec}: recorded rollouts are in a store, and there is none here")
        return ReplayPolicy(recorded(_named(spec, rest, "ROLLOUT")))
    if kind == "openai":
        from rover.policy.openai import OpenAIPolicy

        model = _named(spec, rest, "MODEL")
        if not server and not key:
            hint = "name one: --server URL, or OPENAI_BASE_URL"
            raise UsageError(f"{spec}: neither a server nor a key is given", hint=hint)
        return OpenAIPolicy(model, server=server, key=key, **options)
    if kind == "command":
        from rover.policy.program import ProgramPolicy, Spec

        return ProgramPolicy(Spec.parse(rest), server=server, key=key, **options)
    for point in entry_points(group=GROUP, name=kind):
        return cast(Policy, point.load()(rest, **options))
    raise UsageError(f"no policy is called {kind!r}", hint=f"known: {', '.join(KINDS)}; see `rover help policies`")


def _solver(rest: str, spec: str, family: Solvers | None) -> Policy:
    from rover.policy.solver import SolverPolicy

    if family is None:
        raise UsageError(f"{spec}: the package names no family, so it has no solver")
    role, slip = _slip(rest)
    if role in ("", "demonstrator"):
        return SolverPolicy(family.name, "demonstrator", family.demonstrator(), slip, version=family.version)
    if role == "alternative":
        return SolverPolicy(family.name, "alternative", family.alternative(), slip, version=family.version)
    if role == "hasty":
        plan = getattr(family, "hasty", lambda: None)()
        if plan is None:
            raise UsageError(f"{spec}: the family {family.name} has no hasty solver")
        return SolverPolicy(family.name, "hasty", plan, slip, version=family.version)
    raise UsageError(f"{spec}: a solver is a demonstrator, an alternative, or hasty")


def _slip(text: str) -> tuple[str, Slip | None]:
    from rover.policy.slip import SLIPS, Slip

    name, plus, kind = text.rpartition("+")
    if not plus:
        return text, None
    for known in SLIPS:
        if known == kind:
            return name, Slip(known)
    raise UsageError(f"no slip is called {kind!r}", hint=f"known: {', '.join(SLIPS)}")


def _named(spec: str, rest: str, what: str) -> str:
    if not rest:
        raise UsageError(f"{spec}: needs a name, {spec.partition(':')[0]}:{what}")
    return rest
