"""Ballots on the names of columns and fields: one that the contract alone calls as it does is called as the others do.

The request votes for a name of its own that it states instead, criteria by the columns of their anchors, the
reference by the words of its file. Who holds both names or neither has no vote.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from rover.rollout.env import REFERENCE, Env
from rover_store.records import Contract, Deliverable, Query, Requirement
from rover_store.records.contract import Answer, Column

_NAMED = re.compile(r"`([^`\n]+)`")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Named:
    """The contract with the names that most parts use; ties and changes by name."""

    contract: Contract
    undecided: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def named(env: Env) -> Named:
    """Every column of every new deliverable under the name that strictly most parts give it."""
    contract = env.contract
    undecided: list[str] = []
    notes: list[str] = []
    for deliverable in (d for d in env.contract.deliverables if not d.in_place):
        for name, other in _pairs(env, deliverable):
            lead = _lead(env, deliverable, name, other)
            if lead == 0:
                undecided.append(f"the name of {name}, or {other}, in {deliverable.path}")
            elif lead > 0:
                contract = renamed(contract, deliverable.id, name, other)
                notes.append(f"a column of {deliverable.path} is {other}, not {name}")
    return Named(contract, tuple(undecided), tuple(notes))


def _pairs(env: Env, deliverable: Deliverable) -> Iterator[tuple[str, str]]:
    """A column that the request does not name, and the one name there that stands for none: the only one of each."""
    known = _names(env.contract) | _headers(env)
    said = dict.fromkeys(_NAMED.findall(env.instruction))
    held = _anchored(env, deliverable) | _in_reference(env, deliverable)
    strangers = [n for n in said if n not in known and n in held]
    words = set(_NAMED.findall(env.instruction)) | set(_WORD.findall(env.instruction))
    silent = [c.name for c in deliverable.columns if c.name not in words]
    if len(strangers) == 1 and len(silent) == 1:
        yield silent[0], strangers[0]


def _lead(env: Env, deliverable: Deliverable, name: str, other: str) -> int:
    """Votes for the other name less votes for the contract's own; contract and request cancel out."""
    votes = 0
    for words in (_anchored(env, deliverable), _in_reference(env, deliverable)):
        votes += (other in words) - (name in words)
    return votes


def _anchored(env: Env, deliverable: Deliverable) -> set[str]:
    """Columns of the anchors by which criteria score this deliverable."""
    mine = {r.id for r in env.contract.requirements if r.deliverable == deliverable.id}
    used = {a for c in env.verifier.criteria if c.requirement in mine for a in c.anchors}
    return {column for a in env.anchors.anchors if a.id in used for column in a.value.columns}


def _in_reference(env: Env, deliverable: Deliverable) -> set[str]:
    """Words of the reference's file; none where it is no text."""
    data = env.verifier_files.get(f"{REFERENCE}files/{deliverable.path}", b"")
    try:
        return set(_WORD.findall(data.decode("utf-8")))
    except UnicodeDecodeError:
        return set()


def _names(contract: Contract) -> set[str]:
    """Names of the columns and fields that the contract asks for."""
    found = {c.name for d in contract.deliverables for c in d.columns}
    for need in contract.requirements:
        found |= {str(getattr(need.rule, n)) for n in ("column", "field") if hasattr(need.rule, n)}
        found |= {c.name for c in getattr(need.rule, "columns", ())}
    return found


def _headers(env: Env) -> set[str]:
    """First cells of the workspace's text tables."""
    heads = [d.partition(b"\n")[0][:2000] for p, d in env.start.items() if p.endswith((".csv", ".tsv"))]
    return {c.strip(' "\r') for h in heads for c in re.split(r"[,;\t]", h.decode("utf-8", "replace"))}


# --- another name ------------------------------------------------------------------------------------------
def renamed(contract: Contract, deliverable: str, name: str, other: str) -> Contract:
    """The contract with one column of a deliverable under another name, in its rules and their answers too."""

    def columns(found: Collection[Column]) -> tuple[Column, ...]:
        return tuple(c.model_copy(update={"name": other}) if c.name == name else c for c in found)

    def swap(found: Collection[str]) -> tuple[str, ...]:
        return tuple(other if n == name else n for n in found)

    targets = tuple(
        d.model_copy(update={"columns": columns(d.columns), "key": swap(d.key)}) if d.id == deliverable else d
        for d in contract.deliverables
    )
    needs: list[Requirement] = []
    for need in contract.requirements:
        if need.deliverable == deliverable:
            rule = need.rule
            update: dict[str, Any] = {n: other for n in ("column", "field") if getattr(rule, n, None) == name}
            update |= {"key": swap(key)} if (key := getattr(rule, "key", None)) is not None else {}
            update |= {"columns": columns(found)} if (found := getattr(rule, "columns", None)) is not None else {}
            value = getattr(rule, "value", None)
            if isinstance(value, Answer):
                update["value"] = Answer(answer=_measured(value.answer, name, other))
            need = need.model_copy(update={"rule": rule.model_copy(update=update)})
        needs.append(need)
    return contract.model_copy(update={"deliverables": targets, "requirements": tuple(needs)})


def _measured(query: Query, name: str, other: str) -> Query:
    """The query with a measure that it makes under another name; what it only reads keeps its own."""
    if name not in {m.name for m in query.measures}:
        return query

    def swap(found: Collection[Any], field: str) -> tuple[Any, ...]:
        return tuple(f.model_copy(update={field: other}) if getattr(f, field) == name else f for f in found)

    return query.model_copy(
        update={
            "measures": swap(query.measures, "name"),
            "having": swap(query.having, "column"),
            "order_by": swap(query.order_by, "column"),
            "select": tuple(other if n == name else n for n in query.select),
        }
    )
