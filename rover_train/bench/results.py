"""From the files of a comparison to its result: one JSON value that tables, picture and page are made of."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rover_train import evaluation
from rover_train.bench.plan import Plan
from rover_train.bench.stages import Stages
from rover_train.bench.summary import Arm, Trial, band, difference
from rover_train.evaluation import Evaluation

#: fields of a training row whose mean over all steps and seeds says why an arm did as it did
EXPLAINING = ("tied_groups", "credit_turns", "advantage", "advantage_spread", "kl", "clip_share", "entropy", "reward")


def result(stages: Stages, revision: str) -> dict[str, Any]:
    """Everything that is finished so far. Sets, arms and seeds without a finished run are left out, and named."""
    plan = stages.plan
    value: dict[str, Any] = {
        "bench": "credit", "revision": revision, "seed": plan.seed, "scale": scale_of(plan), "sets": {}, "missing": [],
    }  # fmt: skip
    for name in plan.sets:
        if stages.evaluation(name, "sft", "greedy").is_file():
            found, missing = _set(stages, name)
            value["sets"][name] = found
            value["missing"] += missing
    return value


def scale_of(plan: Plan) -> dict[str, Any]:
    from dataclasses import asdict

    return {**asdict(plan.scale), "sets": list(plan.sets), "arms": list(plan.arms), "seeds": list(plan.seeds)}


def _set(stages: Stages, name: str) -> tuple[dict[str, Any], list[str]]:
    base = {what: _trial(stages.evaluation(name, "sft", what)) for what in ("greedy", "sampled", "validation")}
    greedy: dict[str, Arm] = {}
    sampled: dict[str, Arm] = {}
    out: dict[str, Any] = {"packages": len(base["greedy"].success), "arms": {}}
    out["workspaces"] = len(set(base["greedy"].workspaces.values()))
    out["sft"] = {"greedy": base["greedy"].mean, "sampled": base["sampled"].mean}
    missing: list[str] = []
    for arm in stages.plan.arms:
        done = [s for s in stages.plan.seeds if _finished(stages, name, arm, s)]
        missing += [f"{name}/{arm}-{s}" for s in stages.plan.seeds if s not in done]
        if not done:
            continue
        logs = {s: list(_rows(stages.folder(name, arm, s) / "log.jsonl")) for s in done}
        curves = {s: ((0, base["validation"].mean), *_curve(rows)) for s, rows in logs.items()}
        greedy[arm] = Arm(arm, _trials(stages, name, arm, done, "greedy"), curves)
        sampled[arm] = Arm(arm, _trials(stages, name, arm, done, "sampled"), curves)
        out["arms"][arm] = {
            "seeds": done,
            "greedy": {"mean": greedy[arm].mean, "sd": _number(greedy[arm].spread)},
            "sampled": {"mean": sampled[arm].mean, "sd": _number(sampled[arm].spread)},
            "by_seed": {str(s): greedy[arm].trials[s].mean for s in done},
            "area": greedy[arm].area,
            "band": band(curves),
            "budget": _budget(logs),
            "why": _why(logs),
            "seconds": _seconds(logs),
        }
    for what, arms in (("greedy", greedy), ("sampled", sampled)):
        _differences(out, what, base[what], arms)
    return out, missing


def _differences(out: dict[str, Any], what: str, base: Trial, arms: Mapping[str, Arm]) -> None:
    """Against the shared checkpoint, and of every pair of arms that have seeds in common."""
    for name, arm in arms.items():
        against = {"sft": difference(arm.trials, dict.fromkeys(arm.trials, base)).to_json()}
        for other, theirs in arms.items():
            if other != name and set(arm.trials) & set(theirs.trials):
                against[other] = difference(arm.trials, theirs.trials).to_json()
        out["arms"][name][what]["minus"] = against


def _finished(stages: Stages, name: str, arm: str, seed: int) -> bool:
    return all(stages.evaluation(name, f"{arm}-{seed}", what).is_file() for what in ("greedy", "sampled"))


def _trials(stages: Stages, name: str, arm: str, seeds: Sequence[int], what: str) -> dict[int, Trial]:
    return {s: _trial(stages.evaluation(name, f"{arm}-{s}", what)) for s in seeds}


def _trial(file: Path) -> Trial:
    """Success by package: the share of its rollouts that passed. Infrastructure's and verifier's errors leave it."""
    found: Evaluation = evaluation.load(file)
    passed: dict[str, list[float]] = {}
    for row in found.rows:
        if row.counts:
            passed.setdefault(row.package, []).append(float(row.passed))
    success = {name: sum(values) / len(values) for name, values in passed.items()}
    return Trial(success, {row.package: row.workspace or row.package for row in found.rows})


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    for line in file.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def _curve(rows: Sequence[Mapping[str, Any]]) -> list[tuple[int, float]]:
    seen = [r for r in rows if r["kind"] == "eval" and r["step"] and r.get("success") is not None]
    return [(r["step"], r["success"]) for r in seen]


def _train(logs: Mapping[int, Sequence[Mapping[str, Any]]]) -> list[Mapping[str, Any]]:
    return [row for rows in logs.values() for row in rows if row["kind"] == "train"]


def _budget(logs: Mapping[int, Sequence[Mapping[str, Any]]]) -> dict[str, float]:
    """Of one run, as the mean over seeds: rollouts, tokens that were sampled, tokens that were trained on."""
    rows = _train(logs)
    keys = ("rollouts", "sampled_tokens", "trained_tokens")
    return {key: sum(r.get(key) or 0 for r in rows) / len(logs) for key in keys}


def _why(logs: Mapping[int, Sequence[Mapping[str, Any]]]) -> dict[str, float | None]:
    rows = _train(logs)
    out: dict[str, float | None] = {}
    for key in EXPLAINING:
        values = [r[key] for r in rows if isinstance(r.get(key), int | float)]
        out[key] = sum(values) / len(values) if values else None
    return out


def _seconds(logs: Mapping[int, Sequence[Mapping[str, Any]]]) -> dict[str, float]:
    """Seconds of a step by part, as the mean over steps and seeds."""
    rows = [r["time"] for r in _train(logs)]
    keys = [k for k, v in (rows[0] if rows else {}).items() if isinstance(v, int | float) and not k.endswith("_s")]
    return {key: sum(r.get(key, 0.0) for r in rows) / len(rows) for key in keys}


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
