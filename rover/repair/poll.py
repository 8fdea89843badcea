"""Asking a package's own parts what it means: reference and anchors are tried, then the votes are counted.

What reference and anchors hold is judged on the data that they were made on, as far as that can be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rover.diagnose.protocol import Recorded
from rover.repair.ballots import Dispute, Held, Values, combinations, disputes, settle, with_values
from rover.repair.intent import Intent, criticals
from rover.repair.oracle import ContractUnanswerable, Opinion, oracle_of, state_of
from rover.repair.program_intent import meant, reading
from rover.repair.renamed import named
from rover.repair.vote import by_vote
from rover.rollout.env import Env, reference_state
from rover_store.errors import PackageError

if TYPE_CHECKING:
    from rover.rollout.engine import Engine


def polled(engine: Engine, env: Env, built: Env | None = None, recorded: Sequence[Recorded] = ()) -> Intent:
    """The intent by vote. `built`: the package on the data that it was built on, where that is another version;
    `recorded`: work of others, which has a say where the verifier is a program."""
    if env.verifier.program is not None:
        return _read(engine, env, recorded)
    built = built or env
    found = disputes(env)
    held = (_reference_holds(engine, built, found), _anchors_hold(engine, built, found)) if found else ((), ())
    settled = settle(env, found, *held)
    called = named(replace(env, contract=settled.contract))
    now, then = replace(env, contract=called.contract), replace(built, contract=called.contract)
    intent = by_vote(now, *opinions(engine, then), broken=broken(engine, then), built=then, disputed=settled.disputed)
    return replace(
        intent,
        undecided=(*settled.undecided, *called.undecided, *intent.undecided),
        notes=(*settled.notes, *called.notes, *intent.notes),
    )


def _read(engine: Engine, env: Env, recorded: Sequence[Recorded]) -> Intent:
    """The intent of a package whose verifier is a program."""
    found = reading(engine, env, recorded)
    return Intent(
        env.contract,
        meant(env.instruction, found.renamed),
        "vote",
        pass_weight=env.verifier.pass_weight,
        critical=criticals(env),
        undecided=found.undecided,
        notes=found.notes,
        said=found.said,
    )


def opinions(engine: Engine, env: Env) -> tuple[Opinion | None, Opinion | None]:
    """What the oracle holds of the reference and of the start state; None where it cannot say."""
    oracle = oracle_of(engine, env, env.contract)
    try:
        start = oracle.judge([state_of(env.start, env.start)])[0]
    except ContractUnanswerable:
        return None, None
    try:
        reference = reference_state(env) if env.reference.changes else None
    except PackageError:
        reference = None
    if reference is None:
        return None, start
    try:
        return oracle.judge([state_of(env.start, reference, env.reference.final_message)])[0], start
    except ContractUnanswerable:  # under a disputed value an answer may be none, or several
        return None, start


def broken(engine: Engine, env: Env) -> frozenset[str]:
    """Requirements that the package's own criteria find broken in its reference; none where there is no reference."""
    try:
        state = reference_state(env)
    except PackageError:
        return frozenset()
    verdict = engine.grade_state(env, state, env.reference.final_message)
    return frozenset(s.requirement for s in verdict.scores if s.status == "scored" and s.score < 1)


def _reference_holds(engine: Engine, env: Env, found: Sequence[Dispute]) -> Held:
    """For each choice of values, the requirements that the reference satisfies."""
    held: list[tuple[Values, frozenset[str]]] = []
    for values in combinations(found):
        reference, _ = opinions(engine, replace(env, contract=with_values(env.contract, values)))
        satisfied = reference.satisfied if reference is not None else {}
        held.append((values, frozenset(name for name, ok in satisfied.items() if ok)))
    return held


def _anchors_hold(engine: Engine, env: Env, found: Sequence[Dispute]) -> Held:
    """For each choice of values, the anchors whose queries give what they hold."""
    queries = {a.id: a.query.model_dump(mode="json") for a in env.anchors.anchors}
    held: list[tuple[Values, frozenset[str]]] = []
    for values in combinations(found) if queries else ():
        givens = {g.name: g.value for g in with_values(env.contract, values).givens}
        job = {"queries": queries, "givens": givens, "engine": "duckdb", "root": "."}
        result = engine.call("rover.construct.query.inside:derive", job, env.start)
        tables = {} if result.breach or result.error else dict(result.value)
        right = [a.id for a in env.anchors.anchors if tables.get(a.id) == a.value.model_dump(mode="json")]
        held.append((values, frozenset(right)))
    return held
