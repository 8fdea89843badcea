"""The whole loop on files that ship with rover: build, run, break, diagnose, repair. Leaves a store behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING

from rover.ops.build import BuildReport, BuildRequest, build
from rover.ops.diagnose import diagnose_package
from rover.ops.inject import Injected, inject
from rover.ops.listing import list_packages
from rover.ops.repair import RepairReport, RepairRequest, repair
from rover.ops.run import RunRequest, run
from rover_store.errors import RoverError, UsageError
from rover_store.store import Store

if TYPE_CHECKING:
    from rover.ops.run import RunReport
    from rover.sandbox.protocol import Runtime
    from rover_store.records import Diagnosis

#: a defect of two components: the request loses a value, and the tools that write the result are taken away
DEFECT = "code_missing_and_tool_missing"
ATTEMPTS = 6
SEED = 1

#: what is told: the name of a step that begins (payload None), or its result
Told = Callable[[str, object], None]


@dataclass(frozen=True, slots=True)
class DemoReport:
    """What the demo made. `package` is the one that was broken and repaired."""

    folder: Path
    package: str
    build: BuildReport
    runs: RunReport
    injected: Injected
    diagnosis: Diagnosis
    repair: RepairReport


def demo(
    folder: Path, runtime: Runtime, *, told: Told, clock: Callable[[], int], workers: int = 2, command: str = "demo"
) -> DemoReport:
    """Run the loop in a folder that is new or empty. UsageError where it holds anything."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder}: exists and is not empty", hint="name another folder: rover demo DIR")
    source = folder / "files"
    _copy(files("rover") / "ops" / "demo_files", source)
    store = Store.init(folder, clock=clock)

    told("build", None)
    request = BuildRequest(source, ATTEMPTS, SEED, prefix="demo")
    built = build(store, runtime, request, workers=workers, command=f"{command}: build")
    told("build", built)
    told("list", list_packages(store))

    told("run", None)
    runs = run(store, runtime, RunRequest("*", "solver", 1, SEED, "HEAD", None, {}), workers=workers)
    told("run", runs)

    injected = _break(store, [r.package for r in built.admitted], command)
    package = injected.package
    told("inject", injected)

    told("diagnose", None)
    diagnosis = diagnose_package(store, runtime, package, seed=SEED, workers=workers)
    told("diagnose", diagnosis)

    told("repair", None)
    repaired = repair(
        store, runtime, RepairRequest(package, seed=SEED, command=f"{command}: repair"), workers=workers
    )
    told("repair", repaired)
    return DemoReport(folder, package, built, runs, injected, diagnosis, repaired)


def _break(store: Store, packages: list[str], command: str) -> Injected:
    """Break the first package that offers a hold for the defect: not every request tells a value to leave out."""
    for package in packages:
        try:
            return inject(store, package, DEFECT, SEED, command=f"{command}: inject")
        except UsageError:
            continue
    raise RoverError("the demo built no package that it could break; this is a bug of rover")


def _copy(source: Traversable, target: Path) -> None:
    """The shipped files, in a folder of the user's."""
    target.mkdir(parents=True, exist_ok=True)
    for item in sorted(source.iterdir(), key=lambda i: i.name):
        if item.is_dir():
            if item.name != "__pycache__":
                _copy(item, target / item.name)
        elif not item.name.endswith((".py", ".pyc")):
            (target / item.name).write_bytes(item.read_bytes())
