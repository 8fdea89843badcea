"""What request, solution and tests of a container task call its files, and where one of the three differs.

Two that agree outvote the third. The request names files to be made; the solution makes files; the tests name files
that they read. Pure: everything is read as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from rover.construct.solved import written
from rover.policy.named import named_paths
from rover.rollout.env import Env
from rover.sandbox.protocol import Files

#: larger files of a test folder are data
MOST_TEXT = 256 << 10


@dataclass(frozen=True, slots=True)
class Odd:
    """One name that one part alone has. `who` is at odds with the other two; `unsaid`: the request names nothing.

    `path` is what the others say, `found` what stands there instead.
    """

    who: Literal["task", "verifier", "solution", "unsaid"]
    path: str
    found: str = ""


def test_texts(env: Env) -> dict[str, str]:
    """The text files of the program, by their paths below its folder."""
    if env.verifier.program is None:
        return {}
    folder = env.verifier.program.files.strip("/")
    out = {}
    for path, data in env.verifier_files.items():
        if path.startswith(f"{folder}/") and len(data) <= MOST_TEXT:
            try:
                out[path.removeprefix(f"{folder}/")] = data.decode()
            except UnicodeDecodeError:
                continue
    return out


def read_by_tests(env: Env) -> frozenset[str]:
    """Files of the workspace that the tests name."""
    own = set(test_texts(env))
    found = {p for text in test_texts(env).values() for p in named_paths(text, env.workdir)}
    return frozenset(p for p in found if p not in own and not p.startswith(("tests/", "logs/")))


def odd_names(env: Env, end: Files) -> tuple[Odd, ...]:
    """Every name at odds, given the end state of the solution."""
    asked = [p for p in named_paths(env.instruction, env.workdir) if p not in env.start and PurePosixPath(p).suffix]
    made = [p for p in written(env.start, end) if p not in env.start]
    read = read_by_tests(env)
    found = [*_pairs(asked, made, read), *_tests(env, asked, made, read), *_unsaid(asked, made, read)]
    return tuple(dict.fromkeys(found))


def _pairs(asked: list[str], made: list[str], read: frozenset[str]) -> Iterator[Odd]:
    """A file that is asked for and not made beside one that is made and not asked for."""
    missing = [p for p in asked if not _among(p, made)]
    extra = [p for p in made if not _among(p, asked)]
    for suffix in dict.fromkeys(PurePosixPath(p).suffix for p in missing):
        mine = [p for p in missing if PurePosixPath(p).suffix == suffix]
        its = [p for p in extra if PurePosixPath(p).suffix == suffix]
        if len(its) > 1:
            its = [p for p in its if _among(p, read)]
        if len(mine) != 1 or len(its) != 1:
            continue
        by_solution, by_request = _among(its[0], read), _among(mine[0], read)
        if by_solution and not by_request:
            yield Odd("task", its[0], mine[0])
        elif by_request and not by_solution:
            yield Odd("solution", mine[0], its[0])


def _tests(env: Env, asked: list[str], made: list[str], read: frozenset[str]) -> Iterator[Odd]:
    """A file that is asked for and made, where the tests look for another one."""
    agreed = [p for p in asked if p in made and not _among(p, read)]
    strange = [p for p in read if not any(_among(p, known) for known in (env.start, asked, made))]
    for path in agreed:
        suffix = PurePosixPath(path).suffix
        alike = sorted(p for p in strange if PurePosixPath(p).suffix == suffix)
        same = [p for p in agreed if PurePosixPath(p).suffix == suffix]
        if len(alike) == 1 and len(same) == 1:
            yield Odd("verifier", path, alike[0])


def _unsaid(asked: list[str], made: list[str], read: frozenset[str]) -> Iterator[Odd]:
    """A file that is made and read by the tests, and that the request names nowhere, nor another one like it."""
    endings = {PurePosixPath(p).suffix for p in asked if not _among(p, made)}
    for path in made:
        if _among(path, read) and not _among(path, asked) and PurePosixPath(path).suffix not in endings:
            yield Odd("unsaid", path)


def _among(path: str, others: Iterable[str]) -> bool:
    """Whether a path is there, or one that is the end of the other: a request may leave out the folder."""
    return any(path == o or path.endswith(f"/{o}") or o.endswith(f"/{path}") for o in others)
