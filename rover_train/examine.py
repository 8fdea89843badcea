"""What `rover eval` does: who is examined, on which packages, and the record of it.

A run is examined at its best checkpoint, rendered as it was trained, on the held-out part of its own split unless
told otherwise. A policy of any other kind takes the same packages and seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rover.ops.shard import Shard, piece
from rover_store.errors import UsageError
from rover_store.ids import digest
from rover_train import config as configs
from rover_train import split as splits
from rover_train.config import Config
from rover_train.evaluate import Told, evaluate_model, evaluate_policy, wanted
from rover_train.evaluation import EvalRow, Evaluation, place_in
from rover_train.sample.settings import TURN_TOKENS
from rover_train.selection import select
from rover_train.train import checkpoint
from rover_train.train import run as runs

if TYPE_CHECKING:
    from rover.sandbox.protocol import Runtime
    from rover_store.store import Store


@dataclass(frozen=True, slots=True)
class Question:
    """Empty means: not said. One of `model` and `policy` is needed."""

    model: str = ""
    policy: str = ""
    revision: str = ""
    split: str = ""
    part: str = ""
    pattern: str = ""
    attempts: int = 1
    temperature: float = 0.0
    seed: int = 1
    limit: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    sets: tuple[str, ...] = ()
    #: of the packages chosen, those of this part; an evaluation of a part is no evaluation
    shard: Shard | None = None


class Chosen(NamedTuple):
    """The packages, and what says how they were chosen."""

    commit: str
    names: list[str]
    part: str
    split: str


def examine(
    store: Store,
    open_runtime: Callable[[], Runtime],
    question: Question,
    *,
    workers: int = 2,
    told: Told = lambda row, done, total: None,
) -> Evaluation:
    """The evaluation. UsageError, NotFound or CheckpointError before anything runs where it makes no sense."""
    if bool(question.model) == bool(question.policy):
        raise UsageError("say who is evaluated: --model or --policy, one of them")
    run = run_of(question.model)
    chosen = _part_of(store, choose(store, question, run), question.shard)
    if question.model:
        return _of_model(store, open_runtime, question, chosen, run, told)
    runtime = open_runtime()
    try:
        rows = evaluate_policy(
            store, runtime, chosen.commit, chosen.names, question.policy, attempts=question.attempts,
            seed=question.seed, workers=workers, options=question.options, told=told,
        )  # fmt: skip
    finally:
        runtime.close()
    return _record(question, chosen, rows, policy=question.policy, of=question.policy, temperature=None)


def choose(store: Store, question: Question, run: Path | None = None) -> Chosen:
    """Which packages: a part of a split, or a glob."""
    source = question.split or (str(run) if run is not None and not question.pattern else "")
    if question.pattern and (question.split or question.part):
        raise UsageError("a glob and a part of a split both say which packages; give one of them")
    if not source:
        if question.part:
            raise UsageError(f"--part {question.part} is of a split, and none is given", hint="--split RUN-or-file")
        if not question.revision:
            raise UsageError("--revision is missing: the commit, tag or branch to evaluate on")
        commit = store.resolve(question.revision)
        names = [entry.name for entry in select(store, commit, question.pattern or "*")]
        return Chosen(commit, names[: question.limit or None], "", "")
    path = Path(source)
    found = splits.load(path / "split.json" if path.is_dir() else path)
    commit = store.resolve(question.revision) if question.revision else found.revision
    if commit != found.revision:
        raise UsageError(
            f"{source}: the split is of revision {found.revision[:12]}, not {commit[:12]}",
            hint=f"rover split --rev {commit[:12]} makes one",
        )
    store.resolve(commit)
    part = (question.part or "held_out").replace("-", "_")
    if part not in splits.PARTS:
        raise UsageError(f"--part {question.part}: there are train, validation and held-out")
    names = list(found.part(part).packages)[: question.limit or None]
    if not names:
        raise UsageError(f"{source}: the part {part.replace('_', '-')} of the split is empty")
    return Chosen(commit, wanted(store, commit, names), part, digest(found.model_dump(mode="json")))


def _part_of(store: Store, chosen: Chosen, shard: Shard | None) -> Chosen:
    """What a part of several machines has of the packages."""
    if shard is None:
        return chosen
    pieces = {e.name: piece(e.components, e.name) for e in store.packages(chosen.commit)}
    return chosen._replace(names=[name for name in chosen.names if shard.takes(pieces[name])])


def run_of(model: str) -> Path | None:
    """The run that a model is, or is a checkpoint of."""
    return checkpoint.run_of(Path(model)) if model else None


def keep(found: Evaluation, run: Path) -> Path:
    """Write an evaluation into its run's folder, under a name that says what it is of, and into the model card."""
    whole = found.part and {row.package for row in found.rows} == set(_own(run, found.part))
    place = place_in(run, found, whole=bool(whole))
    place.parent.mkdir(exist_ok=True)
    place.write_text(found.dump(), encoding="utf-8")
    if (run / "README.md").exists():  # a run that has ended
        runs.renew_card(run, runs.config_of(run))
    return place


def _own(run: Path, part: str) -> tuple[str, ...]:
    """The packages in a part of a run's own split."""
    return splits.load(run / "split.json").part(part).packages


# --- a model -------------------------------------------------------------------------------------------------
def _of_model(
    store: Store, open_runtime: Callable[[], Runtime], question: Question, chosen: Chosen, run: Path | None, told: Told
) -> Evaluation:
    config = _config(question, run)
    from rover_train import models
    from rover_train.rl.arena import Arena
    from rover_train.rl.players import OwnPlayer
    from rover_train.train import rng

    rng.seed_all(config.seed, config.threads)
    _, folder, _ = models.locate(question.model)
    loaded = models.load(question.model, dtype=config.model.dtype, device=config.model.device)
    turn = config.rl.max_turn_tokens
    renderer = loaded.renderer(config.render, turn_tokens=turn)
    player = OwnPlayer(loaded, renderer, temperature=question.temperature, max_turn_tokens=turn)
    runtime = open_runtime()
    try:
        with Arena(store, runtime, chosen.commit, width=config.rl.width) as arena:
            policy, actor = player.ready(0)
            rows = evaluate_model(
                arena, chosen.names, policy, actor, attempts=question.attempts, seed=question.seed,
                width=config.rl.width, told=told,
            )  # fmt: skip
    finally:
        runtime.close()
    found = _record(
        question, chosen, rows, policy=policy.id, of=loaded.name, temperature=question.temperature, turn_tokens=turn
    )
    if run is None:
        return found
    state = checkpoint.check(folder, files=False)
    return found.model_copy(update={"step": state.step, "method": state.method})


def _config(question: Question, run: Path | None) -> Config:
    """How the model is rendered: as its run says, with settings on top."""
    if run is None:
        base: dict[str, Any] = {"rl": {"max_turn_tokens": TURN_TOKENS}}
    else:
        base = configs.read_toml(run / "config.toml")
        configs.check(base, str(run / "config.toml"))
    return configs.made(base, question.sets, {})


def _record(
    question: Question, chosen: Chosen, rows: tuple[EvalRow, ...], *, policy: str, of: str,
    temperature: float | None, turn_tokens: int | None = None,
) -> Evaluation:  # fmt: skip
    return Evaluation(
        revision=chosen.commit, policy=policy, of=of, part=chosen.part, split=chosen.split,
        attempts=question.attempts, seed=question.seed, temperature=temperature, turn_tokens=turn_tokens, rows=rows,
    )  # fmt: skip
