"""Splitting packages: whole workspaces and shared resources stay together; selection by glob and tag."""

from __future__ import annotations

from pathlib import Path

import pytest
from learnable import Place, tagged
from store_samples import new_store

from rover_store.errors import PackageError, UsageError
from rover_store.records import Split, SplitPart
from rover_store.store import Store
from rover_train import split as splits
from rover_train.selection import select


def packages(*workspaces: str, each: int = 2) -> dict[str, Place]:
    return {f"{w}-{n}": Place(w) for w in workspaces for n in range(each)}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return new_store(tmp_path / "s")


def test_workspaces_stay_whole_and_every_part_has_some(store: Store) -> None:
    commit = tagged(store, packages(*"abcdefghij", each=3))
    made = splits.make(store, "main", shares=(0.6, 0.2, 0.2), seed=4)
    assert made.revision == commit
    assert [len(made.part(p).packages) for p in splits.PARTS] == [18, 6, 6]
    assert [len(made.part(p).workspaces) for p in splits.PARTS] == [6, 2, 2]
    where = {n.split("-")[0]: p for p in splits.PARTS for n in made.part(p).packages}
    assert all(name.split("-")[0] in made.part(where[name.split("-")[0]]).workspaces
               for p in splits.PARTS for name in made.part(p).packages)  # fmt: skip
    assert made == splits.make(store, commit, shares=(0.6, 0.2, 0.2), seed=4)
    assert made.train != splits.make(store, commit, shares=(0.6, 0.2, 0.2), seed=5).train


def test_three_clusters_fill_three_parts(store: Store) -> None:
    tagged(store, {**packages("a", each=20), **packages("b", "c", each=1)})
    made = splits.make(store, "HEAD")
    assert sorted(len(made.part(p).packages) for p in splits.PARTS) == [1, 1, 20]


def test_workspaces_that_share_a_resource_are_merged(store: Store) -> None:
    places = packages("a", "b", "c", "d")
    places |= {"a-9": Place("a", ("orders",)), "b-9": Place("b", ("orders", "people")), "c-9": Place("c", ("people",))}
    tagged(store, places)
    made = splits.make(store, "HEAD", shares=(0.5, 0.5, 0), seed=1)
    assert made.merged == (("a", "b", "c"),)
    assert {made.train.workspaces, made.validation.workspaces} == {("a", "b", "c"), ("d",)}
    with pytest.raises(UsageError, match=r"2 clusters of workspaces cannot fill train, validation, held-out"):
        splits.make(store, "HEAD")


def test_packages_without_a_workspace_hang_together_by_what_they_are_made_of(store: Store) -> None:
    tagged(store, {
        "one": Place(resources=("orders",)), "two": Place(resources=("orders",)), "three": Place(source="1" * 64),
        "four": Place(source="1" * 64), "five": Place(), "six": Place(),
    })  # fmt: skip
    made = splits.make(store, "HEAD", shares=(2, 1, 1))
    parts = {name: p for p in splits.PARTS for name in made.part(p).packages}
    assert parts["one"] == parts["two"]
    assert parts["three"] == parts["four"]
    assert len(parts) == 6
    assert made.train.workspaces == ()


def test_parts_by_globs_are_checked_in_the_same_way(store: Store) -> None:
    tagged(store, {**packages("a", "b", "c"), "d-0": Place("d", ("x",)), "e-0": Place("e", ("x",))})
    made = splits.by_globs(store, "HEAD", train=["a-*", "d-*", "e-*"], validation=["b-*"], held_out=["c-*"])
    assert made.train.packages == ("a-0", "a-1", "d-0", "e-0")
    assert made.shares is None
    assert made.merged == (("d", "e"),)
    for refused, words in (
        ({"train": ["a-0"], "held_out": ["a-1"]}, "train and held-out are not apart: a-0 and a-1 share workspace:a"),
        ({"train": ["d-*"], "validation": ["e-*"]}, "d-0 and e-0 share resources/files/x"),
        ({"train": ["a-*"], "validation": ["a-0"]}, "a-0 is in both"),
        ({"train": ["zz*"]}, "train: no package of [0-9a-f]{12} matches 'zz\\*'"),
        ({"train": []}, "the train part is empty"),
    ):
        with pytest.raises(UsageError, match=words):
            splits.by_globs(store, "HEAD", **refused)


def test_selection_by_tags(store: Store) -> None:
    tagged(store, {
        "a": Place("w", level=1, family="edit"), "b": Place("w", level=2, family="edit"),
        "c": Place("x", level=2, family="memo", tags=("hard", "v2")), "d": Place("x", level=3, tags=("hard",)),
    })  # fmt: skip

    def names(*tags: str, pattern: str = "*") -> str:
        return "".join(entry.name for entry in select(store, "HEAD", pattern, tags))

    assert names() == "abcd"
    assert names("family:edit") == "ab"
    assert names("family:edit", "family:memo") == "abc"
    assert names("family:edit", "family:memo", "level:2") == "bc"
    assert names("level:[23]") == "bcd"
    assert names("hard") == "cd"
    assert names("hard", "v2") == "c"
    assert names("workspace:x", pattern="[cd]") == "cd"
    with pytest.raises(UsageError, match="has level:9") as error:
        names("level:9")
    assert "family" in error.value.hint
    with pytest.raises(UsageError, match="matches 'q'"):
        names(pattern="q")


