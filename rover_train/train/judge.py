"""Real success in the midst of fine-tuning: rollouts of the model as it is now, on validation packages."""

from __future__ import annotations

from collections.abc import Sequence

from rover_store.errors import SandboxError
from rover_train.config import Config
from rover_train.evaluate import evaluate_model
from rover_train.evaluation import Evaluation
from rover_train.models import Loaded
from rover_train.rl.arena import Arena
from rover_train.rl.players import OwnPlayer


class Judge:
    """Call it with a step: `success` and `score`, means over the packages."""

    def __init__(self, arena: Arena, loaded: Loaded, config: Config, names: Sequence[str]) -> None:
        self.arena = arena
        self.config = config
        self.names = list(names)[: config.eval.packages or None]
        turn = config.rl.max_turn_tokens
        renderer = loaded.renderer(config.render, turn_tokens=turn)
        self.player = OwnPlayer(loaded, renderer, temperature=config.eval.temperature, max_turn_tokens=turn)

    def __call__(self, step: int) -> dict[str, float]:
        policy, actor = self.player.ready(step)
        try:
            rows = evaluate_model(
                self.arena, self.names, policy, actor,
                attempts=self.config.eval.attempts, seed=self.config.eval.seed, width=self.config.rl.width,
                keep=self.config.rl.keep != "none",
            )  # fmt: skip
        finally:
            self.player.done()
        found = Evaluation(
            revision=self.config.revision, policy=policy.id, attempts=self.config.eval.attempts, rows=rows
        ).summary()
        success, score = found["success"]["value"], found["score"]["value"]
        if success is None:
            reason = next((row.reason for row in rows), "nothing was played")
            raise SandboxError(f"no rollout of the evaluation came to an end: {reason}")
        return {"success": success, "score": score}
