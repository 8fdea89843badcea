"""Gather demonstrations: run a policy, keep what the verifier passes, commit it into the packages.

One commit for all packages, of demonstrations/ alone: no component changes, so no evidence and no edge is touched.
What ran before is taken from the evidence, so an interrupted call goes on where it stopped, and a second one adds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING

from rover.ops.lockstep import Lockstep
from rover.ops.run import Ran, RunRequest, run
from rover.rollout import demonstrations as folder
from rover_store.errors import UsageError
from rover_store.records import Demonstration, Pilot, PilotCount

if TYPE_CHECKING:
    from rover.sandbox.protocol import Runtime
    from rover_store.layout import PackageEntry
    from rover_store.records import Trajectory, Verdict
    from rover_store.store import Store
    from rover_store.write import Transaction

#: why a rollout was not kept, beside the outcomes other than `passed`
DUPLICATE, FULL, MOVED, LOST = "duplicate", "full", "moved", "lost"
REASONS = {
    "failed": "did not pass",
    "policy_error": "ended early",
    "infra_error": "the sandbox or a server failed: run it again",
    "verifier_error": "the verifier crashed",
    DUPLICATE: "says the same as one that is kept",
    FULL: "the package holds as many as --keep allows",
    MOVED: "the branch holds another version of the package",
    LOST: "the rollout is not in the evidence any more",
}


@dataclass(frozen=True, slots=True)
class Collected:
    """What came of one package. `kept`: ids of the rollouts that were added; `held`: demonstrations there now."""

    package: str
    policy: str
    attempts: int
    passed: int
    kept: tuple[str, ...]
    held: int
    #: reason -> rollouts that were not kept for it
    dropped: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CollectReport:
    """What a call gave, by package. `commit` is empty where nothing changed."""

    commit: str
    rows: tuple[Collected, ...]
    reused: int

    @property
    def kept(self) -> int:
        return sum(len(row.kept) for row in self.rows)

    def dropped(self) -> dict[str, int]:
        """Reason -> rollouts, over all packages, in the order of REASONS."""
        total = Counter[str]()
        for row in self.rows:
            total.update(row.dropped)
        return {reason: total[reason] for reason in REASONS if total[reason]}


def collect(
    store: Store,
    runtime: Runtime,
    request: RunRequest,
    *,
    keep: int = 4,
    workers: int = 1,
    command: str = "collect",
    told: Callable[[Ran, int, int], None] = lambda row, done, total: None,
) -> CollectReport:
    """Run, choose and commit on the current branch. `keep`: demonstrations that a package holds at most.

    Raises what `run` raises; UsageError where HEAD is on no branch. Before the commit nothing is changed.
    """
    if store.current_branch() is None:
        raise UsageError("HEAD is on no branch, so demonstrations cannot be committed", hint="rover branch NAME")
    asked = store.resolve(request.rev)
    if not store.packages(asked, request.pattern):
        hint = "`rover list` shows all names"
        raise UsageError(f"no package of {request.rev} matches {request.pattern!r}", hint=hint)
    request = replace(request, rev=asked)
    with Lockstep(store, runtime) as ahead:
        report = run(store, runtime, request, workers=workers, told=told, ahead=ahead)
    reused = sum(row.reused and row.rollout not in ahead.fresh for row in report.rows)
    ran = {entry.name: entry for entry in store.packages(asked, request.pattern)}
    rows: list[Collected] = []
    with store.write(command=command) as tx:
        before = store.resolve()
        held = {entry.name: entry for entry in store.packages(before)}
        for name, some in groupby(report.rows, key=lambda row: row.package):
            rows.append(_of_package(store, tx, list(some), ran[name], held.get(name), request.seed, keep))
        kept = sum(len(row.kept) for row in rows)
        commit = tx.commit(_message(rows, kept), trailers={"Rover-Policy": rows[0].policy})
    return CollectReport("" if commit == before else commit, tuple(rows), reused)


def _message(rows: Sequence[Collected], kept: int) -> str:
    added = [row for row in rows if row.kept]
    where = added[0].package if len(added) == 1 else f"{len(added)} packages"
    what = "1 demonstration" if kept == 1 else f"{kept} demonstrations"
    return f"Collect {what} of {where}" if kept else "Count completions"


def _of_package(
    store: Store, tx: Transaction, rows: Sequence[Ran], ran: PackageEntry, entry: PackageEntry | None, seed: int,
    keep: int,
) -> Collected:  # fmt: skip
    """Choose among the rollouts of one package and put the chosen ones into its tree."""
    dropped = Counter(row.outcome for row in rows if row.outcome != "passed")
    passed = [row for row in rows if row.outcome == "passed"]
    chosen: list[Demonstration] = []
    known: set[str] = set()
    if entry is None or entry.components != ran.components:
        dropped[MOVED] += len(passed)
        entry = None
    else:
        known = _known(store, entry)
        for one in _read(store, passed, entry, dropped):
            content = folder.content_id(one.trajectory)
            if content in known:
                dropped[DUPLICATE] += 1
            elif len(known) >= keep:
                dropped[FULL] += 1
            else:
                known.add(content)
                chosen.append(one)
    counts = len(rows) - dropped["infra_error"] - dropped["verifier_error"]
    if entry is not None and counts:
        new = PilotCount(policy=rows[0].policy, seed=seed, attempts=counts, passed=len(passed))
        files = {folder.path_of(one.rollout): one.dump() for one in chosen}
        files[f"{folder.FOLDER}/{folder.PILOT}"] = folder.counted(_pilot(store, entry), entry, new).dump()
        tx.set_package(entry.name, tx.edit_tree(entry.tree, files))
    return Collected(
        package=ran.name, policy=rows[0].policy, attempts=len(rows), passed=len(passed),
        kept=tuple(one.rollout for one in chosen), held=len(known),
        dropped={reason: dropped[reason] for reason in REASONS if dropped[reason]},
    )  # fmt: skip


def _read(
    store: Store, passed: Sequence[Ran], entry: PackageEntry, dropped: Counter[str]
) -> Iterator[Demonstration]:
    """The rollouts that passed, as demonstrations, in order of attempt."""
    for row in passed:
        trajectory = store.evidence.get_rollout(row.rollout)
        verdict = store.evidence.get_verdict(row.rollout, entry.components["verifier"])
        if trajectory is None or verdict is None or trajectory.pruned:
            dropped[LOST] += 1
        else:
            yield _demonstration(entry, trajectory, verdict)


def _demonstration(entry: PackageEntry, trajectory: Trajectory, verdict: Verdict) -> Demonstration:
    return Demonstration(
        package=entry.name,
        components=dict(entry.components),
        policy=trajectory.key.policy,
        seed=trajectory.key.seed,
        rollout=verdict.rollout,
        trajectory=trajectory,
        verdict=verdict,
    )


def _known(store: Store, entry: PackageEntry) -> set[str]:
    """Contents of the verified demonstrations that the package holds at its present versions."""
    found = set()
    for path, blob in folder.files_of(store, entry.tree).items():
        one = folder.demonstration_of(store.objects.read(blob), f"{entry.name}/{path}")
        if one is not None and folder.is_verified(one) and not folder.moved_on(one.components, entry):
            found.add(folder.content_id(one.trajectory))
    return found


def _pilot(store: Store, entry: PackageEntry) -> Pilot | None:
    path = f"{folder.FOLDER}/{folder.PILOT}"
    item = store.objects.subtree(entry.tree, path)
    return Pilot.load(store.objects.read(item.id), f"{entry.name}/{path}") if item is not None else None
