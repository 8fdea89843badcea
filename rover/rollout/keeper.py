"""Finished work on its way into the evidence: gathered, then put in batches, so that little is lost in a crash."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from rover.harness.loop import Played
from rover.harness.manifest import of_files
from rover.rollout.env import Env
from rover.rollout.records import Evidence
from rover_store.evidence import Recorded
from rover_store.records import Verdict

#: finished work is put into the evidence after so many pieces, or so many seconds
BATCH, BATCH_SECONDS = 16, 2.0


class Keeper:
    """Gathers finished work and puts it into the evidence in batches, the last one when the block ends.

    `kept` are ids of blobs that were put before: they need not be handed in again.
    """

    def __init__(self, evidence: Evidence, clock: Callable[[], float], kept: set[str]) -> None:
        self._evidence = evidence
        self._clock = clock
        self._kept = kept
        self._lock = threading.Lock()
        self._rollouts: list[Recorded] = []
        self._verdicts: list[Verdict] = []
        self._last = clock()

    def __enter__(self) -> Keeper:
        return self

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._put()

    def rollout(self, played: Played, blobs: Blobs) -> None:
        ids = {item.id for manifest in played.trees.values() for item in manifest.values()}
        with self._lock:
            new = {i: blobs.read(i) for i in sorted(ids - self._kept)}
            self._rollouts.append(Recorded(played.trajectory, new, played.trees))
            self._maybe_put()

    def verdict(self, verdict: Verdict) -> None:
        with self._lock:
            self._verdicts.append(verdict)
            self._maybe_put()

    def _maybe_put(self) -> None:
        many = len(self._rollouts) + len(self._verdicts) >= BATCH
        if many or self._clock() - self._last > BATCH_SECONDS:
            self._put()

    def _put(self) -> None:
        rollouts, verdicts = self._rollouts, self._verdicts
        self._rollouts, self._verdicts = [], []
        if rollouts or verdicts:
            self._evidence.put(rollouts, verdicts)
            self._kept.update(*(recorded.blobs for recorded in rollouts))
        self._last = self._clock()


class Blobs:
    """Blobs of two mappings."""

    def __init__(self, first: Mapping[str, bytes], second: Mapping[str, bytes]) -> None:
        self._first = first
        self._second = second

    def read(self, blob: str) -> bytes:
        return self._first[blob] if blob in self._first else self._second[blob]


def start_blobs(env: Env) -> dict[str, bytes]:
    """The bytes of the start state by blob id."""
    manifest = of_files(env.start)
    return {manifest[path].id: data for path, data in env.start.items()}
