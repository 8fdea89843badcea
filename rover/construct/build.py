"""One attempt at a package: draft, contract, anchors, reference, calibration, freeze, admission, sealed audit.

Every attempt ends as `Built` or as `Dropped` with a stage and a reason. All its random choices come from
(seed, number of the attempt). Before V is frozen, a failed check may go back to the draft, within the budget of
the config: an answer that is trivial or on which the engines differ, and a verifier that fails its calibration, ask
for another draft with a contract of its own; a case that does not work is left out, as long as four negatives
remain. After the freeze there is no way back.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from rover.construct import anchors as deriving
from rover.construct import package
from rover.construct.admission import admit, sealed_audit
from rover.construct.calibrate import Calibration, calibrate
from rover.construct.config import BuildConfig
from rover.construct.families.protocol import Draft, Dropped, Family, freeze
from rover.construct.package import Origin, Parts
from rover.construct.profile import Profile
from rover.construct.reference import demonstrate
from rover.rollout.engine import Engine
from rover.rollout.env import Env, env_from_files
from rover.sandbox.protocol import Files
from rover_store.ids import digest
from rover_store.records import Anchors, Provenance, SealedAudit, SourceFile

#: a verifier needs so many negatives that it rejects
LEAST_NEGATIVES = 4
#: drafts that an attempt may throw away before anything of them ran through the harness
REDRAFTS = 5


@dataclass(frozen=True, slots=True)
class Workspace:
    """A profiled folder of real files, and their bytes."""

    name: str
    profile: Profile
    sources: Mapping[str, bytes]
    license: str = ""


@dataclass(frozen=True, slots=True)
class Built:
    """An admitted package."""

    name: str
    family: str
    files: Files
    #: `files/NAME` -> files of the resource
    resources: Mapping[str, Files]
    audit: SealedAudit
    #: drafts whose runs or calibration failed before this one
    rewrites: int = 0


@dataclass(frozen=True, slots=True)
class Attempt:
    """What became of one attempt."""

    number: int
    family: str
    outcome: Built | Dropped


def attempt(
    engine: Engine,
    workspace: Workspace,
    family: Family,
    number: int,
    seed: int,
    *,
    prefix: str = "",
    config: BuildConfig | None = None,
) -> Attempt:
    """Build one package, or say why not. SandboxError and HarnessError pass through."""

    def stream(name: str) -> random.Random:
        return random.Random(int(digest(["build", seed, number, name])[:15], 16))

    config = config or BuildConfig.draw(stream("config"))
    last = Dropped("no fit", "no draft was tried")
    rewrites = 0
    for again in range(1 + (REDRAFTS if config.rewrites else 0)):
        draft = _drafted(family, workspace, stream(f"draft-{again}"), config)
        anchors = draft if isinstance(draft, Dropped) else _anchors(engine, workspace, draft)
        if isinstance(draft, Dropped) or isinstance(anchors, Dropped):
            last = anchors if isinstance(anchors, Dropped) else last
            continue
        origin = _origin(workspace, family, draft, seed, number, config, prefix)
        parts = _calibrated(engine, family, Parts(origin, draft, anchors, workspace.sources), stream, config)
        if isinstance(parts, Parts):
            return Attempt(number, family.name, _admitted(engine, family, parts, stream, rewrites))
        last = parts
        rewrites += 1
        if rewrites > config.rewrites:
            break
    return Attempt(number, family.name, last)


def _drafted(family: Family, workspace: Workspace, rng: random.Random, config: BuildConfig) -> Draft | Dropped:
    draft = family.propose(workspace.profile, rng, config)
    if isinstance(draft, Draft) and len(draft.negatives) < LEAST_NEGATIVES:
        return Dropped("no fit", f"only {len(draft.negatives)} negatives")
    return draft


def _anchors(engine: Engine, workspace: Workspace, draft: Draft) -> Anchors | Dropped:
    files = {p: workspace.sources[p] for p in draft.sources()} | dict(draft.own)
    wanted = deriving.queries(draft.contract, draft.criteria)
    anchors = deriving.derive(engine, draft.contract, wanted, files)
    if isinstance(anchors, Dropped):
        return anchors
    return deriving.trivial(anchors, draft.contract, draft.sizes) or anchors


def _calibrated(
    engine: Engine, family: Family, parts: Parts, stream: Callable[[str], random.Random], config: BuildConfig
) -> Parts | Dropped:
    """Reference, alternative and a verifier that tells right from wrong. The contract is frozen first."""
    contract = freeze(parts.draft)
    reference = demonstrate(engine, family, contract, env_of(parts))
    if isinstance(reference, Dropped):
        return reference
    alternative = demonstrate(engine, family, contract, env_of(parts), role="alternative")
    if isinstance(alternative, Dropped):
        return alternative
    parts = parts.having(reference=reference, alternative=alternative)
    calibration = calibrate(engine, env_of(parts), stream("calibration").randrange(1 << 48))
    revised = rewritten(parts.draft, calibration, config.rewrites)
    if isinstance(revised, Dropped):
        return revised
    contract.check(revised.contract, revised.instruction)
    return parts.having(draft=revised)


def _admitted(
    engine: Engine, family: Family, parts: Parts, stream: Callable[[str], random.Random], rewrites: int
) -> Built | Dropped:
    """The frozen verifier's one test, and the package. There is no second try."""
    admission = admit(engine, family, env_of(parts), stream)
    if isinstance(admission, Dropped):
        return admission
    parts = parts.having(admission=admission)
    return Built(
        parts.origin.name,
        family.name,
        package.files(parts),
        package.resources(parts),
        sealed_audit(parts, stream),
        rewrites,
    )


