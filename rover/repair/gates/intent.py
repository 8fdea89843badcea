"""Gate (b): the frozen intent is kept, and the task did not become easier than the parent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rover.repair.intent import Intent, differences
from rover.repair.trial import Trial
from rover.rollout.env import Env
from rover_store.records import Finding, GateResult

#: findings that an edit may answer by taking a file away: the file is the defect
EXCESS = frozenset({"leaked_answer", "excess_input"})
#: findings whose repair may shorten the way to a solution
WAY = frozenset({"tool_removed", "budget_too_small"})


def intent_kept(trial: Trial, parent: Trial, findings: Sequence[Finding], *, replayed: bool) -> GateResult:
    """`replayed`: compare runs too; without it only what the files say."""
    problems = list(differences(trial.intent, trial.env))
    problems += _shrunk(parent.env, trial.env, trial.intent, findings)
    if not problems and replayed:
        problems += _easier(trial, parent, findings)
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return GateResult(gate="intent", passed=False, reason=problems[0] + more)
    where = f"as admitted in {trial.intent.commit[:10]}" if trial.intent.commit else "as most parts read it"
    return GateResult(gate="intent", passed=True, reason=f"every demand stands, {where}; not easier")


def _shrunk(parent: Env, now: Env, intent: Intent, findings: Sequence[Finding]) -> Iterator[str]:
    """Inputs and distractors that went or lost rows, unless they are the finding or as they were admitted."""
    kinds = {f.kind for f in findings}
    named = " ".join(" ".join([f.message, *f.evidence, str(f.details)]) for f in findings if f.kind in EXCESS)
    for path, before in parent.start.items():
        after = now.start.get(path)
        if after == before or (kinds & EXCESS and path in named):
            continue
        if after is None:
            if not intent.start or path in intent.start:
                yield f"the input {path} is gone"
        elif intent.start.get(path) != after and after.count(b"\n") < before.count(b"\n"):
            yield f"the input {path} lost {before.count(b'%c' % 10) - after.count(b'%c' % 10)} lines"


def _easier(trial: Trial, parent: Trial, findings: Sequence[Finding]) -> Iterator[str]:
    ours, theirs = trial.solved_by(), parent.solved_by()
    solved = any(
        (r.actor.policy.id, r.k) in theirs for r in parent.runs if r.actor.kind in ("solver", "model", "recorded")
    )
    for run in trial.runs:
        mine = (run.actor.policy.id, run.k)
        if run.actor.kind == "attacker" and mine in ours:
            yield f"{run.actor.policy.id} satisfies the contract"
        elif run.weak and solved and mine in ours and mine not in theirs:
            yield f"{run.actor.policy.id} succeeds, as it did not before"
    before, after = parent.shortest(), trial.shortest()
    demonstrators = [r for r in parent.runs if ":demonstrator:" in r.actor.policy.id and not r.weak]
    demonstrated = any((r.actor.policy.id, r.k) in theirs for r in demonstrators)
    longer = before is not None and after is not None and after < before
    if longer and demonstrated and not WAY & {f.kind for f in findings}:
        yield f"the shortest known solution takes {after} calls instead of {before}"
