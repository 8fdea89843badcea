"""The client of a completions server, against a server of its own with a real model behind it."""

from __future__ import annotations

import threading
import time
import warnings

import pytest

torch = pytest.importorskip("torch")

import small_lanes as lanes  # noqa: E402
from completions_server import CompletionsServer  # noqa: E402

from rover.policy.protocol import Action, PolicyFailure, PolicyView  # noqa: E402
from rover_store.errors import ProviderError, UsageError  # noqa: E402
from rover_store.records import Call  # noqa: E402
from rover_train.sample.answer import sampled  # noqa: E402
from rover_train.sample.policy import ModelPolicy  # noqa: E402
from rover_train.sample.vllm import VllmSampler  # noqa: E402
from rover_train.sample.wire import Wire  # noqa: E402

ASKS = ["one", "two", "a longer request", "four"]

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def model():
    return lanes.model()


@pytest.fixture
def server(model):
    with CompletionsServer(model, "base") as running:
        yield running


@pytest.fixture
def sampler():
    made = []

    def make(server, window=400, **settings):
        wire = Wire(server.url + "/v1", retries=3, backoff_s=0.01)
        made.append(VllmSampler("", "base", lanes.renderer(window), wire=wire, **{"max_turn_tokens": 10, **settings}))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def wire(server):
    made = []

    def make(**settings):
        made.append(Wire(server.url, **{"backoff_s": 0.01, **settings}))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_rollouts_hold_the_server_s_tokens_and_log_probabilities(model, server, sampler):
    actor = sampler(server, temperature=1.0)
    actor.check()
    sessions = lanes.play(actor, ASKS, turns=3)
    assert [session.error for session in sessions] == [None] * 4
    assert lanes.worst_difference(model, sessions) < 1e-5
    prompts = {tuple(ask["prompt"]) for ask in server.requests}
    assert all(tuple(row.ids[: row.loss_mask.index(1)]) in prompts for s in sessions for row in s.rows())
    assert server.most > 1  # lanes are asked for at the same time
    assert actor.sampled == sum(len(lanes.written(session)) for session in sessions)


def test_greedy_turns_are_those_of_the_sampler_in_this_process(model, server, sampler):
    from rover_train.sample.sampler import Sampler

    there = lanes.play(sampler(server, temperature=0.0), ASKS, turns=3)
    here = lanes.play(Sampler(model, lanes.renderer(), temperature=0.0, max_turn_tokens=10), ASKS, turns=3)
    assert [lanes.written(s) for s in there] == [lanes.written(s) for s in here]


def test_a_lane_s_tokens_follow_from_its_seed(server, sampler):
    runs = [lanes.play(sampler(server), ASKS[:2], turns=2, seeds=[3, 4]) for _ in range(2)]
    assert [s.rows() for s in runs[0]] == [s.rows() for s in runs[1]]
    other = lanes.play(sampler(server, seed=9), ASKS[:1], turns=1, seeds=[3])
    assert lanes.written(other[0]) != lanes.written(runs[0][0])


@pytest.mark.parametrize("fault", ["503", "close", "half"])
def test_what_passes_is_tried_again(server, fault, sampler):
    calm = lanes.play(sampler(server), ["go"], turns=2)
    server.faults += [fault] * 3
    (session,) = lanes.play(sampler(server), ["go"], turns=2)
    assert session.error is None
    assert session.rows() == calm[0].rows()


@pytest.mark.parametrize("fault", ["503", "close", "half"])
def test_what_does_not_pass_is_the_server_s_failure(server, fault, sampler):
    server.faults += [fault] * 4
    (session,) = lanes.play(sampler(server), ["go"], turns=2)
    assert isinstance(session.error, ProviderError)
    assert session.error.message.startswith(server.url)
    assert session.rows() == ()


def test_an_answer_without_tokens_is_the_server_s_failure(server, sampler):
    server.faults.append("nonsense")
    (session,) = lanes.play(sampler(server), ["go"], turns=1)
    assert isinstance(session.error, ProviderError)
    assert "sampled tokens" in session.error.message


STOP = 12  # one of the renderer's ids that end a turn


