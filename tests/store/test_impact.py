"""What a change means for recorded scores: classes, causes, and counts of evidence."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_samples import add, edit, new_store, package_files, package_tree

from rover_store import evidence_at
from rover_store.errors import NotFound, UsageError
from rover_store.evidence import rollout_id
from rover_store.impact import KINDS, RUN, Impact, impact, to_json
from rover_store.records import Budget, RolloutKey, Trajectory, Verdict
from rover_store.store import Store
from rover_store.trees import EMPTY_TREE

CHECK = b"def ok(ev):\n    return 0.5\n"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = new_store(tmp_path)
    for name in ("one", "two", "three"):
        add(store, name, resources={"files/shared": b"1"})
    return store


def _kinds(found: Impact) -> dict[str, str]:
    return {p.name: p.kind for p in found.packages}


def _record(store: Store, name: str, seeds: range, policy: str = "p", graded: bool = True) -> list[str]:
    """Rollouts of the present version of a package. Returns their ids."""
    ids = store.package(name).components
    key = {c: ids[c] for c in ("context", "task", "harness")}
    keys = [RolloutKey(**key, policy=policy, seed=s, budget=Budget(), runtime="r") for s in seeds]
    made = [Trajectory(key=k, package=name, start=EMPTY_TREE) for k in keys]
    _put(store, made, ids["verifier"] if graded else None)
    return [rollout_id(t) for t in made]


def _put(store: Store, made: list[Trajectory], verifier: str | None) -> None:
    verdicts = [
        Verdict(rollout=rollout_id(t), verifier=verifier, outcome="passed", score=1.0) for t in made if verifier
    ]  # fmt: skip
    store.evidence.put([(t, {}, {}) for t in made], verdicts)


@pytest.mark.parametrize(
    ("files", "kind", "changed"),
    [
        ({"README.md": b"A word.\n"}, "nothing", ()),
        ({"verifier/checks/main.py": CHECK}, "grade", ("verifier",)),
        ({"task/instruction.md": b"Other."}, "run", ("task",)),
        ({"harness/harness.json": b"{}"}, "run", ("harness",)),
        ({"context/files/data.csv": b"x\n", "verifier/checks/main.py": CHECK}, "run", ("context", "verifier")),
    ],
)
def test_what_must_be_done_follows_from_the_components(
    store: Store, files: dict[str, bytes], kind: str, changed: tuple[str, ...]
) -> None:
    edit(store, "one", files)
    found = impact(store, "HEAD~1")
    (package,) = found.packages
    assert (package.name, package.kind, package.changed) == ("one", kind, changed)
    assert package.causes == changed[:1]
    assert found.same == 2
    assert found.to_do() == (kind != "nothing")
    assert not found.to_do([kind])
    assert found.counts() == {k: {kind: 1, "same": 2}.get(k, 0) for k in KINDS}
    assert impact(store, "HEAD").packages == ()
    assert impact(store, "HEAD").same == 3


def test_packages_come_leave_and_change_their_name(store: Store) -> None:
    entry = store.package("one")
    with store.write() as tx:
        tx.remove_package("one")
        tx.remove_package("two")
        tx.set_package("uno", entry.tree)
        tx.set_package("new", package_tree(tx, "new", package_files("new", "Not that."), {}))
        tx.commit("Names")
    found = impact(store, "HEAD~1")
    assert _kinds(found) == {"new": "came", "one": "left", "two": "left", "uno": "came"}
    assert {p.name: p.twin for p in found.packages} == {"new": "", "one": "uno", "two": "", "uno": "one"}
    assert found.same == 1
    assert found.to_do()
    assert found.to_do(["came"])
    assert not found.to_do(["came", "left"])
    back = impact(store, "HEAD", "HEAD~1")
    assert _kinds(back) == {"new": "left", "one": "came", "two": "came", "uno": "left"}


def test_a_resource_that_moves_on_leaves_packages_stale_until_they_are_bound(store: Store) -> None:
    with store.write() as tx:
        new = tx.tree({"files/data.csv": b"2"})
        tx.set_resource("files/shared", new)
        tx.commit("New data")
    found = impact(store, "HEAD~1")
    assert _kinds(found) == {"one": "stale", "two": "stale", "three": "stale"}
    assert all(p.through == ("resources/files/shared",) and p.old == p.new for p in found.packages)
    (resource,) = found.resources
    assert (resource.name, resource.packages, resource.stale) == ("resources/files/shared", 3, 3)
    assert found.to_do()
    with store.write() as tx:
        files = package_files("one", resources={"files/shared": new})
        tx.set_package("one", package_tree(tx, "one", files, {"files/shared": new}))
        tx.commit("Bind")
    (bound,) = impact(store, "HEAD~1").packages
    assert (bound.kind, bound.changed, bound.causes) == ("run", ("context",), ("context",))
    assert bound.through == ("resources/files/shared",)
    both = impact(store, "HEAD~2")
    assert _kinds(both) == {"one": "run", "two": "stale", "three": "stale"}
    assert both.resources[0].stale == 2
    assert impact(store, "HEAD~2", pattern="one").same == 0
    assert _kinds(impact(store, "HEAD~2", pattern="t*")) == {"two": "stale", "three": "stale"}


def test_stale_components_of_a_changed_package_are_named_once(store: Store) -> None:
    edit(store, "one", {"task/instruction.md": b"Other."})
    (package,) = impact(store, "HEAD~1").packages
    assert [(s.component, s.target) for s in package.stale] == [("verifier", "one/task")]
    edit(store, "one", {"README.md": b"Later.\n"})
    (package,) = impact(store, "HEAD~1").packages
    assert (package.kind, package.stale) == ("nothing", ())


@pytest.mark.parametrize("probe", [0, 40])
def test_evidence_is_counted_by_policy(store: Store, probe: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence_at, "_PROBE", probe)  # by looking up, and by scanning
    for name in ("one", "two", "three"):
        _record(store, name, range(3))
    _record(store, "one", range(3, 5), policy="q", graded=False)
    edit(store, "one", {"task/instruction.md": b"Other."})
    edit(store, "two", {"verifier/checks/main.py": CHECK})
    found = impact(store, "HEAD~2")
    assert [tuple(e) for e in found.evidence] == [("p", 6, 3, 3, 3, 0, 0), ("q", 0, 0, 0, 2, 0, 0)]
    _record(store, "one", range(1))  # one seed ran again, and was graded
    two = store.package("two").components["verifier"]
    ids = [rollout for rollout, t in store.evidence.iter_rollouts("two") if t.key.seed == 0]
    store.evidence.put([], [Verdict(rollout=i, verifier=two, outcome="failed", score=0.0) for i in ids])
    assert [tuple(e) for e in impact(store, "HEAD~2").evidence] == [
        ("p", 6, 3, 2, 2, 2, 0), ("q", 0, 0, 0, 2, 0, 0),
    ]  # fmt: skip
    assert impact(store, "HEAD~2", evidence=False).evidence == ()
    only = impact(store, "HEAD~2", pattern="three").evidence
    assert [tuple(e) for e in only] == [("p", 3, 3, 0, 0, 0, 0)]


def test_a_rename_keeps_its_evidence_and_what_left_does_not(store: Store) -> None:
    for name in ("one", "two"):
        _record(store, name, range(2))
    entry = store.package("one")
    with store.write() as tx:
        tx.remove_package("one")
        tx.remove_package("two")
        tx.set_package("uno", entry.tree)
        tx.commit("Names")
    assert [tuple(e) for e in impact(store, "HEAD~1").evidence] == [("p", 2, 2, 0, 0, 0, 2)]
    assert [tuple(e) for e in impact(store, "HEAD").evidence] == [("p", 2, 2, 0, 0, 0, 0)]
    edit(store, "uno", {"README.md": b"x\n"})
    assert [tuple(e) for e in impact(store, "HEAD~2", "HEAD~1").evidence] == [("p", 2, 2, 0, 0, 0, 2)]


def test_requests_that_make_no_sense(store: Store) -> None:
    with pytest.raises(UsageError, match="no package of HEAD~1 or HEAD matches 'x\\*'"):
        impact(store, "HEAD~1", pattern="x*")
    with pytest.raises(NotFound):
        impact(store, "v1")


STEPS = st.lists(st.tuples(st.sampled_from(["one", "two"]), st.sampled_from("RVTH-")), min_size=1, max_size=6)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_impact_agrees_with_the_two_listings(
    steps: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Classes follow from component ids of both sides alone, whichever revision the index shows."""
    store = new_store(tmp_path_factory.mktemp("store"))
    commits = [add(store, "zero")]
    paths = {"R": "README.md", "V": "verifier/checks/main.py", "T": "task/instruction.md", "H": "harness/harness.json"}
    for i, (name, what) in enumerate(steps):
        there = any(p.name == name for p in store.packages())
        if what == "-" and there:
            with store.write() as tx:
                tx.remove_package(name)
                commits.append(tx.commit("Remove"))
        elif there:
            commits.append(edit(store, name, {paths.get(what, "README.md"): b"%d\n" % i}))
        else:
            commits.append(add(store, name))
    for a, b in zip(commits, reversed(commits), strict=True):
        old, new = ({p.name: p for p in store.packages(rev)} for rev in (a, b))
        expected = {}
        for name in old.keys() | new.keys():
            if name not in new or name not in old:
                expected[name] = "came" if name in new else "left"
            elif any(old[name].components[c] != new[name].components[c] for c in RUN):
                expected[name] = "run"
            elif old[name].components != new[name].components:
                expected[name] = "grade"
            elif old[name].tree != new[name].tree:
                expected[name] = "nothing"
        found = impact(store, a, b)
        assert _kinds(found) == expected
        assert found.same == len([n for n in new if n not in expected])
        assert to_json(found)["counts"] == found.counts()
