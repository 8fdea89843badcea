"""The openai policy against a server on this machine that misbehaves: what is retried, what it costs, who is blamed."""

import asyncio
import gc
import json
import threading
import time
import tracemalloc
import zlib
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from rover.harness.tools import TOOLS
from rover.policy.cancellable import Cancellable
from rover.policy.openai import OpenAIPolicy, Settings
from rover.policy.protocol import MALFORMED, OutOfTime, PolicyFailure, PolicyView
from rover_store.errors import ProviderError
from rover_store.records import Call

VIEW = PolicyView("Count the rows.", (TOOLS["list_files"], TOOLS["read_table"]))
QUICK = Settings(request_s=0.4, retries=2, backoff_s=0.01, answer_bytes=100_000)


def completion(content="", calls=(), finish="stop", usage=None, **extra):
    message = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = list(calls)
    value = {"id": "x", "object": "chat.completion", "choices": [{"message": message, "finish_reason": finish}]}
    return {**value, "usage": usage or {"prompt_tokens": 11, "completion_tokens": 7}, **extra}


def call(name="list_files", arguments="{}", id="call_1"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def say(value, status=200, kind="application/json", **headers):
    """A step of a server: an ordinary answer."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()

    def step(handler):
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(body)))
        for name, text in headers.items():
            handler.send_header(name.replace("_", "-"), text)
        handler.end_headers()
        handler.wfile.write(body)

    return step


def stall(handler):
    handler.server.over.wait(5)


def hang_up(handler):
    handler.close_connection = True


def half(handler):
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "5000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    handler.close_connection = True


def for_ever(handler):
    """Bytes without end, quicker than any read timeout."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.end_headers()
    while not handler.server.over.wait(0.02):
        handler.wfile.write(b" ")
        handler.wfile.flush()


def flood(handler):
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.end_headers()
    for _ in range(200):
        handler.wfile.write(b"x" * 10_000)


def endless(handler):
    """An error whose body has no end."""
    handler.send_response(400)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    while True:
        handler.wfile.write(b"4000\r\n" + b"x" * 0x4000 + b"\r\n")


def packed(megabytes, kind="gzip"):
    """Much in little: a thousandth of what it unpacks to."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    parts = [packer.compress(b"x" * (1 << 20)) for _ in range(megabytes)]
    return b"".join([*parts, packer.flush()]), {"Content_Encoding": kind}


@contextmanager
def server(*steps):
    """A server that answers by these steps, the last one again and again. Gives its URL and what it was asked."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked.append((dict(self.headers), json.loads(body)))
            try:
                steps[min(len(asked), len(steps)) - 1](self)
            except OSError:
                self.close_connection = True

        def log_message(self, *args):
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    http.over = threading.Event()
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_port}/v1", asked
    finally:
        http.over.set()
        http.shutdown()
        http.server_close()
        thread.join(5)


def act(url, *, deadline_s=5.0, settings=QUICK, results=()):
    session = OpenAIPolicy("m", server=url, key="k", settings=settings).start(VIEW, 5)
    try:
        return session.act(results, deadline_s=deadline_s)
    finally:
        session.close()


def test_an_ordinary_turn():
    with server(say(completion("ok", [call(arguments='{"path": "a"}')]))) as (url, asked):
        action = act(url)
    assert [(c.id, c.tool, c.arguments) for c in action.calls] == [("call_1", "list_files", {"path": "a"})]
    assert (action.message, action.usage.prompt_tokens, action.usage.completion_tokens) == ("ok", 11, 7)
    headers, request = asked[0]
    assert {name.lower(): text for name, text in headers.items()}["authorization"] == "Bearer k"
    assert request["messages"][1] == {"role": "user", "content": "Count the rows."}
    assert [t["function"]["name"] for t in request["tools"]] == ["list_files", "read_table"]
    assert request["seed"] == 5


