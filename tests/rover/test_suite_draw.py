"""Suite specs, and the cases that are drawn from them before anything runs: even at any length, apart by split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from rover.bench.suites.draw import Drawer, Slot, Sort, chosen, seeds, sets
from rover.bench.suites.spec import BUILT_IN, Spec, base_seed, folders, load, parse
from rover.diagnose.inject.registry import singles
from rover_store.errors import NotFound, PackageError, UsageError
from rover_store.ids import digest

KINDS = tuple(f"{letter}{n}" for letter in "cthv" for n in range(3))
SETS: dict[Sort, list[tuple[str, ...]]] = {
    "unfixable": [("lost",), ("spoilt",)],
    "single": [(k,) for k in KINDS],
    "pair": [(a, b) for a in KINDS for b in KINDS if a[0] < b[0]],
    "triple": [(a, b, c) for a in KINDS for b in KINDS for c in KINDS if a[0] < b[0] < c[0]],
}


class Toy(NamedTuple):
    name: str
    workspace: str


BASES = [Toy(f"{w}-{n}", w) for w in "abcd" for n in range(4)]


def mark(base: Toy, kinds: Sequence[str], seed: int) -> str | None:
    """A kind `h1` finds no hold in packages of the workspace `a`; all else differs by seed."""
    return None if base.workspace == "a" and "h1" in kinds else digest([base.name, *kinds, seed % 7])


def drawn(count: int, *, seed: int = 0, split: str = "development") -> list[Slot]:
    spec = Spec.model_validate({"name": "toy", "workspaces": {"development": ["a"], "held-out": ["b"]}})
    return Drawer(spec, split, seed, BASES, mark, SETS).draw(count)  # type: ignore[arg-type]


def test_every_beginning_is_balanced() -> None:
    """Labels follow their shares to within one case, kinds and workspaces to within a few, wherever one stops."""
    slots = drawn(300)
    for length in (40, 120, 200, 300):
        part = slots[:length]
        labels = Counter(s.label for s in part)
        assert labels["decoy"] >= 0.15 * length
        assert abs(labels["decoy"] - 0.16 * length) <= 1
        assert abs(labels["unfixable"] - 0.06 * length) <= 1
        for sort in ("single", "pair", "triple"):
            uses = Counter(k for s in part if s.sort == sort for k in s.kinds)
            assert max(uses.values()) - min(uses[k] for k in KINDS) <= 3, (length, sort)
        places = Counter(s.base[0] for s in part)
        assert max(places.values()) - min(places.values()) <= 2, length


def test_a_longer_list_begins_with_the_shorter_one() -> None:
    assert drawn(90)[:30] == drawn(30)


def test_no_case_comes_twice_and_a_kind_without_hold_goes_elsewhere() -> None:
    slots = [s for s in drawn(300) if s.kinds]
    assert len({(s.base, s.kinds, s.seed % 7) for s in slots}) == len(slots)
    assert not [s for s in slots if "h1" in s.kinds and s.base.startswith("a")]


def test_the_splits_share_no_seed() -> None:
    spec = load("controlled")[0]
    ours = {base_seed("development", n) for n in range(50)}
    theirs = {base_seed("held-out", n) for n in range(50)}
    assert not ours & theirs
    here, there = (
        {next(seeds(spec, split, 0, n, ("a",), "x")) for n in range(50)} for split in ("development", "held-out")  # type: ignore[arg-type]
    )
    assert len(here) == len(there) == 50
    assert not here & there
    assert [s.seed for s in drawn(20)] != [s.seed for s in drawn(20, seed=1)]


def test_pairs_and_triples_are_over_different_components() -> None:
    found = sets(singles())
    known = {k.kind: k for k in singles()}
    assert len(found["pair"]) > 20
    for sort, size in (("pair", 2), ("triple", 3)):
        for kinds in found[sort]:  # type: ignore[index]
            assert len({c for k in kinds for c in known[k].components}) == size
    assert all(known[k].fixable for (k,) in found["single"])


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_specs(name: str) -> None:
    spec, beside = load(name)
    assert spec.name == name
    assert spec.decoys >= 0.15
    assert chosen(spec)
    for split in ("development", "held-out"):
        places = folders(spec, split, beside)  # type: ignore[arg-type]
        assert len(places) >= 4
        assert all(any(p.path.iterdir()) for p in places)


WRONG = {
    "name = 3": "name",
    "name = 'x'": "workspaces",
    "name = 'x'\ndecoys = 2.0\n[workspaces]": "decoys",
    "name = 'x'\nsurprise = 1\n[workspaces]": "surprise",
    "name = 'x'\n[workspaces]\ndevelopment = ['a']\nheld-out = ['a']": "workspaces",
    "name = 'x'\ndecoys = 0.9\nunfixable = 0.2\n[workspaces]": "decoys",
    "name = 'x'\nsingle = 0\npair = 0\ntriple = 0\n[workspaces]": "single",
    "name = 'x'\n[workspaces]\ndevelopment = ['']": "workspaces.development",
    "name = 'x'\n[workspaces]\nheld-out = ['a', 'a']": "workspaces.held-out",
    "name = 'x'\nkinds = ['wrong_anchor']\nwithout = ['wrong_anchor']\n[workspaces]": "without",
    "name = 'x": "",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_spec_is_one_line(text: str) -> None:
    with pytest.raises(PackageError) as error:
        parse(text.encode(), "my.toml")
    assert error.value.file == "my.toml"
    assert error.value.field == WRONG[text]
    assert "\n" not in error.value.message


def test_what_a_spec_names_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="spec"):
        load(str(tmp_path / "none.toml"))
    spec = parse(b"name = 'x'\nwithout = ['no_such']\n[workspaces]\ndevelopment = ['nowhere']", "my.toml")
    with pytest.raises(UsageError, match="no_such"):
        chosen(spec)
    with pytest.raises(NotFound, match="workspace"):
        folders(spec, "development", tmp_path)
    with pytest.raises(UsageError, match="held-out"):
        folders(spec, "held-out", tmp_path)
    (tmp_path / "nowhere").mkdir()
    assert folders(spec, "development", tmp_path)[0].path == tmp_path / "nowhere"
