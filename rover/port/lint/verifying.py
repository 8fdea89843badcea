"""Tests that give no reward, and times that nothing can keep to."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rover.port.harbor import shell
from rover.port.lint.task import INSTRUCTION, TOML, ForeignTask, finding, part_of
from rover_store.records import Finding

_REWARD = re.compile(r"reward\.(?:json|txt)")
_SLEEP = re.compile(r"(?:^|[\s;&|(])sleep\s+(\d+(?:\.\d+)?)([smhd]?)\b")
_PYTHON_SLEEP = re.compile(r"(?<![\w.])(?:time\.)?sleep\(\s*(\d+(?:\.\d+)?)\s*\)")
_UNIT = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_RUNNER = re.compile(r"(?:^|[\s;&|(])(?:pytest|python3?\s+-m\s+pytest|uvx\b.*\bpytest|python3?\s+\S+\.py|npm\s+test"
                     r"|cargo\s+test|go\s+test|make\s+\w*test)")  # fmt: skip
#: no model says a word in less
LEAST_SECONDS = 10.0


def rewards(task: ForeignTask) -> Iterator[Finding]:
    """Tests in which nothing writes a reward, or that end before they do where something fails."""
    texts = dict(task.below("tests"))
    if texts and not any(_REWARD.search(text) for text in texts.values()):
        first = _entry(task, texts)
        message = "nothing in tests/ writes reward.txt or reward.json"
        yield finding("rewards", "verifier_crash", message, "verifier", first, 1, subject="no reward")
    for path, text in texts.items():
        if path.endswith("test.sh"):
            yield from _ends_early(path, text)


def times(task: ForeignTask) -> Iterator[Finding]:
    """Times that are shorter than what solution or tests wait for by themselves, or than any model needs."""
    env = task.env
    program = env.verifier.program
    waits = {part: _waits(task, part) for part in ("solution", "tests")}
    seconds, where = env.harness.budget.seconds, task.setting("agent", "timeout_sec")
    if waits["solution"][0] > seconds:
        path, line = waits["solution"][1:]
        message = f"the solution sleeps for {waits['solution'][0]:g} s, and an agent has {seconds:g} s"
        yield finding("times", "budget_too_small", message, "harness", path, line, subject="agent", limit="seconds",
                      needed=waits["solution"][0])  # fmt: skip
    elif seconds < LEAST_SECONDS:
        message = f"an agent has {seconds:g} s, in which no model answers"
        yield finding("times", "budget_too_small", message, "harness", TOML, where, subject="agent", limit="seconds")
    if program is not None and waits["tests"][0] > program.seconds:
        path, line = waits["tests"][1:]
        message = f"the tests sleep for {waits['tests'][0]:g} s, and have {program.seconds:g} s"
        yield finding("times", "budget_too_small", message, "verifier", path, line, subject="verifier",
                      limit="seconds", needed=waits["tests"][0])  # fmt: skip


def _ends_early(path: str, text: str) -> Iterator[Finding]:
    """A script under `set -e` whose test runner may fail before the reward is written."""
    strict = None
    guarded = "trap " in text
    for number, line in shell.lines(text):
        words = line.split()
        if words[:1] == ["set"] and any(w.startswith("-") and "e" in w and w != "-o" for w in words[1:]):
            strict = number
        elif words[:2] == ["set", "+e"]:
            strict = None
        elif strict is None or guarded:
            continue
        elif _REWARD.search(line):
            return
        elif _RUNNER.search(line) and not re.match(r"(?:if|while|until|!)\b", line) and not re.search(r"\|\||&&", line):
            message = f"`set -e` (line {strict}) ends the script where `{shell.shown(line)}` fails: no reward"
            yield finding("rewards", "verifier_crash", message, "verifier", path, number, subject=f"{path} set -e")
            return


def _waits(task: ForeignTask, part: str) -> tuple[float, str, int]:
    """Seconds that the scripts of a part sleep at the least, and where they sleep longest. A loop counts once."""
    total, longest, where = 0.0, 0.0, (INSTRUCTION, 1)
    for path, text in task.below(part):
        form = _SLEEP if path.endswith(".sh") else _PYTHON_SLEEP
        for number, line in enumerate(text.splitlines(), 1):
            if line.lstrip().startswith("#") or line.rstrip().endswith("&"):
                continue
            for match in form.finditer(line):
                unit = match[2] if form is _SLEEP else ""
                slept = float(match[1]) * _UNIT[unit]
                total += slept
                if slept > longest:
                    longest, where = slept, (path, number)
    return total, *where


def _entry(task: ForeignTask, texts: dict[str, str]) -> str:
    return "tests/test.sh" if "tests/test.sh" in texts else min(texts, key=lambda p: (part_of(p), p))