def test_results_go_back_under_the_ids_of_their_calls():
    with server(say(completion(calls=[call()])), say(completion("two rows"))) as (url, asked):
        session = OpenAIPolicy("m", server=url, settings=QUICK).start(VIEW, 0)
        first = session.act((), deadline_s=5)
        result = Call(id=first.calls[0].id, tool="list_files", output="a, b", truncated=True)
        assert session.act((result,), deadline_s=5).message == "two rows"
        session.close()
    assert [m["role"] for m in asked[1][1]["messages"]] == ["system", "user", "assistant", "tool"]
    assert asked[1][1]["messages"][3]["tool_call_id"] == "call_1"
    assert asked[1][1]["messages"][3]["content"].endswith("cut here]")


GOOD = say(completion("fine"))


@pytest.mark.parametrize(
    "bad",
    [
        say({"error": {"message": "oops"}}, 500),
        say({"error": {"message": "slow down"}}, 429, Retry_After="0.01"),
        say(b"{not json"),
        say(b"<html>Bad gateway</html>", kind="text/html"),
        say(completion() | {"choices": []}),
        say({"choices": [{"message": {"content": 7}}]}),
        say({"choices": [{"message": {"content": "", "tool_calls": "list_files"}}]}),
        hang_up,
        half,
        stall,
        for_ever,
    ],
    ids=["500", "429", "broken", "html", "empty", "number", "wrong-calls", "hang-up", "half", "stall", "for-ever"],
)
def test_a_fault_that_passes_is_tried_again(bad):
    with server(bad, GOOD) as (url, asked):
        assert act(url).message == "fine"
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("bad", "words", "requests"),
    [
        (say({"error": {"message": "oops"}}, 503), "HTTP 503: oops", 3),
        (say({"error": {"message": "no such model", "code": "model_not_found"}}, 404), "no such model", 1),
        (say({"error": "bad key"}, 401), "HTTP 401: bad key", 1),
        (say(b"<html>", kind="text/html"), "not a chat completion: the answer is not JSON: '<html>'", 3),
        (say([1]), "the answer is not an object", 3),
        (say({"choices": [], "error": "gone"}), 'no choices: "gone"', 3),
        (half, "", 3),
        (flood, "longer than 100000 bytes", 1),
    ],
    ids=["503", "404", "401", "html", "list", "empty", "half", "flood"],
)
def test_a_fault_that_stays_is_the_servers(bad, words, requests):
    with server(bad) as (url, asked), pytest.raises(ProviderError) as caught:
        act(url)
    assert words in caught.value.message
    assert "\n" not in caught.value.message
    assert len(asked) == requests


BOMB, AS_GZIP = packed(60)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (endless, "HTTP 400: xxx"),
        (say(BOMB, 400, **AS_GZIP), "HTTP 400: xxx"),
        (say(BOMB, 200, **AS_GZIP), "longer than 100000 bytes"),
        (say(BOMB, 307, Location="http://127.0.0.1:1/v1", **AS_GZIP), "HTTP 307: redirected to http://127.0.0.1:1/v1"),
        (say(BOMB, 401, Content_Encoding="br"), "HTTP 401: the body is encoded as 'br'"),
        (say(BOMB[:50], 200, **AS_GZIP), "ends before its gzip does"),
        (say(b"{}" * 9, 200, **AS_GZIP), "not the gzip"),
    ],
    ids=["endless", "error", "success", "redirect", "unasked", "part", "no-gzip"],
)
def test_no_body_takes_more_memory_than_its_limit(bad, words):
    tracemalloc.start()
    try:
        with server(bad) as (url, _), pytest.raises(ProviderError) as caught:
            act(url, settings=replace(QUICK, retries=0, request_s=5))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.message.startswith(f"{url}: ")
    assert words in caught.value.message
    assert len(caught.value.message) < 500
    assert most < 10 << 20


