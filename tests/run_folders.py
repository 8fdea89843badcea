"""Folders of runs as training leaves them, made up: a log that goes up, samples with credit, an evaluation."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

from rover_train import config as configs
from rover_train.evaluation import FOLDER, EvalRow, Evaluation
from rover_train.rl.schedule import number

REVISION = "0123456789abcdef0123456789abcdef01234567"
#: text that wants out of where it stands
HOSTILE = "</pre></script><script>alert(1)</script><img src=x onerror=alert(2)>\x00\x1b[31m\u202egpj.exe & \"'"


def run_folder(folder: Path, *, method: str = "vtca-grpo", steps: int = 40, seed: int = 0, gain: float = 0.3) -> Path:
    """A whole run of RL."""
    rng = random.Random(seed)
    folder.mkdir(parents=True)
    config = configs.load(sets=[f"rl.steps={steps}", "model.spec=small:tiny"], revision=REVISION, method=method)
    (folder / "config.toml").write_text(configs.dump(config))
    (folder / "run.json").write_text(json.dumps({"revision": REVISION, "packages": {"train": 48, "held_out": 24}}))
    parts = {
        "train": ["north", "south"], "validation": ["east"], "held_out": ["west"],
    }  # fmt: skip
    split = {part: {"workspaces": names, "packages": [f"{n}-1" for n in names]} for part, names in parts.items()}
    (folder / "split.json").write_text(json.dumps(split))
    rows = list(_log(steps, rng, gain))
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "samples").mkdir()
    for step in range(1, steps + 1, max(1, steps // 4)):
        (folder / f"samples/step-{step:06d}.json").write_text(json.dumps([sample(step), sample(step, harm=True)]))
    (folder / FOLDER).mkdir()
    found = evaluation(rng, 0.35 + gain, method)
    (folder / FOLDER / "held-out.json").write_text(found.dump())
    return folder


def _log(steps: int, rng: random.Random, gain: float) -> Any:
    for step in range(steps + 1):
        level = 0.35 + gain * (1 - math.exp(-3 * step / steps))
        if step:
            success = min(1.0, max(0.0, rng.gauss(level, 0.08)))
            tied = round(8 * rng.uniform(0.1, 0.4)) / 8
            yield {
                "kind": "train", "step": step, "rollouts": 64, "success": success, "score": 0.2 + 0.7 * success,
                "outcomes": {"passed": round(64 * success), "failed": 60 - round(60 * success), "policy_error": 3,
                             "infra_error": int(rng.random() < 0.1)},
                "infra_errors": int(rng.random() < 0.1), "verifier_errors": 0, "policy_errors": 3,
                "dropped_groups": 0, "turns": rng.gauss(9, 0.4), "tokens": rng.gauss(120, 5),
                "sampled_tokens": 7680, "reward": 0.9 * success + 0.08, "reward_spread": 0.45,
                "advantage": rng.gauss(-0.05, 0.03), "advantage_spread": rng.gauss(1.1, 0.05), "tied_groups": tied,
                "credit_turns": rng.uniform(0.29, 0.46), "loss": rng.gauss(0.02, 0.02),
                "grad_norm": rng.gauss(0.8, 0.1), "lr": 2e-4, "updates": 2, "clip_share": rng.uniform(0, 0.02),
                "kl": rng.uniform(0, 0.002), "entropy": 0.9 - 0.4 * step / steps,
                "time": {"generate": 3.1, "tools": 0.8, "grading": 0.6, "credit": 0.013, "update": 4.2,
                         "store": 0.05, "evaluate": 0.0, "rest": 0.4, "step": 9.2, "tokens_s": 835.0,
                         "sampled_s": 2477.0},
            }  # fmt: skip
        if step % 10 == 0:
            value = round(32 * level) / 32
            yield {
                "kind": "eval", "step": step, "success": value, "score": 0.2 + 0.7 * value, "low": value - 0.14,
                "high": min(1.0, value + 0.13), "packages": 32, "turns": 8.6, "best": True,
                "outcomes": {"passed": round(32 * value)}, "time": {"seconds": 4.0},
            }  # fmt: skip
    yield {"kind": "warning", "step": steps, "what": "dropped groups", "text": "edit-7"}


def sample(step: int, *, harm: bool = False) -> dict[str, Any]:
    """A rollout: look up, write, edit; or one that writes over a protected file."""
    shown = '{"columns": ["code", "total"], "rows": [["K-1003", "1234.50"]], "total": 1, "offset": 0}'
    read = {"tool": "read_table", "arguments": {"path": "data/orders.csv", "where": {"code": "K-1003"}},
            "status": "ok", "output": shown}  # fmt: skip
    wrong = {"tool": "read_file", "arguments": {"path": HOSTILE}, "status": "error", "output": HOSTILE}
    write = {"tool": "write_table", "arguments": {"path": "report.csv", "columns": ["code", "total"],
             "rows": [["K-1003", 1234.5]]}, "status": "ok", "output": '{"written": 1}'}  # fmt: skip
    turns = [
        {"message": "", "calls": [read], "advantage": 0.61, "progress": 0.0, "credit": 0.125, "uses": [], "cost": 0.0},
        {"message": HOSTILE, "calls": [wrong], "advantage": -0.19, "progress": 0.0, "credit": 0.0, "uses": [],
         "cost": 1.0},
        {"message": "Now the report.", "calls": [write], "advantage": 0.61 if not harm else -1.4,
         "progress": 0.25 if not harm else -0.5, "credit": 0.125 if not harm else -0.5, "uses": [0], "cost": 0.0},
        {"message": "done", "calls": [], "advantage": 0.11, "progress": 0.0, "credit": 0.0, "uses": [], "cost": 0.0},
    ]  # fmt: skip
    return {
        "step": step, "package": "orders-edit-3", "rollout": "ab" * 32, "method": "vtca-grpo",
        "outcome": "failed" if harm else "passed", "reward": 0.0 if harm else 0.97,
        "advantage": -0.6 if harm else 0.11, "gate": int(not harm), "intact": int(not harm),
        "instruction": f"Write the total of K-1003 into report.csv. {HOSTILE}", "final_message": "done",
        "turns": turns,
    }  # fmt: skip


def evaluation(rng: random.Random, level: float, method: str) -> Evaluation:
    """Greedy, on 24 packages of two workspaces, each twice."""
    rows = []
    for n in range(24):
        for attempt in range(2):
            rows.append(
                EvalRow(
                    package=f"held-{n:02d}", workspace=("west", "far-west")[n % 2], family=("edit", "memo")[n % 3 == 0],
                    difficulty=1 + n % 3, attempt=attempt, seed=number("eval", 0, f"held-{n:02d}", attempt),
                    rollout=f"{n:032x}{attempt:032x}", outcome="passed" if rng.random() < level else "failed",
                    score=0.8, turns=9, tokens=800,
                )
            )  # fmt: skip
    return Evaluation(
        revision=REVISION, policy=f"hf:{method}", method=method, step=40, part="held_out", attempts=2,
        temperature=0.0, turn_tokens=128, rows=tuple(rows),
    )  # fmt: skip
