"""Evidence that counts: which rollouts each phase of a case asked for, whether they were known or had to be run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from rover.rollout.records import Evidence
from rover_store.evidence import Recorded
from rover_store.records import Trajectory, Verdict
from rover_store.trees import TreeItem


class Counting:
    """Passes everything on to `inner`. A phase's cost is what it would have to run if it were alone."""

    def __init__(self, inner: Evidence) -> None:
        self._inner = inner
        self.phase = ""
        self.asked: dict[str, set[str]] = {}

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Count under this name until the block ends."""
        before, self.phase = self.phase, phase
        try:
            yield
        finally:
            self.phase = before

    def rollouts(self, *phases: str) -> int:
        """Different rollouts that these phases asked for."""
        return len(self._union(phases))

    def tokens(self, *phases: str) -> int:
        """Tokens that models used in them."""
        known = [self._inner.get_rollout(rollout) for rollout in sorted(self._union(phases))]
        return sum(t.usage.prompt_tokens + t.usage.completion_tokens for t in known if t is not None)

    def _union(self, phases: Iterable[str]) -> set[str]:
        return set().union(*(self.asked.get(phase, set()) for phase in phases))

    # --- the protocol of evidence ------------------------------------------------------------------------
    def get_rollout(self, rollout_id: str) -> Trajectory | None:
        self.asked.setdefault(self.phase, set()).add(rollout_id)
        return self._inner.get_rollout(rollout_id)

    def get_verdict(self, rollout_id: str, verifier_tree: str) -> Verdict | None:
        return self._inner.get_verdict(rollout_id, verifier_tree)

    def put(self, rollouts: Iterable[Recorded] = (), verdicts: Iterable[Verdict] = ()) -> None:
        self._inner.put(rollouts, verdicts)

    def tree(self, tree_id: str) -> Mapping[str, TreeItem]:
        return self._inner.tree(tree_id)

    def read(self, blob_id: str) -> bytes:
        return self._inner.read(blob_id)
