"""Whatever is given as author, message, trailer, time or tag: it is refused, or `git fsck --strict` finds nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_samples import add, git, new_store

from rover_store.commits import AUTHOR, check_person, encode_commit, encode_tag, parse_commit, parse_tag
from rover_store.errors import UsageError
from rover_store.packs import COMMIT, TAG
from rover_store.store import Store

NOBODY = (
    "", "Ada", "<a@example.org>", " <a@example.org>", "\u2003 <a@example.org>", "Ada<a@example.org>", "Ada <a>b>",
    "A<da <a>", "A>da <a>", "Ada <a", "Ada <a> ", "Ada <a>\n", "Ada\n <a>", "Ada <a\n>", "A\0da <a>", "Ada <a\0>",
    "A\rda <a>", "Ada <a>\nparent x",
)  # fmt: skip
odd = st.text(st.sampled_from("aZ0é漢\0\n\r\t\x7f <>:-~^\ud800"), max_size=12)
people = st.sampled_from([AUTHOR, *NOBODY]) | odd | st.builds(lambda a, b: f"{a} <{b}>", odd, odd)
times = st.integers(-(1 << 70), 1 << 70) | st.sampled_from([0, 1, 253_402_300_799, 253_402_300_800, 1 << 63])
trailers = st.dictionaries(odd | st.sampled_from(["Rover-Case", "Key"]), odd, max_size=2)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = new_store(tmp_path_factory.mktemp("store"))
    add(store, "one")
    return store


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.tuples(odd, people, times, trailers, odd), min_size=20, max_size=20))
def test_what_is_not_refused_passes_fsck(store: Store, rows: list[tuple[Any, ...]]) -> None:
    kept, tree = [], store.commit("HEAD").tree
    with store.write("odd") as tx:
        tip = old = tx.ref("refs/heads/main")
        for message, person, time, more, name in rows:
            try:
                data = encode_commit(tree, [tip], message, person, time, more)
            except UsageError:
                data = encode_commit(tree, [tip], message, AUTHOR, 0)
            tip = tx.add(COMMIT, data)
            kept.append(parse_commit(tip, data).message)
            try:
                tagged = encode_tag(tip, name or "v", message, person, time)
            except UsageError:
                tagged = encode_tag(tip, "v", message, AUTHOR, 253_402_300_799)
            tx.add(TAG, tagged)
            assert parse_tag("0" * 40, tagged)[:2] == (tip, "commit")
        tx.promote("main", tip, expect=old)
    assert all("\0" not in message for message in kept)
    found = git(store.git, "fsck", "--strict", "--no-dangling", "--full")
    assert "error" not in found


@pytest.mark.parametrize("person", NOBODY)
def test_no_person(person: str) -> None:
    with pytest.raises(UsageError, match="is not of the form 'Name <address>'"):
        check_person(person)


@pytest.mark.parametrize("time", [-1, 253_402_300_800, 1 << 63, float("nan"), float("inf")])
def test_no_time(time: int, tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    before = store.refs.all("refs/")
    with store.write("x") as tx:
        tx.set_resource("files/a", tx.tree({"resource.json": b"{}"}))
        with pytest.raises(UsageError, match="is not a number of seconds"):
            tx.commit("x", time=time)
    assert store.refs.all("refs/") == before


def test_a_zero_byte_is_replaced(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, "one")
    with store.write("a\0b") as tx:
        tx.set_resource("files/a", tx.tree({"resource.json": b"{}"}))
        tx.commit("Some\0thing", trailers={"Key": "a\0b"})
        tx.tag("v1", tx.ref("refs/heads/main") or "", "A\0tag")
    assert store.commit("HEAD").message == "Some\ufffdthing\n\nKey: a\ufffdb"
    git(store.git, "fsck", "--strict", "--full")
