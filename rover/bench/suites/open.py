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
    """One case: its branch is at its commit, which has the parents it should have and holds the package."""
    where, field = str(suite.folder / manifests.FILE), f"cases.{case.id}"
    store = suite.store
    at = branches.get(case.branch)
    if at is None:
        raise PackageError(where, field, f"the branch {case.branch} is not in the store")
    if at != case.commit:
        raise PackageError(where, field, f"{case.branch} is at {at[:12]}, not at {case.commit[:12]}")
    try:
        commit = store.commit(case.commit)
        parents = len(commit.parents)
        for parent in commit.parents:
            store.commit(parent)
        store.package(case.package, case.commit)
    except (NotFound, StoreError) as error:
        raise PackageError(where, field, error.message) from None
    wanted = 1 if suite.manifest.history else 0
    if parents != wanted and suite.manifest.suite != "natural":  # there each case has the history that it had
        raise PackageError(where, field, f"{case.commit[:12]} has {parents} parents, not {wanted}")
