"""Curation: by completion rate, by normalised prefix, by bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from learnable import Place, demonstration, tagged
from store_samples import new_store

from rover_store.errors import UsageError
from rover_store.layout import PackageEntry
from rover_train.dataset.curate import CurationSettings, Curator, characters, settings_of
from rover_train.dataset.demonstrations import Demo, Rate


@pytest.fixture
def entry(tmp_path: Path) -> PackageEntry:
    store = new_store(tmp_path / "s")
    tagged(store, {"one": Place("a")})
    return store.package("one")


def demo(entry: PackageEntry, seed: int = 0, **form: Any) -> Demo:
    made = demonstration(entry, seed, **form)
    return Demo(entry.name, "a", made.trajectory, made.verdict, dict(entry.components), "p", made.rollout)


def test_bands() -> None:
    curator = Curator()
    assert [curator.band(Rate(*r)) for r in ((0, 0), (4, 4), (4, 2), (20, 1), (21, 1), (4, 0), (3, 0))] == [
        "uncounted", "always", "middle", "middle", "low", "low", "middle",
    ]  # fmt: skip


def test_one_for_each_prefix_where_a_package_is_always_solved(entry: PackageEntry) -> None:
    curator = Curator(CurationSettings(prefix_turns=2))
    some = [
        demo(entry, 1), demo(entry, 2, turns=3, said="later turns differ"), demo(entry, 3, output="  A,B "),
        demo(entry, 4, output="c"),
    ]  # fmt: skip
    first = curator("Do  IT.", some, Rate(4, 4))
    assert ([d.trajectory.key.seed for d in first.kept], first.dropped) == ([1, 4], {"prefix": 2})
    again = curator("do it.", some[:1], Rate(1, 1))
    assert (again.kept, again.dropped) == ((), {"prefix": 1})
    assert len(curator("do that.", some[:1], Rate(1, 1)).kept) == 1


def test_numbers_may_count_alike(entry: PackageEntry) -> None:
    for alike, kept in ((False, 2), (True, 1)):
        curator = Curator(CurationSettings(numbers_alike=alike))
        said = [curator(f"Raise it to {n}.", [demo(entry, n, output=f"at {n}.5")], Rate(1, 1)) for n in (3, 40)]
        assert sum(len(c.kept) for c in said) == kept


def test_several_in_the_middle_band_new_prefixes_first(entry: PackageEntry) -> None:
    curator = Curator(CurationSettings(several=2))
    some = [demo(entry, 1), demo(entry, 2, said="the same so far"), demo(entry, 3, output="c")]
    found = curator("Do it.", some, Rate(6, 3))
    assert [d.trajectory.key.seed for d in found.kept] == [1, 3]
    assert (found.dropped, found.band) == ({"several": 1}, "middle")


def test_none_where_hardly_ever_solved(entry: PackageEntry) -> None:
    found = Curator()("Do it.", [demo(entry)], Rate(100, 1))
    assert (found.kept, found.band, found.dropped) == ((), "low", {"low": 1})


@pytest.mark.parametrize(
    ("settings", "reason"),
    [({"turns": (3, 9)}, "turns"), ({"turns": (0, 1)}, "turns"), ({"calls": (3, 9)}, "calls"),
     ({"characters": 10}, "characters")],
)  # fmt: skip
def test_bounds(entry: PackageEntry, settings: dict[str, Any], reason: str) -> None:
    found = Curator(CurationSettings(**settings))("Do it.", [demo(entry)], Rate())
    assert (found.kept, found.dropped) == ((), {reason: 1})


def test_characters_are_those_of_messages_arguments_and_outputs(entry: PackageEntry) -> None:
    arguments = len('{"path": "data.csv", "offset": 0}')
    assert characters(demo(entry, turns=2, said="done", output="abc").trajectory) == 4 + 2 * (3 + arguments)


def test_settings_as_typed() -> None:
    assert settings_of(["several=2", "turns=[1, 9]"]) == CurationSettings(several=2, turns=(1, 9))
    for text, words in (("severl=2", "severl: no such key"), ("several=0", "several: "), ("several", "KEY=VALUE")):
        with pytest.raises(UsageError, match=words):
            settings_of([text])
