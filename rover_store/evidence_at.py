"""What an impact does to recorded evidence, counted in the index by policy. Trajectories are not opened."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from rover_store.graph_at import GraphAt, glob

if TYPE_CHECKING:
    from rover_store.impact import PackageImpact


#: scanning all rollouts beats looking up those of a package where there are fewer than so many for each
_PROBE = 40


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
    for policy, scores in _kept(graph, [p.name for p in apart], pattern):
        count = counts.setdefault(policy, Counter())
        count["rollouts"] += 1
        count["scores"] += scores
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


def _kept(graph: GraphAt, apart: list[str], pattern: str) -> Iterator[tuple[str, int]]:
    """(policy, scores) of each rollout of all packages but those apart. One that two packages share comes once."""
    sql = graph.each_package(
        """SELECT c.context, c.task, c.harness, c.verifier FROM {package} c
        WHERE c.name GLOB ?2 AND c.name NOT IN (SELECT value FROM json_each(?1)){kept}"""
    )
    wanted: dict[tuple[str, ...], set[str]] = {}
    for *key, verifier in graph.db.execute(sql, (json.dumps(apart), glob(pattern))):
        wanted.setdefault(tuple(key), set()).add(verifier)
    rollouts = graph.db.execute("SELECT count(*) FROM rollout").fetchone()[0]
    if len(wanted) * _PROBE < rollouts:
        yield from _probed(graph.db, wanted)
        return
    # two scans side by side: at a million rollouts a third of what a join by these keys takes
    verdicts = graph.db.execute("SELECT rollout, verifier FROM verdict ORDER BY rollout")
    at = verdicts.fetchone()
    for rollout, policy, *key in graph.db.execute("SELECT id, policy, context, task, harness FROM rollout ORDER BY id"):
        graded = []
        while at is not None and at[0] <= rollout:
            if at[0] == rollout:
                graded.append(at[1])
            at = verdicts.fetchone()
        verifiers = wanted.get(tuple(key))
        if verifiers is not None:
            yield policy, len(verifiers.intersection(graded))


def _probed(db: sqlite3.Connection, wanted: dict[tuple[str, ...], set[str]]) -> Iterator[tuple[str, int]]:
    """The same for few packages, by the index on contexts."""
    for key, verifiers in wanted.items():
        for rollout, policy in db.execute(
            "SELECT id, policy FROM rollout WHERE context = ? AND task = ? AND harness = ?", key
        ).fetchall():
            graded = db.execute("SELECT verifier FROM verdict WHERE rollout = ?", (rollout,)).fetchall()
            yield policy, len(verifiers.intersection(v for (v,) in graded))
