"""Conversations of a tiny model with tools that answer at once: what a rendezvous does, without threads.

    renderer(window)                 byte-level vocabulary of 261 ids, the template `plain`
    model(kind)                      two layers of width 32 of some make, weights drawn from a fixed seed
    play(sampler, asks, turns)       the finished sessions, one a lane
"""

from __future__ import annotations

from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    GPTNeoXConfig,
    LlamaConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
)

from rover.policy.protocol import Action, PolicyView
from rover_store.records import Call
from rover_train.render import Renderer, chat_template, dialect
from rover_train.sample.policy import ModelPolicy, ModelSession

ROLES = ["<|user|>", "<|assistant|>", "<|tool|>", "<|system|>"]
CONFIGS = {
    "llama": LlamaConfig,
    "biased": LlamaConfig,
    "qwen2": Qwen2Config,
    "qwen3": Qwen3Config,
    "gpt_neox": GPTNeoXConfig,
}


def tokenizer() -> Any:
    letters = {letter: n for n, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    bytewise = Tokenizer(models.BPE(vocab=letters, merges=[]))
    bytewise.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytewise.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(tokenizer_object=bytewise, eos_token="<|end|>")
    made.add_special_tokens({"additional_special_tokens": ROLES})
    made.chat_template = chat_template("plain")
    return made


def renderer(window: int = 400) -> Renderer:
    """One id in twelve ends a turn, since an untrained model writes them all alike."""
    made = Renderer(tokenizer(), dialect("plain"), window=window, observation_tokens=40)
    made.stop_ids |= frozenset(range(0, 256, 12))
    return made


def model(kind: str = "llama") -> Any:
    sizes = {"num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4}
    grouped = {} if kind == "gpt_neox" else {"num_key_value_heads": 2, "head_dim": 8}
    if kind == "biased":
        grouped |= {"attention_bias": True, "mlp_bias": True}
    config = CONFIGS[kind](vocab_size=264, max_position_embeddings=512, tie_word_embeddings=True, **sizes, **grouped)
    torch.manual_seed(0)
    made = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, weight in made.named_parameters():
            if name.endswith("bias"):
                weight.normal_(0.0, 0.1)
            weight.mul_(3.0 if weight.dim() > 1 else 1.0)  # far from uniform: a wrong position or mask shows
    return made.eval()


def play(actor: Any, asks: list[str], turns: int, seeds: list[int] | None = None) -> list[ModelSession]:
    """Lane k asks asks[k]; its tool answers are as long as lane and turn make them. A lane ends at an error or after
    so many turns; the error is kept as `session.error`."""
    policy = ModelPolicy(actor, "test")
    sessions: list[Any] = []
    for lane, ask in enumerate(asks):
        sessions.append(policy.start(PolicyView(ask, ()), seeds[lane] if seeds else lane))
    waiting: dict[int, tuple[Any, tuple[Call, ...]]] = {lane: (one, ()) for lane, one in enumerate(sessions)}
    while waiting:
        for lane, answer in actor.acting(sorted(waiting.items())).items():
            session = waiting.pop(lane)[0]
            session.error = answer if isinstance(answer, Exception) else None
            if isinstance(answer, Action) and session.dialogue.turn + 1 < turns:
                output = "seen " * ((lane * 3 + session.dialogue.turn) % 5)
                waiting[lane] = (session, (Call(id="1", tool="read_file", output=output),))
            else:
                session.close()
    return sessions


def written(session: ModelSession) -> list[int]:
    """The ids that the model wrote, over all rows."""
    return [i for row in session.rows() for i, mask in zip(row.ids, row.loss_mask, strict=True) if mask]


def worst_difference(model: Any, sessions: list[ModelSession]) -> float:
    """The largest difference between recorded log-probabilities and those of one whole forward pass."""
    worst = 0.0
    for row in [row for session in sessions for row in session.rows()]:
        ids = torch.tensor([row.ids])
        with torch.no_grad():
            all_of_them = model(ids).logits.float().log_softmax(-1)[0, :-1]
        whole = all_of_them.gather(1, ids[0, 1:, None])[:, 0]
        mask = torch.tensor(row.loss_mask[1:], dtype=torch.bool)
        worst = max(worst, float((whole - torch.tensor(row.logprobs[1:]))[mask].abs().max()))
    return worst
