"""Where a finding stands: a file as its author knows it, and the line. Of a package of rover's own the files of a
checkout, of a task from elsewhere those of its folder."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from rover.rollout.env import Env
from rover_store.ids import ComponentName
from rover_store.records import Finding

if TYPE_CHECKING:
    from rover.port.lint.task import ForeignTask

Place = tuple[str, int | None]
_RECORDS: dict[ComponentName, str] = {
    "context": "context/context.json", "task": "task/instruction.md", "harness": "harness/harness.json",
    "verifier": "verifier/verifier.json",
}  # fmt: skip
#: found by running the solution, or by looking into it
_OF_SOLUTION = frozenset({"unsound_reference", "unsolvable", "failed_write"})
_JSON = json.JSONDecoder()


def in_package(env: Env | None, finding: Finding) -> Place:
    """The place in a package folder. Without a package that could be read, what the finding itself names."""
    details = finding.details
    if file := str(details.get("file", "")):
        text = _text(env, file)
        line = details.get("line") or json_line(text, str(details.get("field", "")))
        return file, line if isinstance(line, int) else None
    if env is None:
        return _RECORDS[finding.components[0]], None
    if finding.components[0] == "verifier" and (place := _criterion(env, finding)) is not None:
        return place
    named = next((e for e in finding.evidence if e in env.files), "")
    return named or _RECORDS[finding.components[0]], None


def in_task(task: ForeignTask, finding: Finding) -> Place:
    """The place in the folder of a task from elsewhere."""
    details = finding.details
    if file := str(details.get("file", "")):
        line = details.get("line")
        return file, line if isinstance(line, int) else None
    words = [str(details.get(key, "")) for key in ("found", "path", "subject")]
    file = _file(task, finding, words)
    return file, next((line for word in words if word and (line := task.line(file, word))), None)


def json_line(text: str, field: str) -> int | None:
    """The line of a JSON text on which a field (`criteria.0.check`) stands; of its parent where it is absent."""
    at, line = 0, None
    try:
        for part in field.split(".") if field else ():
            at = _member(text, _skip(text, at), part)
            if at < 0:
                break
            line = text.count("\n", 0, at) + 1
    except (ValueError, IndexError, RecursionError):
        return line
    return line


def _member(text: str, at: int, part: str) -> int:
    """Where the value of a member of an object or list begins; -1 where there is none."""
    kind = text[at]
    if kind not in "{[":
        return -1
    at, number = _skip(text, at + 1), 0
    while text[at] not in "}]":
        name = str(number)
        if kind == "{":
            name, at = _JSON.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)  # the colon
        if name == part:
            return at
        _, at = _JSON.raw_decode(text, at)
        at = _skip(text, at)
        at = _skip(text, at + 1) if text[at] == "," else at
        number += 1
    return -1


def _skip(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


def _text(env: Env | None, file: str) -> str:
    data = env.files.get(file, b"") if env is not None else b""
    return data.decode("utf-8", "replace") if file.endswith(".json") and len(data) < 1 << 22 else ""


def _criterion(env: Env, finding: Finding) -> Place | None:
    """The function that scores what a finding is about."""
    ids = {str(c) for c in (*finding.details.get("criteria", ()), finding.details.get("criterion"))}
    for one in env.verifier.criteria:
        if one.id in ids or (finding.requirement and one.requirement == finding.requirement):
            path, _, name = one.check.partition(":")
            file = f"verifier/{path}"
            if file in env.files:
                source = env.files[file].decode("utf-8", "replace")
                match = re.search(rf"^def {re.escape(name)}\b", source, re.MULTILINE)
                return file, source.count("\n", 0, match.start()) + 1 if match else None
    return None


def _file(task: ForeignTask, finding: Finding, words: list[str]) -> str:
    """The file of a task that a finding is most about."""
    from rover.port.lint.task import INSTRUCTION, TOML, part_of

    component = finding.components[0]
    solution = "solution/solve.sh"
    about_it = finding.kind in _OF_SOLUTION or finding.probe in ("solution_inputs", "replay")
    if about_it and solution in task.files:
        return solution
    if component == "verifier":
        program = task.env.verifier.program
        named = [w.removeprefix("/") for w in (program.argv if program else ()) if w.startswith("/tests/")]
        tests = [p for p in sorted(task.files) if part_of(p) == "tests"]
        return next((p for p in named if p in task.files), tests[0] if tests else TOML)
    if component == "task" and INSTRUCTION in task.files:
        return INSTRUCTION
    if component == "context":
        own = [p for p in sorted(task.files) if part_of(p) == "environment"]
        hit = next((p for word in words if word for p in own if p.endswith(f"/{word}") or p == word), "")
        dockerfile = "environment/Dockerfile"
        return hit or (dockerfile if dockerfile in task.files else own[0] if own else TOML)
    return TOML
