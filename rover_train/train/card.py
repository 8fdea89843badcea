"""The model card of a run or checkpoint: README.md with the front matter that model hubs read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rover_train.config import Config
from rover_train.train.checkpoint import State, checkpoint_name


def text(config: Config, state: State, facts: Mapping[str, Any]) -> str:
    """Markdown. `facts`: what run.json says. The same run gives the same text."""
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
    place = f"checkpoints/{checkpoint_name(state.step)}"
    lines += [
        "", "## Use", "", f"The model lies in `{place}` of the run's folder RUN.", "",
        "    rover eval --model RUN", f"    vllm serve RUN/{place}", "",
    ]  # fmt: skip
    return "\n".join(lines)


def _title(config: Config) -> str:
    return f"{config.method} on {config.revision[:12] or 'no revision'}, seed {config.seed}"


def _about(config: Config, state: State) -> str:
    what = "verified demonstrations" if config.method == "sft" else "rollouts"
    seen = f" from {len(state.evidence)} recorded rollouts" if state.evidence else ""
    return (
        f"Trained by `rover train` on {what} of the task packages of one pinned revision{seen}. The config, the split "
        "and the log lie in the run's folder; equal configs give equal weights on a CPU."
    )


def _table(head: tuple[str, str], rows: list[tuple[str, object]]) -> list[str]:
    return [f"| {head[0]} | {head[1]} |", "|---|---|", *(f"| {key} | {value} |" for key, value in rows)]
