"""The intent of a package that never was admitted: what most of its own parts agree on.

Requirement by requirement, instruction, contract, reference and criteria vote between two readings: it is
demanded as the contract says, or it is not. What fits both readings has no vote, silence counts against a
demand, a tie is undecided and a person decides. The path of a deliverable is voted on in the same way, and so is
a value that request and contract state differently (rover.repair.ballots).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath

from rover.diagnose.demands import givens_used, states
from rover.repair.ballots import made_on_other_data
from rover.repair.intent import Intent, criticals
from rover.repair.oracle import Opinion
from rover.rollout.env import Env
from rover_store.records import Contract, Criterion, Deliverable, Requirement
from rover_store.records.contract import ProtectedRule

_GUARD = re.compile(
    r"\b(?:other|else|only|unchanged|untouched|protected|as (?:it|they) (?:is|are)|do not|don't|must not|never"
    r"|leave|keep|without)\b",
    re.IGNORECASE,
)
_WORDS = ("column", "field", "label")
_FILE = re.compile(r"(?<![\w/.-])[\w][\w./-]*\.(?:csv|tsv|xlsx|jsonl|json|md|txt)(?!\w)")


def by_vote(
    env: Env,
    reference: Opinion | None,
    start: Opinion | None,
    broken: frozenset[str] = frozenset(),
    *,
    built: Env | None = None,
    disputed: frozenset[str] = frozenset(),
) -> Intent:
    """The reading with strictly most votes.

    `reference` and `start`: what the oracle holds of the reference state and of the start state under the
    contract; None where the package has no reference or the contract cannot be evaluated. `broken`: requirements
    that criteria of the package find broken in its reference, for demands that the contract does not hold.
    `built`: the package on the data that the opinions were made on, where those are not the present ones.
    `disputed`: given values that had a vote of their own; that the request states another is no silence.
    """
    contract, undecided, notes = _paths(env)
    contract = _allowed(env, contract, undecided, notes)
    kept: list[Requirement] = []
    for requirement in contract.requirements:
        balance = _balance(env, requirement, reference, start, built or env, disputed)
        if balance == 0:
            undecided.append(requirement.id)
        if balance < 0:
            notes.append(f"{requirement.id} is outvoted and not demanded")
        else:
            kept.append(requirement)
    for name, balance in _beside(env, broken):
        if balance < 0:
            notes.append(f"{name} is scored, and neither request nor contract demands it")
        else:  # what it means exactly, no part of the package but the check says
            undecided.append(f"{name}, which the criteria score and the contract does not hold")
    frozen = contract.model_copy(update={"requirements": tuple(kept)})
    return Intent(
        frozen,
        env.instruction,
        "vote",
        undecided=tuple(undecided),
        notes=tuple(notes),
        pass_weight=env.verifier.pass_weight,
        critical=criticals(env) & {r.id for r in kept},
    )


def _allowed(env: Env, contract: Contract, undecided: list[str], notes: list[str]) -> Contract:
    """The contract with no deliverable protected: one that is to be written and to be left alone says both itself.

    Request, reference and the criteria of the deliverable vote for writing it, a criterion that scores the
    protection against.
    """
    needs = []
    for need in contract.requirements:
        rule = need.rule
        for target in contract.deliverables if isinstance(rule, ProtectedRule) else ():
            if not isinstance(rule, ProtectedRule) or target.path not in rule.paths:
                continue
            mine = {r.id for r in contract.requirements if r.deliverable == target.id}
            votes = sum(
                (
                    _says(env.instruction, target.path),
                    any(c.path == target.path and not c.deleted for c in env.reference.changes),
                    any(c.requirement in mine and c.weight > 0 for c in env.verifier.criteria),
                )
            ) - any(c.requirement == need.id and c.weight > 0 for c in env.verifier.criteria)
            if votes > 0:
                rule = rule.model_copy(update={"paths": tuple(p for p in rule.paths if p != target.path)})
                notes.append(f"{target.path} is to be written, and not protected by {need.id}")
            else:
                undecided.append(f"whether {target.path} is to be written or left alone")
        needs.append(need.model_copy(update={"rule": rule}) if rule != need.rule else need)
    return contract.model_copy(update={"requirements": tuple(needs)})


def _balance(
    env: Env,
    requirement: Requirement,
    reference: Opinion | None,
    start: Opinion | None,
    built: Env,
    disputed: frozenset[str],
) -> int:
    """Votes for the demand less votes against it; the contract's own is the first."""
    scored = any(c.requirement == requirement.id and c.weight > 0 for c in env.verifier.criteria)
    votes = 1 + (1 if _stated(env, requirement, disputed) else -1) + (1 if scored else -1)
    if reference is not None and requirement.id in reference.satisfied:
        if not reference.satisfied[requirement.id]:
            # made on other data, it may be wrong now though it was right: that fits both readings
            votes -= 0 if made_on_other_data(built, requirement) else 1
        elif start is None or not start.satisfied.get(requirement.id, False):
            votes += 1  # a state that holds at the start as well fits both readings
    return votes


