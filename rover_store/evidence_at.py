"""What an impact does to recorded evidence, counted in the index by policy. Trajectories are not opened."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from rover_store.graph_at import GraphAt, glob

if TYPE_CHECKING:
    from rover_store.impact import PackageImpact


class Row(NamedTuple):
    """A rollout: `of` is what it shares with the same rollout of another version of the package."""

    id: str
    policy: str
    of: tuple[str, int | None, str]
    graded: bool


class Recorded(NamedTuple):
    """Of the rollouts recorded for the old revision, by policy.

    `rollouts` stand as they are, and so do the `scores` of those that were graded and whose V is the same; `grade`
    need a verdict by the new V; `run` must run again; `done` were run or graded again already; `left` are those
    of packages that left.
    """

    policy: str
    rollouts: int
    scores: int
    grade: int
    run: int
    done: int
    left: int


def recorded(graph: GraphAt, packages: Iterable[PackageImpact], pattern: str = "*") -> list[Recorded]:
    """Counts by policy, sorted. Empty at once where nothing was ever recorded."""
    if graph.db.execute("SELECT 1 FROM rollout LIMIT 1").fetchone() is None:
        return []
    counts: dict[str, Counter[str]] = {}
    apart = [p for p in packages if p.kind in ("run", "grade", "left") or (p.kind == "came" and not p.twin)]
    for policy, rollouts, scores in _kept(graph, [p.name for p in apart], pattern):
        counts.setdefault(policy, Counter()).update(rollouts=rollouts, scores=scores)
    seen: set[str] = set()
    for package in apart:
        if package.kind == "came" or package.twin:
            continue
        for policy, what in _fate(graph, package, seen):
            counts.setdefault(policy, Counter())[what] += 1
            if package.kind == "grade":
                counts[policy]["rollouts"] += 1
    fields = Recorded._fields[1:]
    return [Recorded(policy, *(counts[policy][f] for f in fields)) for policy in sorted(counts)]


def _fate(graph: GraphAt, package: PackageImpact, seen: set[str]) -> list[tuple[str, str]]:
    """(policy, what is to be done) of every rollout recorded for the old version of a package."""
    old = [row for row in _rollouts(graph, package.old, package.old.get("verifier")) if row.id not in seen]
    seen.update(row.id for row in old)
    if package.kind == "left":
        return [(row.policy, "left") for row in old]
    again = {row.of: row.graded for row in _rollouts(graph, package.new, package.new.get("verifier"))}
    out = []
    for row in old:
        if row.of not in again:
            out.append((row.policy, "run"))
        elif again[row.of] or not row.graded:
            out.append((row.policy, "done"))
        else:
            out.append((row.policy, "grade"))
    return out


def _rollouts(graph: GraphAt, ids: dict[str, str], verifier: str | None) -> list[Row]:
    sql = """SELECT id, policy, seed, runtime,
        EXISTS (SELECT 1 FROM verdict v WHERE v.rollout = r.id AND v.verifier = ?)
    FROM rollout r WHERE context = ? AND task = ? AND harness = ? ORDER BY id"""
    values = (verifier, *(ids.get(c) for c in ("context", "task", "harness")))
    return [Row(i, p, (p, s, r), bool(g)) for i, p, s, r, g in graph.db.execute(sql, values)]


def _kept(graph: GraphAt, apart: list[str], pattern: str) -> list[tuple[str, int, int]]:
    """(policy, rollouts, scores) of all packages but those apart: a rollout that two packages share counts once."""
    terms = graph.each_package(
        """SELECT r.id, r.policy, EXISTS (
            SELECT 1 FROM verdict d WHERE d.rollout = r.id AND d.verifier = c.verifier) AS graded
        FROM {package} c CROSS JOIN rollout r
        WHERE r.context = c.context AND r.task = c.task AND r.harness = c.harness
        AND c.name GLOB ?2 AND c.name NOT IN (SELECT value FROM json_each(?1)){kept}"""
    )
    sql = f"""SELECT policy, count(*), sum(graded) FROM
    (SELECT id, policy, max(graded) AS graded FROM ({terms}) GROUP BY id) GROUP BY policy"""
    return graph.db.execute(sql, (json.dumps(apart), glob(pattern))).fetchall()
