"""Checking evidence, repair cases and the operation log: records, ids, and the versions that they name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rover_store.care.inventory import Inventory
from rover_store.care.problems import Problem
from rover_store.errors import PackageError, StoreError
from rover_store.layout import fanned
from rover_store.names import digest, rollout_path
from rover_store.packs import COMMIT, TREE
from rover_store.trees import EMPTY_TREE, Level

if TYPE_CHECKING:
    from rover_store.evidence import Evidence
    from rover_store.records import Trajectory
    from rover_store.store import Store

_PRUNE = "rover prune, if the versions will not come back"


def check_evidence(store: Store, inventory: Inventory, *, quick: bool) -> Iterator[Problem]:
    """Problems of rollouts and verdicts. `quick` looks at the places and trees alone, not into the records."""
    evidence = store.evidence
    unknown: dict[tuple[str, str], int] = {}
    root = evidence.root()
    for path, rollout, tree in fanned(evidence.objects, root, "rollouts") if root else ():
        where, level = f"rollout {rollout[:12]}", evidence.objects.list_tree(tree)
        if len(rollout) != 64 or path != rollout_path(rollout):
            yield Problem(where, f"lies in {path.rpartition('/')[0]}", kind="wrongPlace")
        if "trajectory.json" not in level:
            yield Problem(where, "holds no trajectory.json", kind="missingFile", remedy="rover prune")
            continue
        if not quick:
            yield from _rollout(evidence, inventory, rollout, level, unknown)
    for (kind, version), count in sorted(unknown.items()):
        what = f"{kind} {version} of {count} records of evidence is in no commit and no object"
        yield Problem("evidence.git", what, "warning", "unknownVersion", _PRUNE)


def _rollout(
    evidence: Evidence, inventory: Inventory, rollout: str, level: Level, unknown: dict[tuple[str, str], int]
) -> Iterator[Problem]:
    from rover_store.records import Trajectory, Verdict

    where = f"rollout {rollout[:12]}"
    try:
        trajectory = Trajectory.load(evidence.read(level["trajectory.json"].id), "trajectory.json")
    except PackageError as error:
        yield Problem(where, error.message, kind="badRecord", remedy="rover prune")
        return
    except StoreError as error:
        yield Problem(where, error.message, kind="unreadable")
        return
    if digest(trajectory.key.model_dump(mode="json")) != rollout:
        yield Problem(where, "its id is not the digest of its key", kind="wrongRolloutId", remedy="rover prune")
    for kind in ("context", "task", "harness"):
        _known(inventory, kind, getattr(trajectory.key, kind), unknown)
    if not trajectory.pruned:
        yield from _trees(evidence, where, trajectory, level)
    for name, item in _folder(evidence, level, "verdicts").items():
        try:
            verdict = Verdict.load(evidence.read(item.id), f"verdicts/{name}")
        except PackageError as error:
            yield Problem(where, error.message, kind="badRecord", remedy="rover prune")
            continue
        if verdict.rollout != rollout or f"{verdict.verifier}.json" != name:
            what = f"verdicts/{name}: is of rollout {verdict.rollout[:12]} and verifier {verdict.verifier[:12]}"
            yield Problem(where, what, kind="wrongVerdict", remedy="rover prune")
        _known(inventory, "verifier", verdict.verifier, unknown)


def _trees(evidence: Evidence, where: str, trajectory: Trajectory, level: Level) -> Iterator[Problem]:
    """The workspaces at the start and after each turn lie beside the record."""
    turns = _folder(evidence, level, "turns")
    wanted = {"start": trajectory.start, **{f"turns/{t.index:04}": t.tree for t in trajectory.turns}}
    there = {"start": level["start"].id if "start" in level else None}
    there.update((f"turns/{name}", item.id) for name, item in turns.items())
    for path, tree in wanted.items():
        if there.get(path) != tree and not (tree == EMPTY_TREE and there.get(path) is None):
            yield Problem(where, f"{path}: the workspace tree {tree[:12]} is not there", kind="missingTurnTree")


def _folder(evidence: Evidence, level: Level, name: str) -> Level:
    item = level.get(name)
    return evidence.objects.list_tree(item.id) if item is not None and item.is_folder else {}


def _known(inventory: Inventory, kind: str, version: str, unknown: dict[tuple[str, str], int]) -> None:
    number = inventory.of(version)
    if number < 0 or inventory.kinds[number] != TREE:
        unknown[kind, version] = unknown.get((kind, version), 0) + 1


# --- cases and operations --------------------------------------------------------------------------------
def check_cases(store: Store, inventory: Inventory) -> Iterator[Problem]:
    """Every case can be read, and its candidates are there."""
    for case, commit in sorted(store.cases().items()):
        where = f"case {case}"
        try:
            item = store.objects.subtree(store.revisions.load(commit).tree, "case.json")
            record: Any = json.loads(store.objects.read(item.id)) if item is not None else None
        except (StoreError, ValueError, RecursionError) as error:
            yield Problem(where, f"case.json: {error}", kind="badRecord", remedy="rover repair again")
            continue
        if not isinstance(record, dict):
            yield Problem(where, f"{commit[:12]} holds no case.json", kind="missingFile", remedy="rover repair again")
            continue
        for candidate in record.get("candidates") or ():
            name = candidate.get("commit") if isinstance(candidate, dict) else None
            if isinstance(name, str) and not _is(inventory, name, COMMIT):
                what = f"its candidate {name[:12]} does not exist"
                yield Problem(where, what, kind="missingCandidate", remedy="rover repair again")
        for proposal in record.get("proposals") or ():
            name = proposal.get("tree") if isinstance(proposal, dict) else None
            if isinstance(name, str) and not _is(inventory, name, TREE):
                what = f"its proposal {name[:12]} does not exist"
                yield Problem(where, what, "warning", "missingProposal", "rover repair again")


def check_operations(store: Store, inventory: Inventory) -> Iterator[Problem]:
    """The log can be read to its end, and what it could bring back exists."""
    from rover_store.oplog import operations

    remedy = "older operations cannot be undone; the packages are not touched by it"
    last = "the newest"
    try:
        for operation in operations(store):
            last = f"operation {operation.id[:12]}"
            for move in operation.moves:
                for value in (move.old, move.new):
                    if move.ref != "HEAD" and value is not None and inventory.of(value) < 0:
                        what = f"{last}: {move.ref} was at {value[:12]}, which does not exist"
                        yield Problem("operation log", what, "warning", "missingOldHead", remedy)
    except (StoreError, ValueError, KeyError, TypeError) as error:
        what = f"cannot be read behind {last}: {getattr(error, 'message', '') or repr(error)}"
        yield Problem("operation log", what, kind="badOperation", remedy=remedy)


def _is(inventory: Inventory, object_hex: str, kind: int) -> bool:
    number = inventory.of(object_hex)
    return number >= 0 and inventory.kinds[number] == kind
