"""Rewards of programs: what is one, and that nothing else ever is, not even 0."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rover.sandbox.protocol import Entry, Snapshot
from rover.verify.links import inside
from rover.verify.program import environment, failures
from rover.verify.reward import MOST_BYTES, NoReward, number, parse, rewards_of
from rover_store.ids import blob_id
from rover_store.records import Program

FOLDER = "logs/verifier"


def laid(**files: bytes) -> Snapshot:
    """A snapshot with `reward_json` and `reward_txt`."""
    named = {f"{FOLDER}/{name.replace('_', '.')}": data for name, data in files.items()}
    entries = {path: Entry(blob_id(data), len(data)) for path, data in named.items()}
    return Snapshot(entries, {blob_id(data): data for data in named.values()})


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"reward": 1}', {"reward": 1.0}),
        (b' {"a": 0.5, "b": 0}\n', {"a": 0.5, "b": 0.0}),
        (b'\xef\xbb\xbf{"reward": 1e-3}', {"reward": 0.001}),
        (b'{"reward": -0.0}', {"reward": 0.0}),
    ],
)
def test_objects_of_numbers(data: bytes, said: dict[str, float]) -> None:
    assert parse(data) == said
    assert str(parse(data)) == str(said), "no minus zero"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is empty"),
        (b"  \n", "is empty"),
        (b"{", "not valid JSON"),
        (b"[1]", "a list, not an object"),
        (b"1.0", "holds 1, not an object"),
        (b"true", "holds true, not an object"),
        (b"{}", "holds no reward"),
        (b'{"reward": true}', "is true, not a number"),
        (b'{"reward": null}', "is null, not a number"),
        (b'{"reward": "1"}', 'is "1", not a number'),
        (b'{"reward": {"a": 1}}', "is an object, not a number"),
        (b'{"reward": [1]}', "is a list, not a number"),
        (b'{"reward": NaN}', "is nan, not in"),
        (b'{"reward": Infinity}', "is inf, not in"),
        (b'{"reward": 1e400}', "is inf, not in"),
        (b'{"reward": 2.5}', "is 2.5, not in"),
        (b'{"reward": -1}', "is -1, not in"),
        (b'{"reward": 1' + b"0" * 9000 + b"}", "not valid JSON"),
        (b'{"a": 1, "a": 0}', "'a' twice"),
        (b'{"reward": "\xff"}', "not UTF-8"),
        (b"[" * 100_000, "not valid JSON"),
    ],
)
def test_what_is_no_reward_json(data: bytes, why: str) -> None:
    with pytest.raises(NoReward, match=r"reward\.json") as raised:
        parse(data)
    assert why in str(raised.value)
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize(
    ("data", "said"), [(b"1", 1.0), (b" 0.25\n", 0.25), (b"+1e0", 1.0), (b".5", 0.5), (b"-0", 0.0)]
)
def test_numbers(data: bytes, said: float) -> None:
    assert str(number(data)) == str(said)


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", b"NaN", b"inf", b"true", b"1 1", b"0x1", b"1_0", b"2.5", b"-1", b'"1"', b"\xff", b"1e400", b"yes"],
)
def test_what_is_no_number(data: bytes) -> None:
    with pytest.raises(NoReward, match=r"reward\.txt"):
        number(data)


@given(st.dictionaries(st.text(max_size=5), st.floats(), max_size=4))
def test_what_is_read_is_in_range(values: dict[str, float]) -> None:
    import json

    try:
        found = parse(json.dumps(values).encode())
    except NoReward:
        assert not values or any(not 0 <= v <= 1 for v in values.values())
    else:
        assert found == values


def test_json_comes_before_text() -> None:
    assert rewards_of(laid(reward_json=b'{"a": 1, "b": 0}', reward_txt=b"0.5"), FOLDER, {}) == {"a": 1.0, "b": 0.0}
    assert rewards_of(laid(reward_txt=b"0.5"), FOLDER, {}) == {"reward": 0.5}


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"reward_json": b'{"reward": 1}', "reward_txt": b"0"}, "says 1 and reward.txt says 0"),
        ({"reward_json": b'{"a": 1, "b": 0}', "reward_txt": b"1"}, "says 0.5 and reward.txt says 1"),
        ({"reward_json": b'{"reward": 1}', "reward_txt": b"yes"}, "not a number"),
        ({}, "wrote neither"),
        ({"reward_txt": b""}, "is empty"),
        ({"reward_json": b" " * (MOST_BYTES + 1)}, "too large"),
    ],
)
def test_files_that_part(files: dict[str, bytes], why: str) -> None:
    with pytest.raises(NoReward, match=why):
        rewards_of(laid(**files), FOLDER, {})


def test_files_that_are_none() -> None:
    link = Snapshot({f"{FOLDER}/reward.json": Entry("0" * 40, 5, "link")})
    pipe = Snapshot({}, {}, {f"{FOLDER}/reward.txt": "not a file, folder or link"})
    folder = Snapshot({f"{FOLDER}/reward.json/x": Entry("0" * 40, 5)})
    for snapshot, why in ((link, "a link"), (pipe, "no plain file"), (folder, "a folder")):
        with pytest.raises(NoReward, match=why):
            rewards_of(snapshot, FOLDER, {})


def test_a_reward_may_say_what_another_file_says() -> None:
    """A snapshot brings along only bytes that are new."""
    whole = laid(reward_txt=b"1\n")
    assert rewards_of(Snapshot(whole.entries), FOLDER, {"app/one.txt": b"1\n"}) == {"reward": 1.0}


def test_variables_that_nobody_states() -> None:
    said = Program(argv=("x",), env={"A": "1", "B": "${B:-two}", "C": "x ${D}"})
    assert environment(said) == ({"A": "1", "B": "two", "C": "x ${D}"}, "")
    assert environment(Program(argv=("x",), env={"K": "${API_KEY}"})) == ({}, "API_KEY")


def test_links_that_stay_inside() -> None:
    files = ["a/b.txt", "c.txt", "d/e/f.txt"]
    targets = {
        "one": b"c.txt", "a/two": b"../c.txt", "three": b"/app/d", "d/four": b"e/f.txt", "five": b"one",
        "out": b"../tests", "far": b"/tests/x", "gone": b"nothing", "loop": b"loop", "ping": b"pong", "pong": b"ping",
        "root": b"/app", "back": b"root/../tests", "empty": b"", "odd": b"\xff", "deep": b"three/e/f.txt",
    }  # fmt: skip
    found = inside(targets, files, "/app").links
    assert found == {
        "one": "c.txt", "a/two": "../c.txt", "three": "d", "d/four": "e/f.txt", "five": "one", "root": ".",
        "deep": "three/e/f.txt",
    }  # fmt: skip
    assert "three" not in inside(targets, files, "").links, "without a workdir nothing absolute is inside"


def test_what_failed_is_said_without_what_moves() -> None:
    from rover.sandbox.protocol import Completed

    out = b"x\nFAILED test_a.py::test_b - AssertionError: <A at 0x7f00aabb>\n1 failed in 0.31s\nE   assert 1 == 2\n"
    done = Completed(1, out, b"FileNotFoundError: /tmp/abc123/x\n")
    said = failures(done)
    assert said == "; FAILED test_a.py::test_b - AssertionError: <A at ...>; E assert 1 == 2; FileNotFoundError: ..."
