"""The sound form of a natural case, built as any package: calibrated, tried once on cases it never saw, sealed."""

from __future__ import annotations

import random
from dataclasses import dataclass

from rover.bench.natural.pack import Pack
from rover.bench.natural.tasks import Sound
from rover.construct.build import Workspace, attempt
from rover.construct.config import BuildConfig
from rover.construct.families.protocol import Draft, Dropped, Family
from rover.construct.families.registry import family
from rover.construct.profile import Profile
from rover.policy.protocol import Plan
from rover.rollout.engine import Engine
from rover_store.errors import PackageError
from rover_store.records import Mutation, SealedAudit

#: the one seed of the suite: its lines have no variants
SEED = 17


@dataclass(frozen=True)
class Written:
    """A family whose proposal is written by hand; its solvers are the family's own."""

    of: Family
    draft: Draft

    @property
    def name(self) -> str:
        return self.of.name

    @property
    def version(self) -> str:
        return self.of.version

    def propose(self, profile: Profile, rng: random.Random, config: BuildConfig) -> Draft:
        return self.draft

    def demonstrator(self) -> Plan:
        return self.of.demonstrator()

    def alternative(self) -> Plan:
        return self.of.alternative()


def built(engine: Engine, sound: Sound, held_out: tuple[Mutation, ...] = ()) -> tuple[Pack, SealedAudit]:
    """The package and its sealed audit. PackageError where the build drops it: a fault of the case's author."""
    workspace = Workspace(sound.workspace, Profile((), (), ()), sound.shared, license="CC0-1.0")
    written = Written(family(sound.family), sound.draft)
    config = BuildConfig(rewrites=1)
    outcome = attempt(engine, workspace, written, 0, SEED, config=config).outcome  # type: ignore[arg-type]
    if isinstance(outcome, Dropped):
        raise PackageError(sound.draft.title, outcome.stage, outcome.reason)
    more = [{**m.model_dump(mode="json", exclude_none=True), "seed": SEED} for m in held_out]
    negatives = [m for m in more if "requirement" in m]
    others = [m for m in more if "requirement" not in m]
    audit = outcome.audit.model_copy(
        update={
            "negatives": (*outcome.audit.negatives, *negatives),
            "alternatives": (*outcome.audit.alternatives, *others),
        }
    )
    return Pack(outcome.name, outcome.files, outcome.resources), audit
