"""Before RL: a few pilot rollouts of each task, and which tasks can teach anything.

A task is kept where its grading is consistent (no verifier_error, and grading a rollout's end state again, at another
time and with other random numbers, gives the same scores) and where the reward varies within the group. Evidence
first: pilot rollouts that ran before are taken, and what runs is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import groupby
from math import sqrt
from typing import TYPE_CHECKING

from pydantic import Field

from rover.ops.lockstep import Lockstep
from rover.ops.run import RunRequest, policy_of
from rover.policy.protocol import Policy
from rover.rollout.engine import Engine
from rover.rollout.env import Env, load_env
from rover.rollout.records import RolloutRequest, RolloutResult, seed_for
from rover.rollout.spoilt import failure
from rover.verify.shown import Conditions
from rover_store.errors import PackageError, UsageError
from rover_store.records import Consistency, PilotedTask, Split, Verdict
from rover_train.dataset.prompts import prompts
from rover_train.section import Section

if TYPE_CHECKING:
    from rover.sandbox.protocol import Runtime
    from rover_store.layout import PackageEntry
    from rover_store.store import Store

#: who plays a package
PolicyFor = Callable[["PackageEntry"], Policy]
#: why a task is left out
REASONS = {
    "verifier_error": "its verifier crashed",
    "too few": "fewer than two rollouts ended without an error of the infrastructure",
    "inconsistent": "grading the same end state again gave other scores",
    "always": "every rollout got the full reward",
    "never": "no rollout got any reward",
    "tied": "every rollout got the same reward",
}
#: an end state is graded again so many seconds later each time, with other random numbers
_LATER, _SEED = 40 * 86_400.0, 20_011
_CHUNK = 16
_SAME = 1e-9


class ConsistencySettings(Section):
    """How tasks are tried before RL."""

    attempts: int = Field(4, ge=2)
    """Pilot rollouts of each task."""
    spread: float = Field(1e-6, ge=0)
    """A task is kept where the standard deviation of its rewards is above this."""
    gradings: int = Field(2, ge=1)
    """How often each distinct end state is graded in all; 1: never again."""


def reward_of(verdict: Verdict) -> float:
    """G times the verifier's score: the reward without trace."""
    return float((verdict.gate or 0) * (verdict.score or 0.0))


def named(store: Store, spec: str, options: Mapping[str, object] | None = None) -> PolicyFor:
    """A policy by its spec (`hf:FOLDER`, `solver+SLIP`, `openai:MODEL`, ...)."""
    request = RunRequest("*", spec, options=dict(options or {}))
    return lambda entry: policy_of(store, entry, request)


def consistency(
    store: Store,
    runtime: Runtime,
    commit: str,
    names: Collection[str] | None,
    policy: PolicyFor,
    *,
    said: str = "",
    settings: ConsistencySettings | None = None,
    seed: int = 0,
    workers: int = 2,
    reward: Callable[[Verdict], float] = reward_of,
    told: Callable[[PilotedTask, int, int], None] = lambda task, done, total: None,
) -> Consistency:
    """Try the named packages of a commit (None: all). `said`: what the record calls the policy."""
    settings = settings or ConsistencySettings()
    revision = store.resolve(commit)
    entries = prompts(store, revision, names)
    tasks: list[PilotedTask] = []
    with Engine(runtime, store.evidence, workers) as engine, Lockstep(store, runtime) as ahead:
        for some in (entries[at : at + _CHUNK] for at in range(0, len(entries), _CHUNK)):
            for task in _tried(store, engine, ahead, some, policy, settings, seed, reward):
                tasks.append(task)
                told(task, len(tasks), len(entries))
    said = said or (policy(entries[0]).id if entries else "")
    return Consistency(revision=revision, policy=said, attempts=settings.attempts, seed=seed, tasks=tuple(tasks))


def filtered(split: Split, found: Consistency) -> Split:
    """The split with those tasks of its train part alone that were kept; the other parts only measure, and stay.

    UsageError where none was kept.
    """
    kept = set(found.kept)
    packages = tuple(n for n in split.train.packages if n in kept)
    if not packages:
        raise UsageError("no task was kept, so the train part would be empty", hint="another policy, or more attempts")
    return split.model_copy(update={"train": split.train.model_copy(update={"packages": packages})})


