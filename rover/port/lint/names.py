"""Files that request, tests and solution name, held against each other and against what is there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from itertools import islice
from pathlib import PurePosixPath

from rover.policy.named import named_paths
from rover.port.lint.task import INSTRUCTION, ForeignTask, finding, part_of
from rover_store.records import Finding

#: names that are so much alike may be meant to be one
ALIKE = 0.6
#: names of one text that are looked at
MOST_NAMES = 200
_ENDING = re.compile(r"(?i)^\.[a-z][a-z0-9]{0,7}$")
_IN_TESTS = re.compile(r"(?<![\w./-])/tests/([\w@+-][\w.@+-]*(?:/[\w.@+-]+)*\.\w+)")
#: a line in which a file is made
_MAKES = re.compile(
    r">|\btee\b|\bcp\b|\bmv\b|\btouch\b|\bmkdir\b|\binstall\b|\s-o\s|\bto_\w+\(|\bwrite|\bdump|\bsave|['\"][wax]b?\+?['\"]"
    r"|\bcurl\b|\bwget\b|\bunzip\b|\btar\b|\bopen\(.*\bmode|\bcreate"
)
_RUNNERS = frozenset({"pytest.ini", "conftest.py", "pyproject.toml", "ctrf.json", "requirements.txt", "package.json"})


def names(task: ForeignTask) -> Iterator[Finding]:
    """Names at odds: nothing of it ran, so all are hypotheses."""
    named = named_paths(task.text(INSTRUCTION), task.env.workdir)
    asked = {p: _line(task, INSTRUCTION, p) for p in _few(named) if not _there(task, p)}
    read = _read_by_tests(task)
    renamed = list(_renamed(task, asked, read))
    yield from renamed
    other = {str(f.details.get("found")) for f in renamed}
    yield from _absent(task, {path: line for path, line in asked.items() if path not in other})
    yield from _own_files(task)


def _renamed(
    task: ForeignTask, asked: dict[str, int | None], read: dict[str, tuple[str, int | None]]
) -> Iterator[Finding]:
    """What the tests look for and the request does not name: under another name there, or not at all."""
    request = _request(task)
    tests = "\n".join(text for _, text in task.below("tests"))
    unread = [p for p in asked if PurePosixPath(p).name not in tests]
    for path, (file, line) in read.items():
        name = PurePosixPath(path).name
        if name in request or PurePosixPath(path).stem in request.split():
            continue
        like = [p for p in unread if _alike(p, path)]
        if len(like) == 1:
            message = f"the request names {like[0]}, and {file} looks for {path}"
            yield finding("names", "renamed_deliverable", message, "task", INSTRUCTION, asked[like[0]],
                          subject=path, path=path, found=like[0], paths=[file])  # fmt: skip
        elif not like:
            message = f"{file} looks for {path}, which the request names nowhere"
            yield finding("names", "extra_demand", message, "verifier", file, line, subject=path, path=path)


def _absent(task: ForeignTask, asked: dict[str, int | None]) -> Iterator[Finding]:
    """What the request names, is not there, and nobody makes; and what the solution reads of that kind."""
    if "image" in (task.env.harness.requires or ()):
        return  # what else is in the image, only a build could tell
    solution = dict(task.below("solution"))
    both = [*solution.values(), *(text for _, text in task.below("tests"))]
    for path, line in asked.items():
        name = PurePosixPath(path).name
        if not any(name in text for text in both):
            message = f"the request names {path}: it is not in the workspace, and neither solution nor tests know it"
            yield finding("names", "missing_input", message, "context", INSTRUCTION, line, subject=path, path=path)
            continue
        place = _only_read(solution, name)
        if place is not None:
            message = f"{place[0]} reads {path}, which is not in the workspace, and which it does not make"
            yield finding("names", "missing_input", message, "context", *place, subject=path, path=path)


def _own_files(task: ForeignTask) -> Iterator[Finding]:
    """Files that the tests bring, by what they say of themselves."""
    for path, text in task.below("tests"):
        root = path[: path.index("tests/")] if "tests/" in path else ""
        for match in _IN_TESTS.finditer(text):
            name = match[1]
            if f"{root}tests/{name}" in task.files or f"tests/{name}" in task.files:
                continue
            line = text.count("\n", 0, match.start()) + 1
            if _MAKES.search(text.splitlines()[line - 1]):
                continue
            message = f"{path} names /tests/{name}, which is not in tests/"
            yield finding("names", "missing_input", message, "verifier", path, line, subject=f"/tests/{name}",
                          path=f"tests/{name}")  # fmt: skip
            break


def _read_by_tests(task: ForeignTask) -> dict[str, tuple[str, int | None]]:
    """Files of the workspace that the tests name, with where."""
    own = {PurePosixPath(p).name for p in task.files if part_of(p) == "tests"}
    out: dict[str, tuple[str, int | None]] = {}
    for file, text in task.below("tests"):
        if not file.endswith((".sh", ".py", ".js", ".ts", ".rs", ".go", ".rb")):
            continue
        for path in _few(named_paths(text, task.env.workdir)):
            if len(out) == MOST_NAMES:
                return out
            name = PurePosixPath(path).name
            odd = path.startswith(("tests/", "logs/", "solution/")) or name in own or name in _RUNNERS
            if not odd and not _there(task, path) and not name.startswith(("reward.", "test_")):
                line = _line(task, file, name)
                if line is not None and _MAKES.search(task.text(file).splitlines()[line - 1]) and "assert" not in text:
                    continue  # a file of the tests' own making
                out.setdefault(path, (file, line))
    return out


def _request(task: ForeignTask) -> str:
    """The request, with the texts of the workspace that it names."""
    text = task.text(INSTRUCTION)
    start = {p: d for p, d in task.env.start.items() if p.endswith((".md", ".txt", ".rst"))}
    cited = [data for path, data in start.items() if PurePosixPath(path).name in text]
    return "\n".join([text, *(d.decode("utf-8", "replace") for d in cited)])


def _only_read(solution: dict[str, str], name: str) -> tuple[str, int] | None:
    """Where a solution names a file first, if no line that names it makes one."""
    first = None
    for path, text in solution.items():
        for number, line in enumerate(text.splitlines(), 1):
            if name in line:
                if _MAKES.search(line):
                    return None
                first = first or (path, number)
    return first


def _there(task: ForeignTask, path: str) -> bool:
    return any(p == path or p.endswith(f"/{path}") or p.startswith(f"{path}/") for p in task.env.start)


def _few(names: Iterable[str]) -> list[str]:
    """Those that are names of files, so many as a person can mean."""
    return list(islice((name for name in names if _ENDING.match(PurePosixPath(name).suffix)), MOST_NAMES))


def _line(task: ForeignTask, file: str, path: str) -> int | None:
    return task.line(file, path) or task.line(file, PurePosixPath(path).name)


def _alike(one: str, other: str) -> bool:
    a, b = PurePosixPath(one), PurePosixPath(other)
    if a.name == b.name:
        return True
    return SequenceMatcher(None, a.stem.lower(), b.stem.lower()).ratio() >= ALIKE
