"""The natural suite as a folder: a store with one branch a case, the manifest, and the historical repairs.

Every case is built sound first, sealed, then broken by hand along its history; the sound form stays out of the store
unless its history really held it. Equal code gives equal bytes on any machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from rover.bench.natural.case import Natural, Proposals, Version
from rover.bench.natural.pack import Pack
from rover.bench.natural.sound import SEED, built
from rover.bench.natural.witness import seen
from rover.bench.suites.manifest import Case, Expected, Manifest, write
from rover.rollout.engine import Engine
from rover.rollout.env import tree_of
from rover.sandbox.protocol import Runtime
from rover_store.errors import UsageError
from rover_store.records import SealedAudit
from rover_store.store import Store

NAME = "natural"
#: the hour at which everything here was made; each commit of a history comes a day after the one before
TIME = 1_750_000_000
DAY = 86_400
_MODULES = ("registry", "values", "copies", "demands", "answers", "drift", "readable")


@dataclass(frozen=True)
class Ready:
    """A case, ready to be written."""

    case: Natural
    versions: tuple[Version, ...]
    siblings: tuple[Pack, ...]
    audits: tuple[SealedAudit, ...]
    proposals: Proposals
    witness: dict[str, Any]


def cases() -> tuple[Natural, ...]:
    """Every case, by the number of its line."""
    found = [c for m in _MODULES for c in import_module(f"rover.bench.natural.{m}").CASES]
    return tuple(sorted(found, key=lambda c: c.line))


def make(
    folder: Path,
    runtime: Runtime,
    *,
    only: Sequence[str] = (),
    workers: int = 1,
    progress: Callable[[str], None] | None = None,
) -> Manifest:
    """Build the suite (or the cases named in `only`) in a new folder; its manifest.

    UsageError where the folder holds something or a name is unknown. PackageError where a case is not what it says.
    """
    chosen = _chosen(only)
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} holds something; a suite is written into a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[Case] = []
    with Engine(runtime, workers=workers) as engine:
        store = Store.init(folder, clock=lambda: TIME)
        for number, case in chosen:
            if progress is not None:
                progress(case.key)
            ready = prepared(engine, case)
            store.sealed.append_all({audit.package: audit for audit in ready.audits})
            rows.append(_stored(store, f"{number:04}", ready))
            _freeze(folder / "proposals" / f"{number:04}", ready.proposals)
    with store.write(command="suite") as tx:
        tx.move_head(f"refs/heads/{rows[0].branch}")
    manifest = Manifest(suite=NAME, split="development", seed=SEED, history=False, cases=tuple(rows)).sealed()
    write(folder, manifest)
    return manifest


def prepared(engine: Engine, case: Natural) -> Ready:
    """Build the sound form, break it along its history, and see that the symptom shows."""
    sound, audit = built(engine, case.sound(), case.held_out)
    versions = case.history(sound)
    broken = versions[-1].pack
    witness = seen(engine, case, sound, broken)
    beside = [built(engine, other()) for other in case.beside]
    audits = (audit, *(a for _, a in beside))
    return Ready(case, versions, tuple(p for p, _ in beside), audits, case.proposals(broken, sound), witness)


def _chosen(only: Sequence[str]) -> list[tuple[int, Natural]]:
    every = list(enumerate(cases(), 1))
    unknown = sorted(set(only) - {c.key for _, c in every})
    if unknown:
        known = ", ".join(c.key for _, c in every)
        raise UsageError(f"there is no natural case {unknown[0]!r}", hint=f"known: {known}")
    return [(n, c) for n, c in every if not only or c.key in only]


def _stored(store: Store, name: str, ready: Ready) -> Case:
    """One branch with the history of a case."""
    branch = f"suite/{name}"
    head = ""
    for age, version in enumerate(ready.versions):
        pack = version.pack
        with store.write(command="suite") as tx:
            last = age == len(ready.versions) - 1
            for one in (*(ready.siblings if last else ()), pack):
                for resource, files in sorted(one.resources.items()):
                    tx.set_resource(resource, tx.tree(dict(files)))
                tx.set_package(one.name, tx.tree(dict(one.files)))
            parents = (head,) if head else ()
            head = tx.commit(version.message, parents=parents, branch=branch, time=TIME + DAY * age)
    return _row(name, branch, head, ready)


def _row(name: str, branch: str, commit: str, ready: Ready) -> Case:
    case, pack = ready.case, ready.versions[-1].pack
    record = pack.env().record
    note = f"line {case.line}, {case.key}: {case.fault}. Historical repair ({case.outcome}): {case.repair}"
    return Case(
        id=name, branch=branch, commit=commit, package=pack.name, workspace=record.workspace,
        family=record.family or "", kinds=(case.key,), components=case.components, right=case.right,
        expects=tuple(Expected(kind=k, component=c) for k, c in case.expects),
        note=note, witness={**ready.witness, "tree": tree_of(pack.files)}, source=case.source,
    )  # fmt: skip


def _freeze(folder: Path, proposals: Proposals) -> None:
    """Whole components, as files: proposals/CASE/COMPONENT/..."""
    for component, files in proposals.items():
        for path, data in files.items():
            target = folder / component / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
