"""The index after any history: what was added bit by bit, what is built at once, and git say the same."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from store_samples import git, new_store

from rover_store.history.log import Filter, log
from rover_store.index import sql
from rover_store.index.views import VIEWS
from rover_store.layout import entry, package_trees
from rover_store.names import package_path
from rover_store.store import Store

NAMES = ("one", "two", "three")
FILES = ("package.json", "README.md", "context/a", "task/b", "harness/c/d", "verifier/e")
STEP = st.one_of(
    st.tuples(st.just("edit"), st.sampled_from(NAMES), st.sampled_from(FILES), st.integers(0, 3)),
    st.tuples(st.just("remove"), st.sampled_from(NAMES)),
    st.tuples(st.just("resource"), st.sampled_from(("files/x", "skills/y")), st.integers(0, 3)),
    st.tuples(st.just("rename"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
    st.tuples(st.just("branch"), st.sampled_from(("main", "side", "third"))),
    st.tuples(st.just("merge"), st.sampled_from(("main", "side", "third"))),
    st.tuples(st.just("look")),
    st.tuples(st.just("undo")),
    st.tuples(st.just("back")),
)
#: numbers depend on the order in which the index met the commits
NUMBERS = {"commits": "seq", "commit_changes": "seq", "trailers": "seq"}


def _take(store: Store, step: tuple[object, ...]) -> None:
    kind, *rest = step
    names = [p.name for p in store.packages()]
    if kind == "look":
        sql.ask(store, "SELECT count(*) FROM commits")
    elif kind == "undo" and len(store.op_log(2)) > 1:
        store.undo()
    elif kind == "back" and len(list(log(store, limit=3))) > 2:
        git(store.git, "update-ref", str(store.refs.head()), store.resolve("HEAD~1"))
    elif kind == "branch" and names:
        if rest[0] not in store.branches():
            store.create_branch(str(rest[0]))
        store.switch(str(rest[0]))
    else:
        _commit(store, str(kind), rest, names)


def _commit(store: Store, kind: str, rest: list[object], names: list[str]) -> None:
    name = str(rest[0]) if rest else ""
    with store.write(kind) as tx:
        parents = None
        if kind == "edit":
            base = store.package(name).tree if name in names else None
            tx.set_package(name, tx.edit_tree(base, {str(rest[1]): b"%d" % int(str(rest[2]))}))
        elif kind == "remove" and name in names:
            tx.remove_package(name)
        elif kind == "resource":
            tx.set_resource(name, tx.tree({"files/a": b"%d" % int(str(rest[1]))}))
        elif kind == "rename" and name in names and rest[1] not in names:
            tx.remove_package(name)
            tx.set_package(str(rest[1]), store.package(name).tree)
        elif kind == "merge" and name in store.branches() and names:
            parents = tuple(dict.fromkeys([store.resolve(), store.branches()[name]]))
        else:
            return
        tx.commit(f"{kind} {name}", parents=parents, trailers={"Kind": kind}, time=1000 - len(store.op_log()))


def _views(store: Store) -> dict[str, list[tuple[object, ...]]]:
    out = {}
    for name in VIEWS:
        found = sql.ask(store, f"SELECT * FROM {name}")
        skip = [i for i, c in enumerate(found.columns) if c == NUMBERS.get(name)]
        rows = [tuple(v for i, v in enumerate(row) if i not in skip) for row in found.rows]
        out[name] = sorted(rows, key=repr)
    # which version came first is not decided between two sides of a merge
    out["versions"] = sorted({(r[0], *r[2:]) for r in out["versions"]}, key=repr)
    return out


@settings(max_examples=30, deadline=None)
@given(st.lists(STEP, max_size=14))
def test_bit_by_bit_at_once_and_git_agree(steps: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = new_store(Path(folder))
        for step in steps:
            _take(store, step)
        if store.refs.head_id() is None:
            return
        grown = _views(store)
        other = Store.open(store.root, clock=store.clock)
        other.reindex()
        assert _views(other) == grown
        _agrees_with_git(store)


def _agrees_with_git(store: Store) -> None:
    trees = package_trees(store.objects, store.commit().tree)
    assert store.packages() == [entry(store.objects, n, t) for n, t in trees.items()]
    ids = [e.id for e in log(store)]
    assert set(ids) == set(git(store.git, "rev-list", "HEAD").split())
    for e in log(store):
        assert all(ids.index(p) > ids.index(e.id) for p in e.parents)
    for name in NAMES:
        # git leaves out sides of a merge that do not matter unless it is asked for all
        found = git(
            store.git, "log", "--full-history", "--no-merges", "--format=%H", "HEAD", "--", package_path(name)
        ).split()
        ours = [e.id for e in log(store, "HEAD", Filter((name,))) if len(e.parents) < 2]
        assert sorted(ours) == sorted(found), name
