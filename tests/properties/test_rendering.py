"""Laws of rendering, over tokenizers and templates that differ in what they can do (`chat_tokenizers` says which are
real): what carries loss, that the ids decode to the template's text, that a demonstration has the ids of a rollout."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")
pytest.importorskip("transformers")

from chat_tokenizers import LOOKING_BACK, NAMES, REWRITING, tokenizer

from rover.harness.tools.specs import TOOLS
from rover.policy.protocol import PolicyView
from rover_store.records import Budget, Call, RolloutKey, ToolCall, Trajectory, Turn
from rover_train.render import DoesNotFit, Renderer, dialect
from rover_train.rows import Row

MANY = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
ID = "0" * 40
VIEW = PolicyView("Set the price of k3 to 12, then say so.", (TOOLS["read_file"], TOOLS["write_file"]))
WORD = st.sampled_from(
    ["k3", "12", "3.50", "Grüße", "漢字", "a\nb", " ", "  x", "<|im_end|>", "</s>", "<tool_call>", "</tool_call>", "{",
     '"', "<|end|>", "🙂", "\t", "<|eot_id|>", "[INST]", "orders.csv", "<｜User｜>"]
)  # fmt: skip
WORDS = st.lists(WORD, max_size=6).map(" ".join)
CALL = st.tuples(WORDS, WORDS).map(
    lambda pair: Call(
        id="x", tool="write_file", arguments={"path": "a " + pair[0], "content": pair[0]}, output=pair[1] or "nothing"
    )
)
TURNS = st.lists(st.lists(CALL, min_size=1, max_size=2), min_size=1, max_size=5)
#: what a policy says beside its calls: outer white space is dropped by templates, not by rows
SAID = WORDS.map(lambda text: "".join(text.replace("<", "").split()))


def trajectory(turns: list[list[Call]], said: str) -> Trajectory:
    key = RolloutKey(
        context=ID, task=ID, harness=ID, policy="p", seed=0, runtime="r",
        budget=Budget(turns=30, tokens=10_000, seconds=60.0),
    )  # fmt: skip
    played = [Turn(index=n, message=said if n else "", calls=tuple(calls), tree=ID) for n, calls in enumerate(turns)]
    last = Turn(index=len(turns), message=said, tree=ID)
    return Trajectory(key=key, package="p", start=ID, turns=(*played, last), final_message=said)


def renderer(name: str, **settings: Any) -> Renderer:
    made = tokenizer(name)
    if made is None:
        pytest.skip(f"the package with the tokenizer {name!r} is not installed")
    form = dialect("plain" if name == "plain" else "json")
    chosen = {"window": 100_000, "observation_tokens": 200, "drift": "split" if name in REWRITING else "error"}
    return Renderer(made, form, **{**chosen, **settings})


def asked(turn: Turn) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(id=c.id, tool=c.tool, arguments=c.arguments) for c in turn.calls)


def written(render: Renderer, turn: Turn) -> str:
    return render.dialect.write(asked(turn), turn.message)


def rolled_out(render: Renderer, run: Trajectory) -> tuple[Row, ...]:
    """The rows of a policy that samples, token by token, what the trajectory says."""
    dialogue = render.dialogue(VIEW)
    results: tuple[Call, ...] = ()
    for turn in run.turns:
        dialogue.open_turn(results)
        for token in render.turn_ids(asked(turn), turn.message):
            dialogue.sample(token, 0.0)
        results = turn.calls
    return dialogue.rows(package="p")


@pytest.mark.parametrize("name", NAMES)
@MANY
@given(turns=TURNS, said=SAID)
def test_loss_is_on_what_the_policy_wrote(name: str, turns: list[list[Call]], said: str) -> None:
    render, run = renderer(name), trajectory(turns, said)
    seen: list[int] = []
    for row in render.demonstration(VIEW, run):
        assert [t >= 0 for t in row.turn_id] == [m == 1 for m in row.loss_mask]
        blocks = [t for n, t in enumerate(row.turn_id) if t >= 0 and (n == 0 or row.turn_id[n - 1] != t)]
        assert len(set(blocks)) == len(blocks), "a turn's tokens stand together"
        for turn in blocks:
            ids = [i for i, t in zip(row.ids, row.turn_id, strict=True) if t == turn]
            assert ids[-1] == render.stop_id
            assert render.codec.decode(ids[:-1]) == render.turn_text(asked(run.turns[turn]), run.turns[turn].message)
        seen += blocks
    assert seen == list(range(len(run.turns)))


@pytest.mark.parametrize("name", NAMES)
@MANY
@given(turns=TURNS, said=SAID)
def test_a_demonstration_has_the_ids_of_a_rollout(name: str, turns: list[list[Call]], said: str) -> None:
    render, run = renderer(name), trajectory(turns, said)
    rows = render.demonstration(VIEW, run)
    assert rows == rolled_out(render, run)
    if len(rows) == 1 and name not in LOOKING_BACK:  # the calls without state give the same ids
        ids = render.opening(VIEW)
        for turn in run.turns:
            sampled = render.turn_ids(asked(turn), turn.message)
            ids += sampled + (render.between(sampled, turn.calls) if turn.calls else [])
        assert ids == rows[0].ids


@pytest.mark.parametrize("name", [n for n in NAMES if n not in REWRITING])
@MANY
@given(turns=TURNS, said=SAID)
def test_ids_decode_to_the_text_of_the_template(name: str, turns: list[list[Call]], said: str) -> None:
    render, run = renderer(name), trajectory(turns, said)
    messages, offer = render.begin(VIEW)
    for turn in run.turns:
        messages.append({"role": "assistant", "content": written(render, turn)})
        messages += render.observations(turn.calls) if turn.calls else []
    (row,) = render.demonstration(VIEW, run)
    text = render.chat.text(messages[:-1], offer=offer, prompt=True) + written(render, run.turns[-1])
    decoded = render.codec.decode(row.ids[:-1])
    # where two pieces meet, templates trim what was said; nothing else may differ
    assert "".join(decoded.split()) == "".join(text.split())
    if name in ("plain", "chatml", "smollm2", "deepseek"):
        assert decoded == text


@pytest.mark.parametrize("name", NAMES)
@MANY
@given(turns=TURNS, said=SAID, share=st.floats(0.3, 1.0))
def test_rows_of_a_small_window_hold_every_turn_once(
    name: str, turns: list[list[Call]], said: str, share: float
) -> None:
    whole, run = renderer(name, drift="split"), trajectory(turns, said)
    longest = max(len(row.ids) for row in whole.demonstration(VIEW, run))
    opening = len(whole.opening(VIEW))
    room = max(len(whole.turn_ids(asked(turn), turn.message)) for turn in run.turns)
    render = renderer(name, window=opening + int((longest - opening) * share), turn_tokens=room, drift="split")
    try:
        rows = render.demonstration(VIEW, run)
    except DoesNotFit:
        assert opening + room > render.window or any(turn.calls for turn in run.turns)
        return
    assert rows == rolled_out(render, run)
    assert [t for row in rows for t in sorted(set(row.turn_id) - {-1})] == list(range(len(run.turns)))
    for row in rows:
        assert len(row.ids) <= render.window
        assert name in REWRITING or row.ids[:opening] == whole.opening(VIEW)


@pytest.mark.parametrize("name", NAMES)
@MANY
@given(turns=TURNS, cut=st.integers(1, 12))
def test_a_turn_cut_at_its_limit_is_closed_without_loss(name: str, turns: list[list[Call]], cut: int) -> None:
    render = renderer(name, drift="split")
    dialogue = render.dialogue(VIEW)
    dialogue.open_turn(())
    calls = tuple(turns[0])
    full = render.turn_ids(asked(Turn(index=0, calls=calls, tree=ID)), "")
    for token in full[:cut]:
        dialogue.sample(token, -1.0)
    render.read(dialogue.written, 0)
    dialogue.open_turn(calls)
    if name not in REWRITING and len(dialogue.rows()) == 1:
        start = len(render.opening(VIEW))
        assert dialogue.ids[start : start + cut] == full[:cut]
        assert dialogue.ids[start + cut] == render.stop_id
        assert dialogue.turn_id[start + cut] == -1
    assert sum(sum(row.loss_mask) for row in dialogue.rows()) == cut


@pytest.mark.parametrize("name", NAMES)
@MANY
@given(output=WORDS, budget=st.integers(30, 60))
def test_observations_keep_to_their_budget(name: str, output: str, budget: int) -> None:
    render = renderer(name, observation_tokens=budget)
    result = Call(id="x", tool="read_file", arguments={"path": "a"}, output=f"{output} word " * 60)
    (message,) = render.observations((result,))
    text = message["content"]
    shown = text.removeprefix("<tool_response>\n").removesuffix("\n</tool_response>")
    control = [special for special in render.codec.special if special]
    assert shown.endswith(render.dialect.cut)
    assert len(render.codec.encode(shown)) <= budget + 4
    assert render.observations((result,)) == [message]
    assert not any(special in shown for special in control)
