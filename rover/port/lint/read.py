"""All questions that are asked of a task without running it, in a fixed order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from rover.port.lint.image import fetches, images, installs, root
from rover.port.lint.leaks import leaks
from rover.port.lint.names import names
from rover.port.lint.secrets import secrets
from rover.port.lint.task import MOST_ALIKE, TOML, ForeignTask, finding
from rover.port.lint.verifying import rewards, times
from rover.sandbox.protocol import FEATURES, GUARANTEES
from rover_store.records import Finding

Question = Callable[[ForeignTask], Iterator[Finding]]


#: feature -> words of task.toml that ask for it
_SAID = {
    "steps": ("[[steps]]", "steps"), "gpu": ("gpus",), "tpu": ("tpu",), "healthcheck": ("healthcheck",),
    "windows": ("windows",), "verifier image": ("verifier.environment", "environment_mode"), "host variables": ("${",),
    "collect hooks": ("collect",),
}  # fmt: skip


def needs(task: ForeignTask) -> Iterator[Finding]:
    """What no sandbox of rover gives, as the import found it."""
    for feature in task.env.harness.requires or ():
        if feature not in (*FEATURES, *GUARANTEES) or feature == "steps":
            message = f"the task needs {feature}, which no sandbox of rover gives: it is taken in, and not run"
            line = next((n for word in _SAID.get(feature, ()) if (n := task.line(TOML, word))), 1)
            yield finding("needs", "cannot_run", message, "harness", TOML, line,
                          subject=feature, confirmed=True, value=feature)  # fmt: skip


QUESTIONS: tuple[Question, ...] = (names, leaks, secrets, rewards, times, images, fetches, installs, root, needs)


def read_task(task: ForeignTask) -> tuple[Finding, ...]:
    """What a reader finds. A kind that one file has very often is said so often and no more."""
    out: list[Finding] = []
    seen: set[tuple[str, str]] = set()
    count: Counter[tuple[str, str]] = Counter()
    for question in QUESTIONS:
        for found in question(task):
            key = (found.kind, str(found.details["subject"]))
            alike = (found.kind, str(found.details["file"]))
            if key not in seen and count[alike] < MOST_ALIKE:
                seen.add(key)
                count[alike] += 1
                out.append(found)
    return tuple(out)
