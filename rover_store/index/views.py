"""The views of the index: the one surface for questions in SQL, with a line on each column.

Names and columns stay; a view may gain columns. The tables behind them are nobody's business and change.
The SQL is what SQLite and PostgreSQL have in common.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class View(NamedTuple):
    """A view: what a row is, its columns with what they hold, and the SELECT behind it."""

    row: str
    columns: Mapping[str, str]
    sql: str


_MESSAGE = "h.subject || CASE WHEN h.body IS NULL THEN '' ELSE '\n' || h.body END"
_COMPONENT = "substr({node}, length({package}) + 2)"
_STATUS = "CASE WHEN c.old IS NULL THEN 'added' WHEN c.new IS NULL THEN 'removed' ELSE 'changed' END"

_HISTORY = {
    "packages": View(
        "A package of HEAD.",
        {
            "name": "its name",
            "title": "title of package.json",
            "family": "family that made it; empty for one by hand",
            "workspace": "name of the folder it was built from",
            "license": "licence of its sources",
            "builder": "what wrote it",
            "seed": "seed of the build",
            "admitted": "whether its present components passed the admission test",
            "context": "tree id of C",
            "task": "tree id of T",
            "harness": "tree id of H",
            "verifier": "tree id of V",
            "tree": "tree id of the whole package",
        },
        """SELECT name, title, family, workspace, license, builder, seed,
        CASE WHEN admitted THEN 1 ELSE 0 END AS admitted, context, task, harness, verifier, tree FROM package""",
    ),
    "components": View(
        "A component of HEAD.",
        {
            "name": "PACKAGE/COMPONENT",
            "package": "package",
            "component": "context, task, harness or verifier",
            "version": "tree id",
        },
        f"""SELECT name, package, {_COMPONENT.format(node="name", package="package")} AS component, version
        FROM node WHERE package <> ''""",
    ),
    "resources": View(
        "A shared resource of HEAD.",
        {
            "name": "KIND/NAME",
            "kind": "files, skills or apps",
            "title": "title of resource.json",
            "license": "its licence",
            "version": "tree id",
        },
        "SELECT name, kind, title, license, tree AS version FROM resource",
    ),
    "dependencies": View(
        "An edge of HEAD: a component was built against a version of another or of a resource.",
        {
            "package": "package of the component",
            "component": "the component that was built",
            "target": "PACKAGE/COMPONENT or resources/KIND/NAME",
            "recorded": "version it was built against",
            "present": "version of the target now; null where it is gone",
            "stale": "whether the two differ",
        },
        f"""SELECT e.package, {_COMPONENT.format(node="e.source", package="e.package")} AS component, e.target,
        e.version AS recorded, n.version AS present, CASE WHEN n.version = e.version THEN 0 ELSE 1 END AS stale
        FROM edge e LEFT JOIN node n ON n.name = e.target""",
    ),
    "stale": View(
        "A component of HEAD whose dependency moved on.",
        {
            "package": "package of the component",
            "component": "the stale component",
            "target": "what moved on",
            "recorded": "version it was built against",
            "present": "version now; null where it is gone",
        },
        f"""SELECT e.package, {_COMPONENT.format(node="e.source", package="e.package")} AS component, e.target,
        e.version AS recorded, n.version AS present FROM edge e LEFT JOIN node n ON n.name = e.target
        WHERE n.version IS NULL OR n.version <> e.version""",
    ),
    "commits": View(
        "A commit of the history of HEAD.",
        {
            "commit_id": "full id",
            "seq": "number; parents have lower ones than their children",
            "author": "Name <address>",
            "time": "seconds since 1970",
            "date": "the same as YYYY-MM-DD HH:MM:SS, UTC",
            "subject": "first line of the message",
            "message": "the whole message",
            "parents": "how many",
            "tree": "tree id",
        },
        f"""SELECT h.id AS commit_id, h.seq, h.author, h.time, h.date, h.subject, {_MESSAGE} AS message,
        (SELECT count(*) FROM parent p WHERE p.child = h.seq) AS parents, h.tree FROM history h WHERE h.shown""",
    ),
    "commit_parents": View(
        "A parent of a commit.",
        {"commit_id": "the commit", "position": "0 for the first", "parent_id": "the parent"},
        """SELECT h.id AS commit_id, p.position, q.id AS parent_id FROM parent p JOIN history h ON h.seq = p.child
        JOIN history q ON q.seq = p.parent WHERE h.shown""",
    ),
    "commit_changes": View(
        "A package, component or resource that a commit changed, compared with its first parent.",
        {
            "commit_id": "the commit",
            "seq": "its number in `commits`",
            "date": "its date",
            "kind": "package, component or resource",
            "name": "PACKAGE, PACKAGE/COMPONENT or resources/KIND/NAME",
            "package": "package; empty for a resource",
            "status": "added, removed or changed",
            "old": "tree id before; null where there was none",
            "new": "tree id after; null where there is none",
        },
        f"""SELECT h.id AS commit_id, c.seq, h.date,
        CASE WHEN c.package = '' THEN 'resource' WHEN c.node = c.package THEN 'package' ELSE 'component' END AS kind,
        c.node AS name, c.package, {_STATUS} AS status, c.old, c.new
        FROM change c JOIN history h ON h.seq = c.seq WHERE h.shown""",
    ),
    "versions": View(
        "A version that a package, component or resource had: one row each time it changed.",
        {
            "name": "PACKAGE, PACKAGE/COMPONENT or resources/KIND/NAME",
            "number": "1 for the first",
            "version": "tree id; null where it was removed",
            "commit_id": "the commit that made it",
            "date": "its date",
            "author": "its author",
            "subject": "first line of its message",
        },
        """SELECT c.node AS name, row_number() OVER (PARTITION BY c.node ORDER BY c.seq) AS number, c.new AS version,
        h.id AS commit_id, h.date, h.author, h.subject FROM change c JOIN history h ON h.seq = c.seq WHERE h.shown""",
    ),
    "trailers": View(
        "A `Key: value` line at the end of a commit's message.",
        {"commit_id": "the commit", "seq": "its number in `commits`", "key": "key", "value": "value"},
        """SELECT h.id AS commit_id, t.seq, t.key, t.value FROM trailer t JOIN history h ON h.seq = t.seq
        WHERE h.shown""",
    ),
}

_REFS = {
    "branches": View(
        "A branch.",
        {"name": "name", "commit_id": "the commit it is at", "current": "whether HEAD is on it"},
        """SELECT name, target AS commit_id, CASE WHEN current THEN 1 ELSE 0 END AS current FROM ref
        WHERE kind = 'branch'""",
    ),
    "tags": View(
        "A tag.",
        {"name": "name", "commit_id": "the commit it names"},
        "SELECT name, target AS commit_id FROM ref WHERE kind = 'tag'",
    ),
    "cases": View(
        "A repair case.",
        {"name": "name", "commit_id": "the case commit"},
        "SELECT name, target AS commit_id FROM ref WHERE kind = 'case'",
    ),
    "operations": View(
        "An entry of the operation log.",
        {
            "number": "1 for the first",
            "operation_id": "id, as `rover op log` has it",
            "time": "seconds since 1970",
            "date": "the same as YYYY-MM-DD HH:MM:SS, UTC",
            "command": "the command",
        },
        "SELECT number, id AS operation_id, time, date, command FROM operation",
    ),
    "moves": View(
        "A branch, tag or case that an operation moved.",
        {"number": "number of the operation", "ref": "full name", "old": "id before", "new": "id after"},
        "SELECT operation AS number, ref, old, new FROM move",
    ),
}

_EVIDENCE = {
    "rollouts": View(
        "A recorded rollout.",
        {
            "rollout_id": "id",
            "package": "package it ran on",
            "family": "family of that package at HEAD; null where it is gone",
            "policy": "content id of the policy",
            "seed": "seed",
            "context": "tree id of C",
            "task": "tree id of T",
            "harness": "tree id of H",
            "runtime": "sandbox, interpreter and libraries",
            "ended": "completed, policy_error or infra_error",
            "error": "why it ended early",
            "turns": "how many; 0 where they were pruned",
            "prompt_tokens": "tokens read",
            "completion_tokens": "tokens written",
            "pruned": "whether the turns were pruned",
            "present": "whether HEAD has these versions of C, T and H",
        },
        """SELECT r.id AS rollout_id, r.package, p.family, r.policy, r.seed, r.context, r.task, r.harness, r.runtime,
        r.ended, r.error, r.turns, r.prompt_tokens, r.completion_tokens,
        CASE WHEN r.pruned THEN 1 ELSE 0 END AS pruned,
        CASE WHEN p.context = r.context AND p.task = r.task AND p.harness = r.harness THEN 1 ELSE 0 END AS present
        FROM rollout r LEFT JOIN package p ON p.name = r.package""",
    ),
    "verdicts": View(
        "A verifier's judgement of a rollout.",
        {
            "rollout_id": "the rollout",
            "package": "package it ran on",
            "family": "family of that package at HEAD",
            "policy": "content id of the policy",
            "seed": "seed",
            "verifier": "tree id of V",
            "outcome": "passed, failed, policy_error, infra_error or verifier_error",
            "score": "weighted share in [0, 1]; null for errors",
            "gate": "0 if a critical criterion failed",
            "reason": "why",
            "present": "whether HEAD has these versions of C, T, H and V",
        },
        """SELECT v.rollout AS rollout_id, r.package, p.family, r.policy, r.seed, v.verifier, v.outcome, v.score,
        v.gate, v.reason, CASE WHEN p.context = r.context AND p.task = r.task AND p.harness = r.harness
        AND p.verifier = v.verifier THEN 1 ELSE 0 END AS present
        FROM verdict v LEFT JOIN rollout r ON r.id = v.rollout LEFT JOIN package p ON p.name = r.package""",
    ),
    "scores": View(
        "What one criterion found in a rollout.",
        {
            "rollout_id": "the rollout",
            "verifier": "tree id of V",
            "package": "package it ran on",
            "policy": "content id of the policy",
            "criterion": "id of the criterion",
            "requirement": "id of the requirement that it scores",
            "score": "in [0, 1]",
            "weight": "its weight",
            "critical": "whether a failure closes the gate",
            "status": "scored or error",
            "reason": "why",
        },
        """SELECT s.rollout AS rollout_id, s.verifier, r.package, r.policy, s.criterion, s.requirement, s.score,
        s.weight, CASE WHEN s.critical THEN 1 ELSE 0 END AS critical, s.status, s.reason
        FROM score s LEFT JOIN rollout r ON r.id = s.rollout""",
    ),
}

VIEWS: Mapping[str, View] = {**_HISTORY, **_REFS, **_EVIDENCE}


def statements() -> list[str]:
    """What makes the views."""
    return [f"CREATE VIEW {name} AS {view.sql}" for name, view in VIEWS.items()]


def reference() -> str:
    """All views with their columns, as the page `rover help sql` lists them."""
    out = []
    for name, view in VIEWS.items():
        out += [f"**{name}**: {view.row}", ""]
        out += [f"    {column:<18}{words}" for column, words in view.columns.items()]
        out.append("")
    return "\n".join(out)
