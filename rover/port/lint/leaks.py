"""Solution and tests where an agent can read them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from rover.port.lint.task import ForeignTask, finding, part_of
from rover_store.records import Finding

#: shorter content is found twice by chance
LEAST_BYTES = 40
#: so many lines of a script in another file are no chance; shorter lines are said everywhere
LEAST_LINES, LEAST_CHARS = 4, 16
_TELLING = re.compile(
    r"(?i)^(?:solution|solve|answers?|answer[-_]key|expected(?:[-_](?:output|result|answer)s?)?|golden|ground[-_]?truth"
    r"|oracle|test_outputs?|reference[-_](?:solution|answer))(?=$|[-_.])"
)
_CODE = (".sh", ".py")


def leaks(task: ForeignTask) -> Iterator[Finding]:
    """Files of the environment that are, or hold, what belongs to solution or tests; or say so by their name."""
    hidden = [p for p in sorted(task.files) if part_of(p) in ("solution", "tests")]
    by_content: dict[bytes, list[str]] = {}
    for path in hidden:
        by_content.setdefault(task.files[path], []).append(path)
    lines = {path: _telling(task.text(path)) for path in hidden if path.endswith(_CODE)}
    owners: dict[str, list[str]] = {}
    for path, own in lines.items():
        for line in own:
            owners.setdefault(line, []).append(path)
    for path in sorted(task.files):
        if part_of(path) not in ("environment", "workdir") or not task.files[path].strip():
            continue
        found = _same(task, path, by_content) or _in_parts(task, path, lines, owners) or _named(path)
        if found is not None:
            yield found


def _same(task: ForeignTask, path: str, by_content: dict[bytes, list[str]]) -> Finding | None:
    data = task.files[path]
    if len(data.strip()) < LEAST_BYTES:
        return None
    for other in by_content.get(data, ()):
        solution = part_of(other) == "solution"
        if not solution and not other.endswith(_CODE) and not _TELLING.match(PurePosixPath(other).name):
            continue  # tests bring their own copy of an input
        kind = "leaked_answer" if solution else "verifier_readable"
        message = f"{path} lies in the image and is the same as {other}"
        subject = f"{path} {other}"
        return finding("leaks", kind, message, "context", path, 1, subject=subject, confirmed=True, how="exact")
    return None


def _in_parts(
    task: ForeignTask, path: str, lines: dict[str, set[str]], owners: dict[str, list[str]]
) -> Finding | None:
    held = {line.strip(): n for n, line in reversed(list(enumerate(task.text(path).splitlines(), 1)))}
    shared: dict[str, list[int]] = {}
    for line, number in held.items():
        for other in owners.get(line, ()):
            shared.setdefault(other, []).append(number)
    for other in sorted(shared):
        both, whole = shared[other], lines[other]
        if len(both) >= LEAST_LINES and 2 * len(both) >= len(whole):
            kind = "leaked_answer" if part_of(other) == "solution" else "verifier_readable"
            message = f"{path} lies in the image and holds {len(both)} of the {len(whole)} lines of {other}"
            subject = f"{path} {other}"
            return finding("leaks", kind, message, "context", path, min(both), subject=subject, how="in parts")
    return None


def _telling(text: str) -> set[str]:
    """The lines of a script that are not said everywhere."""
    own = {line.strip() for line in text.splitlines()}
    return {line for line in own if len(line) >= LEAST_CHARS and not line.startswith(("#", "import ", "from "))}


def _named(path: str) -> Finding | None:
    name = PurePosixPath(path).name
    if name == "Dockerfile" or not _TELLING.match(name):
        return None
    message = f"{path} lies in the image, and its name says that it holds the answer"
    return finding("leaks", "leaked_answer", message, "context", path, 1, subject=path, how="by name")
