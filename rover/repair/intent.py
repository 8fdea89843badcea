"""The frozen intent of a package, and whether a candidate still has it, demand by demand.

The intent is the request and the contract of the last admitted revision. A package that never was admitted has
the reading that most of its own parts agree on (rover.repair.vote).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from rover.diagnose.demands import states
from rover.rollout.env import Env
from rover_store.ids import COMPONENTS
from rover_store.records import Contract, Deliverable, Requirement

_FILE = re.compile(r"(?<![\w/.-])[\w][\w./-]*\.(?:csv|tsv|xlsx|jsonl|json|md|txt)(?!\w)")
_NAMED = re.compile(r"`([^`\n]+)`|\"([^\"\n]+)\"")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*(?![\w])")


@dataclass(frozen=True, slots=True)
class Intent:
    """What the task means, whatever happens to its files."""

    contract: Contract
    instruction: str
    origin: Literal["admission", "vote"]
    commit: str = ""  # the admitted revision
    start: dict[str, bytes] = field(default_factory=dict)  # its workspace; empty where never admitted
    pass_weight: float = 0.0  # its pass mark
    critical: frozenset[str] = frozenset()  # requirements that the contract and a criterion call critical
    undecided: tuple[str, ...] = ()  # requirements (or paths) on which the vote was a tie
    notes: tuple[str, ...] = ()


def is_admitted(env: Env) -> bool:
    """Whether this very version passed the admission test: it names the present component ids."""
    admission = env.record.admission
    return admission is not None and all(admission.components.get(c) == env.component_id(c) for c in COMPONENTS)


def last_admitted(versions: Iterable[tuple[str, Env]]) -> Intent | None:
    """The intent of the newest admitted version among `(commit, env)`, newest first; None where there is none."""
    for commit, env in versions:
        if is_admitted(env):
            mark, critical = env.verifier.pass_weight, criticals(env)
            start = dict(env.start)
            return Intent(env.contract, env.instruction, "admission", commit, start, mark, critical)
    return None


def criticals(env: Env) -> frozenset[str]:
    """Requirements without which nothing passes: critical in the contract and by a criterion."""
    scored = {c.requirement for c in env.verifier.criteria if c.critical}
    return frozenset(r.id for r in env.contract.requirements if r.critical and r.id in scored)


def loosened(intent: Intent, env: Env) -> Iterator[str]:
    """Where the verifier's rules are weaker than the frozen ones: a lower pass mark, a criterion that may fail."""
    if env.verifier.pass_weight < intent.pass_weight:
        yield f"the pass mark is {env.verifier.pass_weight:g} instead of {intent.pass_weight:g}"
    yield from (f"no criterion of {name} is critical any more" for name in sorted(intent.critical - criticals(env)))


def differences(intent: Intent, env: Env) -> list[str]:
    """Where the candidate's task is not the intended one: each line names a demand and what became of it."""
    return [*_contract(intent.contract, env.contract), *_request(intent, env)]


# --- the contract ----------------------------------------------------------------------------------------
def _contract(old: Contract, new: Contract) -> Iterator[str]:
    have = {d.id: d for d in new.deliverables}
    for deliverable in old.deliverables:
        found = have.pop(deliverable.id, None)
        if found is None:
            yield f"deliverable {deliverable.id} is gone"
        elif found != deliverable:
            yield f"deliverable {deliverable.id}: {_changed(deliverable, found)}"
    yield from (f"deliverable {name} was added" for name in have)
    yield from _requirements(old, new)
    if old.same != new.same:
        yield "what counts as the same answer was changed"
    yield from _givens(old, new)


def _requirements(old: Contract, new: Contract) -> Iterator[str]:
    """By id, else by content: an id may be renamed, a demand may not be."""
    have = {r.id: r for r in new.requirements}
    for requirement in old.requirements:
        found = have.get(requirement.id) or next((r for r in have.values() if _alike(r, requirement)), None)
        if found is None:
            yield f"{requirement.role} {requirement.id} is gone"
            continue
        del have[found.id]
        if not _alike(found, requirement):
            yield f"{requirement.role} {requirement.id} says something else"
        elif found.weight < requirement.weight or (requirement.critical and not found.critical):
            yield f"{requirement.role} {requirement.id} is weaker"
        elif found.weight > requirement.weight or found.critical != requirement.critical:
            yield f"{requirement.role} {requirement.id} is stronger"
    yield from (f"{r.role} {r.id} was added" for r in have.values())


