"""Check a task from elsewhere: what a reader finds, what diagnosis confirms by running, what calibration shows besides.

The findings of a reader are hypotheses. One that a run confirmed is said once, as the run has it; what a run would
have shown, had it been so, becomes a note.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rover.construct.calibrate import Calibration, Row, below_mark, calibrate
from rover.diagnose.diagnosis import diagnose
from rover.diagnose.program_names import read_by_tests
from rover.diagnose.protocol import ProbeContext
from rover.ops.check import Checked, placed, refused
from rover.ops.findings import Said, of_problem, of_row
from rover.policy.named import named_paths
from rover.policy.null import with_deed
from rover.port.lint.read import read_task
from rover.port.lint.task import INSTRUCTION, TOML, ForeignTask, foreign_task
from rover.rollout.env import Env, in_the_way
from rover.rollout.place import refusal
from rover_store.records import Diagnosis, Finding

if TYPE_CHECKING:
    from rover.rollout.engine import Engine
    from rover_store.store import Store

#: states that `_planted` makes, in words
_PLANTED = {
    "state:touched": "a workspace in which every file that request or tests name lies, empty",
    "state:echoed": "a workspace in which every file that request or tests name lies, with the request in it",
}
#: attackers whose deed is told; the others are named
_IN_WORDS = 3
#: paths that are planted at once
MOST_PATHS = 500


def check_task(store: Store, engine: Engine | None, env: Env, done: Checked, seed: int) -> Checked:
    """A package whose verifier is a program; `done` is what its records gave."""
    task = foreign_task(env)
    read = read_task(task)
    why = refusal(env, engine.runtime) if engine is not None else ""
    said = [_said(task, of_problem(p)) for p in done.problems]
    if engine is None or why:
        more = [refused(why)] if why and not any(f.kind == "cannot_run" for f in read) else []
        said += [_said(task, f) for f in (*read, *more)]
        return replace(done, said=_sorted(said), static=engine is None, refused=why)
    found, calibration = _tried(store, engine, env, seed)
    solved = any(r.kind == "reference" and r.ok for r in calibration.rows)
    shown = [*found.findings, *_besides(env, calibration, found)]
    said += [_said(task, _with_place(f, read)) for f in shown]
    said += [_said(task, f, solved=solved) for f in read if not _confirmed(f, shown)]
    broken = unrun(calibration) or (found.summary if found.verdict == "infrastructure" else "")
    if broken and not any(s.finding.kind == "cannot_run" for s in said):
        said.append(_said(task, refused(broken)))
    return replace(done, said=_sorted(said), calibration=calibration, refused=broken)


def _tried(store: Store, engine: Engine, env: Env, seed: int) -> tuple[Diagnosis, Calibration]:
    """What running it shows: diagnosis first, then the cases of calibration, with the attackers that ran for it."""
    ctx = ProbeContext(env, engine, seed, store.resources())
    found = diagnose(ctx)
    attacked = {run.policy.rpartition(":")[0]: (run.id, run.verdict) for run in ctx.runs.attackers}
    rows = (*calibrate(engine, env, seed, attacked=attacked).rows, *_planted(engine, env))
    return found, Calibration(rows, ctx.runs.ran, ctx.runs.reused)


def _said(task: ForeignTask, finding: Finding, *, solved: bool = False) -> Said:
    if finding.probe == "records":
        finding = _renamed(finding)
    return placed(task.env, finding, task, solved=solved)


def _renamed(finding: Finding) -> Finding:
    """A record's place by the name that its file has in the task."""
    from rover.port.harbor.layout import original

    file = str(finding.details["file"])
    own = original(file) or (INSTRUCTION if file == "task/instruction.md" else TOML)
    return finding.model_copy(update={"details": {**finding.details, "file": own}})


