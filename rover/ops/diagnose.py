"""Diagnose packages: probes, recorded rollouts, a verdict each. Writes nothing but evidence.

What was run and graded before is taken from the evidence, so that an interrupted run over many packages goes on
where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rover.diagnose.diagnosis import diagnose
from rover.diagnose.hypotheses import Answers, with_hypotheses
from rover.diagnose.protocol import ProbeContext
from rover.repair.around import readable
from rover.repair.history import recorded, siblings
from rover.rollout.engine import Engine
from rover.rollout.env import load_env
from rover_store.errors import PackageError, SandboxError, UsageError
from rover_store.records import Diagnosis

if TYPE_CHECKING:
    from rover.sandbox.protocol import Runtime
    from rover_store.layout import PackageEntry
    from rover_store.store import Store

#: told which package is examined (number from 1, of how many), and which probe is asked
Told = Callable[[str, int, int, str], None]


def diagnose_package(
    store: Store,
    runtime: Runtime,
    name: str,
    *,
    rev: str = "HEAD",
    seed: int = 0,
    workers: int = 1,
    progress: Callable[[str], None] | None = None,
    model: Answers | None = None,
) -> Diagnosis:
    """What is wrong with a package, or with the agents that failed in it. NotFound where there is no such package."""
    commit = store.resolve(rev)
    entry = store.package(name, commit)
    with Engine(runtime, store.evidence, workers) as engine:
        return _diagnosed(store, engine, entry, commit, seed, progress, model)


def diagnose_packages(
    store: Store,
    runtime: Runtime,
    pattern: str,
    *,
    rev: str = "HEAD",
    seed: int = 0,
    workers: int = 1,
    told: Told = lambda name, number, total, probe: None,
    model: Answers | None = None,
) -> Iterator[Diagnosis]:
    """One diagnosis after the other, by name. UsageError where the glob matches nothing.

    A package that cannot be read, or in which the sandbox fails, has its own diagnosis that says so.
    """
    commit = store.resolve(rev)
    entries = store.packages(commit, pattern)
    if not entries:
        raise UsageError(f"no package of {rev} matches {pattern!r}", hint="`rover list` shows all names")
    with Engine(runtime, store.evidence, workers) as engine:
        for number, entry in enumerate(entries, 1):

            def asked(probe: str, name: str = entry.name, at: int = number) -> None:
                told(name, at, len(entries), probe)

            try:
                yield _diagnosed(store, engine, entry, commit, seed, asked, model)
            except (PackageError, SandboxError) as error:
                yield _unmade(entry, error)


def answers(model: str, server: str, key: str, recording: Path | None) -> Answers | None:
    """The model, or the recording of one, that may add hypotheses; None where neither is named."""
    from rover.repair.proposals.asking import Recorded, Server

    if not model and recording is None:
        return None
    behind = Server(model, server, key=key) if model and (server or key) else None
    if recording is not None:
        return Recorded(recording, behind, model)
    if behind is None:
        raise UsageError(f"{model}: neither a server nor a recording is given", hint="name one: --server URL")
    return behind


def _diagnosed(
    store: Store,
    engine: Engine,
    entry: PackageEntry,
    commit: str,
    seed: int,
    progress: Callable[[str], None] | None,
    model: Answers | None,
) -> Diagnosis:
    env = load_env(store, entry.tree)
    around = siblings(store, env.package, env.resources, commit)
    read = readable(store, env, around, commit)
    ctx = ProbeContext(env, engine, seed, store.resources(commit), recorded(store, env), read)
    found = diagnose(ctx, progress=progress)
    return with_hypotheses(env, found, model) if model is not None else found


def _unmade(entry: PackageEntry, error: PackageError | SandboxError) -> Diagnosis:
    """The diagnosis that could not be made: the package itself is broken, or the sandbox is."""
    broken = isinstance(error, PackageError)
    return Diagnosis(
        package=entry.name,
        tree=entry.tree,
        verdict="undecided" if broken else "infrastructure",
        summary=f"the package cannot be read: {error.message}" if broken else f"the sandbox failed: {error.message}",
    )
