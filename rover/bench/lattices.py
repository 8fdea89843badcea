"""FCR on seeded synthetic cases: lazy selects what exhaustive selects, and how many rollouts each needs.

A case is a random dependency graph around one package and its siblings, random rebuilds and costs, and random
verdicts with a bias: larger combinations pass more often, as they do where a defect has several parts. The lattice
code is the one that `rover repair` runs; only rebuilds and gates are drawn. A rollout is known by the versions of
C, T and H, the policy and the seed, and is run once, as in the evidence.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rover.bench.rows import Row
from rover.repair import fcr
from rover_store.graph import Dependency
from rover_store.ids import digest

PACKAGE = "p"
#: 5 solvers and slips, 8 attackers, as a repair replays them
POLICIES = 13
NODES = {1: f"{PACKAGE}/context", 2: f"{PACKAGE}/task", 4: f"{PACKAGE}/harness", 8: f"{PACKAGE}/verifier"}


@dataclass(frozen=True)
class Case:
    """One synthetic case with d proposals."""

    d: int
    proposed: int
    edges: tuple[Dependency, ...]
    rebuild_changes: Mapping[str, bool]
    costs: Mapping[int, int]
    clashes: frozenset[int]  # masks that are a pair in conflict
    passes: frozenset[int]
    resources: tuple[str, ...]  # replaced by the context proposal


@dataclass
class Pool:
    """Rollouts that were asked for and rollouts that were run."""

    run: int = 0
    asked: int = 0
    known: set[tuple[str, int, int]] = field(default_factory=set)
    per_seed: dict[tuple[int, int], int] = field(default_factory=dict)

    def play(self, versions: str, seeds: int) -> None:
        for policy in range(POLICIES):
            for seed in range(seeds):
                self.asked += 1
                if (versions, policy, seed) not in self.known:
                    self.known.add((versions, policy, seed))
                    self.run += 1
                    self.per_seed[policy, seed] = self.per_seed.get((policy, seed), 0) + 1


@dataclass(frozen=True)
class Result:
    """One case: what lazy and exhaustive did."""

    d: int
    combinations: int
    same: bool
    selected: int | None
    joint: bool | None
    lazy_evaluated: int
    lazy_run: int
    full_run: int
    full_asked: int
    most_per_seed: int


def measure(
    cases: int = 200, seed: int = 0, progress: Callable[[int, int], None] | None = None, *, seeds: int = 1
) -> list[Row]:
    """Run the cases: d = 2, 3, 4 in turn, so that a third of them has d = 4."""
    results = []
    for number in range(cases):
        results.append(run_case(draw(seed, number, 2 + number % 3), seeds))
        if progress is not None:
            progress(number + 1, cases)
    return rows(results)


def rows(results: list[Result]) -> list[Row]:
    """The table: whether both runs chose the same, what sharing and laziness save."""
    differ = sum(not r.same for r in results)
    most = max((r.most_per_seed for r in results), default=0)
    four = sum(r.d == 4 for r in results)
    made = [
        Row("lazy differs", differ, "cases", 0, note=f"of {len(results)}"),
        Row("cases with d=4", four, "cases", 50, at_least=True),
        Row("rollouts a seed+policy", most, "rollouts", 8, note="up to 16 combinations"),
    ]
    for d in (2, 3, 4):
        part = [r for r in results if r.d == d]
        made.append(_ratio(f"lazy/exhaustive, d={d}", part, "lazy_run", "full_run"))
    made.append(_ratio("lazy/exhaustive, all", results, "lazy_run", "full_run"))
    made.append(_ratio("shared/unshared", results, "full_run", "full_asked"))
    joint = sum(r.joint is True for r in results)
    chosen = sum(r.selected is not None for r in results)
    made.append(Row("joint repairs", joint / max(1, chosen), "share", note=f"{joint} of {chosen}"))
    return made


def _ratio(name: str, results: list[Result], over: str, under: str) -> Row:
    a, b = (sum(getattr(r, part) for r in results) for part in (over, under))
    samples = tuple(getattr(r, over) / max(1, getattr(r, under)) for r in results)
    return Row(name, a / max(1, b), "x", note=f"{a} / {b} rollouts", samples=samples)


def run_case(case: Case, seeds: int = 1) -> Result:
    """One case, lazily and exhaustively, each with rollouts of its own."""
    masks, _ = fcr.combinations(case.proposed, lambda m: _conflict(case, m))
    options = {m: _option(case, m) for m in masks}
    runs = []
    for lazy in (True, False):
        pool = Pool()

        def evaluate(option: fcr.Option, pool: Pool = pool) -> bool:
            pool.play(_versions(option), seeds)
            return option.mask in case.passes

        pool.play(_versions(_control()), seeds)  # the control is replayed in both
        runs.append((fcr.select(options.values(), evaluate, lazy=lazy), pool))
    (lazy_run, lazy_pool), (full_run, full_pool) = runs
    return Result(
        d=case.d,
        combinations=len(masks),
        same=lazy_run.selected == full_run.selected,
        selected=full_run.selected.mask if full_run.selected else None,
        joint=full_run.joint,
        lazy_evaluated=len(lazy_run.evaluated),
        lazy_run=lazy_pool.run,
        full_run=full_pool.run,
        full_asked=full_pool.asked,
        most_per_seed=max(full_pool.per_seed.values()),
    )


def draw(seed: int, number: int, d: int) -> Case:
    """A case from the seed alone."""
    rng = random.Random(int(digest(["bench fcr", seed, number])[:15], 16))
    bits = rng.sample(sorted(NODES), d)
    proposed = sum(bits)
    edges = _edges(rng)
    nodes = sorted({e.source for e in edges} | {e.target for e in edges} | set(NODES.values()))
    masks = [m for m in range(1, 16) if not m & ~proposed]
    pairs = [m for m in masks if m.bit_count() == 2]
    clashes = frozenset(rng.sample(pairs, 1)) if rng.random() < 0.2 else frozenset()
    return Case(
        d=d,
        proposed=proposed,
        edges=edges,
        rebuild_changes={n: rng.random() < 0.4 for n in nodes},
        costs={m: rng.randint(1, 5000) for m in masks},
        clashes=clashes,
        passes=frozenset(m for m in masks if rng.random() < 0.12 * m.bit_count()),
        resources=("resources/files/a",) if proposed & 1 and rng.random() < 0.4 else (),
    )


def _edges(rng: random.Random) -> tuple[Dependency, ...]:
    found = []
    for package in (PACKAGE, *(f"s{i}" for i in range(rng.randint(0, 3)))):
        pairs = [("context", f"resources/files/{r}") for r in "ab" if rng.random() < 0.6]
        pairs += [("task", f"{package}/context"), ("harness", f"{package}/context")]
        pairs += [("verifier", f"{package}/{c}") for c in ("context", "task", "harness")]
        found += [Dependency(f"{package}/{source}", target, "") for source, target in pairs]
    return tuple(found)


def _conflict(case: Case, mask: int) -> str | None:
    return "two edits of one thing" if any(mask & clash == clash for clash in case.clashes) else None


def _option(case: Case, mask: int) -> fcr.Option:
    roots = {node for bit, node in NODES.items() if mask & bit}
    if mask & 1:
        roots |= {r for r in case.resources if any(e.target == r and e.source == NODES[1] for e in case.edges)}
    expansion = fcr.expand(frozenset(roots), case.edges, case.rebuild_changes.__getitem__)
    return fcr.Option(mask, expansion, case.costs[mask])


def _control() -> fcr.Option:
    return fcr.Option(0, fcr.Expansion(frozenset(), frozenset(), frozenset()))


def _versions(option: fcr.Option) -> str:
    """The versions of C, T and H: a replaced or rebuilt one depends on which of them were replaced with it."""
    parts = []
    for bit in (1, 2, 4):
        changed = NODES[bit] in option.expansion.changed
        behind = option.mask & 1 if bit != 1 and NODES[bit] in option.expansion.rebuilt else 0
        parts.append(f"{int(bool(option.mask & bit))}{behind}" if changed else "-")
    return "/".join(parts)
