"""Evidence that travels by itself: pulled from other machines, packed into a file, listed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rover.rollout.grading import says
from rover.verify.grade import EPSILON, passes, weigh
from rover_store.errors import PackageError, StoreError
from rover_store.records import Trajectory, Verdict, Verifier
from rover_store.transfer import bundle
from rover_store.transfer.bundle import Packed
from rover_store.transfer.gather import Gathered, gather
from rover_store.transfer.sources import opened

if TYPE_CHECKING:
    from rover_store.store import Store

_ERRORS = ("infra_error", "verifier_error")


class Pulled(NamedTuple):
    """What a pull gave. `unknown`: verdicts of verifiers that this store does not hold, believed as they stand."""

    gathered: Gathered
    unknown: int


class Group(NamedTuple):
    """Rollouts of one package by one policy, and their verdicts by outcome. `purpose`: why rover ran them by itself;
    `seed` and `rollout` where each is told alone."""

    package: str
    policy: str
    rollouts: int
    verdicts: dict[str, int]
    purpose: str | None = None
    seed: int | None = None
    rollout: str | None = None


def pull(
    store: Store, sources: tuple[str, ...], *, globs: tuple[str, ...] = (),
    told: Callable[[str, int, int], None] = lambda source, done, total: None,
) -> Pulled:  # fmt: skip
    """Take the evidence of stores, repositories, URLs and files. What was taken before is not taken again.

    PackageError, and nothing is changed, where any source holds what its content does not bear out.
    """
    judge = _Judge(store)
    with opened(store, sources) as found:
        done = gather(store, found, globs=globs, judge=judge, told=told)
    return Pulled(done, judge.unknown)


def pack(store: Store, file: Path, *, globs: tuple[str, ...] = ()) -> Packed:
    """Write the evidence to a file that `pull` takes."""
    return bundle.write_bundle(store, file, globs)


_Key = tuple[str, str, str, int | None, str | None]


def groups(
    store: Store, pattern: str = "*", policy: str = "*", *, everything: bool = False, each: bool = False
) -> tuple[list[Group], int]:
    """What evidence there is, by package, policy and purpose; `each`: rollout by rollout. What rover ran by itself, to
    try a package, is told with `everything` alone; else how much of it there is."""
    left = 0
    rollouts = Counter[_Key]()
    verdicts: dict[_Key, Counter[str]] = {}
    of: dict[str, _Key] = {}
    for rollout, trajectory in store.evidence.iter_rollouts():
        own = (trajectory.key.seed, rollout) if each else (None, None)
        key: _Key = (trajectory.package, trajectory.key.policy, trajectory.purpose or "", *own)
        if not (fnmatchcase(key[0], pattern) and fnmatchcase(key[1], policy)):
            continue
        if trajectory.purpose is not None and not everything:
            left += 1
        else:
            rollouts[key] += 1
            of[rollout] = key
    for verdict in store.evidence.iter_verdicts():
        if verdict.rollout in of:
            verdicts.setdefault(of[verdict.rollout], Counter())[verdict.outcome] += 1
    found = [
        Group(name, who, rollouts[key], dict(sorted(verdicts.get(key, {}).items())), why or None, seed, rollout)
        for key in sorted(rollouts)
        for name, who, why, seed, rollout in [key]
    ]
    return found, left


class _Judge:
    """Says of a foreign verdict whether it is what its own scores make of it, under the verifier that it names.

    A verdict that is false through and through, scores and all, cannot be told without grading again.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._verifiers: dict[str, Verifier | None] = {}
        self.unknown = 0

    def __call__(self, trajectory: Trajectory, verdict: Verdict) -> str:
        if trajectory.end == "infra_error" and verdict.outcome not in _ERRORS:
            return f"{verdict.outcome}, though its rollout ended with an infra_error"
        if verdict.outcome in _ERRORS:
            return "" if verdict.score is None else f"{verdict.outcome}, and a score"
        if verdict.score is None:
            return f"{verdict.outcome}, without a score"
        if (trajectory.end == "policy_error") != (verdict.outcome == "policy_error"):
            return f"{verdict.outcome}, though its rollout ended as {trajectory.end}"
        if verdict.scores:
            share, gate = weigh(verdict.scores)
            if abs(share - verdict.score) >= EPSILON or gate != verdict.gate:
                return f"score {verdict.score:g} and gate {verdict.gate}, which its criteria do not give"
        return self._under(verdict)

    def _under(self, verdict: Verdict) -> str:
        verifier = self._verifier(verdict.verifier)
        if verifier is None:
            self.unknown += 1
            return ""
        if not says(verdict, verifier):
            return "its criteria are not those of its verifier, or it says otherwise than they do"
        if verdict.outcome == "failed" and passes(verifier, verdict.score, verdict.gate):
            return "failed, though its score is a pass"
        return ""

    def _verifier(self, tree: str) -> Verifier | None:
        if tree not in self._verifiers:
            self._verifiers[tree] = self._read(tree)
        return self._verifiers[tree]

    def _read(self, tree: str) -> Verifier | None:
        objects = self._store.objects
        try:
            item = objects.subtree(tree, "verifier.json") if objects.exists(tree) else None
            return Verifier.load(objects.read(item.id), "verifier.json") if item is not None else None
        except (StoreError, PackageError):  # a tree of another kind, or records of a newer rover
            return None