def _beside(env: Env, broken: frozenset[str]) -> Iterator[tuple[str, int]]:
    """Demands that criteria score and the contract does not hold, each with votes for it less votes against it.

    The criteria are for it and the contract's silence is against it. The request is for it where it names what
    the criteria read and nothing else does; a reference that breaks it is against it, one that does not fits both.
    """
    known = {r.id for r in env.contract.requirements}
    extra: dict[str, list[Criterion]] = {}
    for criterion in env.verifier.criteria:
        if criterion.requirement not in known and (criterion.weight > 0 or criterion.critical):
            extra.setdefault(criterion.requirement, []).append(criterion)
    for name, criteria in extra.items():
        asked = 1 if _names_what_they_read(env, criteria) else -1
        yield name, 1 - 1 + asked - (1 if name in broken else 0)


def _names_what_they_read(env: Env, criteria: list[Criterion]) -> bool:
    """Whether the request names every file and expected column that these criteria read beyond the contract."""
    anchors = {a.id: a.value.columns for a in env.anchors.anchors}
    contract = env.contract
    ours = {PurePosixPath(d.path).name for d in contract.deliverables} | {PurePosixPath(p).name for p in env.start}
    ours |= {c.name for d in contract.deliverables for c in d.columns}
    ours |= {str(getattr(r.rule, n)) for r in contract.requirements for n in _WORDS if hasattr(r.rule, n)}
    read = {PurePosixPath(p).name for c in criteria for p in c.paths}
    read |= {column for c in criteria for name in c.anchors for column in anchors.get(name, ())}
    own = read - ours
    return bool(own) and all(_says(env.instruction, word) for word in own)


def _stated(env: Env, requirement: Requirement, disputed: frozenset[str]) -> bool:
    """Whether the request, with the files it cites, asks for this."""
    text = "\n".join([env.instruction, *_cited(env)])
    rule = requirement.rule
    if rule.kind in ("protected", "no_extra", "rest"):
        return _GUARD.search(text) is not None
    words = [getattr(rule, name) for name in _WORDS if hasattr(rule, name)]
    words += [PurePosixPath(p).name for p in getattr(rule, "paths", ())]
    used = set(givens_used(Contract(requirements=(requirement,)))) - disputed
    if any(not states(text, g.value) for g in env.contract.givens if g.name in used):
        return False
    target = next((d for d in env.contract.deliverables if d.id == requirement.deliverable), None)
    if target is not None:
        # who asks for an edit that leaves the rest as it is asks for the columns that are there
        kept = target.in_place and _GUARD.search(text) is not None
        words += [c.name for c in target.columns] if rule.kind == "format" and not kept else []
        if not any(PurePosixPath(path).suffix == PurePosixPath(target.path).suffix for path in _FILE.findall(text)):
            return False
    return all(_says(text, str(word)) for word in words)


def _cited(env: Env) -> Iterator[str]:
    """Text files of the workspace that the request names."""
    for path, data in env.start.items():
        if PurePosixPath(path).suffix in (".md", ".txt") and _says(env.instruction, PurePosixPath(path).name):
            yield data.decode("utf-8", "replace")


def _paths(env: Env) -> tuple[Contract, list[str], list[str]]:
    """The contract with each deliverable at the path that most parts name; ties and changes by name."""
    undecided: list[str] = []
    notes: list[str] = []
    chosen: list[Deliverable] = []
    for deliverable in env.contract.deliverables:
        votes = Counter(path for path in _ballots(env, deliverable) if path)
        best = votes.most_common()
        top = [path for path, count in best if count == best[0][1]]
        if len(top) > 1:
            undecided.append(f"the path of {deliverable.id}")
        path = deliverable.path if deliverable.path in top else top[0]
        if path != deliverable.path:
            notes.append(f"{deliverable.id} is {path}, not {deliverable.path}")
        chosen.append(deliverable.model_copy(update={"path": path}))
    return env.contract.model_copy(update={"deliverables": tuple(chosen)}), undecided, notes


def _ballots(env: Env, deliverable: Deliverable) -> Iterator[str | None]:
    """One path (or no vote) each from contract, instruction, criteria and reference."""
    suffix = PurePosixPath(deliverable.path).suffix
    others = {d.path for d in env.contract.deliverables if d.id != deliverable.id}

    def only(paths: set[str]) -> str | None:
        fitting = {p for p in paths if PurePosixPath(p).suffix == suffix and p not in others}
        if deliverable.in_place:
            fitting &= set(env.start)
        else:
            fitting -= set(env.start)
        return fitting.pop() if len(fitting) == 1 else None

    mine = {r.id for r in env.contract.requirements if r.deliverable == deliverable.id}
    yield deliverable.path
    yield only(set(_FILE.findall(env.instruction)))
    yield only({p for c in env.verifier.criteria if c.requirement in mine for p in c.paths})
    yield only({c.path for c in env.reference.changes if not c.deleted})


def _says(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word.casefold())}(?!\w)", text.casefold()) is not None
