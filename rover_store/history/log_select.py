"""What a log is narrowed to, as SQL: nodes, files below them, times, people, words; and renamed packages.

A package was renamed where one commit removed OLD and added NEW, and both share the version of context or task. Of
several such packages that with the most versions in common is taken, of equals the first by name.
"""

from __future__ import annotations

import re
import sqlite3
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from rover_store.graph_at import glob
from rover_store.history import ancestry
from rover_store.index import build as index_build
from rover_store.names import COMPONENTS, RESOURCE_KINDS

if TYPE_CHECKING:
    from rover_store.history.log import LogEntry
    from rover_store.revisions.revision import Range
    from rover_store.store import Store


class Filter(NamedTuple):
    """What a log is narrowed to. All conditions hold together; of nodes and paths one has to fit.

    `nodes`: globs over NAME, NAME/component, resources/KIND/NAME. `paths`: a file or folder of a package
    (`NAME/task/contract.json`), of a resource, or of the tree of a revision. `author` and `grep` are regular
    expressions, found anywhere in upper or lower case. `trailers`: key, and value or None for any. `follow` goes on
    with the older name of a renamed package. `changes`: list at most so many for each commit.
    """

    nodes: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None
    author: str | None = None
    grep: str | None = None
    trailers: tuple[tuple[str, str | None], ...] = ()
    follow: bool = False
    first_parent: bool = False
    reverse: bool = False
    changes: int | None = None


class Selected(NamedTuple):
    """A node (or glob), the file below it, and the commits between which it counts, for a renamed package.

    A node of None stands for the tree of a revision.
    """

    node: str | None
    rest: str = ""
    above: str | None = None  # this commit and later ones
    before: str | None = None  # earlier commits alone
    renamed: str | None = None  # the name before, at `above`


def select(store: Store, start: Range, wanted: Filter) -> list[Selected]:
    """The nodes and files of a filter, with the older names of renamed packages."""
    found = [Selected(glob(node)) for node in wanted.nodes] + [place(path) for path in wanted.paths]
    if not wanted.follow:
        return found
    return [older for one in found for older in _followed(store, start, one)]


def place(path: str) -> Selected:
    """The node that a path lies in, and the rest of the path below it. `/` in front: from the top of the tree."""
    parts = path.strip("/").split("/")
    if parts[0] == "packages" and len(parts) > 4:
        parts = parts[4:]
    elif parts[0] == "resources":
        if len(parts) > 1 and parts[1] not in RESOURCE_KINDS:
            return Selected(None, path.strip("/"))
        if len(parts) < 3:
            return Selected(glob("/".join([*parts, "*"])))
        return Selected(glob("/".join(parts[:3])), "/".join(parts[3:]))
    elif parts[0] == "packages" or path.startswith("/"):
        return Selected(None, path.strip("/"))
    size = 2 if len(parts) > 1 and parts[1] in COMPONENTS else 1
    return Selected(glob("/".join(parts[:size])), "/".join(parts[size:]))


# --- conditions ------------------------------------------------------------------------------------------
def conditions(db: sqlite3.Connection, wanted: Filter, selected: list[Selected]) -> tuple[list[str], list[object]]:
    """Conditions on `history h`, with their values."""
    where: list[str] = ["1"]
    values: list[object] = []
    for clause, value in (("h.time >= ?", wanted.since), ("h.time <= ?", wanted.until)):
        if value is not None:
            where.append(clause)
            values.append(value)
    message = "h.subject || CASE WHEN h.body IS NULL THEN '' ELSE char(10) || h.body END"
    for column, pattern in (("h.author", wanted.author), (message, wanted.grep)):
        if pattern is not None:
            db.create_function("rover_matches", 2, _matches, deterministic=True)
            where.append(f"rover_matches(?, {column})")
            values.append(pattern)
    for key, text in wanted.trailers:
        same = "" if text is None else " AND t.value = ?"
        where.append(f"EXISTS (SELECT 1 FROM trailer t WHERE t.seq = h.seq AND t.key = ? COLLATE NOCASE{same})")
        values += [key] if text is None else [key, text]
    if selected and not any(s.node is None for s in selected):
        parts = [_match(db, s) for s in selected]
        each = " UNION ".join(f"SELECT seq FROM change WHERE {clause}" for clause, _ in parts)
        where.append(f"h.seq IN ({each})")
        values += [v for _, more in parts for v in more]
    return where, values


