"""One attempt at a package: draft, contract, anchors, reference, calibration, freeze, admission, sealed audit.

Every attempt ends as `Built` or as `Dropped` with a stage and a reason. All its random choices come from
(seed, number of the attempt). Before V is frozen, a failed check may go back to the draft, within the budget of
the config: an answer that is trivial or on which the engines differ asks for another draft; a case that does not
work is left out, as long as four negatives remain. After that there is no way back.
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
#: drafts that an attempt may throw away because their answers are of no use
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
    #: how often calibration fed back to the draft
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
    found = _drafted(engine, workspace, family, stream, config)
    if isinstance(found, Dropped):
        return Attempt(number, family.name, found)
    draft, anchors = found
    origin = _origin(workspace, family, draft, seed, number, config, prefix)
    parts = Parts(origin, draft, anchors, workspace.sources)
    return Attempt(number, family.name, _verified(engine, family, parts, stream, config))


def _drafted(
    engine: Engine, workspace: Workspace, family: Family, stream: Callable[[str], random.Random], config: BuildConfig
) -> tuple[Draft, Anchors] | Dropped:
    """A draft whose answers both engines give alike, and are worth asking for; the first of a few."""
    last = Dropped("no fit", "no draft was tried")
    for again in range(1 + (REDRAFTS if config.rewrites else 0)):
        draft = family.propose(workspace.profile, stream(f"draft-{again}"), config)
        if isinstance(draft, Dropped):
            last = draft
            continue
        if len(draft.negatives) < LEAST_NEGATIVES:
            last = Dropped("no fit", f"only {len(draft.negatives)} negatives")
            continue
        anchors = _anchors(engine, workspace, draft)
        if isinstance(anchors, Anchors):
            return draft, anchors
        last = anchors
    return last


def _anchors(engine: Engine, workspace: Workspace, draft: Draft) -> Anchors | Dropped:
    files = {p: workspace.sources[p] for p in draft.sources()} | dict(draft.own)
    wanted = deriving.queries(draft.contract, draft.criteria)
    anchors = deriving.derive(engine, draft.contract, wanted, files)
    if isinstance(anchors, Dropped):
        return anchors
    return deriving.trivial(anchors, draft.contract, draft.sizes) or anchors


def _verified(
    engine: Engine, family: Family, parts: Parts, stream: Callable[[str], random.Random], config: BuildConfig
) -> Built | Dropped:
    """From a draft with anchors to an admitted package."""
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
    rewrites = int(revised is not parts.draft)
    parts = parts.having(draft=revised)
    admission = admit(engine, family, env_of(parts), stream)  # V is frozen from here on
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
        config={"attempt": number, **config.provenance()},
        sources=used,
        license=workspace.license,
    )
    return Origin(name, family.name, workspace.name, provenance)
