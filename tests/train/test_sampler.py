"""The sampler: log-probabilities, independence of lanes, lockstep, ends of turns and rollouts."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")

import small_lanes as lanes  # noqa: E402

from rover.policy.protocol import PolicyFailure, PolicyView  # noqa: E402
from rover_store.errors import ProviderError  # noqa: E402
from rover_train.sample.cache import RaggedCache  # noqa: E402
from rover_train.sample.forward import PIECE, TransformersForward, portions, read  # noqa: E402
from rover_train.sample.lean import LeanForward, supports  # noqa: E402
from rover_train.sample.policy import ModelPolicy  # noqa: E402
from rover_train.sample.sampler import Sampler  # noqa: E402

ASKS = ["one", "two and more of it", "one", "a longer request than the others have, by far", "five", "one", "x"]
SAMPLING = {"max_turn_tokens": 14}

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def llama():
    return lanes.model()


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("kind", ["llama", "biased", "qwen2", "qwen3", "gpt_neox"])
def test_log_probabilities_are_those_of_a_whole_forward_pass(kind, fast):
    model = lanes.model(kind)
    sampler = Sampler(model, lanes.renderer(), fast=fast, **SAMPLING)
    assert isinstance(sampler.forward, LeanForward) == (fast and kind != "gpt_neox")
    sessions = lanes.play(sampler, ASKS, turns=5)
    assert lanes.worst_difference(model, sessions) < 1e-5
    assert sum(len(lanes.written(session)) for session in sessions) == sampler.sampled > 200


def test_the_forward_pass_fits_the_model_as_it_is_when_lanes_are_released():
    """A model is moved or cast after its sampler was made: as it is placed for training."""
    model = lanes.model()
    sampler = Sampler(model, lanes.renderer(), **SAMPLING)
    lanes.play(sampler, ASKS[:2], turns=1)
    model.to(torch.float64)
    sampler.release()
    sessions = lanes.play(sampler, ASKS[:2], turns=2)
    assert isinstance(sampler.forward, TransformersForward)
    assert lanes.worst_difference(model, sessions) < 1e-5


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_model_whose_output_is_no_number_is_an_error_of_the_infrastructure(temperature):
    """Its rollouts must not become failures of an agent, with a reward."""
    model = lanes.model()
    with torch.no_grad():
        model.lm_head.weight.fill_(float("nan"))
    sampler = Sampler(model, lanes.renderer(), temperature=temperature, **SAMPLING)
    with pytest.raises(ProviderError, match="output is no number"):
        lanes.play(sampler, ASKS, turns=1)


def test_the_temperature_is_part_of_the_log_probabilities(llama):
    sampler = Sampler(llama, lanes.renderer(), temperature=2.0, **SAMPLING)
    (session,) = lanes.play(sampler, ["hot"], turns=1)
    (row,) = session.rows()
    logits = llama(torch.tensor([row.ids])).logits[0].detach()
    for at, (mask, token) in enumerate(zip(row.loss_mask, row.ids, strict=True)):
        if mask:
            assert row.logprobs[at] == pytest.approx(float((logits[at - 1] / 2.0).log_softmax(-1)[token]), abs=1e-5)


def test_what_a_lane_samples_does_not_depend_on_the_others(llama):
    together = lanes.play(Sampler(llama, lanes.renderer(), **SAMPLING), ASKS, turns=4)
    for lane, ask in enumerate(ASKS):
        (alone,) = lanes.play(Sampler(llama, lanes.renderer(), **SAMPLING), [ask], turns=1, seeds=[lane])
        whole = lanes.written(together[lane])
        assert whole[: len(lanes.written(alone))] == lanes.written(alone)


def test_equal_seeds_and_asks_give_equal_turns_and_other_seeds_others(llama):
    sampler = Sampler(llama, lanes.renderer(), **SAMPLING)
    same = [lanes.written(s) for s in lanes.play(sampler, ["same"] * 3, turns=1, seeds=[5, 5, 6])]
    assert same[0] == same[1] != same[2]
    other = Sampler(llama, lanes.renderer(), seed=1, **SAMPLING)
    assert lanes.written(lanes.play(other, ["same"], turns=1, seeds=[5])[0]) != same[0]


def test_the_same_lanes_give_the_same_bits(llama):
    runs = [lanes.play(Sampler(llama, lanes.renderer(), **SAMPLING), ASKS, turns=4) for _ in range(2)]
    assert [s.rows() for s in runs[0]] == [s.rows() for s in runs[1]]


def test_a_released_sampler_starts_as_a_new_one(llama):
    sampler = Sampler(llama, lanes.renderer(), **SAMPLING)
    first = [s.rows() for s in lanes.play(sampler, ASKS, turns=3)]
    sampler.release()
    assert sampler.forward.cache.rows == 0
    assert [s.rows() for s in lanes.play(sampler, ASKS, turns=3)] == first


def test_greedy_takes_the_likeliest_token(llama):
    (session,) = lanes.play(Sampler(llama, lanes.renderer(), temperature=0.0, **SAMPLING), ["greedy"], turns=2)
    (row,) = session.rows()
    likeliest = llama(torch.tensor([row.ids])).logits[0].argmax(-1).tolist()
    assert all(not mask or row.ids[at] == likeliest[at - 1] for at, mask in enumerate(row.loss_mask))


def test_a_quarter_of_the_lanes_is_answered_at_a_time(llama):
    sampler = Sampler(llama, lanes.renderer(), max_turn_tokens=40)
    policy = ModelPolicy(sampler, "test")
    pending = [(lane, (policy.start(PolicyView(f"ask {lane}", ()), lane), ())) for lane in range(20)]
    answers = sampler.acting(pending)
    assert 5 <= len(answers) < 20
    rest = [(lane, payload) for lane, payload in pending if lane not in answers]
    written = [len(payload[0].dialogue.written) for _, payload in rest]
    assert len(set(written)) == 1  # these are all at the same token of their turn
    again = sampler.acting(rest)
    assert again.keys() <= {lane for lane, _ in rest}
    assert len(again) >= len(rest) / 4


def test_rows_of_the_cache_follow_the_lanes_that_live(llama):
    sampler = Sampler(llama, lanes.renderer(), **SAMPLING)
    lanes.play(sampler, ASKS, turns=2)
    lanes.play(sampler, ["later"], turns=1)
    assert [lane.session.closed for lane in sampler._rows] == [True]  # the last one is forgotten at the next call


def test_a_used_up_window_ends_the_rollout(llama):
    sessions = lanes.play(Sampler(llama, lanes.renderer(window=90), max_turn_tokens=30), ["ask", "other"], turns=50)
    for session in sessions:
        assert isinstance(session.error, PolicyFailure)
        assert str(session.error) == "the context window of 90 tokens is used up"
        assert all(len(row.ids) <= 90 for row in session.rows())
        assert session.rows()


def test_a_window_with_room_for_turns_goes_on_in_new_rows(llama):
    renderer = lanes.renderer(window=90)
    renderer.turn_tokens = 14
    sessions = lanes.play(Sampler(llama, renderer, **SAMPLING), ["ask", "other"], turns=12)
    assert all(len(session.rows()) > 1 and session.error is None for session in sessions)
    assert lanes.worst_difference(llama, sessions) < 1e-5
    for session in sessions:
        turns = [t for row in session.rows() for t, m in zip(row.turn_id, row.loss_mask, strict=True) if m]
        assert turns == sorted(turns)
        assert set(turns) == set(range(12))


def test_a_turn_without_an_end_is_cut(llama):
    renderer = lanes.renderer()
    renderer.stop_ids = frozenset({263})
    (session,) = lanes.play(Sampler(llama, renderer, max_turn_tokens=9), ["go"], turns=2)
    assert len(session.dialogue.written) == 9 or session.dialogue.turn > 0


def test_evaluation_mode_is_left_as_it_was():
    model = lanes.model()
    model.train()
    lanes.play(Sampler(model, lanes.renderer(), **SAMPLING), ["ask"], turns=1)
    assert model.training


@pytest.mark.parametrize("make", [TransformersForward, LeanForward])
def test_long_inputs_are_read_in_pieces(llama, make):
    generator = torch.Generator().manual_seed(1)
    texts = [torch.randint(0, 256, (n,), generator=generator).tolist() for n in (PIECE + 70, 3, 2 * PIECE + 1, 500)]
    forward = make(llama)
    with torch.inference_mode():
        forward.refresh()
        forward.cache.reserve(4, 1)
        found = read(forward, [2, 0, 3, 1], texts, [0, 0, 0, 0])
        whole = torch.stack([llama(torch.tensor([text])).logits[0, -1] for text in texts])
    assert torch.allclose(found, whole, atol=1e-4)


def test_portions_are_bounded_and_cover_all():
    counts = [700, 20, 1500, 3000, 1, 1, 900, 900, 900]
    parts = portions(counts)
    assert [part.start for part in parts[1:]] == [part.stop for part in parts[:-1]]
    assert (parts[0].start, parts[-1].stop) == (0, len(counts))
    for part in parts:
        some = counts[part]
        assert len(some) == 1 or max(some) * len(some) <= 2048


def test_rows_keep_their_states_when_buffers_grow_and_rows_are_swapped():
    cache = RaggedCache()
    states = torch.arange(24.0).view(4, 2, 3)  # tokens, heads, size
    cache.plan_chunks([0, 1], [0, 0], [3, 1])
    layer = cache.held(0, states, -states)
    before = [layer.keys[row, :, :3].clone() for row in (0, 1)]
    cache.reserve(5, 100)
    cache.swap(0, 1, 3)
    assert torch.equal(layer.keys[1, :, :3], before[0])
    assert torch.equal(layer.keys[0, :, :3], before[1])
    cache.copy(1, 4, 3)
    assert torch.equal(layer.values[4, :, :3], -before[0])
    assert [cache.rows >= 5, cache.capacity >= 100] == [True, True]


def test_adapters_are_part_of_the_lean_forward():
    peft = pytest.importorskip("peft")
    warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning)  # peft's own call
    model = peft.get_peft_model(
        lanes.model(), peft.LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM")
    ).eval()
    assert supports(model)
    sampler = Sampler(model, lanes.renderer(), **SAMPLING)
    plain = [s.rows() for s in lanes.play(sampler, ASKS[:2], turns=2)]
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.normal_(0.0, 0.2)
    sampler.release()
    sessions = lanes.play(sampler, ASKS[:2], turns=2)
    assert isinstance(sampler.forward, LeanForward)
    assert [s.rows() for s in sessions] != plain
    assert lanes.worst_difference(model, sessions) < 1e-5


def test_models_that_compute_otherwise_keep_their_own_forward():
    bf16 = lanes.model().to(torch.bfloat16)
    assert not supports(bf16)
    gelu = lanes.model()
    gelu.config.hidden_act = "gelu"
    assert not supports(gelu)
    biased = lanes.model("gpt_neox")
    assert not supports(biased)
    assert [supports(lanes.model(kind)) for kind in ("llama", "qwen2", "qwen3")] == [True] * 3
    sliding = lanes.model("qwen2")
    sliding.config.layer_types = ["full_attention", "sliding_attention"]
    assert not supports(sliding)
