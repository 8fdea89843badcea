"""The model of an agent program: what the server is asked, what the agent is told, and turns out of conversations."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer, call, completion

from rover.harness.manifest import of_files
from rover.harness.transcript import Transcript, acts
from rover.policy import wire
from rover.policy.completion import parse
from rover.policy.gateway import Gateway
from rover.policy.openai import Settings
from rover.policy.protocol import OutOfTime
from rover.policy.wire import Refused
from rover_store.errors import ProviderError
from rover_store.trees import tree_id

QUICK = Settings(request_s=1.0, retries=2, backoff_s=0.01)
USER = {"role": "user", "content": "Hi."}


def asked(**more: Any) -> wire.Asked:
    found = wire.read("POST", "/v1/chat/completions", json.dumps({"messages": [USER], **more}).encode())
    assert found is not None
    return found


def gateway(server: ChatServer, seed: int = 7, **more: Any) -> Gateway:
    more = {"settings": QUICK, "model": "served", **more}
    return Gateway(server.url, "secret", more.pop("model"), more.pop("settings"), seed, **more)


# --- to the server -----------------------------------------------------------------------------------------------
def test_what_the_server_is_asked(tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    with ChatServer("Yes.") as server:
        way = gateway(server, 1 << 40, record=record, settings=Settings(temperature=0.5, max_tokens=9))
        own = {"temperature": 1, "seed": 3, "max_completion_tokens": 4, "stream": True, "top_p": 0.1}
        answer, body = way.ask(asked(model="gpt", tools=[call("x")], **own), 5.0)
        way.ask(asked(model="other"), 5.0)
        way.close()
    first = server.asked[0]
    assert {k: first[k] for k in ("model", "seed", "temperature", "max_tokens", "top_p")} == {
        "model": "served", "seed": (1 << 40) % (1 << 31), "temperature": 0.5, "max_tokens": 9, "top_p": 0.1,
    }  # fmt: skip
    assert first["messages"] == [USER]
    assert first["tools"] == [call("x")]
    assert {"stream", "max_completion_tokens", "extra_body"} & first.keys() == set()
    assert (answer.text, json.loads(body)["choices"][0]["message"]["content"]) == ("Yes.", "Yes.")
    assert way.models == ["gpt", "other"]
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert [(line["asked"], line["request"]) for line in lines] == list(zip(way.models, server.asked, strict=True))
    assert "secret" not in record.read_text()


def test_the_same_question_again_wants_another_answer() -> None:
    with ChatServer("Yes.") as server:
        way = gateway(server)
        for ask in (asked(), asked(), asked(top_p=1), asked(stream=True)):
            way.ask(ask, 5.0)
        way.close()
    assert [ask["seed"] for ask in server.asked] == [7, 8, 7, 9]


def test_a_model_that_is_not_set_is_the_agent_s() -> None:
    with ChatServer("Yes.") as server:
        way = gateway(server, model="")
        way.ask(asked(model="gpt"), 5.0)
        way.close()
    assert server.asked[0]["model"] == "gpt"


def test_tries_again_and_gives_up() -> None:
    with ChatServer(("status", 503, "busy"), "close", "Yes.") as server:
        way = gateway(server)
        assert way.ask(asked(), 5.0)[0].text == "Yes."
        way.close()
    assert [ask["seed"] for ask in server.asked] == [7, 7, 7]
    assert "HTTP 500: down" in failed(("status", 500, "down"), tries=3)
    assert "no answer within" in failed("stall", tries=1, deadline_s=0.2)


def test_whose_fault_it_is_that_time_is_over() -> None:
    with ChatServer("Yes.", "stall") as server, closing(gateway(server, settings=Settings())) as way:
        way.ask(asked(), 5.0, 5.0)
        with pytest.raises(OutOfTime):
            way.ask(asked(), 0.3, 5.0)  # it answered before, and is not late
    with ChatServer("stall") as server, closing(gateway(server, settings=Settings())) as way:
        with pytest.raises(OutOfTime):
            way.ask(asked(), 0.3, 5.0)  # hardly asked
        with pytest.raises(ProviderError, match=r"no answer within the 0\.3 s"):
            way.ask(asked(), 0.3, 0.5)
    with ChatServer("Yes.", ("status", 503, "busy")) as server:
        settings = Settings(backoff_s=30)
        with closing(gateway(server, settings=settings)) as way:
            way.ask(asked(), 5.0, 5.0)
            with pytest.raises(ProviderError, match="before: HTTP 503: busy"):
                way.ask(asked(), 0.3, 5.0)


def test_a_model_that_is_not_there_is_told_to_the_agent_that_named_it() -> None:
    with ChatServer(("status", 404, "no such model"), "Yes.") as server:
        way = Gateway(server.url, "", "", QUICK, 7)
        with pytest.raises(Refused) as caught:
            way.ask(asked(), 5.0)
        assert (caught.value.status, way.unfit) == (404, "HTTP 404: no such model")
        way.ask(asked(), 5.0)
        assert way.unfit == ""
        way.close()


def failed(step: Any, tries: int, deadline_s: float = 5.0) -> str:
    """What a ProviderError says of a server that does this again and again."""
    with ChatServer(step) as server, closing(gateway(server)) as way, pytest.raises(ProviderError) as caught:
        way.ask(asked(), deadline_s)
    assert len(server.asked) == tries
    return caught.value.message


def test_whose_fault_a_refusal_is() -> None:
    long = ("status", 400, "maximum context length is 5")
    with ChatServer(("status", 422, "bad tools"), "Yes.", long, "Yes.") as server:
        way = gateway(server)
        with pytest.raises(Refused) as caught:
            way.ask(asked(), 5.0)
        assert (caught.value.status, way.unfit) == (400, "HTTP 422: bad tools")
        way.ask(asked(), 5.0)
        assert way.unfit == ""
        with pytest.raises(Refused) as caught:
            way.ask(asked(), 5.0)
        assert caught.value.code == "context_length_exceeded"
        way.close()
    for status in (401, 403, 404):
        assert f"HTTP {status}: no" in failed(("status", status, "no"), tries=1)


def test_close_cancels_what_is_under_way() -> None:
    with ChatServer("stall") as server, closing(gateway(server, settings=Settings())) as way:
        threading.Timer(0.2, way.close).start()
        with pytest.raises(ProviderError, match="cancelled"):
            way.ask(asked(), 30.0)
        with pytest.raises(ProviderError, match="cancelled"):
            way.ask(asked(), 30.0)


def test_tokens_are_asked_for_until_the_server_will_not() -> None:
    with ChatServer(("status", 400, "return_token_ids: unknown"), "Yes.") as server:
        way = gateway(server, tokens=True)
        assert way.tokens_of(way.ask(asked(), 5.0)[0]) is None
        way.ask(asked(), 5.0)
        way.close()
    assert [("logprobs" in ask, "return_token_ids" in ask) for ask in server.asked] == [
        (True, True), (True, False), (True, False),
    ]  # fmt: skip


# --- to the agent ------------------------------------------------------------------------------------------------
def test_the_openai_library_reads_what_it_gets() -> None:
    """Streams and errors, through a server that gives what rover gives."""
    import openai

    body = json.dumps(completion([call("ls"), call("cat x")], 1)).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                ask = wire.read("POST", self.path, data)
                assert ask is not None
                said = wire.answered(ask, body)
            except Refused as error:
                said = wire.refusal(error.status, error.message, error.code)
            self._say(said)

        def do_GET(self) -> None:
            self._say(wire.models("served"))

        def _say(self, said: wire.Response) -> None:
            self.send_response(said.status)
            self.send_header("Content-Type", said.kind)
            self.send_header("Content-Length", str(len(said.body)))
            self.end_headers()
            self.wfile.write(said.body)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        with openai.OpenAI(api_key="k", base_url=f"http://127.0.0.1:{http.server_port}/v1", max_retries=0) as client:
            messages: Any = [USER]
            whole = client.chat.completions.create(model="m", messages=messages)
            options: Any = {"include_usage": True}
            stream = client.chat.completions.create(model="m", messages=messages, stream=True, stream_options=options)
            parts = list(stream)
            deltas = [part.choices[0].delta for part in parts if part.choices]
            pieces = [piece for delta in deltas for piece in delta.tool_calls or ()]
            calls = whole.choices[0].message.tool_calls or []
            assert [(p.index, p.id, p.function and p.function.arguments) for p in pieces] == [
                (n, c.id, c.function.arguments) for n, c in enumerate(calls)  # type: ignore[union-attr]
            ]
            assert [part.choices[0].finish_reason for part in parts if part.choices] == [None, "tool_calls"]
            assert parts[-1].usage == whole.usage
            assert [model.id for model in client.models.list()] == ["served"]
            with pytest.raises(openai.BadRequestError, match="one answer at a time"):
                client.chat.completions.create(model="m", messages=messages, n=2)
            with pytest.raises(openai.NotFoundError, match="not served here"):
                client.embeddings.create(model="m", input="x")
    finally:
        http.shutdown()
        http.server_close()


@pytest.mark.parametrize("path", ["/v1{}", "{}", "/v1{}?x=1", "/v1{}/"])
def test_paths_of_one_thing(path: str) -> None:
    assert wire.read("POST", path.format("/chat/completions"), json.dumps({"messages": [USER]}).encode()) is not None


@pytest.mark.parametrize("deep", [70, 100_000])
def test_what_is_nested_deeper_than_any_request(deep: int) -> None:
    with pytest.raises(Refused) as caught:
        wire.read("POST", "/v1/chat/completions", b'{"messages": ' + b"[" * deep + b"]" * deep + b"}")
    assert caught.value.status == 400


# --- turns -------------------------------------------------------------------------------------------------------
class Talk:
    """A conversation of an agent, played into a transcript."""

    def __init__(self) -> None:
        self.files = {"a": b"1"}
        self.script = Transcript(of_files(self.files), tree_id(of_files(self.files)), 100)
        self.messages: list[dict[str, Any]] = [USER]
        self.number = 0

    def say(self, step: Any, ids: str = "") -> None:
        self.look()
        self.script.asked(self.messages)
        self.number += 1
        value = completion(step, self.number)
        for n, one in enumerate(value["choices"][0]["message"].get("tool_calls", ())):
            one["id"] = f"{ids}{n}" if ids else one["id"]
        answer = parse(json.dumps(value).encode(), self.messages, self.number)
        self.script.answered(answer, None)
        self.messages.append(value["choices"][0]["message"])

    def told(self, *texts: str, role: str = "tool", ids: str = "") -> None:
        calls = self.messages[-1].get("tool_calls", [])
        for n, text in enumerate(texts):
            known = {"tool_call_id": ids or calls[n]["id"]} if role == "tool" else {}
            self.messages.append({"role": role, "content": text, **known})

    def look(self) -> None:
        now = of_files(self.files)
        self.script.reached(now, tree_id(now))

    def outputs(self) -> list[list[str]]:
        self.look()
        return [[c.output for c in turn.calls] for turn in self.script.turns()]


def test_outputs_by_their_ids_in_any_order() -> None:
    talk = Talk()
    talk.say([call("x"), call("y")])
    one, two = (c["id"] for c in talk.messages[-1]["tool_calls"])
    talk.messages += [{"role": "tool", "tool_call_id": two, "content": "Y"}, {"role": "tool", "tool_call_id": one,
                      "content": [{"type": "text", "text": "X"}, {"type": "image"}]}]  # fmt: skip
    talk.say("Done.")
    assert talk.outputs() == [["X", "Y"], []]


def test_a_server_that_gives_the_same_id_every_time() -> None:
    talk = Talk()
    for n in range(4):
        talk.say(call("x"), ids="call_")
        talk.told(f"out {n}")
    talk.say("Done.")
    assert talk.outputs() == [["out 0"], ["out 1"], ["out 2"], ["out 3"], []]


def test_ids_that_the_agent_made_itself() -> None:
    talk = Talk()
    talk.say([call("x"), call("y")])
    talk.told("X", "Y", ids="mine")
    talk.say("Done.")
    assert talk.outputs() == [["X", "Y"], []]


def test_an_agent_that_forgets_or_talks_to_itself() -> None:
    """Histories that are cut, and a second conversation in between."""
    talk = Talk()
    talk.say(call("x"))
    talk.told("X")
    main, talk.messages = talk.messages, [{"role": "user", "content": "Sum up."}]
    talk.say("A summary.")
    talk.messages = [USER, *main[1:]]
    talk.say(call("y"))
    talk.told("Y")
    talk.messages = talk.messages[-2:]
    talk.say("Done.")
    assert talk.outputs() == [["X"], [], ["Y"], []]
    assert talk.script.last_words == "Done."


def test_commands_in_a_text() -> None:
    talk = Talk()
    two = "First\n```bash\nls\n```\nthen\n```sh\npwd\n```\nand not\n```python\n1\n```"
    talk.say(two)
    talk.told("listing", role="user")
    talk.say("Done, see `x`.\n```json\n{}\n```")
    turns = talk.script.turns()
    assert [c.arguments["command"] for c in turns[0].calls] == ["ls", "pwd"]
    assert (talk.outputs(), turns[1].calls) == ([["", "listing"], []], ())
    assert acts(parse(json.dumps(completion(two, 1)).encode(), [], 1))


def test_changes_belong_to_the_call_that_names_them() -> None:
    talk = Talk()
    talk.say([call("touch sub/new"), call("rm a"), call("make")])
    talk.files = {"sub/new": b"", "made": b"2"}
    talk.told("", "", "")
    talk.say("Done.")
    talk.look()
    (first, _) = talk.script.turns()
    assert [[(a.path, a.blob is None) for a in c.writes] for c in first.calls] == [
        [("sub/new", False)], [("a", True)], [("made", False)],
    ]  # fmt: skip
    assert [[a.path for a in c.reads] for c in first.calls] == [[], ["a"], []]


def test_long_outputs_are_cut_and_broken_arguments_marked() -> None:
    talk = Talk()
    talk.say({"id": "1", "type": "function", "function": {"name": "bash", "arguments": "{"}})
    talk.told("x" * 101 + "\ud800")
    talk.say("Done.")
    (made,) = talk.script.turns()[0].calls
    assert (made.status, made.output, made.truncated) == ("error", "x" * 100, True)