def choice(ids, logprobs=None):
    told = {"token_ids": ids, "logprobs": {"token_logprobs": [-1.0] * len(ids) if logprobs is None else logprobs}}
    return {"choices": [told]}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (choice([261, STOP]), "token 0 is 261, and the vocabulary has 261"),
        (choice([1 << 70, STOP]), "token 0 is 1180591620717411303424"),
        (choice([-1, STOP]), "token 0 is -1"),
        (choice([True, STOP]), "token 0 is True"),
        (choice([1, STOP], [-1.0, float("-inf")]), "log-probability 1 is -inf"),
        (choice([1, STOP], [float("nan"), -1.0]), "log-probability 0 is nan"),
        (choice([1, STOP], [-1e300, -1.0]), "log-probability 0 is -1e+300"),
        (choice([1, STOP], [-(10**400), -1.0]), "log-probability 0 is -1000000000000000000... of 402 digits"),
        (choice([1, STOP], [0.5, -1.0]), "log-probability 0 is 0.5"),
        (choice([1, STOP], [None, -1.0]), "log-probability 0 is None"),
        (choice([1, STOP], [-1.0]), "2 tokens and 1 log-probabilities"),
        (choice([1] * 11), "11 tokens where 10 were the most"),
        (choice([1, 2]), "none of them ends the turn"),
        (choice([STOP, 1, STOP]), "token 0 ends the turn, and 2 follow"),
        (choice({"0": 1}), "token_ids is no list"),
        ({"choices": [{"token_ids": [STOP], "logprobs": None}]}, "token_logprobs is no list"),
        ([1], "token_ids is no list"),
        ("[" * 100_000, "token_ids is no list"),
        ('{"choices": ' + "9" * 5000 + "}", "token_ids is no list"),
    ],
)
def test_what_no_model_can_have_written_is_the_server_s_failure(server, sampler, value, words):
    server.faults.append((200, value))
    (session,) = lanes.play(sampler(server), ["go"], turns=1)
    assert isinstance(session.error, ProviderError)
    assert session.error.message.startswith(f"{server.url}: the answer does not hold the sampled tokens")
    assert words in session.error.message
    assert session.rows() == ()


def test_a_rounded_probability_of_one_and_the_whole_vocabulary_are_sound():
    assert sampled(choice([260, STOP], [1e-4, 0]), 2, {STOP}, 261) == ([260, STOP], [0.0, 0.0])
    assert sampled(choice([1, 2]), 2, {STOP}, 261)[0] == [1, 2]


@pytest.mark.parametrize("said", ["path too long", "max_model_len", "[" * 5000, "\ud800"], ids=range(4))
def test_errors_that_only_sound_like_a_full_context_are_the_server_s(server, sampler, said):
    server.faults += [(400, {"error": {"message": said}}), (400, said.encode("utf-8", "replace").decode())]
    for session in lanes.play(sampler(server), ["go", "on"], turns=1):
        assert isinstance(session.error, ProviderError)
        assert "HTTP 400" in session.error.message
        assert session.error.message.encode()


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000000000\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000,
        b"HTTP/1.0 503 Busy\r\nRetry-After: Mon, 01 Jan 99999999999999999999 00:00:00 GMT\r\n\r\n",
        bytes(range(256)) * 20,
    ],
    ids=["chunk", "negative-chunk", "short", "header", "date", "garbage"],
)
def test_broken_http_is_the_server_s_failure(server, wire, raw):
    server.faults += [raw] * 2
    with pytest.raises(ProviderError) as caught:
        wire(retries=1).post("/v1/completions", {})
    assert caught.value.message.startswith(f"{server.url}: ")
    assert "\n" not in caught.value.message
    assert len(server.requests) == 2


def test_the_body_of_an_error_is_read_to_a_limit(server, wire):
    endless = b"HTTP/1.1 400 No\r\nTransfer-Encoding: chunked\r\n\r\n"
    server.faults.append(("drip", endless, b"10000\r\n" + b"x" * 0x10000 + b"\r\n", 0.0))
    client = wire(request_s=5.0, retries=0)
    reply = client.post("/v1/completions", {})
    assert (reply.status, reply.said[:13]) == (400, "HTTP 400: xxx")
    assert len(reply.value) < 100_000
    assert client.get("/v1/models").status == 200  # on a new connection


