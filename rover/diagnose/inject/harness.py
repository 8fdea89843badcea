"""Defects of the harness: the tool that is needed is gone, budget or limits end before the task can be done."""

from __future__ import annotations

from rover.diagnose.demands import contract_sources
from rover.diagnose.inject.leaks import made
from rover.diagnose.inject.protocol import Components, Damage, Expects, H, Masks, Unfit, rng_for
from rover.diagnose.probes.static import EDITORS, READERS, WRITERS
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
        return _taken(env, self.kind, able, f"writes {deliverable.path}")


class ReaderRemoved:
    kind = "reader_removed"
    summary = "the tools with which a source can be read are no longer offered"
    repair = "H: offer such a tool again"
    expects: Expects = (("tool_removed", "harness"),)
    components: Components = ("harness",)
    right: Masks = (H,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        sources = [p for p in contract_sources(env.contract) if p in env.start]
        if not sources:
            raise Unfit(self.kind, "the contract derives nothing from a file")
        path = rng.choice(sources)
        able = READERS.get(path.rpartition(".")[2].lower(), ("read_file", "shell"))
        return _taken(env, self.kind, able, f"reads {path}")


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


class TimeTooShort:
    kind = "time_too_short"
    summary = "the budget of seconds ends before anything can be done"
    repair = "H: grant enough time"
    expects: Expects = (("budget_too_small", "harness"),)
    components: Components = ("harness",)
    right: Masks = (H,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        seconds = rng_for(self.kind, seed).choice((0.0, 0.0001, 0.001))
        budget = env.harness.budget.model_copy(update={"seconds": seconds})
        harness = env.harness.model_copy(update={"budget": budget})
        return Damage({HARNESS: harness.dump()}, f"cut the budget of time to {seconds:g} seconds")


class LimitsTooTight:
    kind = "limits_too_tight"
    summary = "a limit of the sandbox refuses a write, or cuts off a read, that the task needs"
    repair = "H: widen the limit"
    expects: Expects = (("limits_too_tight", "harness"),)
    components: Components = ("harness",)
    right: Masks = (H,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        done = made(env)
        if not done:
            raise Unfit(self.kind, "the reference holds no deliverable")
        size = min(len(d) for d in done.values())
        limit, value = rng.choice((
            ("file_bytes", 8), ("file_bytes", max(1, size // 4)), ("file_bytes", max(1, size // 2)),
            ("output_bytes", rng.choice((16, 32, 64))), ("memory_bytes", 1 << 20), ("open_files", 3), ("wall_s", 0.0),
        ))  # fmt: skip
        limits = env.harness.limits.model_copy(update={limit: value})
        harness = env.harness.model_copy(update={"limits": limits})
        return Damage({HARNESS: harness.dump()}, f"cut the limit {limit} to {value}")


def _taken(env: Env, kind: str, able: tuple[str, ...], what: str) -> Damage:
    gone = [t for t in env.harness.tools if t in able]
    if not gone:
        raise Unfit(kind, f"no tool that {what} is offered as it is")
    tools = tuple(t for t in env.harness.tools if t not in gone)
    harness = env.harness.model_copy(update={"tools": tools})
    return Damage({HARNESS: harness.dump()}, f"took away {', '.join(gone)}")
