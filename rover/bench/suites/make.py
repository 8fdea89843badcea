"""Making a suite: bases, cases, witnesses, then one store and its manifest.

Everything is a function of spec, split, seed and count. Finished pieces lie in the work folder; a suite that was
interrupted goes on where it stopped, and gives the same bytes as one that was not.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rover.bench.suites import manifest as manifests
from rover.bench.suites.bases import Base, Lost, bases
from rover.bench.suites.battery import sown
from rover.bench.suites.decoys import CAREFUL, failing
from rover.bench.suites.draw import Drawer, Slot, how, injected, marked, seeds, sets
from rover.bench.suites.draw import chosen as kinds_of
from rover.bench.suites.manifest import AgentRun, Case, Expected, Manifest, Split
from rover.bench.suites.parallel import Pool, Told
from rover.bench.suites.spec import Folder, Spec, base_seed, folders
from rover.bench.suites.witness import before, witness
from rover.bench.suites.work import keep
from rover.bench.suites.write import Written, write_store
from rover.diagnose.inject.protocol import truth
from rover.rollout.engine import Engine
from rover.sandbox.protocol import Runtime
from rover_store.errors import UsageError
from rover_store.ids import digest

#: seeds that a drawn case gets, and packages after the drawn one
TRIES, OTHERS = 4, 6
#: folder inside a suite that is not finished, and the file by which it is known
WORK, STARTED = "making", "started"


@dataclass(frozen=True, slots=True)
class SuiteRequest:
    """What to make. `work` keeps finished pieces for other suites of the same spec; None: below `out`, then gone."""

    spec: Spec
    out: Path
    count: int
    seed: int = 0
    split: Split = "held-out"
    history: bool = False
    beside: Path | None = None
    work: Path | None = None


@dataclass(frozen=True, slots=True)
class SuiteReport:
    """What was made. `dropped`: kinds whose draws had no effect, and how often; `lost`: attempts that gave no base."""

    manifest: Manifest
    dropped: Mapping[str, int]
    lost: tuple[Lost, ...]

    def counts(self) -> dict[tuple[str, ...], int]:
        """Cases by their kinds; decoys by their label."""
        return dict(sorted(Counter(c.kinds or (c.label,) for c in self.manifest.cases).items()))

    def by_kind(self) -> list[tuple[str, int, int, int, int]]:
        """Each kind: in how many cases alone, with another one, with two others, and in all."""
        sizes = Counter((kind, len(c.kinds)) for c in self.manifest.cases for kind in c.kinds)
        names = sorted({kind for kind, _ in sizes})
        return [(n, sizes[n, 1], sizes[n, 2], sizes[n, 3], sum(sizes[n, k] for k in (1, 2, 3))) for n in names]

    def labels(self) -> dict[str, int]:
        found = Counter(c.label for c in self.manifest.cases)
        return {label: found[label] for label in ("defect", "unfixable", "decoy") if found[label]}

    def workspaces(self) -> dict[str, int]:
        return dict(sorted(Counter(c.workspace for c in self.manifest.cases).items()))


@dataclass(frozen=True, slots=True)
class Made:
    """A case that was shown to be one, before it is written."""

    slot: Slot
    witness: dict[str, Any] = field(default_factory=dict)
    runs: tuple[AgentRun, ...] = ()
    #: kinds of each draw before that had no effect
    dropped: tuple[str, ...] = ()


def make(runtime: Runtime, request: SuiteRequest, workers: int = 1, told: Told = lambda *_: None) -> SuiteReport:
    """Make the suite. UsageError where `out` holds another one. An interrupt leaves what is finished."""
    places = folders(request.spec, request.split, request.beside)
    for_bases, for_cases = _marks(request, places)
    _check_out(request)
    keep(request.out / WORK / STARTED, b"")
    work = request.work or request.out / WORK
    seed = base_seed(request.split, request.seed)
    with Pool(runtime, workers, told) as pool:
        found, lost = bases(pool, request.spec, places, seed, work / f"bases-{for_bases}")
        drawer = Drawer(request.spec, request.split, request.seed, found, marked, sets(kinds_of(request.spec)))
        slots = drawer.draw(request.count)
        maker = Maker(request, {b.name: b for b in found}, work / f"cases-{for_cases}", pool)
        made = pool.map(maker.case, slots)
        cases = [_written(m, maker.bases[m.slot.base]) for m in made]
        told("write", 0, 1, "")
        manifest = write_store(pool, request.out, _manifest(request, places), cases, list(maker.bases.values()),
                               request.spec.siblings)  # fmt: skip
    manifest = manifest.sealed()
    manifests.write(request.out, manifest)
    shutil.rmtree(request.out / WORK, ignore_errors=True)
    dropped = Counter(kinds for m in made for kinds in m.dropped)
    return SuiteReport(manifest, dict(sorted(dropped.items())), lost)


@dataclass
class Maker:
    """Makes cases of slots; a case is found in the work folder where it was made before."""

    request: SuiteRequest
    bases: dict[str, Base]
    work: Path
    pool: Pool

    def case(self, engine: Engine, slot: Slot) -> Made:
        """The case of a slot: shown by running, with the agents that go with it."""
        path = self.work / f"{slot.id}.json"
        if not path.is_file():
            made = self._decoy(engine, slot) if slot.sort == "decoy" else self._defect(engine, slot)
            keep(path, json.dumps(_dumped(made)).encode())
        made = _loaded(json.loads(path.read_bytes()))
        self.pool.told("case", self.request.count, "+".join(made.slot.kinds) or made.slot.label)
        return made

    def _decoy(self, engine: Engine, slot: Slot) -> Made:
        names = [slot.base, *self._others(slot, ("decoy",))]
        for number, name in enumerate(names):
            base = self.bases[name]
            wanted = 1 + slot.seed % 2
            runs = failing(engine, base.env, wanted, self.request.split, self.request.seed, slot.number, name)
            if runs:
                slot = Slot(slot.number, slot.sort, (), name, slot.seed)
                return Made(slot, {"before": before(base), "after": []}, runs, ("decoy",) * number)
        raise UsageError(f"case {slot.id}: no agent fails in any package")

    def _defect(self, engine: Engine, slot: Slot) -> Made:
        dropped: list[str] = []
        for kinds, name, seed in self._draws(slot):
            base = self.bases[name]
            damage = injected(base, kinds, seed)
            if damage is None:
                continue
            shown = witness(engine, base, damage)
            if shown is not None:
                found = Slot(slot.number, slot.sort, kinds, name, seed)
                return Made(found, shown, self._agents(engine, base, found), tuple(dropped))
            dropped.append("+".join(kinds))
        raise UsageError(f"case {slot.id}: no draw of {'+'.join(slot.kinds)} has any effect")

    def _draws(self, slot: Slot) -> Iterator[tuple[tuple[str, ...], str, int]]:
        """The drawn injection, then the next seeds, then other packages, then other kinds of the same sort."""
        sorts = sets(kinds_of(self.request.spec))[slot.sort]
        turned = sorted(sorts, key=lambda kinds: digest([self.request.seed, slot.number, *kinds]))
        for kinds in (slot.kinds, *(k for k in turned if k != slot.kinds)):
            for name in (slot.base, *self._others(slot, kinds)):
                drawn = seeds(self.request.spec, self.request.split, self.request.seed, slot.number, kinds, name)
                first = kinds == slot.kinds and name == slot.base
                tried = [slot.seed] if first else []
                while len(tried) < TRIES:
                    seed = next(drawn)
                    if not first or seed > slot.seed:
                        tried.append(seed)
                for seed in tried:
                    yield kinds, name, seed

    def _others(self, slot: Slot, kinds: tuple[str, ...]) -> list[str]:
        names = sorted(self.bases, key=lambda n: digest([self.request.seed, slot.number, n, *kinds]))
        return [n for n in names if n != slot.base][:OTHERS]

    def _agents(self, engine: Engine, base: Base, slot: Slot) -> tuple[AgentRun, ...]:
        """Agents that ran into the broken package, careful or careless; none for most.

        Whoever is careless was so in the sound package: a fickle verifier must not decide who is listed.
        """
        drawn = sown("agents", self.request.split, self.request.seed, slot.number)
        if drawn % 1000 >= self.request.spec.agents * 1000:
            return ()
        found = [AgentRun(policy=CAREFUL[drawn // 1000 % 2], seed=drawn // 10000 % 1000)]
        if drawn // 2000 % 2:
            found += failing(engine, base.env, 1, self.request.split, self.request.seed, slot.number)
        return tuple(found)


def _written(made: Made, base: Base) -> Written:
    """A case as it goes into the store, with its line of the manifest, commit and branch to be filled in."""
    slot = made.slot
    common: dict[str, Any] = {
        "id": slot.id,
        "branch": f"suite/{slot.id}",
        "commit": "0" * 40,
        "package": base.name,
        "workspace": base.workspace,
        "family": base.family,
        "label": slot.label,
        "witness": made.witness,
        "runs": made.runs,
    }
    if slot.sort == "decoy":
        return Written(Case(**common, note="nothing was changed; agents failed"), base, None)
    damage = injected(base, slot.kinds, slot.seed)
    assert damage is not None
    so = truth(how(slot.kinds), damage)
    case = Case(
        **common,
        kinds=slot.kinds,
        components=so.components,
        right=so.right,
        expects=tuple(Expected(kind=kind, component=component) for kind, component in so.expects),
        note=damage.note,
    )
    return Written(case, base, damage)


def _manifest(request: SuiteRequest, places: tuple[Folder, ...]) -> Manifest:
    spec = request.spec.model_dump(mode="json", by_alias=True)
    files = {place.name: _files(place) for place in places}
    return Manifest(
        suite=request.spec.name,
        split=request.split,
        seed=request.seed,
        history=request.history,
        spec={**spec, "files": files},
    )


def _files(place: Folder) -> str:
    """Digest of a workspace's files."""
    import hashlib

    names = sorted(p for p in place.path.rglob("*") if p.is_file() and not p.is_symlink())
    rows = [[p.relative_to(place.path).as_posix(), hashlib.sha256(p.read_bytes()).hexdigest()] for p in names]
    return digest(rows)[:16]


