"""Ballots on single values, and who has none: what the vote on the intent needs beside the demands themselves.

A value that the request states otherwise than the contract is voted on by itself: contract and request each for
their own, reference and anchors for the one under which they are right. A reference that was made on other data
than the present has no vote on what follows from data.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product

from rover.diagnose.demands import givens_used, sources, states_given
from rover.diagnose.probes.answers import as_sort_of
from rover.diagnose.probes.request import unit_said
from rover.diagnose.restate import instead
from rover.repair.oracle import answers_of
from rover.rollout.env import Env
from rover_store.ids import blob_id
from rover_store.records import Anchor, Contract, Requirement, Scalar
from rover_store.records.contract import EditRule, RestRule

#: combinations of disputed values that are looked at
MOST = 8

Values = Mapping[str, Scalar]
#: under these values, these hold
Held = Sequence[tuple[Values, frozenset[str]]]


@dataclass(frozen=True, slots=True)
class Dispute:
    """A value that the contract holds and the request states otherwise.

    `unit`: it may be the same in another unit or format. That fits both values: the request has no vote.
    """

    name: str
    contract: Scalar
    request: Scalar
    unit: bool = False


def made_on_other_data(env: Env, requirement: Requirement) -> bool:
    """Whether the verifier was built on other data than the present, of which this requirement's answers are made.

    The edges of package.json say it: by the blobs that were read where they are recorded, else by the version of
    the context. What follows from no file is no matter of data.
    """
    paths = {s.path for query in answers_of(requirement).values() for s in sources(query)}
    if isinstance(requirement.rule, EditRule | RestRule):
        paths |= {d.path for d in env.contract.deliverables if d.id == requirement.deliverable}
    mine = [e for e in env.record.edges if e.source == "verifier"]
    built = [e.version for e in mine if e.target == "context"]
    if not paths or not built or env.context_id in built:
        return False
    read = {blob for edge in mine for blob in edge.blobs}
    return not read or any(p not in env.start or blob_id(env.start[p]) not in read for p in paths)


def disputes(env: Env) -> tuple[Dispute, ...]:
    """Values that the request states otherwise than the contract, and one way only."""
    found = []
    for given in env.contract.givens:
        if given.stated_in != "instruction" or states_given(env.instruction, env.contract, given):
            continue
        said = instead(env.instruction, env.contract, given)
        if len(said) == 1:
            unit, _ = unit_said(given.value, said[0], env.instruction)
            found.append(Dispute(given.name, given.value, as_sort_of(given.value, said[0]), bool(unit)))
    return tuple(found)


def combinations(found: Sequence[Dispute]) -> list[dict[str, Scalar]]:
    """Every choice between the two values of each dispute, the contract's own first."""
    names = [d.name for d in found]
    return [
        dict(zip(names, one, strict=True)) for one in islice(product(*((d.contract, d.request) for d in found)), MOST)
    ]


def with_values(contract: Contract, values: Values) -> Contract:
    """The contract with these values in the place of its own."""
    givens = tuple(g.model_copy(update={"value": values.get(g.name, g.value)}) for g in contract.givens)
    return contract.model_copy(update={"givens": givens})


def ballot(dispute: Dispute, concerned: Collection[str], held: Held) -> Scalar | None:
    """The one value under which those of `concerned` hold; None where neither, both, or each another."""
    votes = set()
    for name in concerned:
        under = {values[dispute.name] for values, holding in held if name in holding}
        votes |= under if len(under) == 1 else set()
    return votes.pop() if len(votes) == 1 else None


def concerned_requirements(contract: Contract, name: str) -> set[str]:
    """Requirements that a given value has a part in."""
    return {r.id for r in contract.requirements if name in givens_used(Contract(requirements=(r,)))}


def concerned_anchors(anchors: Sequence[Anchor], name: str) -> set[str]:
    """Anchors whose queries use a given value."""
    return {a.id for a in anchors if re.search(rf'"given":"{re.escape(name)}"', a.query.model_dump_json())}


@dataclass(frozen=True, slots=True)
class Settled:
    """The contract with the values that most parts state; ties and changes by name."""

    contract: Contract
    disputed: frozenset[str] = frozenset()
    undecided: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def settle(env: Env, found: Sequence[Dispute], reference: Held, anchors: Held) -> Settled:
    """Each disputed value by strictly most ballots of contract, request, reference and anchors."""
    chosen: dict[str, Scalar] = {}
    undecided: list[str] = []
    notes: list[str] = []
    for one in found:
        votes = Counter(_ballots(env, one, reference, anchors))
        lead = votes[one.contract] - votes[one.request]
        if lead == 0:
            undecided.append(f"the value of {one.name}, {one.contract} or {one.request}")
        elif lead < 0:
            chosen[one.name] = one.request
            notes.append(f"{one.name} is {one.request}, not {one.contract}")
    names = frozenset(d.name for d in found)
    return Settled(with_values(env.contract, chosen), names, tuple(undecided), tuple(notes))


def _ballots(env: Env, one: Dispute, reference: Held, anchors: Held) -> Iterator[Scalar]:
    yield one.contract
    if not one.unit:
        yield one.request
    for concerned, held in (
        (concerned_requirements(env.contract, one.name), reference),
        (concerned_anchors(env.anchors.anchors, one.name), anchors),
    ):
        value = ballot(one, concerned, held)
        if value is not None:
            yield value
