"""Run a policy on packages: rollouts and verdicts, evidence first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from rover.harness.loop import Stopped
from rover.harness.mcp.records import waiting
from rover.ops.listing import package_json
from rover.ops.shard import Shard, piece
from rover.policy.registry import get_policy
from rover.policy.solution import SCRIPT, WHERE
from rover.rollout.engine import Engine
from rover.rollout.env import load_env
from rover.rollout.records import Progress, RolloutRequest, RolloutResult, seed_for
from rover.rollout.spoilt import failure
from rover_store.errors import NotFound, PackageError, UsageError

if TYPE_CHECKING:
    from rover.policy.protocol import Policy
    from rover.sandbox.protocol import Runtime
    from rover_store.layout import PackageEntry
    from rover_store.records import Trajectory, Verdict
    from rover_store.store import Store

#: packages that are in memory at the same time
CHUNK = 32
#: so many infrastructure errors in a row end a run: the server or the sandbox is gone
GIVE_UP = 8


@dataclass(frozen=True, slots=True)
class Ran:
    """One rollout with its verdict, as a row."""

    package: str
    attempt: int
    policy: str
    seed: int
    rollout: str
    end: str
    outcome: str
    score: float | None
    turns: int
    tokens: int
    reused: bool
    reason: str
    retried: str | None = None  # why the try before this one was given up


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a run gave, in order of package and attempt."""

    rows: tuple[Ran, ...]
    #: what is kept and was not offered, a line each
    notes: tuple[str, ...] = ()

    def count(self, outcome: str) -> int:
        return sum(row.outcome == outcome for row in self.rows)

    @property
    def reused(self) -> int:
        return sum(row.reused for row in self.rows)


@dataclass(slots=True)
class RunRequest:
    """What to run. `options` go to the policy (server, key, model settings)."""

    pattern: str
    policy: str
    attempts: int = 1
    seed: int = 0
    rev: str = "HEAD"
    limit: int | None = None
    options: dict[str, Any] = field(default_factory=dict)
    names: frozenset[str] | None = None  # of those that match, these alone
    shard: Shard | None = None  # of all rollouts, those of this part alone


def run(
    store: Store,
    runtime: Runtime,
    request: RunRequest,
    *,
    workers: int = 1,
    told: Callable[[Ran, int, int], None] = lambda row, done, total: None,
    ahead: Callable[[Sequence[RolloutRequest]], None] = lambda requests: None,
) -> RunReport:
    """Run and grade. `told` gets each row as it is done, with how many are done and how many there are.

    `ahead` is given the requests of a few packages before they are run: what it puts into the evidence is taken.

    UsageError where the glob matches nothing or the policy makes no sense for a package; ProviderError or
    SandboxError where nothing but infrastructure errors comes back. What was finished is kept in any case.
    """
    entries = [e for e in store.packages(request.rev, request.pattern) if _wanted(e, request)][: request.limit]
    if not entries:
        hint = "`rover list` shows all names"
        raise UsageError(f"no package of {request.rev} matches {request.pattern!r}", hint=hint)
    policies = [policy_of(store, entry, request) for entry in entries]
    todo = [_Todo(e, p, _attempts(e, request)) for e, p in zip(entries, policies, strict=True)]
    rows: list[Ran] = []
    notes: dict[str, None] = {}
    total = sum(len(one.attempts) for one in todo)
    with Engine(runtime, store.evidence, workers) as engine:
        for some in _chunks([one for one in todo if one.attempts]):
            asked = _requests(store, some, request)
            attempts = [n for one in some for n in one.attempts]
            ahead(asked)
            notes |= {f"{r.env.package}: {line}": None for r in asked for line in waiting(r.env.harness)}
            rows += _run_some(engine, asked, attempts, lambda row, done: told(row, done, total), len(rows))
    return RunReport(tuple(rows), tuple(notes))


class _Todo(NamedTuple):
    """A package, who acts in it, and which attempts are to be had."""

    entry: PackageEntry
    policy: Policy
    attempts: tuple[int, ...]


def _attempts(entry: PackageEntry, request: RunRequest) -> tuple[int, ...]:
    every = range(request.attempts)
    if request.shard is None:
        return tuple(every)
    work = piece(entry.components, entry.name)
    return tuple(n for n in every if request.shard.takes(work, n))


