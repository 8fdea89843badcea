"""The demonstrations/ folder of a package: what lies in it, and which of it counts.

    demonstrations/ID.json      a Demonstration; ID: the first 16 digits of the rollout's id
    demonstrations/pilot.json   a Pilot: completion counts
    demonstrations/solution/    a solution that the package brings along; solution.json has its variables
    demonstrations/*            anything else: for people, or the builder's own run, which has no verdict

The folder is no component: nothing becomes stale when it changes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import ValidationError

from rover_store.errors import PackageError
from rover_store.ids import COMPONENTS, ComponentName, digest
from rover_store.records import Demonstration, Pilot, PilotCount, Trajectory

if TYPE_CHECKING:
    from rover_store.layout import PackageEntry
    from rover_store.store import Store

FOLDER = "demonstrations"
PILOT = "pilot.json"


def files_of(store: Store, tree: str) -> dict[str, str]:
    """The JSON files of the folder of a package tree: path in the package -> blob id, sorted."""
    item = store.objects.list_tree(tree).get(FOLDER)
    level = store.objects.list_tree(item.id) if item is not None and item.is_folder else {}
    return {f"{FOLDER}/{n}": i.id for n, i in sorted(level.items()) if n.endswith(".json") and not i.is_folder}


def path_of(rollout: str) -> str:
    """Where the demonstration of a rollout lies in its package."""
    return f"{FOLDER}/{rollout[:16]}.json"


def demonstration_of(data: bytes, where: str) -> Demonstration | None:
    """The demonstration in a file; None for another kind of file. PackageError where one is damaged."""
    try:
        return Demonstration.model_validate_json(data)  # the quick way
    except ValidationError:
        pass
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise PackageError(where, "", "not valid JSON") from None
    is_one = isinstance(value, dict) and "trajectory" in value
    return Demonstration.load(data, where) if is_one else None


def is_verified(one: Demonstration) -> bool:
    """Whether its verdict says passed, of this rollout, by the verifier that it names."""
    key, named = one.trajectory.key, one.components
    return (
        one.verdict.outcome == "passed"
        and one.verdict.rollout == one.rollout == digest(key.model_dump(mode="json"))
        and one.verdict.verifier == named.get("verifier")
        and (key.context, key.task, key.harness) == (named.get("context"), named.get("task"), named.get("harness"))
        and not one.trajectory.pruned
    )


def moved_on(named: Mapping[ComponentName, str], entry: PackageEntry) -> tuple[ComponentName, ...]:
    """The components of which a package has another version than a demonstration or count names."""
    return tuple(c for c in COMPONENTS if named.get(c) != entry.components.get(c))


def content_id(trajectory: Trajectory) -> str:
    """What was said and done, whoever did it and on whatever machine: equal ones teach nothing new."""
    turns = [[t.message, [[c.tool, c.arguments] for c in t.calls]] for t in trajectory.turns]
    return digest([turns, trajectory.final_message])


def counted(pilot: Pilot | None, entry: PackageEntry, new: PilotCount) -> Pilot:
    """The counts with one more: it replaces an older one of the same policy and seed that is no larger."""
    known = pilot.counts if pilot is not None and not moved_on(pilot.components, entry) else ()
    table = {(c.policy, c.seed): c for c in known}
    old = table.get((new.policy, new.seed))
    if old is None or new.attempts >= old.attempts:
        table[new.policy, new.seed] = new
    return Pilot(components=dict(entry.components), counts=tuple(table[key] for key in sorted(table)))
