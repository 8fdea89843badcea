"""Calibration: whether a verifier tells right from wrong, on cases whose answer is known.

The start state and every null attacker are rejected when they stay below the pass mark; a negative when the
criterion of the requirement it breaks scores below 1; the reference and every alternative are accepted when
every criterion scores 1. A verifier that crashes on a case, and a rule that changes nothing, decide neither way:
the case is observed as `error`, and calibration fails.

A verifier that is a program has the package's own solution for its reference, graded as the rollout that it is. Its
negatives are that end state with a file that the request names gone, empty or as it was; and start and solution are
graded twice, since nothing else shows that a program goes by chance.

A whole alternative state lies in verifier/cases/ID/: its files in files/, laid over the start, and, where it
deletes files or has a last message, a state.json (a reference record).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from rover.rollout.env import Env, in_the_way, reference_state
from rover.sandbox.protocol import Files
from rover.verify.grade import passes
from rover.verify.mutate import changed, laid
from rover_store.errors import PackageError
from rover_store.records import Mutation, Reference, Verdict

if TYPE_CHECKING:
    from rover.rollout.engine import Engine

Kind = Literal["start", "attacker", "negative", "reference", "alternative"]
Seen = Literal["accepted", "rejected", "error"]


@dataclass(frozen=True, slots=True)
class Row:
    """One case: what the verifier had to say and what it said."""

    case: str
    kind: Kind
    expected: Seen
    observed: Seen
    requirement: str | None = None
    reason: str = ""
    #: the rollout of an attacker
    rollout: str | None = None

    @property
    def ok(self) -> bool:
        return self.observed == self.expected


@dataclass(frozen=True, slots=True)
class Calibration:
    """All cases of one verifier. `ok`: it was right on each, and there was something to be right on."""

    rows: tuple[Row, ...]
    run: int = 0
    reused: int = 0

    @property
    def ok(self) -> bool:
        return all(row.ok for row in self.rows) and any(row.kind == "reference" for row in self.rows)

    @property
    def wrong(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if not row.ok)


def calibrate(
    engine: Engine, env: Env, seed: int = 0, *, attacked: Mapping[str, tuple[str, Verdict]] | None = None
) -> Calibration:
    """Try the verifier of `env` on the start state, the reference, its cases, and every null attacker.

    `attacked`: rollout and verdict by policy of attackers that ran on `env` already, so that they need not run again.
    """
    if env.verifier.program is not None:
        rows = [start_row(engine, env), *program_rows(engine, env)]
    else:
        rows = [start_row(engine, env), reference_row(engine, env), *state_rows(engine, env)]
        rows += mutant_rows(engine, env, env.cases.negatives, seed)
        rows += mutant_rows(engine, env, env.cases.alternatives, seed)
    if attacked is not None:
        ran = [below_mark(name, "attacker", env, verdict, rollout) for name, (rollout, verdict) in attacked.items()]
        return Calibration((*rows, *ran), 0, len(ran))
    attackers, run, reused = attacker_rows(engine, env, seed)
    return Calibration((*rows, *attackers), run, reused)


def start_row(engine: Engine, env: Env) -> Row:
    return below_mark("start", "start", env, engine.grade_state(env, env.start))


def reference_row(engine: Engine, env: Env) -> Row:
    verdict = engine.grade_state(env, reference_state(env), env.reference.final_message)
    return _all_right("reference", "reference", verdict)


def program_rows(engine: Engine, env: Env) -> list[Row]:
    """A verifier that is a program on the package's own solution, on that with a demanded file broken, and again."""
    from rover.construct.solved import broken_states, solved

    rows = [_again("start", env, engine, env.start, engine.grade_state(env, env.start), "start", "rejected")]
    found = solved(engine, env)
    if found is None:
        return rows
    row = _all_right("solution", "reference", counting(found.verdict))
    if found.problem and not _undecided(found.verdict):
        row = Row("solution", "reference", "accepted", "error", None, found.problem)
    rows.append(replace(row, rollout=found.result.id))
    if found.result.trajectory.end != "completed" or found.verdict.outcome != "passed":
        return rows  # what is broken of something broken says nothing
    end = found.result.end
    first = engine.grade_state(env, end)
    rows.append(_again("solution", env, engine, end, first, "reference", "accepted"))
    need = env.verifier.criteria[0].requirement if env.verifier.criteria else ""
    states = list(broken_states(env, end))
    verdicts = engine.grade_states([(env, state, "") for _, state in states])
    rows += [below_mark(name, "negative", env, v) for (name, _), v in zip(states, verdicts, strict=True)]
    return [replace(r, requirement=need) if r.kind == "negative" else r for r in rows]


def counting(verdict: Verdict) -> Verdict:
    """The verdict without scores that are told and count for nothing."""
    scores = tuple(s for s in verdict.scores if s.weight > 0 or s.critical)
    return verdict.model_copy(update={"scores": scores})


def _again(case: str, env: Env, engine: Engine, state: Files, first: Verdict, kind: Kind, expected: Seen) -> Row:
    """The same state graded once more gets the same marks."""
    second = engine.grade_state(env, state, fresh=True)
    if _undecided(first) or _undecided(second):
        worse = first if _undecided(first) else second
        return Row(f"{case}-again", kind, expected, "error", None, f"{worse.outcome}: {worse.reason}")
    was, now = ([s.score for s in v.scores] for v in (first, second))
    if was != now:
        text = f"graded twice, the same state gets {_marks(was)} and {_marks(now)}"
        return Row(f"{case}-again", kind, expected, "error", None, text)
    return Row(f"{case}-again", kind, expected, _observed(env, second), None, second.reason)


def _marks(scores: Sequence[float]) -> str:
    return ", ".join(f"{score:g}" for score in scores)


