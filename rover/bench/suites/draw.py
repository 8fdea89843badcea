"""The cases of a suite before anything runs: label, kinds, package and seed of each, evenly spread at any length.

The list is drawn from the first case to the last, so that a longer suite begins with the shorter one, and any
beginning of it is balanced: labels by their shares, kinds in turn, workspaces in turn, then packages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice, product
from typing import Generic, Literal, Protocol, TypeVar

from rover.bench.suites.bases import Base
from rover.bench.suites.battery import sown
from rover.bench.suites.manifest import Label, Split
from rover.bench.suites.spec import Spec
from rover.diagnose.inject.compose import compose
from rover.diagnose.inject.protocol import Damage, Injector, Unfit, truth
from rover.diagnose.inject.registry import singles
from rover_store.errors import UsageError
from rover_store.ids import digest

Sort = Literal["decoy", "unfixable", "single", "pair", "triple"]
#: seeds that a package gets for a kind before another package is tried
SEEDS = 4
#: sets of kinds that are looked at for one case
CHOICES = 60


@dataclass(frozen=True, slots=True)
class Slot:
    """One case as it is drawn. `base` is a name; a decoy has no kinds."""

    number: int
    sort: Sort
    kinds: tuple[str, ...]
    base: str
    seed: int

    @property
    def label(self) -> Label:
        return self.sort if self.sort in ("decoy", "unfixable") else "defect"

    @property
    def id(self) -> str:
        return f"{self.number + 1:04}"


def chosen(spec: Spec) -> tuple[Injector, ...]:
    """The kinds of a spec. UsageError for one that nobody knows."""
    known = {k.kind: k for k in singles()}
    for name in (*spec.kinds, *spec.without):
        if name not in known:
            raise UsageError(f"{spec.name}: no kind is called {name!r}", hint="`rover inject --list` shows the kinds")
    return tuple(k for n, k in known.items() if n not in spec.without and (not spec.kinds or n in spec.kinds))


def how(kinds: Sequence[str]) -> Injector:
    """The injector of one kind, or of several at once."""
    known = {k.kind: k for k in singles()}
    found = [known[kind] for kind in kinds]
    return found[0] if len(found) == 1 else compose(*found)


def seeds(spec: Spec, split: Split, seed: int, number: int, kinds: Sequence[str], base: str) -> Iterator[int]:
    """The seeds of an injection, one after the other. Those of the two splits have nothing in common."""
    drawn = sown("inject", spec.name, split, seed, number, *kinds, base) % (1 << 40)
    return (2 * (drawn + again) + (split == "held-out") for again in range(1 << 20))


class Named(Protocol):
    """What drawing needs of a base."""

    @property
    def name(self) -> str: ...

    @property
    def workspace(self) -> str: ...


B = TypeVar("B", bound=Named)
#: what kinds with a seed make of a package: equal marks are equal cases, None is no hold
Mark = Callable[[B, Sequence[str], int], str | None]


@dataclass
class Drawer(Generic[B]):
    """Draws slots one after the other. Nothing runs: `mark` tells whether kinds find a hold."""

    spec: Spec
    split: Split
    seed: int
    bases: Sequence[B]
    mark: Mark[B]
    sets: Mapping[Sort, Sequence[tuple[str, ...]]]
    used: Counter[tuple[str, ...]] = field(default_factory=Counter)
    seen: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.shares = {s: w for s, w in self._shares().items() if w > 0 and (s == "decoy" or self.sets[s])}

    def draw(self, count: int, told: Callable[[int], None] = lambda done: None) -> list[Slot]:
        """The first `count` slots."""
        out = []
        for number in range(count):
            slot = None
            while slot is None:
                sort = self._next_sort(number)
                slot = self._decoy(number) if sort == "decoy" else self._defect(number, sort)
                if slot is None:  # no package of this suite can be broken in this way, now or later
                    del self.shares[sort]
            self.used[("sort", sort)] += 1
            out.append(slot)
            told(number + 1)
        return out

    def _shares(self) -> dict[Sort, float]:
        spec = self.spec
        rest = 1 - spec.decoys - spec.unfixable
        parts = spec.single + spec.pair + spec.triple or 1
        shares: dict[Sort, float] = {
            "decoy": spec.decoys,
            "unfixable": spec.unfixable,
            "single": rest * spec.single / parts,
            "pair": rest * spec.pair / parts,
            "triple": rest * spec.triple / parts,
        }
        return shares

    def _next_sort(self, number: int) -> Sort:
        """The sort that lags most behind its share. UsageError where none is left."""
        if not self.shares:
            raise UsageError(f"{self.spec.name}: no package offers a hold for any more cases")
        whole = sum(self.shares.values())

        def lag(sort: Sort) -> float:
            return self.shares[sort] / whole * (number + 1) - self.used["sort", sort]

        return max(self.shares, key=lambda s: (round(lag(s), 9), self.shares[s]))

    def _decoy(self, number: int) -> Slot:
        base = self._turn(number, ("decoy",))[0]
        self._use(("decoy",), base)
        return Slot(number, "decoy", (), base.name, sown("decoy", self.split, self.seed, number))

    def _defect(self, number: int, sort: Sort) -> Slot | None:
        for kinds in self._choices(number, sort):
            for base in self._turn(number, kinds):
                found = self._hold(number, kinds, base)
                if found is None:
                    continue
                self._use(kinds, base)
                for kind in kinds:
                    self.used["kind", sort, kind] += 1
                return Slot(number, sort, kinds, base.name, found)
        return None

    def _hold(self, number: int, kinds: tuple[str, ...], base: B) -> int | None:
        """The first seed that breaks the package in a way that no other case has."""
        drawn = seeds(self.spec, self.split, self.seed, number, kinds, base.name)
        for seed in islice(drawn, SEEDS):
            mark = self.mark(base, kinds, seed)
            if mark is not None and mark not in self.seen:
                self.seen.add(mark)
                return seed
        return None

    def _choices(self, number: int, sort: Sort) -> list[tuple[str, ...]]:
        """Sets of kinds, those whose kinds had fewest turns first."""

        def turns(kinds: tuple[str, ...]) -> tuple[int, int, int, str]:
            each = [self.used["kind", sort, k] for k in kinds]
            return max(each), sum(each), self.used[("set", *kinds)], digest([self.seed, number, *kinds])

        return sorted(self.sets[sort], key=turns)[:CHOICES]

    def _turn(self, number: int, kinds: tuple[str, ...]) -> list[B]:
        """The packages, those first whose workspace had fewest turns with these kinds, then with any."""

        def turns(base: B) -> tuple[int, int, int, str]:
            return (
                self.used[("in", base.workspace, *kinds)],
                self.used["cases", base.workspace],
                self.used["base", base.name],
                digest([self.seed, number, base.name]),
            )

        return sorted(self.bases, key=turns)

    def _use(self, kinds: tuple[str, ...], base: B) -> None:
        self.used[("set", *kinds)] += 1
        self.used[("in", base.workspace, *kinds)] += 1
        self.used["cases", base.workspace] += 1
        self.used["base", base.name] += 1


def sets(kinds: Sequence[Injector]) -> dict[Sort, list[tuple[str, ...]]]:
    """What can fill a case of each sort: kinds alone, and pairs and triples over different components."""
    out: dict[Sort, list[tuple[str, ...]]] = {"unfixable": [], "single": [], "pair": [], "triple": []}
    alone: dict[str, list[str]] = {}
    sizes: tuple[Sort, ...] = ("single", "pair", "triple")
    for kind in kinds:
        if not kind.fixable:
            out["unfixable"].append((kind.kind,))
        elif len(kind.components) == 1:
            out["single"].append((kind.kind,))
            alone.setdefault(kind.components[0], []).append(kind.kind)
        else:
            out[sizes[min(len(kind.components), 3) - 1]].append((kind.kind,))
    for size, sort in ((2, "pair"), (3, "triple")):
        for components in combinations(sorted(alone), size):
            out[sort].extend(product(*(alone[c] for c in components)))  # type: ignore[index]
    return out


def injected(base: Base, kinds: Sequence[str], seed: int) -> Damage | None:
    """The damage; None where the package offers no hold, nothing is changed, or two kinds hit one component."""
    try:
        damage = how(kinds).inject(base.env, seed)
    except Unfit:
        return None
    if len(kinds) > len(set(truth(how(kinds), damage).components)):
        return None
    same = damage.applied(base.env.files) == dict(base.env.files)
    return None if same and not damage.resources else damage


def marked(base: Base, kinds: Sequence[str], seed: int) -> str | None:
    """What the kinds make of a base; None where they find no hold."""
    damage = injected(base, kinds, seed)
    if damage is None:
        return None
    files = {p: d.decode("latin-1") for p, d in damage.applied(base.env.files).items() if d != base.env.files.get(p)}
    gone = sorted(set(base.env.files) - set(damage.applied(base.env.files)))
    replaced = {n: sorted((p, d.decode("latin-1")) for p, d in f.items()) for n, f in damage.resources.items()}
    return digest([base.name, files, gone, replaced])
