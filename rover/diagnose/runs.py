"""The runs behind the findings: each is made once for a context, and told apart into run and reused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from rover.diagnose.demands import asked
from rover.diagnose.oracle.contract import Oracle
from rover.diagnose.oracle.program import oracle_of
from rover.diagnose.restate import whole
from rover.harness.tools.specs import TOOLS
from rover.rollout.env import Env, env_from_files
from rover_store.errors import SandboxError
from rover_store.ids import digest
from rover_store.records import Budget, Limits, Mutation, Query, ResourceRef, Scalar, Table, Verdict

if TYPE_CHECKING:
    from rover.construct.calibrate import Row
    from rover.construct.families.protocol import Family
    from rover.diagnose.judged import Judged
    from rover.diagnose.protocol import ProbeContext
    from rover.policy.protocol import Policy
    from rover.policy.slip import SlipKind
    from rover.rollout.records import RolloutResult
    from rover.sandbox.protocol import Files

Role = Literal["demonstrator", "alternative"]
ROLES: tuple[Role, ...] = ("demonstrator", "alternative")

#: solver and slip of the careless ones: something wrong that is no attack
SLIPS: tuple[tuple[Role, SlipKind], ...] = (("demonstrator", "perturb_number"), ("alternative", "drop_row"))

#: budget under which a task that can be solved at all is solved; tells a short budget from a wrong request
GENEROUS = Budget(turns=400, tokens=2_000_000, seconds=600.0)


@dataclass(frozen=True, slots=True)
class Run:
    """One rollout with its verdict."""

    policy: str
    result: RolloutResult
    verdict: Verdict

    @property
    def id(self) -> str:
        return self.result.id

    @property
    def end(self) -> str:
        return self.result.trajectory.end

    @property
    def error(self) -> str:
        return self.result.trajectory.error


class Runs:
    """Rollouts, gradings and derivations of one context."""

    def __init__(self, ctx: ProbeContext) -> None:
        self.ctx = ctx
        self.ran = 0
        self.reused = 0
        self._derived: dict[str, dict[str, Table | str]] = {}

    @cached_property
    def family(self) -> Family | None:
        """The family of the package, where it names one that is installed."""
        from rover.construct.families.registry import installed

        return installed(self.ctx.env.record.family)

    @cached_property
    def demonstrator(self) -> Run | None:
        """The family's demonstrator, or the package's own solution, under its own budget; None without either."""
        return self._solve("demonstrator")

    @cached_property
    def generous(self) -> Run | None:
        """The demonstrator once more, with budget to spare."""
        return self._solve("demonstrator", GENEROUS)

    @cached_property
    def mended(self) -> tuple[Run, ...]:
        """Both solvers where the request says what the contract says and H offers every tool and room to spare.

        What a run of this kind uses and the package does not offer is missing, whatever else is wrong too.
        """
        made = [self._solve(role, env=with_all(self.ctx.env)) for role in ROLES]
        return tuple(run for run in made if run is not None)

    def solve(self, env: Env, role: Role = "demonstrator") -> Run | None:
        """A careful solver on another version of the package; None without a family."""
        return self._solve(role, env=env)

    @cached_property
    def alternative(self) -> Run | None:
        """The independent solver."""
        return self._solve("alternative")

    @cached_property
    def attackers(self) -> tuple[Run, ...]:
        """Every null attacker."""
        from rover.policy.null import attackers

        return self.attack(attackers(self.ctx.env.verifier.program is not None), self.ctx.env)

    def attack(self, names: tuple[str, ...], env: Env) -> tuple[Run, ...]:
        """The named null attackers on an env."""
        from rover.policy.registry import get_policy

        return self._run([get_policy(f"null:{name}") for name in names], env=env)

    @cached_property
    def slips(self) -> tuple[Run, ...]:
        """Careless solvers: a number that is off, a row that is left out; of a solution, a file that is."""
        from rover.construct.reference import solver
        from rover.construct.solved import solution_of
        from rover.policy.slip import Slip
        from rover.policy.solution import SLIPS as SPOILT

        if self.ctx.env.verifier.program is not None:
            careless = [solution_of(self.ctx.env, slip) for slip in SPOILT]
            return self._run([policy for policy in careless if policy is not None])
        if self.family is None:
            return ()
        return self._run([solver(self.family, role, Slip(kind)) for role, kind in SLIPS])

    @cached_property
    def rules(self) -> tuple[Mutation, ...]:
        """The verifier's negatives and alternatives that are made of the reference by rule."""
        return (*self.ctx.env.cases.negatives, *self.ctx.env.cases.alternatives)

    @cached_property
    def mutants(self) -> tuple[Files | str, ...]:
        """The state that each rule makes of the reference, or why it makes none."""
        from rover.construct.calibrate import mutants

        return tuple(mutants(self.ctx.engine, self.ctx.env, self.rules, self.ctx.seed))

    @cached_property
    def cases(self) -> tuple[Row, ...]:
        """The verifier's own calibration cases: negatives, alternatives by rule, alternatives kept as files."""
        from rover.construct.calibrate import mutant_rows, state_rows

        engine, env = self.ctx.engine, self.ctx.env
        made = mutant_rows(engine, env, self.rules, self.ctx.seed, self.mutants)
        return (*made, *state_rows(engine, env))

    @cached_property
    def oracle(self) -> Oracle:
        """The contract on the present files, evaluated by the second engine and by code outside the verifier."""
        return oracle_of(self.ctx.engine, self.ctx.env, self.ctx.env.contract)

    @cached_property
    def judged(self) -> tuple[Judged, ...]:
        """Every end state at hand, judged by verifier and oracle. ContractUnanswerable as the oracle."""
        from rover.diagnose.judged import judged

        return judged(self.ctx)

    @cached_property
    def start_verdict(self) -> Verdict:
        """The verdict on the untouched start state."""
        return self.ctx.engine.grade_state(self.ctx.env, self.ctx.env.start, "")

    def answers(self, engine: str = "duckdb") -> dict[str, Table | str]:
        """The contract's answers derived from the present files; an error in words where that fails."""
        queries = {a.id: a.query for a in asked(self.ctx.env.contract)}
        return self.derive(queries, engine)

    def derive(
        self, queries: dict[str, Query], engine: str = "duckdb", givens: Mapping[str, Scalar] | None = None
    ) -> dict[str, Table | str]:
        """Evaluate queries over the start state in a box, with the contract's givens unless others are handed in."""
        values = dict(givens) if givens is not None else {g.name: g.value for g in self.ctx.env.contract.givens}
        key = digest([engine, values, {name: q.model_dump(mode="json") for name, q in queries.items()}])
        if key not in self._derived:
            payload = {
                "queries": {name: q.model_dump(mode="json") for name, q in queries.items()},
                "givens": values,
                "engine": engine,
            }
            found = self.call("rover.construct.query.inside:derive", payload)
            self._derived[key] = {
                name: str(value["error"]) if "error" in value else Table.model_validate(value)
                for name, value in found.items()
            }
        return self._derived[key]

    def call(self, entry: str, payload: Any) -> Any:
        """A job over the start state in a box. SandboxError where the job itself breaks."""
        result = self.ctx.engine.call(entry, payload, self.ctx.env.start)
        if result.error or result.breach:
            raise SandboxError(f"{entry}: {result.error or result.breach}")
        return result.value

    def _solve(self, role: Role, budget: Budget | None = None, env: Env | None = None) -> Run | None:
        from rover.construct.reference import solver
        from rover.construct.solved import solution_of

        if self.ctx.env.verifier.program is not None:
            own = solution_of(env or self.ctx.env) if role == "demonstrator" else None
            return self._run([own], budget, env)[0] if own is not None else None
        return self._run([solver(self.family, role)], budget, env)[0] if self.family else None

    def _run(
        self, policies: list[Policy], budget: Budget | None = None, env: Env | None = None
    ) -> tuple[Run, ...]:
        from rover.rollout.records import RolloutRequest, seed_for

        env = env or self.ctx.env
        seeds = [seed_for("diagnose", p.id, self.ctx.seed) for p in policies]
        requests = [RolloutRequest(env, p, s, budget, "diagnose") for p, s in zip(policies, seeds, strict=True)]
        results = self.ctx.engine.rollouts(requests)
        self.reused += sum(r.reused for r in results)
        self.ran += sum(not r.reused for r in results)
        verdicts = self.ctx.engine.grade([(r, env) for r in results])
        return tuple(Run(p.id, r, v) for p, r, v in zip(policies, results, verdicts, strict=True))


def with_request(env: Env) -> Env:
    """The package with the request that its contract describes; as it is where the contract describes none."""
    if env.verifier.program is not None:
        return env
    return env_from_files({**env.files, "task/instruction.md": whole(env).encode()}, env.resources)


def with_room(env: Env, *, limits: bool = True) -> Env:
    """The package under a harness with every tool, a generous budget and, unless told otherwise, the usual limits."""
    changes: dict[str, Any] = {"tools": tuple(TOOLS), "budget": GENEROUS}
    if limits:
        changes["limits"] = Limits()
    harness = env.harness.model_copy(update=changes)
    return env_from_files({**env.files, "harness/harness.json": harness.dump()}, env.resources)


def with_all(env: Env) -> Env:
    """Both: request and harness as they should be at the very least."""
    return with_room(with_request(env))


def mounted(env: Env, ref: ResourceRef) -> dict[str, str]:
    """Path in the workspace -> path in the resource, of one bound resource."""
    prefix = f"{ref.mount.strip('/')}/" if ref.mount.strip("/") else ""
    content = env.resources.get(f"{ref.kind}/{ref.name}", {})
    return {prefix + p.removeprefix("files/"): p for p in content if p.startswith("files/")}
