"""Defects of the harness: the tool that a deliverable needs is gone, or the turns run out."""

from __future__ import annotations

from rover.diagnose.inject.protocol import Components, Damage, Expects, H, Masks, Unfit, rng_for
from rover.diagnose.probes.static import EDITORS, WRITERS
from rover.rollout.env import Env

HARNESS = "harness/harness.json"


class ToolRemoved:
    kind = "tool_removed"
    summary = "the tools with which a deliverable can be written are no longer offered"
    repair = "H: offer such a tool again"
    expects: Expects = (("tool_removed", "harness"),)
    components: Components = ("harness",)
    right: Masks = (H,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        if not env.contract.deliverables:
            raise Unfit(self.kind, "the contract asks for no deliverable")
        deliverable = rng.choice(env.contract.deliverables)
        able = (EDITORS if deliverable.in_place else WRITERS)[deliverable.type]
        gone = [t for t in env.harness.tools if t in able]
        if not gone:
            raise Unfit(self.kind, f"no tool that writes {deliverable.path} is offered as it is")
        tools = tuple(t for t in env.harness.tools if t not in gone)
        harness = env.harness.model_copy(update={"tools": tools})
        return Damage({HARNESS: harness.dump()}, f"took away {', '.join(gone)}")


class BudgetTooSmall:
    kind = "budget_too_small"
    summary = "the budget of turns ends before the task can be done"
    repair = "H: grant enough turns"
    expects: Expects = (("budget_too_small", "harness"),)
    components: Components = ("harness",)
    right: Masks = (H,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        turns = rng_for(self.kind, seed).choice((0, 1))
        budget = env.harness.budget.model_copy(update={"turns": turns})
        harness = env.harness.model_copy(update={"budget": budget})
        return Damage({HARNESS: harness.dump()}, f"cut the budget of turns to {turns}")