DRIPS = [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"]


@pytest.mark.parametrize("head", DRIPS, ids=["nothing", "header", "body"])
def test_a_request_ends_in_its_time_though_bytes_arrive(server, wire, head):
    server.faults += [("drip", head, b" ", 0.03)] * 3
    began = time.monotonic()
    client = wire(request_s=0.2, total_s=0.3, retries=9)
    with pytest.raises(ProviderError, match=r"^http://127\.0\.0\.1:\d+: no answer in time$"):
        client.post("/v1/completions", {})
    assert 0.25 < time.monotonic() - began < 2
    assert len(server.requests) == 2  # the second has what is left of the whole


def test_a_silent_server_gets_one_short_try_until_it_answers(server, wire):
    server.faults += [("drip", b"", b"", 0.03)] * 3
    client = wire(request_s=0.2, retries=1)
    for requests in (2, 3):
        with pytest.raises(ProviderError, match="no answer in time"):
            client.post("/v1/completions", {})
        assert len(server.requests) == requests
    assert client.get("/v1/models").status == 200
    server.faults += ["503", "503"]
    with pytest.raises(ProviderError, match="busy"):
        client.post("/v1/completions", {})
    assert len(server.requests) == 5  # tried again, as before


def test_pauses_count_in_the_time_of_a_call(server, wire):
    server.faults.append(b"HTTP/1.1 503 Busy\r\nRetry-After: 60\r\nContent-Length: 0\r\n\r\n")
    began = time.monotonic()
    with pytest.raises(ProviderError, match="HTTP 503"):
        wire(total_s=5.0).post("/v1/completions", {})
    assert time.monotonic() - began < 2


def test_a_server_that_dies_between_turns_is_an_infra_error_and_may_come_back(server, sampler):
    actor = sampler(server)
    session = ModelPolicy(actor, "test").start(PolicyView("go", ()), 1)
    assert isinstance(actor.acting([(0, (session, ()))])[0], Action)
    server.stop()
    seen = (Call(id="1", tool="read_file", output="seen"),)
    assert isinstance(actor.acting([(0, (session, seen))])[0], ProviderError)
    server.start()
    (again,) = lanes.play(actor, ["go"], turns=2, seeds=[1])
    assert again.error is None


def test_closing_ends_a_request_that_is_under_way(server, sampler):
    actor = sampler(server)
    session = ModelPolicy(actor, "test").start(PolicyView("go", ()), 1)
    server.faults.append("stall")
    threading.Timer(0.3, actor.close).start()
    answer = actor.acting([(0, (session, ()))])[0]
    assert isinstance(answer, ProviderError)
    assert "cancelled" in answer.message


def test_unknown_models_and_bad_addresses_are_refused(server):
    actor = VllmSampler(server.url, "other", lanes.renderer())
    with pytest.raises(UsageError, match="serves no model 'other'"):
        actor.check()
    actor.close()
    for address in ("localhost:8000", "http://", "http://host:0", "http://host:port", "ftp://host"):
        with pytest.raises(UsageError, match="not an address"):
            Wire(address)


def test_a_server_that_is_not_there(server, sampler):
    server.stop()
    with pytest.raises(ProviderError, match="ConnectionRefused"):
        sampler(server).check()


def test_contexts_end_at_the_window_or_at_the_server_s_own(server, sampler):
    (ours,) = lanes.play(sampler(server, window=80), ["go"], turns=40)
    assert isinstance(ours.error, PolicyFailure)
    assert str(ours.error) == "the context window of 80 tokens is used up"
    server.context = 60
    (theirs,) = lanes.play(sampler(server), ["go"], turns=40)
    assert isinstance(theirs.error, PolicyFailure)
    assert "no longer fits the server's context" in str(theirs.error)


def test_adapters_go_up_under_new_names_and_survive_a_restart(tmp_path, sampler):
    peft = pytest.importorskip("peft")
    warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning)  # peft's own call
    settings = peft.LoraConfig(r=2, lora_alpha=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    trained = peft.get_peft_model(lanes.model(), settings).eval()
    for step in (1, 2):
        with torch.no_grad():
            for name, weight in trained.named_parameters():
                if "lora_B" in name:
                    weight.normal_(0.0, 0.3 * step)
        trained.save_pretrained(str(tmp_path / f"step-{step}"))
    served = peft.get_peft_model(lanes.model(), settings).eval()
    with CompletionsServer(served, "base") as server:
        actor = sampler(server)
        base = lanes.play(actor, ASKS[:2], turns=2)
        names = [actor.load_adapter(tmp_path / f"step-{step}") for step in (1, 2, 2)]
        assert len(set(names)) == 3
        assert list(server.adapters) == names[2:]  # the others are unloaded
        sessions = lanes.play(actor, ASKS[:2], turns=2)
        assert lanes.worst_difference(trained, sessions) < 1e-5
        assert lanes.worst_difference(lanes.model(), base) < 1e-5
        server.stop()
        server.start()
        after = lanes.play(actor, ASKS[:2], turns=2)
        assert [s.rows() for s in after] == [s.rows() for s in sessions]
        assert server.adapters.keys().isdisjoint(names)
        server.stop()
        server.start()
        server.takes_adapters = False
        before = len(server.requests)
        spoilt = lanes.play(actor, ASKS, turns=2)
        assert all(isinstance(session.error, ProviderError) for session in spoilt)
        assert "base" not in {ask.get("model") for ask in server.requests[before:]}  # the bare model serves nobody


def test_a_server_without_adapters_says_so(server, sampler, tmp_path):
    server.takes_adapters = False
    with pytest.raises(ProviderError, match="the adapter was not loaded: HTTP 404"):
        sampler(server).load_adapter(tmp_path)
