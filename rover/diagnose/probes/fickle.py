"""Probes that grade one state again: at once, and under another clock, order of files and hash seed."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from rover.diagnose.protocol import ProbeContext
from rover.rollout.env import Env, reference_state
from rover.sandbox.protocol import CallResult, Files, Sandbox
from rover.verify.grade import Graded, run_checks
from rover.verify.shown import Conditions
from rover_store.records import Finding, Limits, Score

if TYPE_CHECKING:
    from rover.rollout.engine import Engine

Marks = dict[str, float]
#: a check without any of these does not depend on the hash seed
_HASHED = re.compile(rb"\bhash\(|\bset\(|\bfrozenset\(|\{[^}:]*\bfor\b|\bid\(")
#: modules whose functions give equal results for equal arguments
_PURE = frozenset(
    {
        "__future__", "rover_checks", "re", "json", "math", "csv", "io", "collections", "itertools", "functools",
        "decimal", "fractions", "statistics", "hashlib", "string", "textwrap", "typing", "dataclasses", "unicodedata",
    }
)  # fmt: skip
_IMPURE = frozenset({"eval", "exec", "compile", "__import__", "getattr", "globals", "vars", "open", "input"})
#: another day and another hour
_LATER = Conditions(clock=411 * 86400.0 + 5 * 3600.0, seed=77)


class Repeated:
    """Graded again, the same state gets the same marks."""

    name = "repeated"
    written_for = frozenset({"flaky_verifier"})
    cost = 1
    #: a check that flips a coin goes unseen once in 2 ** repeats times
    repeats = 10

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        moved = chancy(ctx, 1 if pure(ctx.env) else self.repeats)
        return (fickle(self.name, ctx.env, "chance", moved),) if moved else ()


def chancy(ctx: ProbeContext, repeats: int) -> list[str]:
    """Criteria that give one state several marks. Every repeat is made: which of them shows it is chance."""
    state, message = tried_on(ctx.env)
    first = ctx.engine.grade_state(ctx.env, state, message)
    if first.outcome == "infra_error":
        return []
    again = [ctx.engine.grade_state(ctx.env, state, message, fresh=True) for _ in range(repeats)]
    return _moved(_marks(first.scores), [_marks(v.scores) for v in again if v.outcome != "infra_error"])


class Shaken:
    """On another day, with other random numbers, folders listed backwards, another hash seed: the same marks."""

    name = "shaken"
    written_for = frozenset({"flaky_verifier"})
    cost = 1

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        env = ctx.env
        state, message = tried_on(env)
        first = ctx.engine.grade_state(env, state, message)
        if first.outcome in ("infra_error", "verifier_error"):
            return ()
        for shake in self._ways(env):
            found = _shaken(ctx.engine, env, Graded(env.start, state, message), shake)
            moved = _moved(_marks(first.scores), [found])
            if moved:  # what moves by itself is not moved by this
                moved = sorted({*moved} - {*chancy(ctx, Repeated.repeats)})
            if moved:
                return (fickle(self.name, env, shake.partition("-")[0], moved),)
        return ()

    def _ways(self, env: Env) -> list[str]:
        sources = [d for p, d in env.verifier_files.items() if p.startswith("checks/")]
        hashed = any(_HASHED.search(s) for s in sources)
        return [*([] if pure(env) else ["clock", "order", "order-back"]), *(["hash"] if hashed else [])]


def pure(env: Env) -> bool:
    """Whether the checks use nothing but what gives equal results for equal arguments."""
    return all(_pure(data) for path, data in env.verifier_files.items() if path.startswith("checks/"))


def _pure(source: bytes) -> bool:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and any(a.name.partition(".")[0] not in _PURE for a in node.names):
            return False
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] not in _PURE:
            return False
        if isinstance(node, ast.Name) and node.id in _IMPURE:
            return False
        walks = isinstance(node, ast.Attribute) and node.attr in ("iterdir", "glob", "rglob", "stat", "walk")
        if walks or (isinstance(node, ast.Attribute) and node.attr.startswith("__")):
            return False
    return True


class _Shaking:
    """A box in which a grading runs shaken. Holds the files that `run_checks` lays out."""

    def __init__(self, engine: Engine, files: Files, shake: str) -> None:
        self._engine, self._files, self._shake = engine, files, shake

    def call(self, entry: str, payload: Any, *, limits: Limits | None = None) -> CallResult:
        return self._engine.call(
            "rover.diagnose.shaken:grade_shaken", {**payload, "shake": self._shake}, self._files
        )


def _shaken(engine: Engine, env: Env, graded: Graded, shake: str) -> Marks:
    """Marks of the criteria that can be judged in a moved world; one that cannot says nothing."""
    if shake == "clock":
        again = engine.grade_state(env, graded.end, graded.message, now=_LATER)
        return {c: mark for c, mark in _marks(again.scores).items() if mark >= 0}

    @contextlib.contextmanager
    def borrow(files: Files) -> Iterator[Sandbox]:
        yield cast(Sandbox, _Shaking(engine, files, shake))

    scores = run_checks(borrow, env.verifier.criteria, env.verifier_files, graded)
    return {c: mark for c, mark in _marks(scores).items() if mark >= 0}


def tried_on(env: Env) -> tuple[Files, str]:
    """The reference, with its message; the start where there is none."""
    if env.reference.changes or env.reference.final_message:
        return reference_state(env), env.reference.final_message
    return env.start, ""


def fickle(probe: str, env: Env, how: str, criteria: list[str]) -> Finding:
    said = {
        "chance": "graded again, the same state gets another mark",
        "clock": "the mark depends on the day on which it is given",
        "order": "the mark depends on the order in which folders are listed",
        "hash": "the mark depends on the hash seed of the process",
    }[how]
    needs = [c.requirement for c in env.verifier.criteria if c.id in criteria]
    return Finding(
        probe=probe,
        kind="flaky_verifier",
        message=f"{said}: {', '.join(criteria[:3])}",
        components=("verifier",),
        requirement=needs[0] if needs else None,
        evidence=(env.verifier_id,),
        details={"subject": how, "how": how, "criteria": criteria, "requirements": needs},
        excludes=("everything but the verifier: only the grading was repeated",),
    )


def _marks(scores: tuple[Score, ...]) -> Marks:
    return {s.criterion: s.score if s.status == "scored" else -1.0 for s in scores}


def _moved(first: Marks, others: list[Marks]) -> list[str]:
    return sorted({c for other in others for c, mark in other.items() if first.get(c) != mark})
