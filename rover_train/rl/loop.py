"""The RL run: steps, evaluation on validation packages, checkpoints, and a stop that loses nothing.

A step depends on the weights, the config and its number alone. So a run that was killed goes on from its newest
checkpoint and takes the steps behind it again, to the same bits. Errors end the run and leave the newest checkpoint
as it is: NotFinite names the batch; ProviderError and SandboxError say that nothing but failures came back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rover.rollout.spoilt import failure
from rover_store.errors import UsageError
from rover_train import models
from rover_train.config import Config
from rover_train.evaluate import evaluate_model, wanted
from rover_train.evaluation import Evaluation
from rover_train.rl.arena import Arena
from rover_train.rl.learn import Learner, Reference
from rover_train.rl.players import OwnPlayer, Player, ServedPlayer
from rover_train.rl.samples import write_samples
from rover_train.rl.step import ByScheme, Credits, Learn, Stepped, stepped
from rover_train.rl.timing import Timing
from rover_train.rl.update import Updater
from rover_train.sample.vllm import VllmSampler
from rover_train.train import checkpoint, optim, rng
from rover_train.train.checkpoint import Best, State
from rover_train.train.device import Placed, place
from rover_train.train.run import STATUSES, Run

if TYPE_CHECKING:
    from rover.sandbox.protocol import Runtime
    from rover_store.records import Split
    from rover_store.store import Store


def check(config: Config, split: Split) -> None:
    """Refuse in one line, before anything is loaded or run."""
    if config.method != "opd" and config.rl.group < 2:
        raise UsageError(
            f"rl.group is {config.rl.group}: a group of one has nothing to be compared with, so no advantage",
            hint="take 2 or more; 8 is usual",
        )
    if config.method == "opd" and not config.rl.teacher:
        raise UsageError("opd learns from a teacher, and rl.teacher names none")
    if config.rl.server and config.model.lora is None:
        raise UsageError("rl.server gets an adapter each step, and model.lora is absent: nothing could be handed over")
    if config.rl.server and not config.rl.server_model:
        raise UsageError("rl.server_model is missing: the name under which the server lists the model")
    if not split.train.packages:
        raise UsageError("the split has no package to train on")


def train(
    run: Run, store: Store, runtime: Runtime, loaded: models.Loaded, split: Split,
    stop: Callable[[], bool] = lambda: False,
) -> State:  # fmt: skip
    """Train to the last step, from the run's checkpoint where it has one. The log must be open."""
    check(run.config, split)
    timing = Timing()
    with Arena(
        store, runtime, run.config.revision,
        width=run.config.rl.width, timing=timing, statuses=run.folder / STATUSES,
    ) as arena:  # fmt: skip
        loop = Loop(run, arena, loaded, split)
        try:
            return loop.run_all(stop)
        finally:
            loop.player.close()


