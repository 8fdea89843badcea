"""What an impact does to recorded evidence, counted in the index by policy. Trajectories are not opened."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from rover_store.graph_at import GraphAt, glob

if TYPE_CHECKING:
    from rover_store.impact import PackageImpact

#: (rollout, policy, seed, whether the verifier in question graded it)
Row = tuple[str, str, int, bool]


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
    old = [row for row in _rollouts(graph, package.old, package.old.get("verifier")) if row[0] not in seen]
    seen.update(row[0] for row in old)
    if package.kind == "left":
        return [(policy, "left") for _, policy, _, _ in old]
    new = {(p, s): graded for _, p, s, graded in _rollouts(graph, package.new, package.new.get("verifier"))}
    out = []
    for _, policy, seed, graded in old:
        again = new.get((policy, seed))
        if again is None:
            out.append((policy, "run"))
        elif again or not graded:
            out.append((policy, "done"))
        else:
            out.append((policy, "grade"))
    return out


def _rollouts(graph: GraphAt, ids: dict[str, str], verifier: str | None) -> list[Row]:
    sql = """SELECT id, policy, seed, EXISTS (SELECT 1 FROM verdict v WHERE v.rollout = r.id AND v.verifier = ?)
    FROM rollout r WHERE context = ? AND task = ? AND harness = ? ORDER BY id"""
    values = (verifier, *(ids.get(c) for c in ("context", "task", "harness")))
    return [(i, p, s, bool(g)) for i, p, s, g in graph.db.execute(sql, values)]


def _kept(graph: GraphAt, apart: list[str], pattern: str) -> list[tuple[str, int, int]]:
    """(policy, rollouts, scores) of all packages but those apart: a rollout that two packages share counts once."""
    terms = graph.each_node(
        """SELECT r.id, r.policy, EXISTS (SELECT 1 FROM {node} v CROSS JOIN verdict d
            WHERE v.name = c.package || '/verifier' AND d.rollout = r.id AND d.verifier = v.version) AS graded
        FROM {node} c CROSS JOIN rollout r
        WHERE c.name = c.package || '/context' AND r.context = c.version
        AND c.package GLOB ?2 AND c.package NOT IN (SELECT value FROM json_each(?1)){kept}
        AND r.task = (SELECT version FROM {node} WHERE name = c.package || '/task')
        AND r.harness = (SELECT version FROM {node} WHERE name = c.package || '/harness')"""
    )
    sql = f"""SELECT policy, count(*), sum(graded) FROM
    (SELECT id, policy, max(graded) AS graded FROM ({terms}) GROUP BY id) GROUP BY policy"""
    return graph.db.execute(sql, (json.dumps(apart), glob(pattern))).fetchall()