def below(db: sqlite3.Connection, selected: list[Selected], seq: int) -> tuple[str, list[object]]:
    """What of a commit's changes a narrowed log lists, as a SELECT: those at and below its nodes."""
    every = "SELECT node, old, new FROM change WHERE seq = ?"
    parts: list[str] = []
    values: list[object] = []
    for s in selected:
        if s.node is None:
            return every, [seq]
        if not _counts(db, s, seq):
            continue
        if exact(s.node):  # two look-ups: a commit may have changed a hundred thousand packages
            parts += [f"{every} AND node = ?", f"{every} AND node > ? AND node < ?"]
            values += [seq, s.node, seq, f"{s.node}/", f"{s.node}0"]
        else:
            parts.append(f"{every} AND (node GLOB ? OR node GLOB ?)")
            values += [seq, s.node, f"{s.node}/*"]
    return " UNION ".join(parts or [every]), values or [seq]


def differs(store: Store, selected: list[Selected], entry: LogEntry) -> bool:
    """Whether a commit changed one of the files, for those nodes that are narrowed to a file."""
    if not any(s.rest for s in selected):
        return True
    objects = store.objects
    for s in selected:
        if s.node is None:
            parent = store.revisions.load(entry.parents[0]).tree if entry.parents else None
            pairs: list[tuple[str | None, str | None]] = [(parent, entry.tree)]
        else:
            pairs = [(c.old, c.new) for c in entry.changes if _fits(s.node, c.node)]
        for pair in pairs:
            old, new = (objects.subtree(tree, s.rest) if tree else None for tree in pair)
            if old != new:
                return True
    return False


def _fits(pattern: str, node: str) -> bool:
    from fnmatch import fnmatchcase

    return node == pattern if exact(pattern) else fnmatchcase(node, pattern.replace("[^", "[!"))


def _match(db: sqlite3.Connection, s: Selected) -> tuple[str, list[object]]:
    assert s.node is not None
    clause, values = f"node {'=' if exact(s.node) else 'GLOB'} ?", [s.node]
    if s.above is not None:
        clause += " AND seq >= (SELECT seq FROM history WHERE id = ?)"
        values.append(s.above)
    if s.before is not None:
        clause += " AND seq < (SELECT seq FROM history WHERE id = ?)"
        values.append(s.before)
    return clause, list(values)


def _counts(db: sqlite3.Connection, s: Selected, seq: int) -> bool:
    bounds = [_seq(db, s.above), _seq(db, s.before)]
    return (bounds[0] is None or seq >= bounds[0]) and (bounds[1] is None or seq < bounds[1])


def _seq(db: sqlite3.Connection, commit: str | None) -> int | None:
    row = db.execute("SELECT seq FROM history WHERE id = ?", (commit,)).fetchone() if commit else None
    return None if row is None else int(row[0])


def exact(node: str) -> bool:
    """Whether a pattern names one node alone."""
    return not any(c in node for c in "*?[")


def head(db: sqlite3.Connection) -> str | None:
    """The commit whose history the index shows."""
    return index_build.meta(db, "head")


@lru_cache(maxsize=16)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE | re.MULTILINE)


def _matches(pattern: str, text: str) -> bool:
    return _pattern(pattern).search(text) is not None


