"""Model policies in whole rollouts: alone through the engine, in lockstep, and by name."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import tiny_rl  # noqa: E402

from rover.policy.registry import get_policy  # noqa: E402
from rover.policy.tokens import whole_prompts  # noqa: E402
from rover.rollout.engine import Engine  # noqa: E402
from rover.rollout.env import load_env  # noqa: E402
from rover.rollout.records import RolloutRequest  # noqa: E402
from rover.rollout.together import Together  # noqa: E402
from rover_store.errors import UsageError  # noqa: E402
from rover_store.records import Budget  # noqa: E402
from rover_train import models  # noqa: E402
from rover_train.config import dump  # noqa: E402
from rover_train.render.settings import RenderSettings  # noqa: E402
from rover_train.sample.policy import ModelPolicy  # noqa: E402
from rover_train.sample.sampler import Sampler  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_rl.model_folder(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="module")
def env(tmp_path_factory):
    store, _ = tiny_rl.store(tmp_path_factory.mktemp("store"))
    return load_env(store, store.package("copy-shop").tree)


@pytest.fixture(scope="module")
def runtime():
    running = tiny_rl.runtime()
    yield running
    running.close()


def sampler(folder):
    loaded = models.load(str(folder))
    renderer = loaded.renderer(RenderSettings(window=300, observation_tokens=40))
    return Sampler(loaded.model, renderer, temperature=1.5, max_turn_tokens=12)


def test_lanes_in_lockstep_write_what_single_rollouts_write(folder, env, runtime):
    """Same trajectories by `Together` with eight lanes as by the engine with batches of one."""
    actor = sampler(folder)
    policy = ModelPolicy(actor, "hf:test")
    requests = [RolloutRequest(env, policy, seed) for seed in range(8)]
    with Together(runtime, width=8, acting=actor.acting) as together:
        done = together.play(requests)
    with Engine(runtime) as engine:
        alone = engine.rollouts(requests)
    assert [d.result.trajectory for d in done] == [r.trajectory for r in alone]
    assert len({d.result.trajectory.dump() for d in done}) == 8
    for one in done:
        turns = len(one.result.trajectory.turns)
        rows = one.session.rows(one.result.id, env.package)
        assert rows[0].rollout == one.result.id
        written = {t for row in rows for t, m in zip(row.turn_id, row.loss_mask, strict=True) if m}
        # a turn that was cut, or did not fit any more, is in the rows and not in the trajectory
        assert set(range(turns)) <= written <= set(range(turns + 1))
        assert sum(sum(row.loss_mask) for row in rows) >= one.result.trajectory.usage.completion_tokens


def test_turns_tell_their_tokens_where_they_are_asked(folder, env, runtime):
    """Prompt, completion and log-probabilities are those of the training rows; nothing else of a rollout changes."""
    actor = sampler(folder)
    plain, telling = ModelPolicy(actor, "hf:test"), ModelPolicy(actor, "hf:test", tokens=True)
    played = []
    for policy in (plain, telling):
        with Together(runtime, width=6, acting=actor.acting) as together:
            played.append(together.play([RolloutRequest(env, policy, seed) for seed in range(6)]))
    told = 0
    for bare, done in zip(*played, strict=True):
        turns = done.result.trajectory.turns
        assert [turn.model_copy(update={"tokens": None}) for turn in turns] == list(bare.result.trajectory.turns)
        rows = done.session.rows()  # several where the window was used up
        for turn, prompt in zip(turns, whole_prompts(turns), strict=True):
            row = next(row for row in rows if turn.index in row.turn_id)
            at = len(prompt)
            end = at + len(turn.tokens.completion)
            assert list(prompt) == row.ids[:at]
            assert list(turn.tokens.completion) == row.ids[at:end]
            assert list(turn.tokens.logprobs) == row.logprobs[at:end]
            assert set(row.turn_id[at:end]) == {turn.index}
            told += 1
    assert told >= 6
    assert get_policy(f"hf:{folder}", tokens=True).id == get_policy(f"hf:{folder}").id


def test_the_installed_policy_runs_by_name(folder, env, runtime):
    policy = get_policy(f"hf:{folder}")
    assert policy.id.split(":")[:2] == ["hf", models.weights_id(models.load(str(folder)).model)[:16]]
    assert get_policy(f"hf:{folder}") is policy  # loaded once for many packages
    with Engine(runtime, workers=2) as engine:
        first, second = engine.rollouts([RolloutRequest(env, policy, seed, Budget(turns=2)) for seed in (1, 2)])
    assert first.trajectory.end == second.trajectory.end == "policy_error"  # an untrained model ends nowhere
    assert first.trajectory.dump() != second.trajectory.dump()


def test_the_id_tells_temperature_and_weights(folder, tmp_path):
    warm = get_policy(f"hf:{folder}").id
    greedy = get_policy(f"hf:{folder}", temperature=0.0).id
    other = get_policy(f"hf:{tiny_rl.model_folder(tmp_path / 'tiny', width=48)}").id
    assert len({warm, greedy, other}) == 3
    assert ":T0:" in greedy


def test_a_checkpoint_is_rendered_as_it_was_trained(tmp_path):
    settings = tiny_rl.config("5" * 40, render={"window": 123}, rl={"max_turn_tokens": 17})
    tiny_rl.model_folder(tmp_path / "run" / "checkpoints" / "kept")
    (tmp_path / "run" / "config.toml").write_text(dump(settings))
    made = get_policy(f"hf:{tmp_path}/run/checkpoints/kept").id
    assert ":T1:17:" in made
    assert ":123:64:17:" in made  # window, tokens of an observation, room for a turn


@pytest.mark.parametrize(("spec", "said"), [("hf:", "needs a model"), ("hf:/no/such/place", "no such folder")])
def test_specs_that_name_no_model_are_refused(spec, said):
    with pytest.raises(UsageError, match=said):
        get_policy(spec)