def _observed(env: Env, verdict: Verdict) -> Seen:
    return "accepted" if passes(env.verifier, verdict.score, verdict.gate) else "rejected"


def state_rows(engine: Engine, env: Env) -> list[Row]:
    """Alternatives that are kept as files."""
    verdicts = engine.grade_states([(env, *alternative_state(env, name)) for name in env.cases.states])
    return [_all_right(name, "alternative", v) for name, v in zip(env.cases.states, verdicts, strict=True)]


def mutant_rows(
    engine: Engine, env: Env, rules: Sequence[Mutation], seed: int, made: Sequence[Files | str] | None = None
) -> list[Row]:
    """Negatives (rules with a requirement) and alternatives, made of the reference and graded.

    `made`: the states, where `mutants` was asked for them before.
    """
    made = mutants(engine, env, rules, seed) if made is None else made
    message = env.reference.final_message
    verdicts = iter(engine.grade_states([(env, state, message) for state in made if not isinstance(state, str)]))
    out = []
    for rule, state in zip(rules, made, strict=True):
        if isinstance(state, str):
            kind, expected = _side(rule)
            out.append(Row(rule.id, kind, expected, "error", rule.requirement, state))
        elif rule.requirement:
            out.append(_broken(rule.id, rule.requirement, next(verdicts)))
        else:
            out.append(_all_right(rule.id, "alternative", next(verdicts)))
    return out


def _side(rule: Mutation) -> tuple[Kind, Seen]:
    return ("negative", "rejected") if rule.requirement else ("alternative", "accepted")


def mutants(engine: Engine, env: Env, rules: Sequence[Mutation], seed: int) -> list[Files | str]:
    """The state that each rule makes of the reference, or the reason why it makes none."""
    if not rules:
        return []
    reference = reference_state(env)
    asked = [{"id": r.id, "op": r.op, "path": r.path, "arguments": dict(r.arguments)} for r in rules]
    result = engine.call("rover.verify.mutate:apply_all", {"rules": asked, "seed": seed}, laid(reference, env.start))
    if result.breach or result.error:
        return [f"the rules could not be applied: {result.breach or result.error}"] * len(rules)
    return [str(a["error"]) if "error" in a else changed(reference, a) for a in result.value]


def attacker_rows(engine: Engine, env: Env, seed: int) -> tuple[list[Row], int, int]:
    """Every null attacker through the harness; also how many rollouts were run and reused."""
    from rover.policy.null import attackers
    from rover.policy.registry import get_policy
    from rover.rollout.records import RolloutRequest, seed_for

    names = attackers(env.verifier.program is not None)
    policies = [get_policy(f"null:{name}") for name in names]
    requests = [RolloutRequest(env, p, seed_for("calibrate", p.id, seed), None, "calibrate") for p in policies]
    results = engine.rollouts(requests)
    verdicts = engine.grade([(r, env) for r in results])
    rows = [
        below_mark(f"null:{name}", "attacker", env, verdict, result.id)
        for name, verdict, result in zip(names, verdicts, results, strict=True)
    ]
    reused = sum(r.reused for r in results)
    return rows, len(results) - reused, reused


def alternative_state(env: Env, name: str) -> tuple[Files, str]:
    """A whole alternative end state and its last message."""
    where = f"cases/{name}/"
    own = {p[len(where) :]: d for p, d in env.verifier_files.items() if p.startswith(where)}
    files = {p[len("files/") :]: d for p, d in own.items() if p.startswith("files/")}
    record = Reference.load(own["state.json"], f"verifier/{where}state.json") if "state.json" in own else Reference()
    gone = {c.path for c in record.changes if c.deleted}
    if not files and not gone:
        raise PackageError("verifier/cases/cases.json", "states", f"{name}: there is no state in verifier/{where}files")
    gone |= {other for path in files for other in in_the_way(path, env.start)}
    state = {p: d for p, d in {**env.start, **files}.items() if p not in gone}
    return dict(sorted(state.items())), record.final_message


# --- rows ----------------------------------------------------------------------------------------------------
def _undecided(verdict: Verdict) -> bool:
    return verdict.outcome in ("verifier_error", "infra_error")


def below_mark(case: str, kind: Kind, env: Env, verdict: Verdict, rollout: str | None = None) -> Row:
    """A case that must stay below the pass mark."""
    if _undecided(verdict):
        return Row(case, kind, "rejected", "error", None, f"{verdict.outcome}: {verdict.reason}", rollout)
    return Row(case, kind, "rejected", _observed(env, verdict), None, verdict.reason, rollout)


def _broken(case: str, requirement: str, verdict: Verdict) -> Row:
    if _undecided(verdict):
        return Row(case, "negative", "rejected", "error", requirement, f"{verdict.outcome}: {verdict.reason}")
    own = [s for s in verdict.scores if s.requirement == requirement]
    low = [s for s in own if s.score < 1]
    if low:
        return Row(case, "negative", "rejected", "rejected", requirement, f"{low[0].criterion}: {low[0].reason}")
    why = ", ".join(s.criterion for s in own) or "no criterion"
    return Row(case, "negative", "rejected", "accepted", requirement, f"{why} scores {requirement} as right")


def _all_right(case: str, kind: Kind, verdict: Verdict) -> Row:
    if _undecided(verdict):
        return Row(case, kind, "accepted", "error", None, f"{verdict.outcome}: {verdict.reason}")
    low = [s for s in verdict.scores if s.score < 1]
    if low or not verdict.scores:
        reason = f"{low[0].criterion}: {low[0].reason}" if low else "the verifier has no criteria"
        return Row(case, kind, "accepted", "rejected", low[0].requirement if low else None, reason)
    return Row(case, kind, "accepted", "accepted", None, verdict.reason)
