"""The relay's parts: requests from bytes however they come, messages with limits, the filter's program."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rover.harness.relay import frames, guard, http
from rover.harness.relay.inside import _filled


def parsed(pieces: list[bytes]) -> list[http.Request]:
    parser, found = http.Parser(), []
    for piece in pieces:
        parser.feed(piece)
        while (request := parser.next()) is not None:
            found.append(request)
    return found


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(p % (len(data) + 1) for p in places)})
    return [data[a:b] for a, b in pairwise(edges)]


@st.composite
def requests(draw: st.DrawFn) -> tuple[bytes, str, str, bytes]:
    method, path = draw(st.sampled_from(["GET", "POST", "HEAD"])), draw(st.sampled_from(["/v1/models", "/a?b=c"]))
    body = draw(st.binary(max_size=300))
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nX-Odd: a: b \r\n".encode()
    if draw(st.booleans()):
        return head + b"content-length: %d\r\n\r\n" % len(body) + body, method, path, body
    sizes, rest, chunks = draw(st.lists(st.integers(1, 90), max_size=5)), body, b""
    for size in [*sizes, 1000]:
        piece, rest = rest[:size], rest[size:]
        if piece:
            chunks += b"%x;note\r\n%s\r\n" % (len(piece), piece)
    return head + b"Transfer-Encoding: Chunked\r\n\r\n" + chunks + b"0\r\n\r\n", method, path, body


@given(st.lists(requests(), min_size=1, max_size=4), st.lists(st.integers(0, 1 << 16), max_size=12))
@settings(max_examples=60, deadline=None)
def test_requests_are_the_same_however_cut(sent: list[tuple[bytes, str, str, bytes]], places: list[int]) -> None:
    found = parsed(cut(b"".join(data for data, *_ in sent), places))
    assert [(r.method, r.path, r.body) for r in found] == [(method, path, body) for _, method, path, body in sent]
    assert all(r.keep for r in found)


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=6))
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_requests_a_refusal_or_not_whole(data: bytes, places: list[int]) -> None:
    parser, bad = http.Parser(), None
    try:
        for piece in cut(b"POST / HTTP/1.1\r\n" + data, places):
            parser.feed(piece)
            while parser.next() is not None:
                pass
    except http.Bad as error:
        bad = error
    assert bad is None or 400 <= bad.status < 600
    assert parser.held <= http.MAX_HEAD + http.MAX_BODY + 1000


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (http.MAX_BODY + 1), 413),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffff\r\n" + b"x" * 10, 413),
        (b"x" * (http.MAX_HEAD + 5), 431),
        (b"GET /\0 HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: +5\r\n\r\n12345", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
    ],
)
def test_what_is_too_much_or_unsound(data: bytes, status: int) -> None:
    with pytest.raises(http.Bad) as caught:
        parsed([data])
    assert caught.value.status == status


def test_what_decides_whether_a_connection_stays() -> None:
    for line, keep in ((b"", True), (b"Connection: Close\r\n", False)):
        assert parsed([b"GET / HTTP/1.1\r\n" + line + b"\r\n"])[0].keep is keep
    assert parsed([b"GET / HTTP/1.0\r\n\r\n"])[0].keep is False
    assert b"Connection: close" in http.answer(400, "text/plain", b"no", False)
    assert http.answer(200, "text/plain", b"body", True, head_only=True).endswith(b"Content-Length: 4\r\n"
        b"Cache-Control: no-store\r\nConnection: keep-alive\r\n\r\n")  # fmt: skip


@given(st.lists(st.tuples(st.dictionaries(st.text(max_size=5), st.integers()), st.binary(max_size=50)), max_size=5),
       st.lists(st.integers(0, 1 << 12), max_size=10))  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_messages_are_the_same_however_cut(sent: list[tuple[dict[str, int], bytes]], places: list[int]) -> None:
    incoming = frames.Incoming(1 << 10)
    data = b"".join(frames.pack(head, body) for head, body in sent)
    found = [message for piece in cut(data, places) for message in incoming.feed(piece)]
    assert found == [frames.Message(head, body) for head, body in sent]


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">II", frames.MAX_HEAD + 1, 0),
        struct.pack(">II", 2, 2000) + b"{}",
        struct.pack(">II", 3, 0) + b"nil",
        struct.pack(">II", 2, 0) + b"[]",
        struct.pack(">II", 60_000, 0) + b"[" * 60_000,
        struct.pack(">II", 2, 0) + b"\xff\xff",
    ],
)
def test_what_is_no_message_is_broken(data: bytes) -> None:
    with pytest.raises(frames.Broken):
        frames.Incoming(1000).feed(data)


def test_marks_are_filled_in_one_pass() -> None:
    fill = {"{instruction}": "{model} {instruction}", "{instruction_file}": "/f", "{model}": "m"}
    assert _filled("a{instruction}b{model}{other}{", fill) == "a{model} {instruction}bm{other}{"
    assert _filled("{instruction_file}", fill) == "/f"


def _decide(program: bytes, number: int, *arguments: int, arch: int = 0xC000003E) -> int:
    """What a filter returns for a system call: the few instructions that it is made of, played."""
    data = struct.pack("<iIQ6Q", number, arch, 0, *(a & (1 << 64) - 1 for a in (*arguments, *[0] * 6)[:6]))
    loaded, at = 0, 0
    while True:
        code, yes, no, k = struct.unpack_from("HBBI", program, at * 8)
        at += 1
        if code == 0x20:
            loaded = struct.unpack_from("<I", data, k)[0]
        elif code == 0x06:
            return k
        else:
            if code == 0x54:
                loaded &= k
                continue
            hit = loaded == k if code == 0x15 else loaded >= k
            at += yes if hit else no


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_forbids_ends_of_the_protected_alone(machine: str) -> None:
    program = guard.build([10, 20], machine)
    arch, column = (0xC000003E, 0) if machine == "x86_64" else (0xC00000B7, 1)
    number = {name: numbers[column] for name, numbers in guard._NUMBERS.items()}
    allow, deny = guard.ALLOW, guard.ERRNO | guard.EPERM

    def says(name: str, *arguments: int) -> int:
        return _decide(program, number[name], *arguments, arch=arch)

    for target in (10, 20, -10, -20, 0, -1):
        assert (says("kill", target, 9), says("kill", target, 15)) == (deny, allow)
    assert (says("kill", 11, 9), says("kill", -11, 9)) == (allow, allow)
    for name, place in guard._SIGNALS.items():
        assert says(name, *[9] * (place + 1)) == deny
        assert says(name, *[9] * place, 15) == allow
    assert [says("fcntl", 0, 10, 9), says("fcntl", 0, 10, 29), says("fcntl", 0, 1, 9)] == [deny, allow, allow]
    assert [says("prlimit64", pid) for pid in (0, 10, 20, 30)] == [allow, deny, deny, allow]
    new = (0, 1 << 12, 1 << 32)  # none, and addresses, one with nothing in its low half
    assert [says("prlimit64", 0, 0, at) for at in new] == [allow, deny, deny]
    assert [says("prlimit64", 30, 15, at) for at in new] == [allow, deny, deny]
    assert says("prlimit64", 0, 7, 1 << 12) == allow
    assert [says("setrlimit", limit) for limit in (0, 15, 7)] == [deny, deny, allow]
    assert [says("clone", flags) for flags in (17, 0x3D0F00, 9, 0x4000 | 9)] == [allow, allow, deny, deny]
    for name in ("clone3", "timer_create", "mq_notify"):
        assert says(name) == guard.ERRNO | guard.ENOSYS
    assert _decide(program, 39 if column == 0 else 172, arch=arch) == allow
    assert _decide(program, number["kill"], 10, 9, arch=0x40000003) == guard.ERRNO | guard.ENOSYS
    assert guard.build([1], "riscv64") == b""
