"""Diagnose one package: probes, recorded rollouts, a verdict. Writes nothing but evidence."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rover.diagnose.diagnosis import diagnose
from rover.diagnose.protocol import ProbeContext
from rover.repair.history import recorded
from rover.rollout.engine import Engine
from rover.rollout.env import load_env
from rover_store.records import Diagnosis

if TYPE_CHECKING:
    from rover.sandbox.protocol import Runtime
    from rover_store.store import Store


def diagnose_package(
    store: Store,
    runtime: Runtime,
    name: str,
    *,
    rev: str = "HEAD",
    seed: int = 0,
    workers: int = 1,
    progress: Callable[[str], None] | None = None,
) -> Diagnosis:
    """What is wrong with a package, or with the agents that failed in it. NotFound where there is no such package."""
    commit = store.resolve(rev)
    env = load_env(store, store.package(name, commit).tree)
    with Engine(runtime, store.evidence, workers) as engine:
        ctx = ProbeContext(env, engine, seed, store.resources(commit), recorded(store, env))
        return diagnose(ctx, progress=progress)
