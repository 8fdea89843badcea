"""Confirmation's last word: the sealed audit, which no builder, proposer or probe can read.

The only module that reads refs/rover/sealed. It is asked once per case, for the selected candidate alone, after
confirmation; it may veto.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rover.construct.calibrate import Row, mutant_rows
from rover.repair.intent import Intent, differences
from rover.repair.oracle import ContractUnanswerable, answers_of
from rover.repair.trial import Trial
from rover_store.records import Contract, GateResult, Mutation, SealedAudit, Table
from rover_store.sealed import read_for_audit

if TYPE_CHECKING:
    from rover_store.store import Store


def audit(store: Store, trial: Trial, seed: int = 0) -> GateResult:
    """The verdict of the package's sealed audit on the selected candidate."""
    records = read_for_audit(store, trial.env.package)
    if not records:
        return GateResult(gate="audit", passed=True, reason="no sealed audit is kept for this package")
    record = records[-1]
    problems = [*_intent(record, trial), *_cases(record, trial, seed), *_answers(record, trial)]
    if problems:
        return GateResult(gate="audit", passed=False, reason=problems[0])
    held = f"{len(record.negatives)} negatives, {len(record.alternatives)} alternatives, {len(record.answers)} answers"
    return GateResult(gate="audit", passed=True, reason=f"held on {held} that nobody saw")


def _intent(record: SealedAudit, trial: Trial) -> Iterator[str]:
    """The contract at admission still stands. A package whose intent was voted on has its own."""
    if record.contract and trial.intent.origin == "admission":
        sealed = Intent(Contract.model_validate(record.contract), trial.env.instruction, "admission")
        yield from (f"against the sealed contract: {line}" for line in differences(sealed, trial.env))


def _cases(record: SealedAudit, trial: Trial, seed: int) -> Iterator[str]:
    """Held-out negatives are rejected and held-out alternatives accepted by the candidate's verifier."""
    stands = {r.id for r in trial.env.contract.requirements}
    rules = [Mutation.model_validate(rule) for rule in (*record.negatives, *record.alternatives)]
    asked = [r for r in rules if r.requirement is None or r.requirement in stands]
    rows: list[Row] = mutant_rows(trial.replay.engine, trial.env, asked, seed)
    for row in rows:
        if not row.ok:
            yield f"a held-out {row.kind} is {row.observed}: {row.reason}"


def _answers(record: SealedAudit, trial: Trial) -> Iterator[str]:
    """Answers whose sources are as they were at admission are what they were at admission."""
    try:
        derived = trial.oracle.answers()
    except ContractUnanswerable as error:
        yield str(error)
        return
    for requirement in trial.intent.contract.requirements:
        sealed = record.answers.get(requirement.id)
        slots = answers_of(requirement)
        if not isinstance(sealed, list) or len(sealed) != len(slots) or not _sources_kept(trial, requirement.id):
            continue
        for slot, table in zip(_field_order(requirement.rule, slots), sealed, strict=True):
            if _differ(table, derived.get(f"{requirement.id}:{slot}")):
                yield f"the answer of {requirement.id} is not the one sealed at admission"


def _sources_kept(trial: Trial, requirement: str) -> bool:
    from rover.diagnose.demands import contract_sources

    needs = [r for r in trial.intent.contract.requirements if r.id == requirement]
    paths = contract_sources(Contract(requirements=tuple(needs)))
    before = trial.intent.start
    return bool(before) and all(p in before and trial.env.start.get(p) == before[p] for p in paths)


def _field_order(rule: Any, slots: Mapping[str, object]) -> list[str]:
    """Slots in the order of the rule's fields, as the answers were sealed."""
    return [name for name in type(rule).model_fields if name in slots]


def _differ(sealed: Any, derived: Any) -> bool:
    from rover.construct.query.agree import agree

    if not isinstance(derived, dict):
        return True
    return bool(agree(Table.model_validate(sealed), Table.model_validate(derived)))
