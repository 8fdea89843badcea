"""Confirmation's last word: the sealed audit, which no builder, proposer or probe can read.

The only module that reads refs/rover/sealed. It is asked once per case, for the selected candidate alone, after
confirmation; it may veto.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rover.construct.calibrate import mutants
from rover.diagnose.judged import requirement_scores
from rover.repair.intent import Intent, differences
from rover.repair.oracle import ContractUnanswerable, answers_of, state_of
from rover.repair.trial import Trial, verifier_accepts
from rover.sandbox.protocol import Files
from rover_store.records import Contract, GateResult, Mutation, SealedAudit, Table
from rover_store.sealed import read_for_audit

if TYPE_CHECKING:
    from rover_store.store import Store


def audit(store: Store, trial: Trial, seed: int = 0) -> GateResult:
    """The verdict of the package's sealed audit on the selected candidate."""
    records = read_for_audit(store, trial.env.package)
    if not records:
        return GateResult(gate="audit", passed=True, reason="no sealed audit is kept: counts as unresolved")
    record = records[-1]
    problems = [*_intent(record, trial), *_cases(record, trial, seed), *_answers(record, trial)]
    if problems:
        return GateResult(gate="audit", passed=False, reason=problems[0])
    where = (f"sealed audit {len(records)}",)
    held = f"{len(record.negatives)} negatives, {len(record.alternatives)} alternatives, {len(record.answers)} answers"
    return GateResult(gate="audit", passed=True, reason=f"held on {held} that nobody saw", evidence=where)


def _intent(record: SealedAudit, trial: Trial) -> Iterator[str]:
    """The contract at admission still stands, also where the intent was voted on: a vote may have been wrong."""
    if record.contract:
        sealed = Intent(Contract.model_validate(record.contract), trial.env.instruction, "admission")
        yield from (f"against the sealed contract: {line}" for line in differences(sealed, trial.env))


def _cases(record: SealedAudit, trial: Trial, seed: int) -> Iterator[str]:
    """Held-out negatives are rejected and held-out alternatives accepted by the candidate's verifier.

    The oracle says what each state is worth: a rule that happens to break nothing here is no negative.
    """
    env, engine = trial.env, trial.replay.engine
    message = env.reference.final_message
    made: list[tuple[Mutation, Files]] = []
    for held in (*record.negatives, *record.alternatives):
        rule = Mutation.model_validate({k: v for k, v in held.items() if k != "seed"})
        state = mutants(engine, env, [rule], int(held.get("seed", seed)))[0]
        if not isinstance(state, str):
            made.append((rule, state))
    try:
        opinions = trial.oracle.judge([state_of(env.start, state, message) for _, state in made])
    except ContractUnanswerable as error:
        yield str(error)
        return
    for (rule, state), opinion in zip(made, opinions, strict=True):
        verdict = engine.grade_state(env, state, message)
        if verdict.outcome in ("infra_error", "verifier_error"):
            yield f"a held-out case cannot be graded: {verdict.reason}"
            continue
        scores = requirement_scores(verdict)
        broken = [r for r, ok in opinion.satisfied.items() if not ok]
        for requirement in broken:
            if scores.get(requirement, 1.0) == 1.0:
                yield f"a held-out {'negative' if rule.requirement else 'case'} that breaks {requirement} is accepted"
        if not broken and not verifier_accepts(verdict):
            yield f"a held-out state that satisfies the contract is rejected: {verdict.reason}"


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