@pytest.mark.parametrize(
    ("train", "held_out", "said"),
    [
        ((("w",), ("a", "b")), (("x",), ("b",)), "b is in train and held-out"),
        ((("w", "x"), ("a",)), (("x",), ("b",)), "workspace x is in train and held-out"),
        ((("w",), ("a", "b", "a")), (("x",), ("c",)), "a is in train twice"),
        ((("w", "w"), ("a",)), (("x",), ("c",)), "workspace w is in train twice"),
    ],
)
def test_a_record_whose_parts_are_not_apart_is_refused(
    tmp_path: Path, train: tuple[tuple[str, ...], ...], held_out: tuple[tuple[str, ...], ...], said: str
) -> None:
    parts = [SplitPart(workspaces=w, packages=p) for w, p in (train, ((), ()), held_out)]
    made = Split(revision="a" * 40, train=parts[0], validation=parts[1], held_out=parts[2])
    path = tmp_path / "split.json"
    path.write_bytes(made.dump())
    with pytest.raises(PackageError) as error:
        splits.load(path)
    assert error.value.message == f"{path}: {said}"


def test_every_split_that_is_made_can_be_read(store: Store, tmp_path: Path) -> None:
    places = {**packages("a", "b", "c", "d"), "a-9": Place("a", ("x",)), "b-9": Place("b", ("x",)), "e-9": Place()}
    tagged(store, places)
    globs = splits.by_globs(store, "HEAD", train=["[ab]-*", "a-*"], validation=["c-*"], held_out=["d-*", "e-*"])
    every = splits.make(store, "HEAD", shares=(0.5, 0.25, 0.25))
    for made in (globs, every, splits.narrowed(store, globs, pattern="a-*")):
        splits.write(made, tmp_path / "split.json")
        assert splits.load(tmp_path / "split.json") == made


def test_a_split_is_a_file(store: Store, tmp_path: Path) -> None:
    commit = tagged(store, packages("a", "b", "c"))
    made = splits.make(store, commit)
    splits.write(made, tmp_path / "split.json")
    assert splits.load(tmp_path / "split.json") == made
    chosen = splits.names_of(store, commit, "*", (), tmp_path / "split.json", "held-out")
    assert chosen == list(made.held_out.packages)
    with pytest.raises(UsageError, match="is no part of a split"):
        splits.names_of(store, commit, "*", (), tmp_path / "split.json", "test")
    later = tagged(store, packages("d"))
    with pytest.raises(UsageError, match=f"a split of {commit[:12]}, not of {later[:12]}"):
        splits.names_of(store, later, "*", (), tmp_path / "split.json", "train")
    with pytest.raises(UsageError, match="no split can be read there"):
        splits.load(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text('{"schema_version": 1, "revision": "x"}')
    with pytest.raises(PackageError, match=r"bad\.json: revision"):
        splits.load(tmp_path / "bad.json")
    with pytest.raises(UsageError, match="cannot be written"):
        splits.write(made, tmp_path / "no" / "folder.json")


@pytest.mark.parametrize("text", ["1,1", "a,b,c", "0,1,1", "-1,1,1", "1,1,1,1", "nan,1,1", "inf,1,1"])
def test_shares_that_make_no_sense(text: str) -> None:
    with pytest.raises(UsageError, match="three numbers"):
        splits.parsed_shares(text)


def test_the_record_names_its_parts(store: Store) -> None:
    tagged(store, packages("a", "b", "c"))
    made = splits.make(store, "HEAD")
    assert made.part("held-out") is made.held_out
    assert Split.load(made.dump(), "split.json") == made


def test_a_split_narrowed_to_some_packages_moves_none(store: Store) -> None:
    tagged(store, packages(*"abcdef"))
    made = splits.make(store, "HEAD", shares=(0.5, 0.25, 0.25))
    first = splits.narrowed(store, made, pattern="*-0")
    assert sum(len(first.part(p).packages) for p in splits.PARTS) == 6
    for part in splits.PARTS:
        assert set(first.part(part).packages) == {n for n in made.part(part).packages if n.endswith("-0")}
    assert first.revision == made.revision
    with pytest.raises(UsageError, match="has level:9"):
        splits.narrowed(store, made, pattern="*-0", tags=("level:9",))
    with pytest.raises(UsageError, match="no package of the split is selected by 'f-\\*'"):
        splits.narrowed(store, splits.by_globs(store, "HEAD", train=["a-*"]), pattern="f-*")
