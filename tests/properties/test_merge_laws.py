"""Laws of merging: nothing invented, nothing lost, no side preferred; text as git merges it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rover_store.diffs.fields import same
from rover_store.merging.fields import ABSENT, at, merge_values, put
from rover_store.merging.text import clean, marked, markers, merge_text

scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "b"]) | st.sampled_from([1.0, 1.5])
members = st.builds(lambda i, v: {"id": i, "v": v}, st.sampled_from("abcd"), scalars)
keyed = st.lists(members, max_size=4, unique_by=lambda m: m["id"])
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: keyed | st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from("pqr"), values, max_size=3)
texts = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "d\n"]), max_size=9).map("".join)


@given(values, values)
def test_one_side_that_changed_wins(base: Any, other: Any) -> None:
    assert merge_values(base, base, other) == (other, [])
    assert merge_values(base, other, base) == (other, [])
    assert merge_values(base, other, other) == (other, [])


@given(objects, objects, objects)
def test_sides_are_alike(base: Any, ours: Any, theirs: Any) -> None:
    value, found = merge_values(base, ours, theirs)
    mirror, other = merge_values(base, theirs, ours, lambda c: c.theirs)
    assert sorted(map(repr, (c.path for c in found))) == sorted(map(repr, (c.path for c in other)))
    assert not found or all(same(at(value, c.path), c.ours) for c in found if c.path and "(order)" not in c.path)
    if not found:
        assert json.dumps(_unordered(value), sort_keys=True) == json.dumps(_unordered(mirror), sort_keys=True)


def _unordered(value: Any) -> Any:
    """Members that both sides added have no order of their own: ours stand first."""
    if isinstance(value, dict):
        return {k: _unordered(v) for k, v in value.items()}
    if isinstance(value, list):
        return sorted((_unordered(v) for v in value), key=lambda v: json.dumps(v, sort_keys=True))
    return value


@given(objects, objects, objects)
def test_choosing_a_side_of_every_conflict_leaves_none(base: Any, ours: Any, theirs: Any) -> None:
    value, found = merge_values(base, ours, theirs)
    for conflict in found:
        if "(order)" not in conflict.path:
            value = put(value, conflict.path, conflict.theirs)
            assert same(at(value, conflict.path), conflict.theirs) or conflict.theirs is ABSENT


@given(texts, texts, texts)
def test_text_keeps_every_line_of_an_agreed_change(base: str, ours: str, theirs: str) -> None:
    chunks = merge_text(base, ours, theirs)
    text = clean(chunks)
    if ours == base:
        assert text == theirs
    if theirs in (base, ours):
        assert text == ours
    assert (text is None) == bool(markers(marked(chunks)))
    assert clean(merge_text(base, theirs, ours)) == text


@pytest.mark.parametrize("seed", range(5))
def test_text_as_git_merges_it(tmp_path: Path, seed: int) -> None:
    import random

    rng = random.Random(seed)
    for _ in range(12):
        base = [f"line {rng.randrange(40)}\n" for _ in range(rng.randrange(20))]
        sides = [_edited(base, rng) for _ in range(2)]
        for name, text in zip(("ours", "base", "theirs"), (sides[0], base, sides[1]), strict=True):
            (tmp_path / name).write_text("".join(text))
        command = ["git", "merge-file", "-p", "--diff3", "ours", "base", "theirs"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        chunks = merge_text("".join(base), "".join(sides[0]), "".join(sides[1]))
        assert clean(chunks) == (None if done.returncode else done.stdout)


def _edited(base: list[str], rng: Any) -> list[str]:
    out = list(base)
    for _ in range(rng.randrange(4)):
        at_ = rng.randrange(len(out) + 1)
        if rng.random() < 0.4:
            out.insert(at_, f"new {rng.randrange(5)}\n")
        elif at_ < len(out):
            out[at_ : at_ + 1] = [] if rng.random() < 0.5 else [f"changed {rng.randrange(9)}\n"]
    return out
