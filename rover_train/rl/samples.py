"""Rollouts of a step that a person may want to read, with their credit: best and worst of groups that differ."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rover_store.records import Call
    from rover_train.config import Config
    from rover_train.rl.arena import Entry
    from rover_train.rl.step import Stepped
    from rover_train.train.run import Run


def write_samples(run: Run, done: Stepped, step: int, count: int) -> list[Entry]:
    """Write RUN/samples/step-000001.json; the entries that are shown."""
    chosen = choose(done, count)
    if done.credits:
        shown: list[dict[str, Any]] = [record(done, g, r, step, run.config) for g, r in chosen]
        place = run.folder / "samples"
        place.mkdir(exist_ok=True)
        text = json.dumps(shown, indent=1, ensure_ascii=False).encode() + b"\n"
        run.disk.replace(place / f"step-{step:06d}.json", text)
    return [done.collected.groups[g].entries[r] for g, r in chosen]


def choose(done: Stepped, count: int) -> list[tuple[int, int]]:
    """Group and number of the rollouts to show: highest and lowest reward of the groups with the widest spread."""
    if not done.credits:  # nothing is credited: the first ones
        return [(g, r) for g, group in enumerate(done.collected.groups) for r in range(len(group.entries))][:count]
    rewards = [c.rewards for c in done.credits]
    order = sorted(range(len(rewards)), key=lambda g: (min(rewards[g]) - max(rewards[g]), g))
    out: list[tuple[int, int]] = []
    for g in order:
        best = max(range(len(rewards[g])), key=lambda r: (rewards[g][r], -r))
        worst = min(range(len(rewards[g])), key=lambda r: (rewards[g][r], r))
        out += dict.fromkeys([(g, best), (g, worst)])
    return out[:count]


def record(done: Stepped, g: int, r: int, step: int, config: Config) -> dict[str, Any]:
    """One rollout with what each of its turns was worth."""
    group, credit, evidence = done.collected.groups[g], done.credits[g], done.evidence[g].rollouts[r]
    entry = group.entries[r]
    trajectory = entry.done.result.trajectory
    turns = []
    for t, turn in enumerate(trajectory.turns):
        turns.append(
            {
                "message": turn.message,
                "calls": [_call(call) for call in turn.calls],
                "advantage": credit.turns[r][t],
                "progress": credit.increments[r][t] if credit.increments else None,
                "credit": credit.delta[r][t] if credit.delta else None,
                "uses": list(evidence.turns[t].uses),
                "cost": evidence.turns[t].cost,
            }
        )  # fmt: skip
    return {
        "step": step, "package": group.env.package, "rollout": entry.done.result.id, "method": config.method,
        "outcome": entry.outcome, "reward": credit.rewards[r], "advantage": credit.trajectory[r],
        "gate": evidence.gate, "intact": evidence.intact, "instruction": group.env.instruction,
        "final_message": trajectory.final_message, "turns": turns,
    }  # fmt: skip


def _call(call: Call) -> dict[str, Any]:
    output = call.output[:2000]
    return {"tool": call.tool, "arguments": call.arguments, "status": call.status, "output": output}
