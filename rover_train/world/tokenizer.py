"""A tokenizer for the harness's text: byte-level BPE of a few hundred entries, trained on what drills say.

A word keeps the space before it and a number of at most three digits is one token, so that fields are copied token by
token. The same drills give the same files.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from rover.construct.families.chores import demonstrator
from rover_store.ids import digest
from rover_train.render import chat_template, dialect
from rover_train.world import drills, workspaces
from rover_train.world.desk import Desk, play

SIZE = 960
TEXTS = 1500
PAD, END = "<|pad|>", "<|end|>"
SPECIAL = (PAD, "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", END)
_PIECES = r"\n| ?\d{1,3}| ?[^\s\d]+| "


def train(seed: int) -> Any:
    """A tokenizer of the transformers library with our plain chat template."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE, special_tokens=list(SPECIAL), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    made.train_from_iterator(texts(seed), trainer)
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token=END, pad_token=PAD, additional_special_tokens=list(SPECIAL[1:5]),
        clean_up_tokenization_spaces=False,
    )  # fmt: skip
    wrapped.chat_template = chat_template("plain")
    return wrapped


def texts(seed: int) -> list[str]:
    """What is said in drills: requests, calls and outputs in the plain dialect, and every number that tables hold."""
    form = dialect("plain")
    out = [" ".join(["", *map(str, (*range(10), *workspaces.NUMBERS))])] * 20
    for number in range(TEXTS):
        rng = random.Random(int(digest(["text", seed, number])[:15], 16))
        view, tables = drills.draw(rng)
        out.append(f" {view.instruction}")
        for action, answers in play(demonstrator.plan, view, Desk(tables)):
            out.append(form.write(action.calls, action.message))
            out += [str(m["content"]) for m in form.show(answers)]
    return out


def save(folder: Path, tokenizer: Any) -> None:
    tokenizer.save_pretrained(str(folder))


