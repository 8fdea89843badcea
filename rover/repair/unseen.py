"""Admission of a package whose verifier is a program: cases that its calibration did not make.

The package's own solution runs anew, with care and with each of its slips, and every null attacker, on seeds of their
own. Beside that, files that the request names are broken in what the solution leaves: in ways in which calibration did
not break them. One that is gone or empty is wrong for sure, and whoever accepts it fails the test. Half of a file, a
line less or another number is almost always wrong, yet there may be other right work: where such a state is accepted
nothing is recorded, in favour of the package or against it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rover.construct.calibrate import Row, attacker_rows, below_mark, counting
from rover.construct.solved import Solved, broken_states, demanded, solution_of, solved
from rover.policy.named import named_paths
from rover.policy.solution import SLIPS
from rover.rollout.env import Env, tree_of
from rover.rollout.records import RolloutRequest, changed, seed_for
from rover_store.ids import COMPONENTS, digest
from rover_store.records import Admission

if TYPE_CHECKING:
    from rover.rollout.engine import Engine
    from rover.sandbox.protocol import Files

#: states that are graded, drawn from all where there are more: a program may take its time
MOST_STATES = 12
#: files in which a line or a number is what was asked for
_DATA = (".csv", ".tsv", ".json", ".jsonl", ".txt")
#: whole numbers, and what stands before the point of others
_NUMBER = re.compile(r"(?<![\w.])\d{1,12}(?!\w)")


@dataclass(frozen=True, slots=True)
class Unadmitted:
    """No record, and why. `failed`: the test says that the verifier is wrong, so nothing may be promoted."""

    reason: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """An end state that calibration never had. `sure`: it is wrong, whatever else might be right."""

    name: str
    state: Files
    sure: bool


def admit(engine: Engine, env: Env, case: str) -> Admission | Unadmitted:
    """Hold the test, on seeds that the case and the package give."""
    seed = int(digest([case, "admission", env.package])[:12], 16)
    known, anew = solved(engine, env), solved(engine, env, seed, "admission")
    if known is None or anew is None:
        return Unadmitted("it has neither a family nor a solution to hold an admission test with")
    own = _solution(env, anew)
    if not own.ok:
        return _failed(own)
    cases = held_out(env, known.result.end, anew.result.end, random.Random(seed))
    if not cases:
        return Unadmitted("the request names no file that calibration has not broken in every way")
    sure = [own, *_slips(engine, env, anew, seed), *attacker_rows(engine, env, seed)[0]]
    verdicts = engine.grade_states([(env, c.state, "") for c in cases])
    rows = [below_mark(c.name, "negative", env, v) for c, v in zip(cases, verdicts, strict=True)]
    sure += [row for row, c in zip(rows, cases, strict=True) if c.sure]
    for row in sure:
        if not row.ok:
            return _failed(row)
    for row in rows:
        if not row.ok:
            return Unadmitted(f"{row.case} is {_said(row)}")
    ids = {component: env.component_id(component) for component in COMPONENTS}
    seen = [[row.case, row.expected, row.observed] for row in (*sure, *(r for r in rows if r not in sure))]
    return Admission(components=ids, cases=len(seen), digest=digest(seen))


def held_out(env: Env, end: Files, again: Files, rng: random.Random) -> list[Case]:
    """Broken end states apart from those that calibration makes of `end`. `again`: a second run's; what differs there
    goes by chance, so that no line and no number of it is known."""
    seen = {tree_of(env.start), tree_of(end), *(tree_of(state) for _, state in broken_states(env, end))}
    out = []
    for one in _broken(env, end, again, rng):
        tree = tree_of(one.state)
        if tree not in seen:
            seen.add(tree)
            out.append(one)
    drawn = sorted(rng.sample(range(len(out)), min(MOST_STATES, len(out))))
    return [out[i] for i in drawn]


def _broken(env: Env, end: Files, again: Files, rng: random.Random) -> Iterator[Case]:
    named = set(named_paths(env.instruction, env.workdir))
    for path in [p for p in demanded(env, end) if p in named and end[p].strip()]:
        yield Case(f"delete-{path}", changed(end, {path: None}), True)
        yield Case(f"empty-{path}", changed(end, {path: b""}), True)
        if end[path] != again.get(path):
            continue
        for what, data in spoilt(path, end[path], rng):
            yield Case(f"{what}-{path}", changed(end, {path: data}), False)


def spoilt(path: str, data: bytes, rng: random.Random) -> Iterator[tuple[str, bytes]]:
    """Half of a text; of data also a line less, and one number that is another."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return
    body = text.strip()
    yield "half", body[: len(body) // 2].encode()
    if not path.endswith(_DATA):
        return
    lines = text.splitlines(keepends=True)
    head = 1 if path.endswith((".csv", ".tsv")) else 0
    told = [i for i, line in enumerate(lines) if i >= head and line.strip()]
    if len(told) > 1 and not path.endswith(".json"):  # a line of JSON is an accident of its form
        gone = rng.choice(told)
        yield "line-less", "".join(lines[:gone] + lines[gone + 1 :]).encode()
    start = sum(map(len, lines[:head]))
    numbers = list(_NUMBER.finditer(text, start))
    if numbers:
        hit = rng.choice(numbers)
        other = str(int(hit.group()) * 2 + 3)
        yield "number", (text[: hit.start()] + other + text[hit.end() :]).encode()


def _slips(engine: Engine, env: Env, anew: Solved, seed: int) -> list[Row]:
    """The solution with each slip, through the harness; only where it spoils what the request names."""
    policies = [policy for slip in sorted(SLIPS) if (policy := solution_of(env, slip)) is not None]
    requests = [RolloutRequest(env, p, seed_for("admission", p.id, seed), None, "admission") for p in policies]
    results = engine.rollouts(requests)
    verdicts = engine.grade([(result, env) for result in results])
    named, end = set(named_paths(env.instruction, env.workdir)), anew.result.end
    rows = []
    for policy, result, verdict in zip(policies, results, verdicts, strict=True):
        lost = (p for p in demanded(env, end) if p in named and end[p].strip())
        if verdict.outcome == "infra_error" or any(not result.end.get(p, b"").strip() for p in lost):
            rows.append(below_mark(policy.id, "negative", env, verdict, result.id))
    return rows


def _solution(env: Env, run: Solved) -> Row:
    verdict = counting(run.verdict)
    if run.problem or verdict.outcome in ("verifier_error", "infra_error"):
        return Row("solution", "reference", "accepted", "error", None, run.problem or verdict.reason, run.result.id)
    full = verdict.outcome == "passed" and all(s.score == 1 for s in verdict.scores)
    return Row(
        "solution", "reference", "accepted", "accepted" if full else "rejected", None, verdict.reason, run.result.id
    )


def _failed(row: Row) -> Unadmitted:
    return Unadmitted(f"the admission test fails: {row.case}: {_said(row)}", failed=True)


def _said(row: Row) -> str:
    return f"{row.observed}, not {row.expected}" + (f": {row.reason}" if row.reason else "")
