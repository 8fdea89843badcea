"""Demonstrations of a commit: what is kept, stale and unverified, from the packages and from the evidence."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import pytest
from learnable import Place, demonstration, tagged, with_demonstrations
from store_samples import edit, new_store

from rover.policy.protocol import PolicyView
from rover.rollout.demonstrations import counted, path_of
from rover_store.errors import NotFound, PackageError, UsageError
from rover_store.records import Pilot, PilotCount, Trajectory
from rover_store.store import Store
from rover_store.trees import EMPTY_TREE
from rover_train.dataset import build
from rover_train.dataset.curate import CurationSettings
from rover_train.dataset.demonstrations import Rate, demonstrations, require
from rover_train.dataset.evidence import by_evidence
from rover_train.dataset.prompts import prompts, views
from rover_train.render import Renderer, TemplateDrift
from rover_train.rows import Row
from rover_train.train.material import material


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = new_store(tmp_path / "s")
    tagged(store, {"one": Place("a"), "two": Place("a"), "three": Place("b")})
    return store


def test_kept_with_versions_and_rates(store: Store) -> None:
    one = store.package("one")
    some = [demonstration(one, seed) for seed in (1, 2)]
    commit = with_demonstrations(store, {"one": some}, {"one": (2, 5)})
    found = demonstrations(store, commit)
    assert found.revision == commit
    assert sorted(d.rollout for d in some) == [d.rollout for d in found.kept]
    assert found.kept[0].versions == one.components
    assert (found.kept[0].workspace, found.kept[0].policy) == ("a", "scripted:test")
    assert found.rates["one"] == Rate(5, 2)
    assert (found.rates["one"].value, found.rates["two"].value) == (0.4, None)
    assert found.without == ("three", "two")
    assert demonstrations(store, commit, ["three"]).kept == ()
    assert store.package("one").components == one.components
    assert store.stale() == []


def test_the_commit_pins_what_is_read(store: Store) -> None:
    before = with_demonstrations(store, {"one": [demonstration(store.package("one"), 1)]})
    with_demonstrations(store, {"one": [demonstration(store.package("one"), 2)]})
    assert len(demonstrations(store, before).kept) == 1
    assert len(demonstrations(store, "HEAD").kept) == 2


def test_stale_ones_are_counted_by_component(store: Store) -> None:
    some = {name: [demonstration(store.package(name))] for name in ("one", "two", "three")}
    with_demonstrations(store, some, {"one": (1, 1)})
    edit(store, "one", {"task/instruction.md": b"Do something else.\n"})
    edit(store, "two", {"verifier/checks/main.py": b"def ok(ev):\n    return 0.5\n", "context/files/data.csv": b"a\n"})
    found = demonstrations(store, "HEAD")
    assert [d.package for d in found.kept] == ["three"]
    assert (found.stale, dict(found.stale_by)) == (2, {"context": 1, "task": 1, "verifier": 1})
    assert found.rates["one"] == Rate()
    edit(store, "three", {"harness/harness.json": None})
    edit(store, "three", {"harness/harness.json": b'{"schema_version": 1, "tools": ["read_table"]}\n'})
    with pytest.raises(UsageError, match=r"no verified demonstrations: 3 are stale \(1 by context, 1 by task, 1 by h"):
        require(demonstrations(store, "HEAD"))


def test_under_another_name_a_rollout_counts_no_second_time(store: Store) -> None:
    one = demonstration(store.package("one"), 1)
    with_demonstrations(store, {"one": [one]})
    edit(store, "one", {"demonstrations/again.json": one.dump()})
    found = demonstrations(store, "HEAD")
    assert [d.rollout for d in found.kept] == [one.rollout]
    assert found.unverified == 1


def test_what_has_no_verdict_is_unverified(store: Store) -> None:
    entry = store.package("one")
    good, failed = demonstration(entry, 1), demonstration(entry, 2, outcome="failed")
    other = good.model_copy(update={"verdict": good.verdict.model_copy(update={"rollout": failed.rollout})})
    plain = good.trajectory.model_copy(update={"start": EMPTY_TREE})
    assert isinstance(plain, Trajectory)
    edit(store, "one", {
        path_of(failed.rollout): failed.dump(), "demonstrations/moved.json": other.dump(),
        "demonstrations/demonstrator.json": plain.dump(), "demonstrations/note.md": b"Seen.\n",
    })  # fmt: skip
    found = demonstrations(store, "HEAD", ["one"])
    assert (found.kept, found.unverified) == ((), 3)
    with pytest.raises(UsageError, match="3 have no verdict") as error:
        require(found, "o ne")
    assert error.value.hint == "gather some: rover collect 'o ne' --policy solver"


def test_damage_is_named(store: Store) -> None:
    one = demonstration(store.package("one"))
    edit(store, "one", {"demonstrations/x.json": one.dump().replace(b'"seed": 0', b'"seed": "none"')})
    with pytest.raises(PackageError, match=r"one/demonstrations/x\.json: "):
        demonstrations(store, "HEAD")
    edit(store, "one", {"demonstrations/x.json": b"{"})
    with pytest.raises(PackageError, match=r"one/demonstrations/x\.json: not valid JSON"):
        demonstrations(store, "HEAD")


def test_prompts_and_views(store: Store) -> None:
    assert [e.name for e in prompts(store, "HEAD")] == ["one", "three", "two"]
    assert [e.name for e in prompts(store, "HEAD", {"two", "one"})] == ["one", "two"]
    with pytest.raises(NotFound, match="package not found: four"):
        prompts(store, "HEAD", ["four"])
    (view,) = views(store, [store.package("one")])
    assert (view.instruction, [t.name for t in view.tools], view.targets) == ("Do one.", ["read_file"], ())


def test_counts_replace_those_of_the_same_policy_and_seed(store: Store) -> None:
    entry = store.package("one")

    def count(attempts: int, passed: int, seed: int = 0, policy: str = "p") -> PilotCount:
        return PilotCount(policy=policy, seed=seed, attempts=attempts, passed=passed)

    first = counted(None, entry, count(2, 1))
    more = counted(first, entry, count(4, 1))
    assert more.counts == (count(4, 1),)
    assert counted(more, entry, count(2, 1)) == more
    both = counted(counted(more, entry, count(1, 1, seed=3)), entry, count(1, 0, policy="a"))
    assert both.counts == (count(1, 0, policy="a"), count(4, 1), count(1, 1, seed=3))
    old = Pilot(components={**entry.components, "task": "0" * 40}, counts=(count(9, 9),))
    assert counted(old, entry, count(1, 1)).counts == (count(1, 1),)


def test_the_evidence_gives_what_passed_at_the_present_versions(store: Store) -> None:
    one, two = store.package("one"), store.package("two")
    made = [
        demonstration(one, 1), demonstration(one, 2), demonstration(one, 3, said="other"),
        demonstration(one, 4, outcome="failed", said="no"), demonstration(one, 5, policy="null:echo", said="null"),
        demonstration(one, 6, outcome="verifier_error"), demonstration(two, 7),
    ]  # fmt: skip
    store.evidence.put([(d.trajectory, {}, {EMPTY_TREE: {}}) for d in made], [d.verdict for d in made])
    edit(store, "two", {"task/instruction.md": b"Do something else.\n"})
    found = {f.entry.name: f for f in by_evidence(store, prompts(store, "HEAD"))}
    assert {d.trajectory.final_message for d in found["one"].demos} == {"done", "other"}
    assert len(found["one"].demos) == 2
    assert found["one"].rate == Rate(4, 3)
    assert (found["two"].demos, found["two"].stale, found["two"].workspace) == ((), (("task",),), "a")
    assert found["three"].rate == Rate()
    nobody = {f.entry.name: f for f in by_evidence(store, prompts(store, "HEAD"), "openai:*")}
    assert nobody["one"].demos == ()


class Drifting:
    """A renderer whose template rewrites what was said."""

    def demonstration(self, view: PolicyView, trajectory: Trajectory) -> tuple[Row, ...]:
        raise TemplateDrift(1, "said so", "said no")


def test_a_template_that_rewrites_a_demonstration_names_its_package(store: Store, tmp_path: Path) -> None:
    commit = with_demonstrations(store, {"one": [demonstration(store.package("one"), 1)]})
    line = "^demonstration of one: the chat template rewrites earlier text after turn 1"
    with pytest.raises(TemplateDrift) as found:
        material(store, commit, ["one"], CurationSettings(), cast(Renderer, Drifting()))
    assert re.match(line, found.value.message)
    pytest.importorskip("datasets")
    with pytest.raises(TemplateDrift) as found:
        build.write(build.Selection(store, commit), tmp_path / "out", renderer=Drifting())
    assert re.match(line, found.value.message)
    assert not (tmp_path / "out").exists()
