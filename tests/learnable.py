"""Stores for tests of training data: packages with workspaces, tags and levels; demonstrations that need no run.

    tagged(store, {"a-1": Place("a", level=2), ...})     packages of store_samples with a place each, in one commit
    demonstration(entry, ...)                            a demonstration that counts as verified for this package
    with_demonstrations(store, {"a-1": [Demonstration, ...]}, pilot)   puts them into the packages, in one commit
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from store_samples import package_files

from rover.rollout.demonstrations import FOLDER, PILOT, path_of
from rover_store.graph import DEFAULT
from rover_store.ids import COMPONENTS, digest
from rover_store.layout import PackageEntry
from rover_store.records import (
    Budget,
    Call,
    Demonstration,
    Edge,
    Package,
    Pilot,
    PilotCount,
    Provenance,
    Resource,
    RolloutKey,
    SourceFile,
    Trajectory,
    Turn,
    Verdict,
)
from rover_store.store import Store
from rover_store.trees import EMPTY_TREE


@dataclass(frozen=True)
class Place:
    """Where a package belongs."""

    workspace: str = ""
    resources: tuple[str, ...] = ()
    level: int | None = None
    family: str | None = None
    tags: tuple[str, ...] | None = None
    source: str = ""


def tagged(store: Store, places: Mapping[str, Place]) -> str:
    """Commit packages at these places."""
    with store.write("test") as tx:
        names = sorted({r for place in places.values() for r in place.resources})
        trees = {r: tx.tree({"resource.json": Resource(name=r).dump(), "files/x.csv": r.encode()}) for r in names}
        for resource, tree in trees.items():
            tx.set_resource(f"files/{resource}", tree)
        for name, place in places.items():
            tree = tx.tree(package_files(name, f"Do {name}.", {f"files/{r}": trees[r] for r in place.resources}))
            ids = {c: tx.list_tree(tree)[c].id for c in COMPONENTS}
            edges = [Edge(source="context", target=f"resources/files/{r}", version=trees[r]) for r in place.resources]
            edges += [Edge(source=c, target=t, version=ids[t]) for c in COMPONENTS for t in DEFAULT[c]]
            record = Package(
                name=name, title=name, family=place.family, workspace=place.workspace, tags=place.tags,
                edges=tuple(edges),
                provenance=Provenance(
                    config={} if place.level is None else {"level": place.level},
                    sources=(SourceFile(path="x", sha256=place.source),) if place.source else (),
                ),
            )  # fmt: skip
            tx.set_package(name, tx.edit_tree(tree, {"package.json": record.dump()}))
        return tx.commit("packages")


def demonstration(
    entry: PackageEntry, seed: int = 0, *, turns: int = 2, said: str = "done", outcome: str = "passed",
    output: str = "a,b", policy: str = "scripted:test",
) -> Demonstration:  # fmt: skip
    """Reads the same file again and again. `seed` alone makes another rollout that says the same."""
    key = RolloutKey(
        context=entry.components["context"], task=entry.components["task"], harness=entry.components["harness"],
        policy=policy, seed=seed, budget=Budget(), runtime="test",
    )  # fmt: skip
    rollout = digest(key.model_dump(mode="json"))
    played = tuple(
        Turn(
            index=n,
            calls=(Call(id=f"c{n}", tool="read_file", arguments={"path": "data.csv", "offset": n}, output=output),),
            tree=EMPTY_TREE,
        )
        for n in range(turns)
    )
    trajectory = Trajectory(key=key, package=entry.name, start=EMPTY_TREE, turns=played, final_message=said)
    verdict = Verdict(
        rollout=rollout, verifier=entry.components["verifier"], outcome=outcome, score=1.0, gate=1  # type: ignore[arg-type]
    )
    return Demonstration(
        package=entry.name, components=dict(entry.components), policy=policy, seed=seed, rollout=rollout,
        trajectory=trajectory, verdict=verdict,
    )  # fmt: skip


def with_demonstrations(
    store: Store, found: Mapping[str, Sequence[Demonstration]], counts: Mapping[str, tuple[int, int]] | None = None
) -> str:
    """Commit demonstrations, and (passed, attempts) of packages."""
    with store.write("test") as tx:
        for name, some in found.items():
            entry = store.package(name)
            files = {path_of(one.rollout): one.dump() for one in some}
            if name in (counts or {}):
                passed, attempts = (counts or {})[name]
                count = PilotCount(policy="scripted:test", seed=0, attempts=attempts, passed=passed)
                files[f"{FOLDER}/{PILOT}"] = Pilot(components=dict(entry.components), counts=(count,)).dump()
            tx.set_package(name, tx.edit_tree(entry.tree, files))
        return tx.commit("demonstrations")