def rewritten(draft: Draft, calibration: Calibration, budget: int) -> Draft | Dropped:
    """The draft without the cases that do not work; Dropped where it is the verifier that is wrong.

    A negative that changes nothing or breaks no more than form, and an alternative rule that finds nothing to
    change, are the draft's fault. All else is the verifier's, and no leaving out would cure it.
    """
    bad = {row.case: row for row in calibration.wrong}
    authored = {m.id for m in (*draft.negatives, *draft.alternatives)}
    for row in calibration.wrong:
        curable = row.case in authored and (row.kind == "negative" or row.observed == "error")
        if not curable or not budget:
            return Dropped("calibration", f"{row.case}: {row.observed}, not {row.expected}: {row.reason}")
    if not bad:
        return draft
    negatives = tuple(m for m in draft.negatives if m.id not in bad)
    if len(negatives) < LEAST_NEGATIVES:
        return Dropped("calibration", f"only {len(negatives)} negatives are rejected")
    unbroken = {m.requirement for m in draft.negatives} - {m.requirement for m in negatives}
    if unbroken:
        return Dropped("calibration", f"no negative breaks {', '.join(sorted(map(str, unbroken)))}")
    return replace(draft, negatives=negatives, alternatives=tuple(m for m in draft.alternatives if m.id not in bad))


def env_of(parts: Parts) -> Env:
    """The env of what there is of a package so far."""
    return env_from_files(package.files(parts), package.resources(parts))


def _origin(
    workspace: Workspace, family: Family, draft: Draft, seed: int, number: int, config: BuildConfig, prefix: str
) -> Origin:
    """Name and provenance. The name tells tasks apart by content: the same task twice has the same name."""
    used = tuple(
        SourceFile(path=p, sha256=hashlib.sha256(workspace.sources[p]).hexdigest()) for p in sorted(draft.sources())
    )
    content = [draft.instruction, draft.contract.model_dump(mode="json"), [s.sha256 for s in used]]
    own = {path: hashlib.sha256(data).hexdigest() for path, data in draft.own.items()}
    name = f"{prefix or workspace.name}-{family.name}-{digest([content, own])[:8]}"
    provenance = Provenance(
        builder=family.name,
        version=family.version,
        seed=seed,
        config={"attempt": number, **config.provenance(), **draft.notes},
        sources=used,
        license=workspace.license,
    )
    return Origin(name, family.name, workspace.name, provenance)