class Loop:
    """One run under way."""

    def __init__(self, run: Run, arena: Arena, loaded: models.Loaded, split: Split) -> None:
        config = run.config
        self.run = run
        self.config = config
        self.arena = arena
        self.loaded = loaded
        self.names = wanted(arena.store, config.revision, split.train.packages)
        validation = list(split.validation.packages)
        self.validation = validation[: config.eval.packages or None]
        self.renderer = loaded.renderer(config.render, turn_tokens=config.rl.max_turn_tokens)
        placed = place(loaded.model, config.model)
        self.player: Player = self._player(placed)
        self.judge = self._judge()
        rng.seed_all(config.seed, config.threads)
        self.optimiser = optim.build(loaded.model, config.optim)
        self.credits, self.learn = self._learning(placed)
        self.evidence: list[str] = []
        self.best: Best | None = None
        self.scores: dict[str, float] = {}
        self.stale = self.tied = 0
        self.saved = -1  # step of the newest checkpoint

    def run_all(self, stop: Callable[[], bool] = lambda: False) -> State:
        """All steps that are left, or until `stop()` says yes between two; the state at the end, saved."""
        step = self._taken_up()
        state = self.run.state
        if state is None:
            self._evaluate(0)
            state = self._save(0)
        while not state.finished and not stop():
            self._step(step)
            step += 1
            state = self._after(step)
        if self.saved != step:
            state = self._save(step)
        return state

    def _after(self, done: int) -> State:
        """Evaluate and save where it is time to; the state behind `done` steps."""
        last = done == self.config.rl.steps
        better = self._due(done, self.config.eval.every, last) and self._evaluate(done)
        patience = self.config.eval.patience
        early = bool(patience) and self.stale >= patience and not last
        if early:
            self._tell("early stop", done, f"{self.stale} evaluations in a row were no better")
        if last or early or better or self._due(done, self.config.checkpoint.every, last):
            return self._save(done, finished=last or early)
        return self._state(done)

    # --- one step ----------------------------------------------------------------------------------------
    def _step(self, step: int) -> None:
        timing = self.arena.timing
        timing.restart()
        done = stepped(self.arena, self.config, self.player, self.credits, self.learn, self.names, step)
        with timing.part("store"):
            self._keep(done, step)
        seconds = timing.report()
        tokens = done.record["sampled_tokens"]
        speed = {"tokens_s": round(tokens / seconds["step"], 1), "sampled_s": _per(tokens, seconds["generate"])}
        self.run.log.write({"kind": "train", "step": step + 1, **done.record, "time": {**seconds, **speed}})
        if done.collected.dropped:
            self._tell("dropped groups", step + 1, ", ".join(done.collected.dropped))
        if all(entry.outcome == "policy_error" for entry in done.collected.entries):
            why = done.collected.entries[0].done.result.trajectory.error
            self._tell("policy errors", step + 1, f"every rollout ended in a policy error; the first: {why}")
        self.tied = self.tied + 1 if done.tied else 0
        if self.tied and self.tied % self.config.rl.tied_warning == 0:
            said = f"no rollout had an advantage in {self.tied} steps: all groups are tied, nothing is learnt"
            self._tell("tied groups", step + 1, said)

    def _keep(self, done: Stepped, step: int) -> None:
        """Write samples, and put into the evidence what the config asks for."""
        rl = self.config.rl
        shown = write_samples(self.run, done, step + 1, rl.samples) if rl.samples else []
        kept = {"all": done.collected.entries, "samples": shown, "none": []}[rl.keep]
        self.evidence += self.arena.keep(kept)

    # --- evaluation --------------------------------------------------------------------------------------
    def _evaluate(self, done: int) -> bool:
        """Play the validation packages; whether this is the best so far."""
        if not self.validation:
            return False
        timing = self.arena.timing
        timing.restart()
        settings = self.config.eval
        with rng.aside():
            policy, actor = self.judge.ready(done)
            rows = evaluate_model(
                self.arena, self.validation, policy, actor,
                attempts=settings.attempts, seed=settings.seed, width=self.config.rl.width,
                keep=self.config.rl.keep != "none",
            )  # fmt: skip
            self.judge.done()
        found = Evaluation(revision=self.config.revision, policy=policy.id, attempts=settings.attempts, rows=rows)
        said = found.summary()
        success, score = said["success"]["value"], said["score"]["value"]
        if success is None:
            raise _spoilt(rows)
        self.scores = {"success": success, "score": score}
        # few validation packages tie often: of equal success the checkpoint that was trained longer counts
        higher = self.best is None or success > self.best.score
        better = self.best is None or success >= self.best.score
        if better:
            self.best = Best(step=done, score=success)
        self.stale = 0 if higher else self.stale + 1
        self.run.log.write(
            {
                "kind": "eval", "step": done, "success": success, "score": score,
                "low": said["success"]["low"], "high": said["success"]["high"],
                "packages": len(self.validation), "outcomes": said["outcomes"], "turns": said["cost"]["turns"],
                "best": better, "time": {"seconds": timing.report()["step"], "reused": found.reused},
            }
        )  # fmt: skip
        return better

    # --- checkpoints -------------------------------------------------------------------------------------
    def _taken_up(self) -> int:
        """Restore the checkpoint to go on from; how many steps are done."""
        state, folder = self.run.state, self.run.checkpoint
        if state is None or folder is None:
            return 0
        checkpoint.restore(folder, self.loaded.model, self.optimiser)
        self.evidence = list(state.evidence)
        self.best = state.best
        self.scores = dict(state.scores)
        self.stale, self.tied = int(state.position["stale"]), int(state.position["tied"])
        self.saved = state.step
        return state.step

    def _state(self, done: int, *, finished: bool = False) -> State:
        return self.run.state_at(
            done, position={"stale": self.stale, "tied": self.tied}, evidence=tuple(self.evidence),
            scores=self.scores, best=self.best, finished=finished,
        )  # fmt: skip

    def _save(self, done: int, *, finished: bool = False) -> State:
        state = self._state(done, finished=finished)
        self.run.save(state, self.loaded.model, self.optimiser, self._write_model)
        self.saved = done
        return state

    def _write_model(self, folder: Path) -> None:
        models.save_servable(self.loaded, folder)

    def _learning(self, placed: Placed) -> tuple[Credits, Learn]:
        """What credits the rollouts, and what learns from them."""
        config = self.config
        given = (self.loaded.model, self.optimiser, config.loss, config.rl)
        if config.method == "opd":
            from rover_train.rl.opd import Distiller, NoCredit, teacher_of

            teacher = teacher_of(config, self.loaded)
            return NoCredit(config), Distiller(teacher, *given, seed=config.seed, placed=placed).update
        reference = Reference(self._beginning().to(placed.device)) if config.loss.kl else None
        updater = Updater(*given, seed=config.seed, placed=placed)
        return ByScheme(config), Learner(updater, exact=self.player.exact, reference=reference)

    def _beginning(self) -> Any:
        """The model that training started from: what was loaded, or below its adapters, or what is loaded again."""
        loaded, settings = self.loaded, self.config.model
        if self.run.state is None or settings.lora is not None:
            return loaded.model
        return models.load(settings.spec, dtype=settings.dtype, seed=self.config.seed).model

    # --- who plays ---------------------------------------------------------------------------------------
    def _player(self, placed: Placed) -> Player:
        rl = self.config.rl
        drawn: dict[str, Any] = {
            "temperature": rl.temperature, "top_p": rl.top_p, "max_turn_tokens": rl.max_turn_tokens
        }  # fmt: skip
        if not rl.server:
            return OwnPlayer(self.loaded, self.renderer, mixed=placed.mixed, **drawn)
        rows = int(self.loaded.model.get_input_embeddings().weight.shape[0])
        served = VllmSampler(rl.server, rl.server_model, self.renderer, vocabulary=rows, lanes=rl.width, **drawn)
        folder = Path(rl.server_folder or self.run.folder / "adapters")
        return ServedPlayer(self.loaded, served, folder, own=not rl.server_folder)

    def _judge(self) -> Player:
        turn = self.config.rl.max_turn_tokens
        return OwnPlayer(self.loaded, self.renderer, temperature=self.config.eval.temperature, max_turn_tokens=turn)

    def _tell(self, what: str, step: int, text: str) -> None:
        self.run.log.write({"kind": "warning", "step": step, "what": what, "text": text})

    @staticmethod
    def _due(done: int, every: int, last: bool) -> bool:
        return last or (every > 0 and done % every == 0)


def _per(amount: float, seconds: float) -> float:
    return round(amount / seconds, 1) if seconds else 0.0


def _spoilt(rows: Sequence[Any]) -> Exception:
    reason = next((row.reason for row in rows), "")
    return failure("no rollout of the evaluation came to an end", reason)


__all__ = ["Loop", "check", "train"]