def _besides(env: Env, calibration: Calibration, found: Diagnosis) -> list[Finding]:
    """Cases that came out wrong, where diagnosis does not say so already: it names one defect once, a check names
    every attacker that passes."""
    confirmed = [f for f in found.findings if f.status == "confirmed"]
    passed = [r for r in calibration.wrong if r.kind in ("start", "attacker") and r.observed == "accepted"]
    out = []
    if passed and not any("attackers" in f.details or f.probe == "start" for f in confirmed):
        out.append(_passed(env, passed))
    rest = [r for r in calibration.wrong if r not in passed and not _failed(r)]
    if not confirmed:
        return out + [of_row(row) for row in rest]
    kinds = {f.kind for f in (*confirmed, *out)}
    return out + [f for row in rest if row.kind == "negative" and (f := of_row(row)).kind not in kinds]


def _planted(engine: Engine, env: Env) -> list[Row]:
    """Workspaces in which every path that request or tests name is there: empty, or holding the request itself. Tests
    that a file's mere presence passes accept them, also where no attacker could know the path."""
    paths = sorted({*read_by_tests(env), *named_paths(env.instruction, env.workdir)} - set(env.start))
    paths = [p for p in paths if not in_the_way(p, env.start)][:MOST_PATHS]
    paths = [p for p in paths if not any(other.startswith(f"{p}/") for other in paths)]
    if not paths:
        return []
    said = env.instruction.encode()
    states = {"touched": dict.fromkeys(paths, b""), "echoed": dict.fromkeys(paths, said)}
    graded = engine.grade_states([(env, {**env.start, **made}, "") for made in states.values()])
    return [below_mark(f"state:{name}", "attacker", env, v) for name, v in zip(states, graded, strict=True)]


def _failed(row: Row) -> bool:
    """Whether a case was not tried, since the sandbox failed."""
    return row.observed == "error" and row.reason.startswith("infra_error")


def unrun(calibration: Calibration) -> str:
    """Why cases could not be tried; empty where all were."""
    failed = [row for row in calibration.rows if _failed(row)]
    if not failed:
        return ""
    why = failed[0].reason.removeprefix("infra_error: ")
    return f"{len(failed)} of {len(calibration.rows)} cases could not be tried: {why}"


def _passed(env: Env, rows: list[Row]) -> Finding:
    """Who passes without doing the task."""
    names = [row.case for row in rows]
    named = [name for name in names if name != "start"]
    idle, lone = "the start state passes as it is, and so do", "who does not do the task passes:"
    said = idle if "start" in names else lone
    words = [_PLANTED.get(name) or (with_deed(name) if at < _IN_WORDS else name) for at, name in enumerate(named)]
    told = "; ".join(words)
    return Finding(
        probe="attackers",
        kind="lax_verifier",
        message=f"{said} {told or 'no others'}",
        components=("verifier",),
        evidence=(env.verifier_id, *(row.rollout for row in rows if row.rollout)),
        details={"subject": "attackers", "attackers": named},
    )


def _confirmed(finding: Finding, shown: list[Finding]) -> bool:
    """Whether a run showed what a reader saw."""
    return any(f.status == "confirmed" and f.kind == finding.kind and _same(f, finding) for f in shown)


def _with_place(finding: Finding, read: tuple[Finding, ...]) -> Finding:
    """What a run showed, at the place where a reader saw it."""
    seen = next((f for f in read if f.kind == finding.kind and _same(finding, f)), None)
    if seen is None or "file" in finding.details:
        return finding
    place = {key: seen.details[key] for key in ("file", "line") if key in seen.details}
    return finding.model_copy(update={"details": {**finding.details, **place}})


def _same(one: Finding, other: Finding) -> bool:
    """Whether two findings of one kind are about one thing. A verifier that gives no reward is one thing."""
    if one.kind == "verifier_crash":
        return True
    a, b = ({str(f.details.get(key, "")) for key in ("subject", "path")} - {""} for f in (one, other))
    return any(x == y or x.endswith(f"/{y}") or y.endswith(f"/{x}") for x in a for y in b)


def _sorted(said: list[Said]) -> tuple[Said, ...]:
    order = {"error": 0, "warning": 1, "note": 2}
    return tuple(sorted(said, key=lambda s: (order[s.level], s.file, s.line or 0, s.finding.kind, s.finding.message)))
