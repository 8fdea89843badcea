"""One expected value of the tests that is wrong: the number in them in whose place one of the solution's makes it pass.

Whether the tests or the solution are wrong is not decided here: a package whose parts are at a tie has no repair.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rover.construct.solved import demanded, solved
from rover.repair.proposals.protocol import PackageView
from rover.rollout.env import env_from_files

#: pairs of numbers that are tried
MOST = 40
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w]|\.\d)")


def with_value(view: PackageView, files: dict[str, bytes]) -> tuple[dict[str, bytes], str]:
    """The verifier's files with one number replaced, and what was done; unchanged where no number is the one, or
    several could be."""
    program = view.env.verifier.program
    found = solved(view.engine, view.env, purpose="diagnose") if view.engine is not None else None
    if program is None or view.engine is None or found is None or found.problem:
        return files, ""
    end = found.result.end
    wanted = _numbers(b"\n".join(end[path] for path in demanded(view.env, end)))
    right: list[tuple[dict[str, bytes], str]] = []
    for path, said, meant in list(_pairs(files, program.files.strip("/"), wanted))[:MOST]:
        text = files[path].decode()
        changed = {**files, path: _put(text, said, meant).encode()}
        whole = {p: d for p, d in view.files.items() if not p.startswith("verifier/")}
        env = env_from_files(whole | {f"verifier/{p}": d for p, d in changed.items()}, view.resources)
        if view.engine.grade_state(env, end).outcome == "passed":
            right.append((changed, f"expect {meant} instead of {said} in {path}"))
    return right[0] if len(right) == 1 else (files, "")


def _pairs(files: dict[str, bytes], folder: str, wanted: list[str]) -> Iterator[tuple[str, str, str]]:
    """(file of the tests, a number there that the solution does not have, one of the solution's that is not there)."""
    for path, data in sorted(files.items()):
        if not path.startswith(f"{folder}/") or len(data) > 64 << 10:
            continue
        there = _numbers(data)
        for said in there:
            for meant in wanted:
                if said not in wanted and meant not in there:
                    yield path, said, meant


def _numbers(data: bytes) -> list[str]:
    try:
        return list(dict.fromkeys(_NUMBER.findall(data.decode())))
    except UnicodeDecodeError:
        return []


def _put(text: str, said: str, meant: str) -> str:
    return re.sub(rf"(?<![\w.]){re.escape(said)}(?![\w]|\.\d)", meant, text)