def _tried(
    store: Store, engine: Engine, ahead: Lockstep, some: Sequence[PackageEntry], policy: PolicyFor,
    settings: ConsistencySettings, seed: int, reward: Callable[[Verdict], float],
) -> Iterator[PilotedTask]:  # fmt: skip
    """Pilot rollouts of a few packages, graded, and what they say."""
    requests: list[tuple[PackageEntry, RolloutRequest]] = []
    for entry in some:
        who, env = policy(entry), _env(store, entry)
        seeds = [seed_for(f"pilot:{seed}", entry.name, n) for n in range(settings.attempts)]
        requests += [(entry, RolloutRequest(env, who, number)) for number in seeds]
    asked = [request for _, request in requests]
    ahead(asked)
    found = engine.run(asked)
    _refuse_dead([result for result, _ in found])
    together = zip(requests, found, strict=True)
    for entry, group in groupby(together, key=lambda one: one[0][0]):
        runs = [(request.env, result, verdict) for (_, request), (result, verdict) in group]
        yield _judged(engine, entry, runs, settings, reward)


def _refuse_dead(results: Sequence[RolloutResult]) -> None:
    """ProviderError or SandboxError where not one rollout came to an end: no further task would fare better."""
    if results and all(result.trajectory.end == "infra_error" for result in results):
        raise failure(f"none of {len(results)} pilot rollouts came to an end", results[0].trajectory.error)


def _judged(
    engine: Engine, entry: PackageEntry, runs: Sequence[tuple[Env, RolloutResult, Verdict]],
    settings: ConsistencySettings, reward: Callable[[Verdict], float],
) -> PilotedTask:  # fmt: skip
    """Whether one task is kept."""
    counted = [run for run in runs if run[2].outcome not in ("infra_error", "verifier_error")]
    rewards = [reward(verdict) for _, _, verdict in counted]
    mean = sum(rewards) / len(rewards) if rewards else None
    spread = sqrt(sum((r - mean) ** 2 for r in rewards) / len(rewards)) if mean is not None else None
    regraded, reason = 0, ""
    if any(verdict.outcome == "verifier_error" for _, _, verdict in runs):
        reason = "verifier_error"
    elif len(counted) < 2:
        reason = "too few"
    elif spread is not None and spread <= settings.spread:
        reason = {0.0: "never", 1.0: "always"}.get(rewards[0], "tied")
    else:
        regraded, same = _graded_again(engine, counted, settings.gradings - 1)
        reason = "" if same else "inconsistent"
    return PilotedTask(
        package=entry.name, components=dict(entry.components), rollouts=len(counted),
        passed=sum(verdict.outcome == "passed" for _, _, verdict in counted), errors=len(runs) - len(counted),
        mean=mean, spread=spread, regraded=regraded, kept=not reason, reason=reason,
    )  # fmt: skip


def _graded_again(
    engine: Engine, runs: Sequence[tuple[Env, RolloutResult, Verdict]], times: int
) -> tuple[int, bool]:
    """Grade each distinct end state again; how many there were, and whether all scores came out the same.

    A state with what is no plain file is left alone: it can be graded in its rollout only.
    """
    seen: set[tuple[str, str]] = set()
    for env, result, verdict in runs:
        state = (result.trajectory.end_tree, result.trajectory.final_message)
        if state in seen or result.trajectory.irregular or result.end.links or result.trajectory.pruned:
            continue
        seen.add(state)
        for number in range(1, times + 1):
            now = Conditions(clock=number * _LATER, seed=_SEED + number)
            again = engine.grade_state(env, result.end, result.trajectory.final_message, now=now)
            if again.outcome == "infra_error":
                continue
            if not _alike(verdict, again):
                return len(seen), False
    return len(seen), True


def _alike(one: Verdict, other: Verdict) -> bool:
    scores = [{s.criterion: (s.status, s.score) for s in verdict.scores} for verdict in (one, other)]
    if scores[0].keys() != scores[1].keys():
        return False
    pairs = [(scores[0][c], scores[1][c]) for c in scores[0]]
    return all(a[0] == b[0] and abs(a[1] - b[1]) < _SAME for a, b in pairs)


def _env(store: Store, entry: PackageEntry) -> Env:
    try:
        return load_env(store, entry.tree)
    except PackageError as error:
        raise PackageError(f"{entry.name}/{error.file}", error.field, error.reason) from None