def test_a_packed_answer_is_read():
    packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    data = packer.compress(json.dumps(completion("fine")).encode()) + packer.flush()
    with server(say(data, **AS_GZIP)) as (url, asked):
        assert act(url).message == "fine"
    assert {name.lower(): text for name, text in asked[0][0].items()}["accept-encoding"] == "gzip"


@pytest.mark.parametrize(
    "said", ["path too long", "the context window is not set", "HTTP 400", "[" * 5000], ids=range(4)
)
def test_errors_that_only_sound_like_a_full_context_are_the_servers(said):
    with server(say({"error": {"message": said}}, 400)) as (url, _), pytest.raises(ProviderError, match="HTTP 400"):
        act(url)
    with server(say(said.encode(), 400)) as (url, _), pytest.raises(ProviderError, match="HTTP 400"):
        act(url)


def test_a_server_that_refuses_connections():
    with server(GOOD) as (url, _):
        pass
    with pytest.raises(ProviderError, match=r"127\.0\.0\.1"):
        act(url)


@pytest.mark.parametrize("bad", [stall, for_ever], ids=["stall", "for-ever"])
def test_the_deadline_holds_whatever_the_server_does(bad):
    began = time.monotonic()
    with server(bad) as (url, _), pytest.raises(ProviderError, match=r"no answer within the 0\.3 s that were left"):
        act(url, deadline_s=0.3, settings=Settings(request_s=30))
    assert time.monotonic() - began < 3


def test_seconds_that_end_while_a_server_that_answered_is_not_late_are_the_policy_s():
    with server(say(completion(calls=[call()])), stall) as (url, _):
        session = OpenAIPolicy("m", server=url, settings=Settings(request_s=30)).start(VIEW, 0)
        session.act((), deadline_s=5)
        with pytest.raises(OutOfTime):
            session.act((), deadline_s=0.3)
        session.close()
    with server(say(completion(calls=[call()])), stall) as (url, _):
        session = OpenAIPolicy("m", server=url, settings=Settings(request_s=0.2, retries=9)).start(VIEW, 0)
        session.act((), deadline_s=5)
        with pytest.raises(ProviderError, match=r"before: no answer within 0\.2 s"):  # this one is late
            session.act((), deadline_s=0.5)
        session.close()


def test_a_long_retry_after_does_not_outlast_the_deadline():
    began = time.monotonic()
    with server(say({}, 429, Retry_After="30")) as (url, _), pytest.raises(ProviderError, match="no answer within"):
        act(url, deadline_s=0.3)
    assert time.monotonic() - began < 3


def test_close_from_another_thread_cancels():
    with server(stall) as (url, asked):
        session = OpenAIPolicy("m", server=url, settings=Settings(request_s=30)).start(VIEW, 0)
        timer = threading.Timer(0.3, session.close)
        began = time.monotonic()
        timer.start()
        with pytest.raises(ProviderError, match="cancelled"):
            session.act((), deadline_s=30)
        session.close()
        with pytest.raises(ProviderError, match="cancelled"):
            session.act((), deadline_s=30)
    assert time.monotonic() - began < 5
    assert len(asked) == 1


def test_a_close_that_meets_a_beginning_request_cancels_it(monkeypatch):
    """Between the call and the first step of its coroutine, while the loop is made."""
    begin, made = threading.Event(), asyncio.new_event_loop

    def slow_loop():
        begin.set()
        time.sleep(0.2)
        return made()

    async def work():
        await asyncio.sleep(60)

    async def last():
        pass

    monkeypatch.setattr(asyncio.events, "new_event_loop", slow_loop)
    runner = Cancellable()
    closer = threading.Thread(target=lambda: (begin.wait(5), runner.close(last)))
    closer.start()
    with pytest.raises(ProviderError, match="cancelled"):
        runner.run(work())
    closer.join()
    runner.close(last)