def _marks(request: SuiteRequest, places: tuple[Folder, ...]) -> tuple[str, str]:
    """What kept bases, and kept cases, are good for: pieces of anything else are not looked at."""
    from importlib.metadata import version

    spec = request.spec
    files = [[place.name, place.license, _files(place)] for place in places]
    seed = base_seed(request.split, request.seed)
    base = digest([version("workrover"), files, spec.packages, list(spec.families), seed])[:12]
    kinds = [k.kind for k in kinds_of(spec)]
    return base, digest([base, spec.model_dump(mode="json", by_alias=True), kinds])[:12]


def _check_out(request: SuiteRequest) -> None:
    out = request.out
    if request.count < 1:
        raise UsageError("--count must be at least 1")
    if (out / manifests.FILE).exists():
        raise UsageError(f"{out} holds a suite already", hint="name another folder with --out")
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file")
    begun = (out / WORK / STARTED).is_file()
    left = [p.name for p in out.iterdir() if not (begun and p.name == WORK)] if out.is_dir() else []
    if left == [".rover"] and begun:
        shutil.rmtree(out / ".rover")  # written by a call that was interrupted
    elif left:
        raise UsageError(f"{out} is not empty: it holds {left[0]}")


def _dumped(made: Made) -> dict[str, Any]:
    slot = made.slot
    return {
        "slot": [slot.number, slot.sort, list(slot.kinds), slot.base, slot.seed],
        "witness": made.witness,
        "runs": [r.model_dump(mode="json") for r in made.runs],
        "dropped": list(made.dropped),
    }


def _loaded(value: dict[str, Any]) -> Made:
    number, sort, kinds, base, seed = value["slot"]
    runs = tuple(AgentRun.model_validate(r) for r in value["runs"])
    return Made(Slot(number, sort, tuple(kinds), base, seed), value["witness"], runs, tuple(value["dropped"]))
