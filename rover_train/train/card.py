"""The model card of a run or checkpoint: README.md with the front matter that model hubs read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rover_train.config import Config
from rover_train.evaluation import Evaluation
from rover_train.train.checkpoint import State, checkpoint_name


def text(config: Config, state: State, facts: Mapping[str, Any], found: Sequence[Evaluation] = ()) -> str:
    """Markdown. `facts`: what run.json says; `found`: what `rover eval` found. The same run gives the same text."""
    head = {"library_name": "transformers", "pipeline_tag": "text-generation", "tags": ["workrover", config.method]}
    lines = ["---", *(f"{key}: {json.dumps(value)}" for key, value in head.items()), "---", ""]
    lines += [f"# {_title(config)}", "", _about(config, state), ""]
    rows = [
        ("revision", f"`{config.revision}`"),
        ("method", config.method),
        ("model it started from", f"{config.model.spec or 'given in code'}"),
        ("first weights", f"`{facts['weights']}`" if facts.get("weights") else ""),
        ("seed", config.seed),
        ("seed of the split", config.data.split_seed if not config.data.split else ""),
        ("seed of evaluation", config.eval.seed),
        ("step", state.step),
        ("config", f"`{state.config}`"),
        *((f"packages for {k.replace('_', '-')}", n) for k, n in (facts.get("packages") or {}).items()),
        *((f"version of {k}", v) for k, v in (facts.get("versions") or {}).items()),
    ]
    lines += _table(("what", "value"), [(k, v) for k, v in rows if v != ""])
    lines += ["", "## Scores", ""]
    if state.scores:
        lines += ["On the packages of the validation share, which chose the checkpoint:", ""]
        lines += _table(("score", "value"), [(k, f"{v:.4g}") for k, v in sorted(state.scores.items())])
    else:
        lines += ["Not evaluated at this step."]
    lines += _evaluated(found)
    place = f"checkpoints/{checkpoint_name(state.step)}"
    lines += [
        "", "## Use", "", f"The model lies in `{place}` of the run's folder RUN.", "",
        "    rover eval --model RUN", f"    vllm serve RUN/{place}", "",
    ]  # fmt: skip
    return "\n".join(lines)


def _evaluated(found: Sequence[Evaluation]) -> list[str]:
    """What `rover eval` found, where it found anything."""
    if not found:
        return []
    rows = [(_packages(one), _drawn(one), _success(one)) for one in found]
    head = ("packages", "how", "pass@1, with its 95 % interval")
    return ["", "## Evaluations", "", *_table(head, rows)]


def _packages(one: Evaluation) -> str:
    count = len({row.package for row in one.rows})
    return f"{count} {one.part.replace('_', '-')}".rstrip()


def _drawn(one: Evaluation) -> str:
    how = "greedy" if one.temperature == 0 else f"T = {one.temperature:g}" if one.temperature is not None else ""
    step = "" if one.step is None else f"step {one.step}"
    return ", ".join(part for part in (how, f"{one.attempts} each", f"seed {one.seed}", step) if part)


def _success(one: Evaluation) -> str:
    said = one.summary()["success"]
    if said["value"] is None:
        return "none came to an end"
    between = "" if said["low"] is None else f" [{said['low']:.1%}, {said['high']:.1%}]"
    return f"{said['value']:.1%}{between}"


def _title(config: Config) -> str:
    return f"{config.method} on {config.revision[:12] or 'no revision'}, seed {config.seed}"


def _about(config: Config, state: State) -> str:
    what = "verified demonstrations" if config.method == "sft" else "rollouts"
    seen = f" from {len(state.evidence)} recorded rollouts" if state.evidence else ""
    return (
        f"Trained by `rover train` on {what} of the task packages of one pinned revision{seen}. The config, the split "
        "and the log lie in the run's folder; equal configs give equal weights on a CPU."
    )


def _table(head: Sequence[str], rows: Sequence[tuple[object, ...]]) -> list[str]:
    return [f"| {' | '.join(map(str, row))} |" for row in (head, ["---"] * len(head), *rows)]