def _alike(one: Requirement, other: Requirement) -> bool:
    """The same demand; its wording and weight apart."""
    return (one.rule, one.role, one.deliverable) == (other.rule, other.role, other.deliverable)


def _givens(old: Contract, new: Contract) -> Iterator[str]:
    """Where a value is stated may change, the value may not. A given that nothing uses may come and go."""
    have = {g.name: g for g in new.givens}
    for given in old.givens:
        found = have.get(given.name)
        if found is None:
            yield f"the given {given.name} is gone"
        elif (type(found.value), found.value, found.unit) != (type(given.value), given.value, given.unit):
            yield f"the given {given.name} is {found.value!r} instead of {given.value!r}"


def _changed(old: Deliverable, new: Deliverable) -> str:
    if old.path != new.path:
        return f"the path is {new.path} instead of {old.path}"
    before, after = {c.name: c for c in old.columns}, {c.name: c for c in new.columns}
    for name, column in before.items():
        found = after.get(name)
        if found is None:
            return f"column {name} is gone"
        if found.tolerance != column.tolerance:
            return f"the tolerance of {name} is {found.tolerance:g} instead of {column.tolerance:g}"
    if len(after) > len(before):
        return f"column {next(n for n in after if n not in before)} was added"
    fields = (f for f in type(old).model_fields if getattr(old, f) != getattr(new, f))
    return f"{', '.join(fields)} differs"


# --- the request -----------------------------------------------------------------------------------------
def _request(intent: Intent, env: Env) -> Iterator[str]:
    """The request still states what the intent states, and names nothing that the intent does not know."""
    if env.instruction == intent.instruction:
        return
    for deliverable in intent.contract.deliverables:
        if not _names(env.instruction, deliverable.path) and _names(intent.instruction, deliverable.path):
            yield f"the request no longer names {deliverable.path}"
    for given in intent.contract.givens:
        if given.stated_in == "instruction" and not states(env.instruction, given.value):
            means = f" ({given.meaning})" if given.meaning else ""
            yield f"the request does not state {given.name}{means}: {given.value}"
    lost = _terms(intent.instruction) & _vocabulary(intent.contract)
    for term in sorted(lost):
        if not _says(env.instruction, term):
            yield f"the request no longer says {term!r}"
    yield from _added(intent, env)


def _added(intent: Intent, env: Env) -> Iterator[str]:
    """Names, files and numbers in the request that neither the intent nor the workspace knows."""
    known = _vocabulary(intent.contract) | {p.casefold() for p in env.start}
    values = [g.value for g in intent.contract.givens]
    for term in sorted(_terms(env.instruction) - _terms(intent.instruction)):
        if term in known or any(term == str(v).casefold() or states(term, v) for v in values):
            continue
        if _says(intent.instruction, term) or any(path.endswith("/" + term) for path in known):
            continue
        yield f"the request newly says {term!r}"


def _terms(text: str) -> set[str]:
    """What a request names: files, names in backticks or quotes, numbers."""
    named = {(a or b).strip().casefold() for a, b in _NAMED.findall(text)}
    return {m.group().casefold() for m in _FILE.finditer(text)} | named | set(_NUMBER.findall(text))


def _vocabulary(contract: Contract) -> set[str]:
    """Words that the contract itself uses: paths, columns, fields, labels, given values."""
    out: set[str] = set()
    for deliverable in contract.deliverables:
        out |= {deliverable.path, *(c.name for c in deliverable.columns), *deliverable.key}
        out |= {deliverable.sheet} if deliverable.sheet else set()
    for requirement in contract.requirements:
        rule = requirement.rule
        for name in ("column", "field", "label"):
            out |= {str(getattr(rule, name))} if hasattr(rule, name) else set()
        out |= set(getattr(rule, "paths", ()))
        out |= {c.name for c in getattr(rule, "columns", ())}
    out |= {str(g.value) for g in contract.givens}
    return {term.casefold() for term in out}


def _says(text: str, term: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(term)}(?!\w)", text.casefold()) is not None


def _names(text: str, path: str) -> bool:
    return _says(text, path.casefold()) or _says(text, path.rsplit("/", 1)[-1].casefold())
