"""Opening a suite: the manifest and the store beside it, checked against each other before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rover.bench.suites import manifest as manifests
from rover.bench.suites.manifest import Case, Manifest
from rover.rollout.env import Env, load_env
from rover_store.errors import NotFound, PackageError, StoreError
from rover_store.store import Store


@dataclass(frozen=True)
class Suite:
    """An open suite."""

    folder: Path
    manifest: Manifest
    store: Store

    def env(self, case: Case) -> Env:
        """The package of a case, as it is diagnosed and repaired."""
        return load_env(self.store, self.store.package(case.package, case.commit).tree)

    def siblings(self, case: Case) -> tuple[str, ...]:
        """Names of the sound packages beside it."""
        return tuple(p.name for p in self.store.packages(case.commit) if p.name != case.package)


def open_suite(folder: Path, *, check: bool = True) -> Suite:
    """The suite in a folder. NotFound where there is none, PackageError where manifest and store do not agree."""
    manifest = manifests.read(folder)
    if not (folder / ".rover").is_dir():
        raise NotFound("store", str(folder / ".rover"), hint="a suite is its manifest and the store beside it")
    suite = Suite(folder, manifest, Store.open(folder))
    if check:
        branches = suite.store.branches()
        for case in manifest.cases:
            check_case(suite, case, branches)
    return suite


def check_case(suite: Suite, case: Case, branches: Mapping[str, str]) -> None:
    """One case: its branch is at its commit, which has the parents it should have and holds the package.

    Drawn cases have no parent, or one in a suite with history; natural ones bring a history of their own.
    """
    where, field = str(suite.folder / manifests.FILE), f"cases.{case.id}"
    store = suite.store
    at = branches.get(case.branch)
    if at is None:
        raise PackageError(where, field, f"the branch {case.branch} is not in the store")
    if at != case.commit:
        raise PackageError(where, field, f"{case.branch} is at {at[:12]}, not at {case.commit[:12]}")
    try:
        line = _line(store, case.commit)
        store.package(case.package, case.commit)
    except (NotFound, StoreError) as error:
        raise PackageError(where, field, error.message) from None
    wanted = 2 if suite.manifest.history else 1
    if not case.source and len(line) != wanted:
        raise PackageError(where, field, f"{case.commit[:12]} has {len(line) - 1} commits before it, not {wanted - 1}")


def _line(store: Store, commit: str) -> list[str]:
    """The commit and all before it, the newest first. NotFound where one of them is gone."""
    found: list[str] = []
    waiting = [commit]
    while waiting:
        here = waiting.pop()
        if here not in found:
            found.append(here)
            waiting += store.commit(here).parents
    return found
