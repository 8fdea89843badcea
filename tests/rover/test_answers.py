"""What a box's first process says is data: what has not the shape of an answer is a SandboxError."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from rover.sandbox.answers import NOT_AN_ANSWER, completed, returned, snapshot
from rover.sandbox.docker.conversation import Conversation
from rover.sandbox.docker.inside.wire import Garbled, pack
from rover.sandbox.docker.stream import Stream
from rover.sandbox.protocol import Entry
from rover_store.errors import SandboxError
from rover_store.ids import blob_id

BLOB = blob_id(b"new")


class Said(NamedTuple):
    head: dict[str, Any]
    body: bytes


def listing(**changes: Any) -> Said:
    head = {"entries": {"a/b": [BLOB, 3, "file"]}, "removed": ["old"], "new": [[BLOB, 3]], "refused": {}}
    return Said({**head, **changes}, b"new")


def test_a_sound_snapshot() -> None:
    found = snapshot(listing(), {"old": Entry(BLOB, 3), "stays": Entry(BLOB, 3)})
    assert found.entries == {"a/b": Entry(BLOB, 3), "stays": Entry(BLOB, 3)}
    assert found.new == {BLOB: b"new"}


@pytest.mark.parametrize(
    "changes",
    [
        {"entries": {"../out": [BLOB, 3, "file"]}},
        {"entries": {"/etc/passwd": [BLOB, 3, "file"]}},
        {"entries": {"a\0b": [BLOB, 3, "file"]}},
        {"entries": {"\ud800": [BLOB, 3, "file"]}},
        {"entries": {"a": ["../x", 3, "file"]}},
        {"entries": {"a": [BLOB, -3, "file"]}},
        {"entries": {"a": [BLOB, "3", "file"]}},
        {"entries": {"a": [BLOB, 3, "device"]}},
        {"entries": {"a": [BLOB, 3]}},
        {"entries": {"a": 3}},
        {"entries": ["a"]},
        {"removed": [["x"]]},
        {"new": [[BLOB, 2]]},
        {"new": [["0" * 40, 3]]},
        {"new": [7]},
        {"refused": []},
        {"refused": None},
    ],
)
def test_snapshots_that_are_none(changes: dict[str, Any]) -> None:
    with pytest.raises((SandboxError, *NOT_AN_ANSWER)):
        snapshot(listing(**changes), {"old": Entry(BLOB, 3)})
    with pytest.raises(KeyError):
        snapshot(Said({}, b""), {})


def test_ends_that_are_none() -> None:
    end = {"status": 0, "breach": None, "cpu_s": 0.1, "wall_s": 0.2, "stdout": 1}
    assert completed(Said(end, b"ab")).stderr == b"b"
    for changes in ({"breach": "nonsense"}, {"status": "0"}, {"cpu_s": []}, {"stdout": "1"}):
        with pytest.raises(NOT_AN_ANSWER):
            completed(Said({**end, **changes}, b"ab"))
    for text in (b"", b"[" * 100_000, b"7", b'{"error": {}}', b'{"traceback": 1}'):
        found = returned({"breach": None, "status": 0}, b"", b"", text)
        assert found.error == "the call ended without a value (exit 0)"


@pytest.fixture
def pair() -> Iterator[tuple[Stream, Callable[[bytes], None]]]:
    near, far = socket.socketpair()
    stream = Stream(near)
    with near, far:
        yield stream, lambda data: far.sendall(struct.pack(">BxxxI", 1, len(data)) + data)


@pytest.mark.parametrize(
    "said",
    [
        struct.pack(">IQ", 2, 1 << 50) + b"{}",
        struct.pack(">IQ", 1 << 31, 0),
        struct.pack(">IQ", 3, 0) + b"{x}",
        struct.pack(">IQ", 2, 0) + b"[]",
        struct.pack(">IQ", 100_000, 0) + b"[" * 100_000,
    ],
)
def test_messages_that_are_none(pair: tuple[Stream, Callable[[bytes], None]], said: bytes) -> None:
    stream, say = pair
    say(said)
    with pytest.raises(Garbled):
        stream.receive(5)


def test_a_body_is_bounded_by_what_is_expected(pair: tuple[Stream, Callable[[bytes], None]]) -> None:
    stream, say = pair
    stream.most = 10
    say(b"".join(pack({}, [b"x" * 10])))
    assert stream.receive(5).body == b"x" * 10
    say(b"".join(pack({}, [b"x" * 11])))
    with pytest.raises(Garbled):
        stream.receive(5)


@pytest.mark.parametrize("head", [{"live": "ack"}, {"live": "ack", "size": -1}, {"live": "ack", "size": 1 << 40}])
def test_a_channel_takes_on_no_more_than_it_was_given(
    pair: tuple[Stream, Callable[[bytes], None]], head: dict[str, Any]
) -> None:
    stream, say = pair
    caller, channel = socket.socketpair()
    say(json_message({}) + json_message(head))
    with caller, channel, pytest.raises(Garbled):
        Conversation(stream).live({"do": "run"}, b"", channel, 5)


def test_one_answer_is_asked_for_at_a_time(pair: tuple[Stream, Callable[[bytes], None]]) -> None:
    stream, say = pair
    caller, channel = socket.socketpair()
    say(json_message({}) * 4)
    with caller, channel, pytest.raises(Garbled):
        Conversation(stream).live({"do": "run"}, b"", channel, 5)


def json_message(head: dict[str, Any]) -> bytes:
    text = json.dumps(head).encode()
    return struct.pack(">IQ", len(text), 0) + text
