"""Pretraining of the small model: a little copying of random tokens, then drills. No package is seen.

    made = pretrain(folder, seed, steps=...)      # a folder that `small:FOLDER` names
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as nnf
from torch import Tensor

from rover_store.errors import UsageError
from rover_train.models import quiet
from rover_train.render import Renderer, dialect
from rover_train.rows import Row
from rover_train.train import optim
from rover_train.train.settings import OptimSettings
from rover_train.world import model as small
from rover_train.world import tokenizer as words
from rover_train.world.drills import drills

STEPS = 900
COPYING = 40
#: drills in a batch, and batches that are sorted by length together
DRILLS, SORTED = 16, 8
WINDOW = 1024
OPTIM = OptimSettings(name="muon", lr=3e-3, muon_lr=0.02, schedule="linear", warmup=20, floor=0.05)
IGNORED = -100

#: step, steps in all, loss
Told = Callable[[int, int, float], None]


def pretrain(
    folder: Path, seed: int, *, steps: int = STEPS, told: Told = lambda step, total, loss: None
) -> dict[str, Any]:
    """Make tokenizer and model in `folder`, and train the model on drills; facts about it. 0 steps: none at all."""
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder}: not empty")
    folder.mkdir(parents=True, exist_ok=True)  # now: what cannot be written is known before minutes of work
    torch.set_num_threads(1)
    tokenizer = words.train(seed)
    renderer = Renderer(tokenizer, dialect("plain"), window=WINDOW, observation_tokens=WINDOW)
    model = small.make(len(tokenizer), seed)
    began = time.process_time()
    facts = _train(model, renderer, seed, steps, told)
    seconds = time.process_time() - began
    words.save(folder, tokenizer)
    with quiet():
        model.save_pretrained(str(folder))
    size = sum(p.numel() for p in model.parameters())
    made = {"seed": seed, "vocabulary": len(tokenizer), "parameters": size, **facts}
    (folder / "world.json").write_text(json.dumps(made, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return {**made, "seconds": round(seconds, 1)}


def _train(model: Any, renderer: Renderer, seed: int, steps: int, told: Told) -> dict[str, Any]:
    optimiser = optim.build(model, OPTIM)
    batches = _batches(drills(renderer, seed), seed)
    chance = torch.Generator().manual_seed(seed)
    loss, tokens = 0.0, 0
    model.train()
    for step in range(steps):
        ids, labels = _copying(model.config.vocab_size, chance) if step < COPYING else _padded(next(batches))
        optimiser.zero_grad()
        value = _loss(model, ids, labels)
        value.backward()  # type: ignore[no-untyped-call]
        optimiser.step(step, steps)
        loss = value.item() if step == 0 else 0.95 * loss + 0.05 * value.item()
        tokens += ids.numel()
        told(step + 1, steps, loss)
    model.eval()
    return {"steps": steps, "tokens": tokens, "loss": round(loss, 4)}


def _loss(model: Any, ids: Tensor, labels: Tensor) -> Tensor:
    logits = model(input_ids=ids).logits[:, :-1]
    return nnf.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1), ignore_index=IGNORED)


def _copying(vocabulary: int, chance: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random tokens, two and a half times over; what comes again is to be foretold."""
    length = int(torch.randint(8, 24, (1,), generator=chance))
    once = torch.randint(len(words.SPECIAL), vocabulary, (32, length), generator=chance)
    ids = torch.cat((once, once, once[:, : length // 2]), dim=1)
    labels = ids.clone()
    labels[:, :length] = IGNORED
    return ids, labels


def _batches(rows: Iterator[Row], seed: int) -> Iterator[list[Row]]:
    """Drills of like length together, since padded tokens cost as much as real ones."""
    chance = random.Random(seed)
    while True:
        some = sorted((next(rows) for _ in range(DRILLS * SORTED)), key=lambda row: len(row.ids))
        batches = [some[at : at + DRILLS] for at in range(0, len(some), DRILLS)]
        chance.shuffle(batches)
        yield from batches


def _padded(taken: list[Row]) -> tuple[Tensor, Tensor]:
    """Drills padded at the right; loss on what the policy writes."""
    width = max(len(row.ids) for row in taken)
    ids, labels = torch.zeros(len(taken), width, dtype=torch.long), torch.full((len(taken), width), IGNORED)
    for at, row in enumerate(taken):
        here = torch.tensor(row.ids)
        ids[at, : len(row.ids)] = here
        labels[at, : len(row.ids)] = torch.where(torch.tensor(row.loss_mask).bool(), here, IGNORED)
    return ids, labels
