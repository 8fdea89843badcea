"""Near misses: the reference with one value moved a little, so that a verifier which lets more through is found out.

Slips and calibration cases change values by a lot; between them and the contract's tolerance there is room in which
a verifier may have become lax unseen. What each state is worth the oracle says: a move that the contract allows
proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rover.construct.calibrate import mutants
from rover.diagnose.judged import requirement_scores
from rover.repair.oracle import ContractUnanswerable, state_of
from rover.repair.trial import Trial
from rover.rollout.env import Env
from rover.sandbox.protocol import Files
from rover_store.records import Contract, Mutation, Requirement
from rover_store.records.contract import CellsRule, EditRule, FieldRule, FigureRule, RecordsRule

#: how far a value is moved, beside twice its tolerance
MOVES = (0.1, -1.0)


def near_misses(trial: Trial, parent: Env) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What the candidate's verifier accepts and the contract does not; nothing where it judges as the parent's does."""
    env = trial.env
    if _judging(env) == _judging(parent) or not env.reference.changes:
        return
    rules = list(_rules(trial.intent.contract))
    made = mutants(trial.replay.engine, env, rules, trial.seed)
    found: list[tuple[Mutation, Files]] = []
    for rule, state in zip(rules, made, strict=True):
        if not isinstance(state, str) and all(state != other for _, other in found):  # text moves one way alone
            found.append((rule, state))
    message = env.reference.final_message
    try:
        opinions = trial.oracle.judge([state_of(env.start, state, message) for _, state in found])
    except ContractUnanswerable:
        return  # said by the gate that asks first
    wrong = [
        (rule, state, {name for name, ok in opinion.satisfied.items() if not ok})
        for (rule, state), opinion in zip(found, opinions, strict=True)
        if not opinion.accepts
    ]
    verdicts = trial.replay.engine.grade_states([(env, state, message) for _, state, _ in wrong])
    for (rule, _, broken), verdict in zip(wrong, verdicts, strict=True):
        scores = requirement_scores(verdict)
        for need in sorted(broken):
            if verdict.scores and scores.get(need, 1.0) == 1.0:
                moved = f"{rule.path}, moved by {rule.arguments['delta']:g}"
                yield f"accepts work that breaks {need} by a little ({moved})", (env.verifier_id,)


def _judging(env: Env) -> dict[str, bytes]:
    """What decides over marks."""
    return {p: d for p, d in env.verifier_files.items() if p.startswith("checks/") or p == "verifier.json"}


def _rules(contract: Contract) -> Iterator[Mutation]:
    targets = {d.id: d for d in contract.deliverables}
    for need in contract.requirements:
        target = targets.get(need.deliverable or "")
        if target is None:
            continue
        slack = {c.name: c.tolerance for c in target.columns}
        sheet: dict[str, Any] = {"sheet": target.sheet} if target.sheet else {}
        for op, arguments, tolerance in _values(need, slack):
            for delta in (*MOVES, 2 * tolerance) if tolerance else MOVES:
                moved = {**arguments, **sheet, "delta": delta}
                yield Mutation(id=f"near-{need.id}", op=op, path=target.path, arguments=moved)  # of one row all moves


def _values(need: Requirement, slack: dict[str, float]) -> Iterator[tuple[str, dict[str, Any], float]]:
    """Op, arguments and tolerance for each value that a requirement asks for."""
    rule = need.rule
    if isinstance(rule, CellsRule):
        yield "change_cell", {"column": rule.column}, slack.get(rule.column, 0.0)
    elif isinstance(rule, EditRule):
        yield "change_cell", {"column": rule.column, "edited": True}, slack.get(rule.column, 0.0)
    elif isinstance(rule, FieldRule):
        yield "change_field", {"field": rule.field}, slack.get(rule.field, 0.0)
    elif isinstance(rule, FigureRule):
        yield "change_figure", {"label": rule.label}, rule.tolerance
    elif isinstance(rule, RecordsRule):
        for column in rule.columns:
            if column.name not in rule.key:
                yield "change_cell", {"field": rule.field, "column": column.name}, column.tolerance
