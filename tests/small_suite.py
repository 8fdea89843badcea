"""A small suite of packages over the shop's files, with the defects that a test names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from workspaces import shop_workspace

from rover.bench.suites.bases import Base
from rover.bench.suites.battery import Battery
from rover.bench.suites.manifest import AgentRun, Case, Expected, Manifest, write
from rover.bench.suites.parallel import Pool
from rover.bench.suites.write import Written, write_store
from rover.construct.build import Built, attempt
from rover.construct.families.registry import family
from rover.diagnose.inject.protocol import truth
from rover.diagnose.inject.registry import injector
from rover.rollout.engine import Engine
from rover.rollout.env import env_from_files
from rover.sandbox.protocol import Runtime


class Wanted(NamedTuple):
    """A case: kinds joined by +, empty for a sound package; the seed of the injection; the base by number."""

    kinds: str = ""
    seed: int = 0
    base: int = 0
    runs: tuple[str, ...] = ()


def bases(runtime: Runtime, folder: Path, count: int, name: str = "summarise") -> list[Base]:
    """The first packages of the family that are admitted."""
    workspace = shop_workspace(folder)
    found: list[Base] = []
    with Engine(runtime) as engine:
        for number in range(4 * count):
            made = attempt(engine, workspace, family(name), number, 5).outcome
            if isinstance(made, Built):
                env = env_from_files(made.files, made.resources)
                battery = Battery(())  # witnesses alone read it
                found.append(Base(made.name, workspace.name, made.family, env, made.audit, battery))
            if len(found) == count:
                return found
    raise AssertionError(f"the shop gives only {len(found)} packages")


def small_suite(
    runtime: Runtime, folder: Path, made: Sequence[Base], wanted: Sequence[Wanted], name: str = "small"
) -> Manifest:
    """Write the suite into a folder."""
    written = [_written(number, made[w.base], w) for number, w in enumerate(wanted, 1)]
    with Pool(runtime) as pool:
        manifest = write_store(pool, folder, Manifest(suite=name, split="development"), written, list(made), 1)
    write(folder, manifest)
    return manifest


def _written(number: int, base: Base, wanted: Wanted) -> Written:
    case = Case(
        id=f"{number:04}", branch=f"suite/{number:04}", commit="0" * 40, package=base.name,
        workspace=base.workspace, family=base.family, label="decoy",
        runs=tuple(AgentRun(policy=policy, seed=n) for n, policy in enumerate(wanted.runs)),
    )  # fmt: skip
    if not wanted.kinds:
        return Written(case, base, None)
    how = injector(wanted.kinds)
    damage = how.inject(base.env, wanted.seed)
    so = truth(how, damage)
    facts = {
        "label": "defect" if so.fixable else "unfixable", "kinds": tuple(wanted.kinds.split("+")),
        "components": so.components, "right": so.right, "note": damage.note,
        "expects": tuple(Expected(kind=k, component=c) for k, c in so.expects),
    }  # fmt: skip
    return Written(case.model_copy(update=facts), base, damage)
