"""Suites by name: made in the work folder the first time, found there afterwards."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from rover.bench.suites import manifest
from rover.bench.suites.manifest import Split
from rover.sandbox.protocol import Runtime
from rover.sandbox.registry import open_runtime

#: cases where no --count is given
COUNTS = {"controlled": 1000, "agents": 500}
Tell = Callable[[str], None]


def folder(name: str, split: Split, count: int, seed: int, work: Path, workers: int, sandbox: str, tell: Tell) -> Path:
    """The folder of a suite that is whole: one without a manifest was broken off, and is gone on with."""
    count = count or COUNTS.get(name, 0)
    # the natural cases have no split, no count and no seed: each is one package
    words = [name] if name == "natural" else [name, split, str(count), str(seed)]
    target = work / "suites" / "-".join(words)
    if (target / manifest.FILE).is_file():
        return target
    tell(f"make {target.name}")
    runtime = open_runtime(sandbox or None)
    try:
        if name == "natural":
            _natural(target, runtime, tell)
        else:
            _drawn(name, split, count, seed, target, runtime, workers, tell)
    finally:
        runtime.close()
    return target


def _natural(target: Path, runtime: Runtime, tell: Tell) -> None:
    from rover.bench.natural.make import make

    part = target.with_name(f"{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.parent.mkdir(parents=True, exist_ok=True)
    make(part, runtime, progress=tell)
    part.replace(target)


def _drawn(
    name: str, split: Split, count: int, seed: int, target: Path, runtime: Runtime, workers: int, tell: Tell
) -> None:
    from rover.bench.suites.make import SuiteRequest, make
    from rover.bench.suites.spec import load

    spec, beside = load(name)
    target.parent.mkdir(parents=True, exist_ok=True)
    request = SuiteRequest(spec, target, count, seed, split, beside=beside, work=target.parent / "making")
    make(runtime, request, workers, lambda stage, done, total, what: tell(f"{stage} {done}/{total} {what}"))
