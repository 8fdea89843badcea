"""Every demand of a task before and after: deliverables, demands, constraints, invariants, givens, and what is named.

Each line says whether one is kept, weaker, stronger, changed, added or gone. An edit of the request may say the same
in other words; it may not say anything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from rover.diagnose.demands import states
from rover.rollout.env import Env
from rover_store.records import Contract, Deliverable, Requirement

State = Literal["kept", "weaker", "stronger", "changed", "added", "gone"]

_FILE = re.compile(r"(?<![\w/.-])[\w][\w./-]*\.(?:csv|tsv|xlsx|jsonl|json|md|txt)(?!\w)")
_NAMED = re.compile(r"`([^`\n]+)`|\"([^\"\n]+)\"")
_OTHERS = re.compile(r"\b(?:every|any|no|all(?: the)?|the) other (file|cell)s?\b", re.IGNORECASE)
_REST = re.compile(r"\bother (?:file|cell|row|column)s?\b|\b(?:nothing|anything|everything) else\b", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*(?![\w])")


@dataclass(frozen=True, slots=True)
class Demand:
    """One thing that the task asks for, and what became of it."""

    what: str
    state: State
    line: str = ""  # what became of it, in words; empty where it is kept

    def __str__(self) -> str:
        return f"{self.state}: {self.line or self.what}"


def demands(contract: Contract, instruction: str, env: Env) -> tuple[Demand, ...]:
    """All of them, those of `contract` and `instruction` in their order, then what the candidate adds."""
    return (*contract_demands(contract, env.contract), *_request(contract, instruction, env))


# --- the contract ----------------------------------------------------------------------------------------
def contract_demands(old: Contract, new: Contract) -> Iterator[Demand]:
    """The demands of one contract, and what another one makes of them."""
    have = {d.id: d for d in new.deliverables}
    for deliverable in old.deliverables:
        name = f"deliverable {deliverable.id}"
        found = have.pop(deliverable.id, None)
        if found is None:
            yield Demand(name, "gone", f"{name} is gone")
        elif found != deliverable:
            yield Demand(name, _how(deliverable, found), f"{name}: {_changed(deliverable, found)}")
        else:
            yield Demand(name, "kept")
    yield from (Demand(f"deliverable {name}", "added", f"deliverable {name} was added") for name in have)
    yield from _requirements(old, new)
    same = old.same == new.same
    what = "what counts as the same answer"
    yield Demand(what, "kept") if same else Demand(what, "changed", f"{what} was changed")
    yield from _givens(old, new)


def _requirements(old: Contract, new: Contract) -> Iterator[Demand]:
    """By id, else by content: an id may be renamed, a demand may not be."""
    have = {r.id: r for r in new.requirements}
    for requirement in old.requirements:
        name = f"{requirement.role} {requirement.id}"
        found = have.get(requirement.id) or next((r for r in have.values() if _alike(r, requirement)), None)
        if found is None:
            yield Demand(name, "gone", f"{name} is gone")
            continue
        del have[found.id]
        if not _alike(found, requirement):
            yield Demand(name, "changed", f"{name} says something else")
        elif found.weight < requirement.weight or (requirement.critical and not found.critical):
            yield Demand(name, "weaker", f"{name} is weaker")
        elif found.weight > requirement.weight or found.critical != requirement.critical:
            yield Demand(name, "stronger", f"{name} is stronger")
        else:
            yield Demand(name, "kept")
    yield from (Demand(f"{r.role} {r.id}", "added", f"{r.role} {r.id} was added") for r in have.values())


def _alike(one: Requirement, other: Requirement) -> bool:
    """The same demand; its wording and weight apart."""
    return (one.rule, one.role, one.deliverable) == (other.rule, other.role, other.deliverable)


def _givens(old: Contract, new: Contract) -> Iterator[Demand]:
    """Where a value is stated may change, the value may not. A given that nothing uses may come and go."""
    have = {g.name: g for g in new.givens}
    for given in old.givens:
        name = f"the given {given.name}"
        found = have.get(given.name)
        if found is None:
            yield Demand(name, "gone", f"{name} is gone")
        elif (type(found.value), found.value, found.unit) != (type(given.value), given.value, given.unit):
            yield Demand(name, "changed", f"{name} is {found.value!r} instead of {given.value!r}")
        else:
            yield Demand(name, "kept")


def _how(old: Deliverable, new: Deliverable) -> State:
    """Weaker where columns are missing or may be further off, stronger where there are more or they may be less."""
    before, after = {c.name: c for c in old.columns}, {c.name: c for c in new.columns}
    both = [(before[n].tolerance, after[n].tolerance) for n in before if n in after]
    if set(before) - set(after) or any(now > was for was, now in both):
        return "weaker"
    return "stronger" if set(after) - set(before) or any(now < was for was, now in both) else "changed"


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
def _request(contract: Contract, instruction: str, env: Env) -> Iterator[Demand]:
    """The request still states what the intent states, and names nothing that the intent does not know."""
    now = env.instruction
    for deliverable in contract.deliverables:
        if _names(instruction, deliverable.path):
            yield _stated(f"the request names {deliverable.path}", now == instruction or _names(now, deliverable.path),
                          f"the request no longer names {deliverable.path}")  # fmt: skip
    for given in contract.givens:
        if given.stated_in == "instruction":
            means = f" ({given.meaning})" if given.meaning else ""
            yield _stated(f"the request states {given.name}", now == instruction or states(now, given.value),
                          f"the request does not state {given.name}{means}: {given.value}")  # fmt: skip
    for term in sorted(_terms(instruction) & _vocabulary(contract)):
        yield _stated(f"the request says {term!r}", now == instruction or _says(now, term),
                      f"the request no longer says {term!r}")  # fmt: skip
    if any(r.rule.kind in ("protected", "no_extra", "rest") for r in contract.requirements):
        for what in sorted({m[1].lower() for m in _OTHERS.finditer(instruction)}):
            yield _stated(f"the request says what is to be done with other {what}s", _leaves(now, instruction, what),
                          f"the request no longer says that other {what}s stay as they are")  # fmt: skip
    if now != instruction:
        yield from _added(contract, instruction, env)


def _leaves(now: str, instruction: str, what: str) -> bool:
    """Whether the request still says that the rest is left alone, in words of its own if it likes."""
    return now == instruction or any(f"other {what}" in m[0].lower() or "else" in m[0] for m in _REST.finditer(now))


def _stated(what: str, kept: bool, otherwise: str) -> Demand:
    return Demand(what, "kept") if kept else Demand(what, "gone", otherwise)


def _added(contract: Contract, instruction: str, env: Env) -> Iterator[Demand]:
    """Names, files and numbers in the request that neither the intent nor the workspace knows."""
    known = _vocabulary(contract) | {p.casefold() for p in env.start}
    values = [g.value for g in contract.givens]
    new = _terms(env.instruction) - _terms(instruction)
    new = {t for t in new if not t[:1].isdigit() or t in _terms(_unnamed(env.instruction, known))}
    for term in sorted(new):
        if term in known or any(term == str(v).casefold() or states(term, v) for v in values):
            continue
        if _says(instruction, term) or any(path.endswith("/" + term) for path in known):
            continue
        yield Demand(f"the request says {term!r}", "added", f"the request newly says {term!r}")


def _unnamed(text: str, known: set[str]) -> str:
    """The request without the words of the contract: the digits of `CC-4410`, `reports/2025/a.csv` are nothing new."""
    words = sorted((word for word in known if not word.isdigit()), key=len, reverse=True)
    pattern = "|".join(re.escape(word) for word in words if any(c.isdigit() for c in word))
    return re.sub(rf"(?<!\w)(?:{pattern})(?!\w)", " ", text, flags=re.IGNORECASE) if pattern else text


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
