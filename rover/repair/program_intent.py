"""The intent of a package whose verifier is a program: its request, read as solution and tests read it.

Two of request, solution and tests that agree outvote the third. What the tests reject in the solution's work, though
all three use the same names, is a tie between the two: recorded work of others decides it, where there is any; else a
person does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rover.construct.solved import demanded, solved
from rover.diagnose.oracle.program import same
from rover.diagnose.program_names import odd_names
from rover.diagnose.protocol import Recorded
from rover.policy.named import named_paths
from rover.repair.wording import Demand, contract_demands
from rover.rollout.env import Env
from rover_store.errors import RoverError
from rover_store.records import Contract

if TYPE_CHECKING:
    from rover.rollout.engine import Engine

#: names and numbers of a request
_TERM = re.compile(r"`([^`\n]+)`|\"([^\"\n]+)\"|(?<![\w.])(\d+(?:[.,]\d+)*)(?!\w)")


@dataclass(frozen=True, slots=True)
class Reading:
    """What the parts of a package make of its request. `renamed`: names of the request -> those that are meant;
    `said`: files that it has to name."""

    renamed: tuple[tuple[str, str], ...] = ()
    said: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def reading(engine: Engine, env: Env, recorded: Sequence[Recorded] = ()) -> Reading:
    """The reading that most parts have."""
    found = solved(engine, env, purpose="diagnose")
    if found is None or found.problem:
        return Reading()  # what keeps the solution from its end is no question of what is meant
    end = dict(found.result.end)
    odd = odd_names(env, end)
    renamed = tuple((o.found, o.path) for o in odd if o.who == "task")
    said = tuple(o.path for o in odd if o.who in ("task", "unsaid"))
    notes = tuple(f"{new} is meant where the request says {old}" for old, new in renamed)
    notes += tuple(f"the tests are to read {o.path}, not {o.found}" for o in odd if o.who == "verifier")
    undecided: tuple[str, ...] = ()
    if found.verdict.outcome == "failed" and not any(o.who in ("verifier", "solution") for o in odd):
        lead, why = _lead(engine, env, end, recorded)
        if lead == 0:
            undecided = ("what the tests reject in the solution's work",)
        notes += (why,)
    return Reading(renamed, said, undecided, notes)


def _lead(engine: Engine, env: Env, end: dict[str, bytes], recorded: Sequence[Recorded]) -> tuple[int, str]:
    """Policies whose recorded work equals the solution's less those whose work the tests accept."""
    wanted = {path: end[path] for path in demanded(env, end)}
    with_it: set[str] = set()
    against: set[str] = set()
    for one in recorded:
        policy = one.trajectory.key.policy
        if policy.startswith(("null:", "solution:")) or one.trajectory.purpose is not None or one.verdict is None:
            continue
        try:
            state = dict(engine.end_of(one.trajectory))
        except (RoverError, KeyError):
            continue
        if wanted and all(path in state and same(state[path], data) for path, data in wanted.items()):
            with_it.add(policy)
        elif one.verdict.outcome == "passed":
            against.add(policy)
    why = f"{len(with_it)} other policies did what the solution does, {len(against)} what the tests accept"
    return len(with_it) - len(against), why


def meant(instruction: str, renamed: Iterable[tuple[str, str]]) -> str:
    """The request with the names that are meant."""
    for old, new in renamed:
        instruction = called(instruction, old, new)
    return instruction


def called(text: str, old: str, new: str) -> str:
    """A text with one file under another name, with its folders or without."""
    whole = re.sub(rf"(?<![\w.-]){re.escape(old)}(?![\w-])", new.replace("\\", r"\\"), text)
    short, other = old.rpartition("/")[2], new.rpartition("/")[2]
    return re.sub(rf"(?<![\w./-]){re.escape(short)}(?![\w-])", other.replace("\\", r"\\"), whole)


def demands_of(contract: Contract, instruction: str, said: Sequence[str], env: Env) -> tuple[Demand, ...]:
    """What the contract says, every line of the request, the files that it has to name, and what it newly names."""
    return (*contract_demands(contract, env.contract), *_request(instruction, said, env))


def _request(instruction: str, said: Sequence[str], env: Env) -> Iterator[Demand]:
    now = env.instruction
    held = _bare(now)
    for line in map(_bare, instruction.splitlines()):
        if line:
            what = f"the request says {line[:120]!r}"
            kept = line in held
            yield Demand(what, "kept") if kept else Demand(what, "gone", f"the request no longer says {line[:120]!r}")
    named = set(named_paths(now, env.workdir))
    for path in said:
        what = f"the request names {path}"
        yield Demand(what, "kept") if path in named else Demand(what, "gone", f"the request does not name {path}")
    for term in _new_terms(instruction, now, said, env.workdir):
        yield Demand(f"the request says {term!r}", "added", f"the request newly says {term!r}")


def _new_terms(instruction: str, now: str, said: Sequence[str], workdir: str) -> list[str]:
    """Names and numbers in a request that were not there, other than the files that it has to name."""
    allowed = {*said, *(f"{workdir.rstrip('/')}/{path}" for path in said)}
    before = _terms(instruction) | set(named_paths(instruction, workdir)) | allowed
    after = _terms(now) | set(named_paths(now, workdir))
    return sorted(term for term in after - before if term not in instruction)


def _terms(text: str) -> set[str]:
    return {next(g for g in groups if g) for groups in _TERM.findall(text)}


def _bare(text: str) -> str:
    return " ".join(text.split())
