"""`rover export atif`: rollouts of the evidence as ATIF documents, one file each.

    OUT/PACKAGE/ID.json     ID: the first 16 digits of the rollout's id

Of packages: rollouts at their present context, task and harness. Of a rollout's id: that rollout, whatever it ran on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from rover.port.atif import model as atif
from rover.port.atif.write import document_of
from rover.port.protocol import Export, Exported
from rover_store.errors import Ambiguous, NotFound, UsageError
from rover_store.records import Harness, Trajectory, Verdict

if TYPE_CHECKING:
    from rover_store.layout import PackageEntry
    from rover_store.store import Store

OPTIONS = {
    "policy": "a glob on ids of policies",
    "outcome": "only rollouts with this outcome: passed, failed, ...",
    "all": "yes: also what rover ran by itself, to try a package",
}


class AtifExporter:
    """A way out for what agents did."""

    kind = "atif"
    noun = "rollout"
    #: a pattern may name a rollout in place of packages
    by_rollout = True

    def write(self, job: Export, folder: Path) -> Iterable[Exported]:
        """One document for each rollout. UsageError where there is none."""
        unknown = sorted(set(job.options) - set(OPTIONS))
        if unknown:
            raise UsageError(f"atif has no option {unknown[0]!r}", hint=f"options: {', '.join(OPTIONS)}")
        if job.options.get("all", "yes") != "yes":
            raise UsageError(f"atif: all={job.options['all']}: only yes is known")
        found = 0
        for rollout, trajectory, verifier in _chosen(job):
            verdicts = _verdicts(job.store, rollout, verifier)
            if job.options.get("outcome", "") not in ("", verdicts[0].outcome if verdicts else "none"):
                continue
            found += 1
            yield _written(job.store, rollout, trajectory, verdicts, folder)
        if not found:
            hint = "rover run records some; --set all=yes takes what rover ran by itself too"
            raise UsageError(f"no recorded rollout of {job.pattern!r} is as asked", hint=hint)


def _chosen(job: Export) -> Iterator[tuple[str, Trajectory, str]]:
    """Rollouts with the verifier that counts: by package and id."""
    if not job.entries:
        rollout = one_rollout(job.store, job.pattern)
        trajectory = job.store.evidence.get_rollout(rollout)
        if trajectory is not None:
            yield rollout, trajectory, ""
        return
    seen: set[str] = set()
    for entry in job.entries:
        for rollout, trajectory in _of(job.store, entry):
            mine = trajectory.purpose is None or job.options.get("all") == "yes"
            if mine and rollout not in seen and fnmatchcase(trajectory.key.policy, job.options.get("policy", "*")):
                seen.add(rollout)
                yield rollout, trajectory, entry.components["verifier"]


def _of(store: Store, entry: PackageEntry) -> Iterator[tuple[str, Trajectory]]:
    parts = entry.components
    return store.evidence.iter_rollouts(context=parts["context"], task=parts["task"], harness=parts["harness"])


def one_rollout(store: Store, prefix: str) -> str:
    """The one rollout whose id begins like this. NotFound, Ambiguous."""
    ids = store.evidence.matching(prefix)
    if not ids:
        raise NotFound("package or rollout", prefix, hint="`rover list` shows packages")
    if len(ids) > 1:
        raise Ambiguous(prefix, tuple(ids))
    return ids[0]


def _verdicts(store: Store, rollout: str, verifier: str) -> list[Verdict]:
    """The verdicts on a rollout, that of the verifier first."""
    return sorted(store.evidence.iter_verdicts(rollout), key=lambda v: (v.verifier != verifier, v.verifier))


def _written(store: Store, rollout: str, trajectory: Trajectory, verdicts: list[Verdict], folder: Path) -> Exported:
    name = f"{trajectory.package} {rollout[:10]}"
    if trajectory.pruned:
        return Exported(name, notes=("its turns were pruned",))
    try:
        instruction, harness = _asked(store, trajectory)
    except NotFound:
        return Exported(name, notes=("its task is not in the store",))
    path = f"{trajectory.package}/{rollout[:16]}.json"  # the record lets no name be a path
    target = folder / path
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(atif.dump(document_of(trajectory, instruction, harness, verdicts)))
    told = sum(turn.tokens is not None for turn in trajectory.turns)
    return Exported(name, path, (f"tokens of {told} of {len(trajectory.turns)} turns",) if told else ())


def _asked(store: Store, trajectory: Trajectory) -> tuple[str, Harness]:
    """What the policy was told: the instruction, and the harness with its tools."""
    key = trajectory.key
    instruction = store.objects.subtree(key.task, "instruction.md")
    harness = store.objects.subtree(key.harness, "harness.json")
    if instruction is None or harness is None:
        raise NotFound("task", key.task)
    data = store.objects.read(harness.id)
    return store.objects.read(instruction.id).decode("utf-8", "replace"), Harness.load(data, "harness/harness.json")