def _requests(store: Store, some: Sequence[_Todo], request: RunRequest) -> list[RolloutRequest]:
    """All attempts at a few packages."""
    requests: list[RolloutRequest] = []
    for entry, policy, attempts in some:
        try:
            env = load_env(store, entry.tree)
        except PackageError as error:
            raise PackageError(f"{entry.name}/{error.file}", error.field, error.reason) from None
        seeds = [seed_for(f"run:{request.seed}", policy.id, n) for n in attempts]
        requests += [RolloutRequest(env, policy, seed) for seed in seeds]
    return requests


def _run_some(
    engine: Engine, requests: Sequence[RolloutRequest], attempts: Sequence[int], told: Callable[[Ran, int], None],
    before: int,
) -> list[Ran]:  # fmt: skip
    """Run some attempts at a few packages; `attempts` are their numbers."""
    which = {r.key(engine.runtime_at(r.env)): n for n, r in reversed(list(enumerate(requests)))}
    failures: list[str] = []
    heard: set[int] = set()

    def progress(now: Progress) -> None:
        number = which[now.result.trajectory.key]
        heard.add(number)
        assert now.verdict is not None
        row = _row(requests[number].env.package, attempts[number], now.result, now.verdict)
        if now.result.trajectory.end == "infra_error":
            failures.append(now.result.trajectory.error)
        else:
            failures.clear()
        told(row, before + now.done)

    try:
        found = engine.run(requests, progress, stop=lambda: len(failures) >= GIVE_UP)
    except Stopped:
        raise failure(f"{len(failures)} rollouts in a row failed, the last", failures[-1]) from None
    asked = zip(requests, attempts, found, strict=True)
    rows = [_row(r.env.package, attempt, result, verdict) for r, attempt, (result, verdict) in asked]
    for number, row in enumerate(rows):
        if number not in heard:  # a package that shares its rollout with another one
            heard.add(number)
            told(row, before + len(heard))
    return rows


def _row(package: str, attempt: int, result: RolloutResult, verdict: Verdict) -> Ran:
    trajectory = result.trajectory
    key, used = trajectory.key, trajectory.usage
    return Ran(
        package=package,
        attempt=attempt,
        policy=key.policy,
        seed=key.seed,
        rollout=result.id,
        end=trajectory.end,
        outcome=verdict.outcome,
        score=verdict.score,
        turns=len(trajectory.turns),
        tokens=used.prompt_tokens + used.completion_tokens,
        reused=result.reused,
        reason=verdict.reason,
        retried=trajectory.retried,
    )


def _wanted(entry: PackageEntry, request: RunRequest) -> bool:
    return request.names is None or entry.name in request.names


def policy_of(store: Store, entry: PackageEntry, request: RunRequest) -> Policy:
    """The policy for one package: a solver is the one of its family."""
    family = None
    if request.policy.partition(":")[0].partition("+")[0] == "solver":
        from rover.construct.families.registry import family as find

        name = package_json(store, entry.tree).get("family")
        if not name:
            why = "the package names no family, so it has no solver"
            raise UsageError(f"{entry.name}: {why}", hint=_others(store, entry))
        family = find(str(name))

    def recorded(prefix: str) -> Trajectory:
        ids = store.evidence.matching(prefix)
        found = store.evidence.get_rollout(ids[0]) if len(ids) == 1 else None
        if found is not None and found.pruned:
            raise UsageError(f"{prefix}: the turns of this rollout were pruned; there is nothing to replay")
        if found is None:
            raise NotFound("rollout", prefix, hint="several begin like this" if len(ids) > 1 else "")
        return found

    def solution(slip: str) -> Policy:
        from rover.construct.solved import solution_of

        own = solution_of(load_env(store, entry.tree), slip)
        if own is None:
            raise UsageError(f"{entry.name}: the package has no {WHERE}{SCRIPT}, so there is no solution to run")
        return own

    return get_policy(request.policy, family=family, recorded=recorded, solution=solution, **request.options)


def _others(store: Store, entry: PackageEntry) -> str:
    """Who can act in a package that has no solver."""
    own = ["solution"] if store.objects.subtree(entry.tree, WHERE + SCRIPT) is not None else []
    return f"--policy {', '.join([*own, 'null:nothing', 'openai:MODEL'])}; `rover help policies`"


def _chunks(todo: Sequence[_Todo]) -> Iterator[Sequence[_Todo]]:
    return (todo[at : at + CHUNK] for at in range(0, len(todo), CHUNK))
