"""pyproject.toml and README.md of an exported taskset."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rover.port import licenses
from rover.port.protocol import Exported

#: tasks that the README lists
_LISTED = 200


@dataclass(frozen=True, slots=True)
class Facts:
    """What is named in both."""

    name: str
    module: str
    version: str
    revision: str
    rows: Sequence[dict[str, Any]]
    left_out: Sequence[Exported]
    licenses: Sequence[str]


def summary(facts: Facts) -> str:
    """One line."""
    count = "1 task" if len(facts.rows) == 1 else f"{len(facts.rows)} tasks"
    return f"{count} with verifiers that need no model, of revision {facts.revision[:12]} of a rover store."


def pyproject(facts: Facts) -> str:
    """The licence is named where all packages have one that packaging knows."""
    known = licenses.identifier(facts.licenses[0]) if len(facts.licenses) == 1 else ""
    lines = [
        "[project]",
        f'name = "{facts.name}"',
        f'version = "{facts.version}"',
        f"description = {json.dumps(summary(facts))}",
        'readme = "README.md"',
        'requires-python = ">=3.11"',
        *([f'license = "{known}"'] if known else []),
        'dependencies = ["verifiers>=0.4"]',
        "",
        "[build-system]",
        'requires = ["hatchling"]',
        'build-backend = "hatchling.build"',
        "",
        "[tool.hatch.build]",
        "ignore-vcs = true",
        "",
        "[tool.hatch.build.targets.wheel]",
        f'packages = ["{facts.module}"]',
        "",
        "[tool.rover]",
        f'revision = "{facts.revision}"',
        f"licenses = {json.dumps(list(facts.licenses), ensure_ascii=False)}",
    ]
    return "\n".join(lines) + "\n"


def readme(facts: Facts) -> str:
    """How to use it, what it holds, what is left out."""
    listed = facts.rows[:_LISTED]
    more = len(facts.rows) - len(listed)
    lines = [
        f"# {facts.name}", "", summary(facts), "",
        f"- revision: `{facts.revision}`",
        f"- licence of the files behind the tasks: {', '.join(facts.licenses) or 'none is named'}",
        "- checks and the code that runs them: Apache-2.0, from rover; openpyxl (MIT) where a check reads workbooks",
        "",
        "```sh",
        "pip install .",
        f"vf-validate {facts.name} --runtime.type subprocess   # the reference passes, doing nothing does not",
        f"vf-eval {facts.name} -n 5",
        "```", "",
        "An agent works in the current folder of its runtime and gets the instruction alone. Its workspace is graded",
        "outside the runtime: reward `passed` is 1 or 0; metrics are `share`, `gate` and the score of each criterion.",
        "A check that fails is an error of the rollout, never a reward.",
        "",
        "**Grading runs code of this package**: the Python in a task's checks runs on the machine that trains, as the",
        "user who trains, in a process of its own and in no sandbox. Install it only where you would run that code. It",
        "is among the files that `data/tasks.jsonl` names under `verifier`. What an agent leaves is read, never run.",
        "",
        "| task | title |", "| --- | --- |",
        *(f"| {row['name']} | {_cell(row['description'])} |" for row in listed),
        *([f"\nand {more} more."] if more > 0 else []),
        "",
    ]  # fmt: skip
    if facts.left_out:
        lines += ["Left out:", "", *(f"- {one.name}: {'; '.join(one.notes)}" for one in facts.left_out[:_LISTED]), ""]
    return "\n".join(lines)


def _cell(title: str) -> str:
    return " ".join(title.replace("|", "\\|").split())
