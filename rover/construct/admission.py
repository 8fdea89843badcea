"""The one admission test of a frozen verifier, on cases it never saw: a failure drops the candidate, without feedback.

Fresh negatives and alternatives, attackers with other seeds, and the solvers with seeded slips. A run that ends in
the reference state has to be accepted, every other slip rejected. Also what the sealed audit keeps, of a stream
that neither calibration nor admission draws from.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from rover.construct import cases
from rover.construct.calibrate import Kind, Row, Seen, attacker_rows, mutant_rows
from rover.construct.families.protocol import Dropped, Family
from rover.construct.package import Parts, answered
from rover.construct.reference import solver
from rover.policy.slip import SLIPS, Slip
from rover.rollout.engine import Engine
from rover.rollout.env import Env, reference_state
from rover.rollout.records import RolloutRequest, seed_for
from rover.verify.grade import passes
from rover_store.ids import digest
from rover_store.records import Admission, Mutation, SealedAudit, Verdict

Streams = Callable[[str], random.Random]


def admit(engine: Engine, family: Family, env: Env, streams: Streams) -> Admission | Dropped:
    """Hold the test. `streams` gives the random stream of a name."""
    rng = streams("admission")
    seed = rng.randrange(1 << 48)
    rows = mutant_rows(engine, env, _fresh(cases.negatives(env.contract, rng, prefix="fresh-"), env), seed)
    rows += mutant_rows(engine, env, _fresh(cases.alternatives(env.contract, rng, prefix="fresh-"), env), seed)
    rows += slip_rows(engine, family, env, seed)
    rows += attacker_rows(engine, env, seed)[0]
    # a rule that finds nothing to change in this reference is no case; a verifier that crashes on one is
    held = [r for r in rows if r.observed != "error" or r.kind in ("attacker", "reference") or crashed(r)]
    for row in held:
        if not row.ok:
            return Dropped("admission", f"{row.case}: {row.observed}, not {row.expected}: {row.reason}")
    seen = [[r.case, r.expected, r.observed] for r in held]
    ids = {
        "context": env.context_id,
        "task": env.task_id,
        "harness": env.harness_id,
        "verifier": env.verifier_id,
    }
    return Admission(components=ids, cases=len(held), digest=digest(seen))


def crashed(row: Row) -> bool:
    return row.reason.startswith(("verifier_error", "infra_error"))


def _fresh(rules: tuple[Mutation, ...], env: Env) -> list[Mutation]:
    """One rule for each requirement, and those alternatives that calibration had kept."""
    known = {m.op for m in env.cases.alternatives}
    first: dict[str, Mutation] = {}
    for rule in rules:
        if rule.requirement is not None:
            first.setdefault(rule.requirement, rule)
    return [*first.values(), *(r for r in rules if r.requirement is None and r.op in known)]


def slip_rows(engine: Engine, family: Family, env: Env, seed: int) -> list[Row]:
    """The demonstrator with each slip, graded."""
    policies = [solver(family, "demonstrator", Slip(kind)) for kind in SLIPS]
    requests = [RolloutRequest(env, p, seed_for("admission", p.id, seed), None, "admission") for p in policies]
    results = engine.rollouts(requests)
    verdicts = engine.grade([(r, env) for r in results])
    reference = reference_state(env)
    rows = []
    for policy, result, verdict in zip(policies, results, verdicts, strict=True):
        same = not result.end.links and dict(result.end) == reference
        rows.append(_slip_row(policy.id, env, verdict, same, result.id))
    return rows


def _slip_row(case: str, env: Env, verdict: Verdict, same: bool, rollout: str) -> Row:
    kind: Kind = "reference" if same else "negative"
    expected: Seen = "accepted" if same else "rejected"
    if verdict.outcome in ("verifier_error", "infra_error"):
        return Row(case, "attacker", expected, "error", None, f"{verdict.outcome}: {verdict.reason}", rollout)
    perfect = all(s.score == 1 for s in verdict.scores) and passes(env.verifier, verdict.score, verdict.gate)
    return Row(case, kind, expected, "accepted" if perfect else "rejected", None, verdict.reason, rollout)


def sealed_audit(parts: Parts, streams: Streams) -> SealedAudit:
    """What only the audit after a repair may read."""
    rng = streams("audit")
    contract = parts.draft.contract
    return SealedAudit(
        package=parts.origin.name,
        negatives=tuple(_dumped(m, rng) for m in cases.negatives(contract, rng, prefix="sealed-")),
        alternatives=tuple(_dumped(m, rng) for m in cases.alternatives(contract, rng, prefix="sealed-")),
        contract=contract.model_dump(mode="json", exclude_none=True),
        answers=answered(contract, parts.anchors, parts.draft),
    )


def _dumped(rule: Mutation, rng: random.Random) -> dict[str, object]:
    """A rule with the seed that it is to be applied with."""
    return {**rule.model_dump(mode="json", exclude_none=True), "seed": rng.randrange(1 << 32)}
