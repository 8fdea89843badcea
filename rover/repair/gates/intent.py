"""Gate (b): the frozen intent is kept, and the task did not become easier than the parent."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rover.repair.intent import listing, loosened
from rover.repair.trial import Trial
from rover_store.ids import blob_id
from rover_store.records import Finding, GateResult

if TYPE_CHECKING:
    from rover.rollout.engine import Engine

#: findings that an edit may answer by taking a file away: the file is the defect
EXCESS = frozenset(
    {
        "leaked_answer", "excess_input", "verifier_readable", "leftover_output", "conflicting_copies", "goal_at_start",
        "misnamed_input",
    }
)  # fmt: skip
#: what is wrong, and the ids that show it
Problem = tuple[str, tuple[str, ...]]
#: findings whose repair may shorten the way to a solution
WAY = frozenset({"tool_removed", "budget_too_small", "limits_too_tight"})


def intent_kept(trial: Trial, parent: Trial, findings: Sequence[Finding], *, replayed: bool) -> GateResult:
    """`replayed`: compare runs too; without it only what the files say."""
    demands = listing(trial.intent, trial.env)
    said = tuple(map(str, demands))
    task = (parent.env.task_id, trial.env.task_id)
    problems: list[Problem] = [(d.line, task) for d in demands if d.state != "kept"]
    verifiers = (parent.env.verifier_id, trial.env.verifier_id)
    problems += [(line, verifiers) for line in loosened(trial.intent, trial.env)]
    if not replayed:
        problems += _shrunk(parent, trial, [f for f in findings if f.status == "confirmed"])
    if not problems and replayed:
        problems += _easier(trial, parent, findings)
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        evidence = tuple(dict.fromkeys(e for _, ids in problems for e in ids))[:8]
        return GateResult(
            gate="intent", passed=False, reason=problems[0][0] + more, evidence=evidence, details=said
        )
    where = f"as admitted in {trial.intent.commit[:10]}" if trial.intent.commit else "as most parts read it"
    return GateResult(gate="intent", passed=True, reason=f"every demand stands, {where}; not easier", details=said)


def _shrunk(parent: Trial, now: Trial, findings: Sequence[Finding]) -> Iterator[Problem]:
    """Inputs and distractors that went or hold less, unless they are the finding or as they were admitted."""
    excess = " ".join(" ".join([f.message, *f.evidence, str(f.details)]) for f in findings if f.kind in EXCESS)
    before, after, admitted = parent.env.start, now.env.start, now.intent.start
    edited = []
    held = set(after.values())  # a file under another name is not gone
    for path, data in before.items():
        if after.get(path) == data or _named(path, excess):
            continue
        if path in after:
            edited += [path] if admitted.get(path) != after[path] else []
        elif (not admitted or path in admitted) and data not in held:
            yield f"the input {path} is gone", (path, blob_id(data))
    if edited:
        lost = _lost(now.replay.engine, {p: before[p] for p in edited}, {p: after[p] for p in edited})
        yield from ((line, (path, blob_id(before[path]), blob_id(after[path]))) for path, line in lost)


def _named(path: str, text: str) -> bool:
    return re.search(rf"(?<![\w./-]){re.escape(path)}(?![\w/-])", text) is not None


def _lost(engine: Engine, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """(path, what) of edited files that hold fewer rows, columns, sheets or values than they did."""
    files = {f"before/{p}": d for p, d in before.items()} | {f"after/{p}": d for p, d in after.items()}
    result = engine.call("rover.repair.sizes_inside:sizes", {"files": sorted(files)}, files)
    if result.breach or result.error:
        yield next(iter(before)), f"the edited inputs cannot be compared: {result.breach or result.error}"
        return
    for path in before:
        then, now = result.value[f"before/{path}"], result.value[f"after/{path}"]
        for unit, count in then.items():
            if unit in now and now[unit] < count:
                yield path, f"the input {path} lost {count - now[unit]} {unit}"
                break


def _easier(trial: Trial, parent: Trial, findings: Sequence[Finding]) -> Iterator[Problem]:
    ours, theirs = trial.solved_by(), parent.solved_by()
    solved = any(
        (r.actor.policy.id, r.k) in theirs for r in parent.runs if r.actor.kind in ("solver", "model", "recorded")
    )
    for run in trial.runs:
        mine = (run.actor.policy.id, run.k)
        if run.actor.kind == "attacker" and mine in ours:
            yield f"{run.actor.policy.id} satisfies the contract", (run.id,)
        elif run.weak and solved and mine in ours and mine not in theirs:
            yield f"{run.actor.policy.id} succeeds, as it did not before", (run.id,)
    before, after = parent.shortest(), trial.shortest()
    demonstrators = [r for r in parent.runs if ":demonstrator:" in r.actor.policy.id and not r.weak]
    demonstrated = any((r.actor.policy.id, r.k) in theirs for r in demonstrators)
    longer = before is not None and after is not None and after < before
    if longer and demonstrated and not WAY & {f.kind for f in findings if f.status == "confirmed"}:
        runs = tuple(r.id for r in (*demonstrators, *trial.runs) if (r.actor.policy.id, r.k) in ours and not r.weak)
        yield f"the shortest known solution takes {after} calls instead of {before}", runs[:4]
