"""Evaluate anything that acts: a model in lockstep, any other policy through the engine. Evidence first.

Seeds depend on the evaluation's seed, the package and the attempt, never on the policy: two evaluations pair row by
row. What the evidence holds is not played again; what is played is kept, in batches, so that an interrupted
evaluation goes on where it stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rover.ops.run import RunRequest, policy_of
from rover.policy.protocol import Policy
from rover.rollout.engine import Engine
from rover.rollout.env import Env, load_env
from rover.rollout.records import Progress, RolloutRequest, rollout_id
from rover_store.errors import PackageError, UsageError
from rover_store.records import Trajectory, Verdict
from rover_train.evaluation import EvalRow
from rover_train.rl.schedule import number

if TYPE_CHECKING:
    from rover.sandbox.protocol import Runtime
    from rover_store.store import Store
    from rover_train.rl.arena import Arena, Entry
    from rover_train.sample.policy import Actor

#: told after every row: the row, how many are done, how many there are
Told = Callable[[EvalRow, int, int], None]
#: packages that an engine gets at a time
CHUNK = 32
#: batches of lanes that are played before what they did is kept
WAVES = 2


def _nothing(row: EvalRow, done: int, total: int) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Slot:
    """One row to be had."""

    request: RolloutRequest
    attempt: int


def evaluate_model(
    arena: Arena,
    names: Sequence[str],
    policy: Policy,
    actor: Actor,
    *,
    attempts: int = 1,
    seed: int = 0,
    width: int = 64,
    keep: bool = True,
    told: Told = _nothing,
) -> tuple[EvalRow, ...]:
    """Rows of a model that plays in this arena, by package and attempt."""
    slots = [
        Slot(RolloutRequest(arena.env(name), policy, eval_seed(seed, name, k)), k)
        for name in names
        for k in range(attempts)
    ]
    found: dict[int, EvalRow] = {}

    def note(at: int, row: EvalRow) -> None:
        found[at] = row
        told(row, len(found), len(slots))

    new = []
    for at, slot in enumerate(slots):
        known = arena.known(slot.request)
        if known is None:
            new.append(at)
        else:
            note(at, _row(slot, *known, seconds=None, reused=True))
    for some in _cut(new, width * WAVES):
        began = time.perf_counter()
        entries = _played(arena, [slots[at].request for at in some], actor)
        if keep:
            arena.keep(entries)
        share = (time.perf_counter() - began) / len(some)
        for at, entry in zip(some, entries, strict=True):
            done = entry.done.result
            note(at, _row(slots[at], done.id, done.trajectory, entry.graded.verdict, seconds=share, reused=False))
    return tuple(found[at] for at in range(len(slots)))


def evaluate_policy(
    store: Store,
    runtime: Runtime,
    commit: str,
    names: Sequence[str],
    spec: str,
    *,
    attempts: int = 1,
    seed: int = 0,
    workers: int = 2,
    options: dict[str, Any] | None = None,
    told: Told = _nothing,
) -> tuple[EvalRow, ...]:
    """Rows of a policy by its spec (`solver`, `null:echo`, `openai:MODEL`, ...), by package and attempt."""
    entries = {entry.name: entry for entry in store.packages(commit)}
    asked = RunRequest("*", spec, rev=commit, options=options or {})
    rows: list[EvalRow] = []
    total = len(names) * attempts
    with Engine(runtime, store.evidence, workers) as engine:
        for some in _cut(list(names), CHUNK):
            slots = []
            for name in some:
                env, policy = _env(store, name, entries[name].tree), policy_of(store, entries[name], asked)
                slots += [Slot(RolloutRequest(env, policy, eval_seed(seed, name, k)), k) for k in range(attempts)]
            rows += _run(engine, slots, lambda row, done: told(row, done, total), len(rows))
    return tuple(rows)


def eval_seed(seed: int, package: str, attempt: int) -> int:
    """The seed of one rollout of an evaluation: of no policy."""
    return number("eval", seed, package, attempt)


def difficulty(env: Env) -> int | None:
    """The level that a package was built at, where its build config names one."""
    level = env.record.provenance.config.get("level")
    return level if type(level) is int and -(2**63) <= level < 2**63 else None


def wanted(store: Store, commit: str, names: Sequence[str]) -> list[str]:
    """The names, each checked to be a package of the commit."""
    there = {entry.name for entry in store.packages(commit)}
    missing = [name for name in names if name not in there]
    if missing or not names:
        what = f"{missing[0]} is no package of {commit[:12]}" if missing else "no package to evaluate on"
        raise UsageError(what, hint="the split is of another revision" if missing else "")
    return list(names)


# --- within ------------------------------------------------------------------------------------------------------
def _run(engine: Engine, slots: Sequence[Slot], told: Callable[[EvalRow, int], None], before: int) -> list[EvalRow]:
    # no two are one rollout: a seed is of its package and attempt
    requests = [slot.request for slot in slots]
    numbers = {rollout_id(r.key(engine.runtime_at(r.env))): at for at, r in enumerate(requests)}
    found: dict[int, EvalRow] = {}
    last = time.perf_counter()

    def progress(now: Progress) -> None:
        nonlocal last
        result, at = now.result, numbers[now.result.id]
        spent, last = time.perf_counter() - last, time.perf_counter()
        assert now.verdict is not None
        seconds = None if result.reused else spent
        found[at] = _row(slots[at], result.id, result.trajectory, now.verdict, seconds=seconds, reused=result.reused)
        told(found[at], before + len(found))

    engine.run(requests, progress)
    return [found[at] for at in range(len(slots))]


def _played(arena: Arena, requests: Sequence[RolloutRequest], actor: Actor) -> list[Entry]:
    """Play and grade; what the infrastructure spoilt is tried once more."""
    entries = arena.play(requests, actor, ways=False)
    spoilt = [at for at, entry in enumerate(entries) if not entry.counts]
    if spoilt:
        again = arena.play([requests[at] for at in spoilt], actor, ways=False)
        entries = list(entries)
        for at, entry in zip(spoilt, again, strict=True):
            entries[at] = entry
    return entries


def _row(
    slot: Slot, rollout: str, trajectory: Trajectory, verdict: Verdict, *, seconds: float | None, reused: bool
) -> EvalRow:
    env = slot.request.env
    return EvalRow(
        package=env.package,
        workspace=env.record.workspace,
        family=env.record.family or "",
        difficulty=difficulty(env),
        attempt=slot.attempt,
        seed=slot.request.seed,
        rollout=rollout,
        outcome=verdict.outcome,
        score=verdict.score,
        turns=len(trajectory.turns),
        tokens=trajectory.usage.prompt_tokens + trajectory.usage.completion_tokens,
        seconds=None if seconds is None else round(seconds, 3),
        reused=reused,
        reason=verdict.reason,
    )


def _env(store: Store, name: str, tree: str) -> Env:
    try:
        return load_env(store, tree)
    except PackageError as error:
        raise PackageError(f"{name}/{error.file}", error.field, error.reason) from None


def _cut(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[at : at + size] for at in range(0, len(items), size))