def test_an_interrupt_that_meets_a_request_is_told_once(caplog):
    async def struck():
        await asyncio.sleep(0)
        raise KeyboardInterrupt

    runner = Cancellable()
    with pytest.raises(KeyboardInterrupt):
        runner.run(struck())

    async def last():
        pass

    runner.close(last)
    del runner
    gc.collect()  # a task whose exception nobody took complains when it goes
    assert caplog.records == []


@pytest.mark.parametrize("text", ["{", "[1]", "null x", '"a"'])
def test_arguments_that_are_no_object_go_on_marked(text):
    with server(say(completion(calls=[call(arguments=text)]))) as (url, _):
        assert list(act(url).calls[0].arguments) == [MALFORMED]


def test_an_unknown_tool_and_missing_ids_go_on():
    calls = [call("fly", id=None), call(arguments={"path": "a"}, id="x"), call(id="x")]
    with server(say(completion(calls=calls))) as (url, _):
        action = act(url)
    assert [c.id for c in action.calls] == ["call-0-0", "x", "call-0-2"]
    assert [c.tool for c in action.calls] == ["fly", "list_files", "list_files"]


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (say({"error": {"message": "too many", "code": "context_length_exceeded"}}, 400), "no longer fits"),
        (say({"error": {"message": "This model's maximum context length is 8192"}}, 400), "no longer fits"),
        (say({"error": {"message": "prompt is longer than the maximum model length of 8"}}, 400), "no longer fits"),
        (say({"error": {"message": "However, the model's context length is only 8 tokens"}}, 400), "no longer fits"),
        (say({"error": {"message": "the request exceeds the available context size"}}, 400), "no longer fits"),
        (say(completion("and then", finish="length")), "cut at its limit"),
    ],
    ids=["code", "words", "vllm", "vllm-new", "llama.cpp", "cut"],
)
def test_what_is_the_models_own_doing(step, words):
    with server(step) as (url, asked), pytest.raises(PolicyFailure, match=words):
        act(url)
    assert len(asked) == 1


def test_tokens_are_estimated_where_the_server_counts_none():
    with server(say(completion("x" * 400) | {"usage": {"prompt_tokens": "many"}})) as (url, _):
        usage = act(url).usage
    assert usage.completion_tokens == 100
    assert usage.prompt_tokens > 50


@pytest.mark.parametrize("count", ["9" * 400, "-1", "NaN", "1e999", "true", str(1 << 31)])
def test_a_count_that_cannot_be_is_as_good_as_none(count):
    body = json.dumps(completion("x" * 400)).replace(": 7}", f": {count}}}").replace(": 11,", f": {count},")
    assert body.count(count) == 2
    with server(say(body.encode())) as (url, _):
        usage = act(url).usage
    assert (usage.completion_tokens, 50 < usage.prompt_tokens < 5000) == (100, True)


def test_text_that_utf8_cannot_carry_is_replaced():
    with server(say(b'{"choices": [{"message": {"content": "a\\ud800b"}}]}')) as (url, _):
        assert act(url).message == "a?b"


def test_everything_is_recorded_on_demand(tmp_path):
    with server(say({}, 500), GOOD) as (url, _):
        policy = OpenAIPolicy("m", server=url, key="secret", settings=QUICK, record=tmp_path / "log.jsonl")
        session = policy.start(VIEW, 0)
        session.act((), deadline_s=5)
        session.close()
    text = (tmp_path / "log.jsonl").read_text()
    assert [json.loads(line)["request"]["model"] for line in text.splitlines()] == ["m", "m"]
    assert "secret" not in text


def test_the_id_names_what_changes_the_answers():
    base = OpenAIPolicy("m", server="http://a/v1/")
    assert base.id == OpenAIPolicy("m", server="http://a/v1", key="k", settings=Settings(retries=0)).id
    others = [OpenAIPolicy("m", server="http://b/v1"), OpenAIPolicy("m", server="http://a/v1", settings=Settings(0.5))]
    assert len({base.id, *(p.id for p in others)}) == 3