# --- commits of a range ----------------------------------------------------------------------------------
def ids(store: Store, start: Range, wanted: Filter, selected: list[Selected]) -> list[str]:
    """All commits of a range that may fit, in the order of the log."""
    indexed(store, start)
    found = _first_parents(store, start) if wanted.first_parent else list(ancestry.commits(store, start))
    if selected and not any(s.node is None for s in selected):
        def touched(db: sqlite3.Connection) -> set[str]:
            parts = [_match(db, s) for s in selected]
            each = " UNION ".join(f"SELECT seq FROM change WHERE {clause}" for clause, _ in parts)
            sql = f"SELECT id FROM history WHERE seq IN ({each})"
            return {i for (i,) in db.execute(sql, [v for _, more in parts for v in more])}

        inside = store.index.ask(touched)
        found = [i for i in found if i in inside]
    return found[::-1] if wanted.reverse else found


def indexed(store: Store, start: Range) -> None:
    """The history of any commit is a fact that stays true: that of other heads is added to the index."""
    def add(db: sqlite3.Connection) -> None:
        for commit in (*start.include, *start.exclude):
            if _seq(db, commit) is None:
                index_build.add_history(db, store.index.trees, store.revisions.load, commit)

    store.index.ask(add)


def _first_parents(store: Store, start: Range) -> list[str]:
    sql = """WITH RECURSIVE line(seq) AS (SELECT seq FROM history WHERE id IN (SELECT value FROM json_each(?))
    UNION SELECT parent FROM parent JOIN line ON child = line.seq WHERE position = 0)
    SELECT h.id FROM line JOIN history h ON h.seq = line.seq ORDER BY h.seq DESC"""
    import json

    def question(db: sqlite3.Connection) -> list[str]:
        return [i for (i,) in db.execute(sql, (json.dumps(start.include),))]

    line = store.index.ask(question)
    if not (start.exclude or start.symmetric):
        return line
    inside = set(ancestry.commits(store, start))
    return [i for i in line if i in inside]


# --- renamed packages ------------------------------------------------------------------------------------
def _followed(store: Store, start: Range, s: Selected) -> list[Selected]:
    """A package and the names that it had before, each with the commits for which it counts."""
    if s.node is None or not exact(s.node) or s.node.startswith("resources/"):
        return [s]
    indexed(store, start)
    inside = set(ancestry.commits(store, start._replace(exclude=(), symmetric=False)))
    name, slash, component = s.node.partition("/")
    before: str | None = None
    out: list[Selected] = []
    while True:
        here = Selected(f"{name}{slash}{component}", s.rest, None, before)
        found = store.index.ask(lambda db, n=name, b=before: _renamed(db, inside, n, b))  # type: ignore[misc]
        if found is None:
            return [*out, here]
        commit, older = found
        out.append(here._replace(above=commit, renamed=older))
        name, before = older, commit


def _renamed(db: sqlite3.Connection, inside: set[str], name: str, before: str | None) -> tuple[str, str] | None:
    """The newest commit that gave a package its name, and the name before."""
    last = _seq(db, before)
    rows = db.execute(
        "SELECT h.seq, h.id FROM change c JOIN history h ON h.seq = c.seq WHERE c.node = ? AND c.old IS NULL"
        " ORDER BY c.seq DESC", (name,),
    ).fetchall()  # fmt: skip
    for seq, commit in rows:
        if commit in inside and (last is None or seq < last):
            older = name_before(db, seq, name)
            if older is not None:
                return commit, older
    return None


def name_before(db: sqlite3.Connection, seq: int, name: str) -> str | None:
    """What a package that came with a commit was called before it, None where it is new."""
    rows = db.execute(
        "SELECT new, substr(node, ?) FROM change WHERE seq = ? AND node > ? AND node < ?",
        (len(name) + 2, seq, f"{name}/", f"{name}0"),
    ).fetchall()  # fmt: skip
    shared: dict[str, set[str]] = {}
    for version, component in rows:
        sql = "SELECT package, node FROM change WHERE seq = ? AND old = ? AND new IS NULL AND node <> package"
        for package, node in db.execute(sql, (seq, version)):
            if node == f"{package}/{component}":
                shared.setdefault(package, set()).add(component)
    fit = {package: parts for package, parts in shared.items() if parts & {"context", "task"}}
    return min(fit, key=lambda p: (-len(fit[p]), p), default=None)
