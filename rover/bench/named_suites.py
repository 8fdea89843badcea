"""Suites by name: made in the work folder the first time, found there afterwards."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from rover.bench.suites import manifest
from rover.sandbox.registry import open_runtime

#: cases where no --count is given
COUNTS = {"controlled": 1000, "agents": 500}
Tell = Callable[[str], None]


def folder(name: str, split: str, count: int, seed: int, work: Path, sandbox: str, tell: Tell) -> Path:
    """The folder of a suite that is whole: one without a manifest was broken off and is made again."""
    count = count or COUNTS.get(name, 0)
    # the natural cases have no split, no count and no seed: each is one package
    words = [name] if name == "natural" else [name, split, str(count), str(seed)]
    target = work / "suites" / "-".join(words)
    if (target / manifest.FILE).is_file():
        return target
    tell(f"make {target.name}")
    part = target.with_name(f"{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.parent.mkdir(parents=True, exist_ok=True)
    runtime = open_runtime(sandbox or None)
    try:
        if name == "natural":
            _maker("rover.bench.natural.make")(part, runtime, progress=tell)
        else:
            _maker("rover.bench.suites.make")(part, runtime, name, split, count, seed, tell)
    finally:
        runtime.close()
    part.replace(target)
    return target


def _maker(module: str) -> Any:
    return import_module(module).make
