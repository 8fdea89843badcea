"""A model that proposes: typed edits, a budget, a recording that is played, and no way to anything it must not see."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from packages import summary_package, summary_resources

from rover.repair.proposals.asking import Recorded, Said, Server, Unasked
from rover.repair.proposals.model import FromModel, ModelBudget, Unusable, edited, read
from rover.repair.proposals.prompt import prompt
from rover.repair.proposals.protocol import PackageView, Proposer
from rover.repair.proposals.registry import propose
from rover.rollout.env import env_from_files
from rover_store.errors import PackageError, ProviderError, UsageError
from rover_store.records import Diagnosis, Finding

LESS = {"rationale": "enough turns", "edits": [{"path": "harness.json", "exchanges": [
    {"find": '"turns": 30', "replace": '"turns": 60'}]}]}  # fmt: skip


class Echo:
    """Answers what it was made with, one after the other; remembers what it was asked."""

    model = "echo"
    seconds = 5.0

    def __init__(self, *answers: object, tokens: int = 10) -> None:
        self.answers = [a if isinstance(a, str) else json.dumps(a) for a in answers]
        self.asked: list[str] = []
        self.tokens = tokens

    def ask(self, system: str, question: str, tokens: int) -> Said:
        self.asked.append(question)
        return Said(self.answers[len(self.asked) - 1], self.tokens)


def view() -> PackageView:
    env = env_from_files(summary_package(), summary_resources())
    return PackageView(env.package, "0" * 40, env.tree, env, env.files, env.resources)


def diagnosis() -> Diagnosis:
    found = Finding(probe="p", kind="budget_too_small", message="too few turns", components=("harness",))
    return Diagnosis(package="order-summary", tree="0" * 40, verdict="environment", findings=(found,))


def harness(answers: Echo, budget: ModelBudget | None = None) -> FromModel:
    return FromModel("harness", answers, budget)


# --- answers -------------------------------------------------------------------------------------------------
def test_an_answer_becomes_a_draft() -> None:
    draft = harness(Echo(LESS)).propose(view(), diagnosis())
    assert draft is not None
    assert b'"turns": 60' in draft.files["harness.json"]
    assert (draft.source, draft.rationale) == ("model", "enough turns")
    assert FromModel("task", Echo()).propose(view(), diagnosis()) is None  # no suspect: nobody is asked


def test_an_answer_may_stand_among_words_or_in_a_fence() -> None:
    plain = json.dumps(LESS)
    for text in (plain, f"Here you are:\n```json\n{plain}\n```\nDone.", f"I think {plain} will do"):
        assert read(text).edits[0].path == "harness.json"
    assert read('{"edits": []}').edits == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("I cannot do that.", "no JSON object"),
        ('{"edits": [}', "not valid JSON"),
        ('{"edits": [], "score": 1}', "Extra inputs"),
        ('{"edits": [{"path": 3}]}', "edits.0.path"),
        ('{"edits": ' + '[{"path": "a", "delete": true}],' * 1 + '"rationale": 7}', "rationale"),
        ("[" * 100_000, "no JSON object"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "not valid JSON"),
    ],
)
def test_what_is_no_answer_is_named(text: str, said: str) -> None:
    with pytest.raises(Unusable, match=said):
        read(text)


@pytest.mark.parametrize(
    ("component", "edit", "said"),
    [
        ("task", {"path": "contract.json", "content": "{}"}, "frozen intent"),
        ("task", {"path": "task/contract.json", "delete": True}, "frozen intent"),
        ("harness", {"path": "harness.json"}, "exactly one of"),
        ("harness", {"path": "harness.json", "content": "{}", "delete": True}, "exactly one of"),
        ("harness", {"path": "gone.json", "delete": True}, "no such file"),
        ("harness", {"path": "gone.json", "exchanges": [{"find": "a", "replace": "b"}]}, "no such file"),
        ("harness", {"path": "harness.json", "exchanges": [{"find": "\n", "replace": "b"}]}, "times, not once"),
    ],
)
def test_an_edit_that_does_not_fit_is_named(component: str, edit: dict[str, object], said: str) -> None:
    answer = read(json.dumps({"edits": [edit]}))
    with pytest.raises(Unusable, match=said):
        edited(view().component(component), component, answer)  # type: ignore[arg-type]


def test_a_malformed_answer_is_asked_for_once_more_and_then_is_no_proposal() -> None:
    second = Echo("nonsense", LESS)
    assert harness(second).propose(view(), diagnosis()) is not None
    assert "could not be used: there is no JSON object in it" in second.asked[1]
    told: list[str] = []
    drafts = propose(view(), diagnosis(), more=(harness(Echo("no", "no")),), tell=told.append)
    assert [d.proposer for d in drafts] == ["harness-rule"]
    with pytest.raises(UsageError, match="cannot be used: there is no JSON object"):
        harness(Echo("no", "no")).propose(view(), diagnosis())


def test_a_budget_of_tokens_ends_the_asking() -> None:
    greedy = Echo("no", LESS, tokens=100)
    with pytest.raises(UsageError, match="100 tokens are used up"):
        harness(greedy, ModelBudget(tokens=100)).propose(view(), diagnosis())
    assert len(greedy.asked) == 1


def test_an_edit_outside_the_component_is_refused_like_anyone_s() -> None:
    told: list[str] = []
    out = Echo({"edits": [{"path": "../task/instruction.md", "content": "Do nothing."}]})
    drafts = propose(view(), diagnosis(), without=frozenset({"budget_too_small"}), more=(harness(out),))
    assert [d.style for d in drafts] == ["rederive"]
    asked = FromModel("harness", Echo(*out.answers))
    asked.style = "rule"  # asked first of all
    assert [d.style for d in propose(view(), diagnosis(), more=(asked,), tell=told.append)] == ["rule"]


# --- what it is told -----------------------------------------------------------------------------------------
def test_a_prompt_holds_package_and_diagnosis_within_its_bound() -> None:
    text = prompt(view(), "harness", diagnosis().findings, 24_000)
    for part in ("budget_too_small", "--- task/contract.json", "--- harness/harness.json", "--- task/instruction.md",
                 "--- workspace: orders.csv (from a shared resource)"):  # fmt: skip
        assert part in text
    assert text.index("--- harness/harness.json") < text.index("--- task/instruction.md")
    assert len(prompt(view(), "verifier", diagnosis().findings, 3000)) < 3600
    assert prompt(view(), "harness", diagnosis().findings, 24_000) == text
    for word in ("sealed", "audit", "manifest", "proposal", "Rover-"):
        assert word not in text


# --- recordings ----------------------------------------------------------------------------------------------
def test_a_recording_is_played_without_anyone_to_ask(tmp_path: Path) -> None:
    file = tmp_path / "answers.json"
    first = FromModel("harness", Recorded(file, Echo(LESS)))
    made = first.propose(view(), diagnosis())
    stored = file.read_bytes()
    again = FromModel("harness", Recorded(file, model="echo")).propose(view(), diagnosis())
    assert made == again
    assert again is not None
    assert file.read_bytes() == stored
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(ProviderError, match=r"answers.json has no answer"):
        FromModel("harness", Recorded(file, model="another")).propose(view(), diagnosis())
    assert len(json.loads(stored)["answers"]) == 1


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'{"version": 1, "answers": {"a": {"text": "no model"}}}', b'{"version": 9, "answers": {}}']
)
def test_a_file_that_is_no_recording_is_named(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "answers.json"
    file.write_bytes(data)
    with pytest.raises(PackageError, match=r"answers\.json"):
        Recorded(file, Echo(LESS)).ask("s", "q", 10)


# --- a server ------------------------------------------------------------------------------------------------
Reply = Callable[[dict[str, object]], tuple[int, bytes]]


@pytest.fixture
def serve() -> Iterator[Callable[[Reply], str]]:
    started: list[ThreadingHTTPServer] = []

    def start(reply: Reply) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, body = reply(request)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        started.append(server)
        Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_address[1]}/v1"

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


def test_a_server_is_asked_within_the_budget(serve: Callable[[Reply], str]) -> None:
    seen: list[dict[str, object]] = []

    def reply(request: dict[str, object]) -> tuple[int, bytes]:
        seen.append(request)
        message = {"role": "assistant", "content": json.dumps(LESS)}
        usage = {"prompt_tokens": 900, "completion_tokens": 40}
        value = {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}
        return 200, json.dumps(value).encode()

    asker = Server("m", serve(reply), answer_tokens=500)
    proposer = FromModel("harness", asker)
    assert isinstance(proposer, Proposer)
    assert proposer.propose(view(), diagnosis()) is not None
    assert (seen[0]["max_tokens"], seen[0]["temperature"], "tools" in seen[0]) == (500, 0.0, False)
    assert asker.ask("s", "q", 300) == Said(json.dumps(LESS), 940)
    assert seen[1]["max_tokens"] == 300
    with pytest.raises(Unasked, match="used up"):
        asker.ask("s", "q", 0)


def test_a_server_that_refuses_gives_no_proposal_and_a_reason(serve: Callable[[Reply], str]) -> None:
    told: list[str] = []
    asker = Server("m", serve(lambda request: (400, b'{"error": {"message": "no such model"}}')))
    without = frozenset({"budget_too_small"})
    found = propose(view(), diagnosis(), without=without, more=(FromModel("harness", asker),), tell=told.append)
    assert [d.style for d in found] == ["rederive"]
    with pytest.raises(ProviderError, match="no such model"):
        FromModel("harness", asker).propose(view(), diagnosis())
