"""The witness of a case: what ran to show that the package was sound before and is broken after.

Every component at fault is shown by itself, with the rest of the package sound, and the whole once more, so that two
breaks which cancel each other are no case. A break shows when a solver no longer gets through, when the verifier
judges a state of the battery otherwise than the truth, when it gives one state two marks, when the untouched
workspace passes, or by bytes that anyone can compare (rover.bench.suites.seen).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rover.bench.suites.bases import Base
from rover.bench.suites.battery import ROLES, Sample, order, sown
from rover.bench.suites.seen import shown
from rover.construct.families.registry import family
from rover.construct.reference import solver
from rover.diagnose.inject.protocol import Damage
from rover.diagnose.judged import requirement_scores
from rover.repair.oracle import ContractUnanswerable, Oracle
from rover.repair.trial import verifier_accepts
from rover.rollout.engine import Engine
from rover.rollout.env import Env, env_from_files, reference_state
from rover.rollout.records import RolloutRequest
from rover_store.errors import PackageError, SandboxError
from rover_store.ids import COMPONENTS, ComponentName
from rover_store.records import Verdict

#: gradings of one state before a check that draws on chance is held to be steady
AGAIN = 40
#: how a solver begins that does not understand a request
UNREAD = "cannot read"
_CHANCE = re.compile(r"urandom|random|uuid|secrets|\bhash\(|\bid\(")
_CLOCK = re.compile(r"\btime\.|datetime|\bdate\.today|\.now\(|localtime|st_mtime")


@dataclass(frozen=True, slots=True)
class Proof:
    """One thing that shows a break: a `solver`, a `state`, one state graded `again`, the `start`, or `bytes`."""

    component: str
    by: str
    what: str
    words: str

    def row(self) -> dict[str, str]:
        return {"component": self.component, "by": self.by, "what": self.what, "words": self.words}


def witness(engine: Engine, base: Base, damage: Damage) -> dict[str, Any] | None:
    """What shows the break; None where some part of it, or the whole, has no effect.

    None too where the broken package cannot even be started: that would be told as the infrastructure's fault.
    """
    try:
        return _witness(engine, base, damage)
    except SandboxError:
        _solvers(engine, base.env, "all")  # raises where it is this machine that fails
        return None


def _witness(engine: Engine, base: Base, damage: Damage) -> dict[str, Any] | None:
    parts = touched(base.env, damage)
    if not parts:
        return None
    proofs = []
    for component in parts:
        proof = _part(engine, base, component, damage)
        if proof is None:
            return None
        proofs.append(proof)
    # bytes and two marks for one state show the whole broken too; the runs of a fickle verifier show nothing twice
    if len(parts) > 1 and not any(p.by in ("bytes", "again") for p in proofs):
        proof = _whole(engine, base, damage)
        if proof is None:
            return None
        proofs.append(proof)
    return {"before": before(base), "after": [p.row() for p in proofs]}


def before(base: Base) -> dict[str, Any]:
    """What showed that the base is sound."""
    samples = base.battery.samples
    return {
        "components": {name: base.env.component_id(name) for name in COMPONENTS},
        "solved_by": list(ROLES),
        "states": len(samples),
        "right": sum(s.right for s in samples),
        "left_out": base.battery.left_out,
    }


def touched(env: Env, damage: Damage) -> tuple[ComponentName, ...]:
    """The components whose bytes the damage changes; a replaced resource is the context's."""
    paths = {p for p, d in damage.files.items() if env.files.get(p) != d}
    found = {p.partition("/")[0] for p in paths}
    changed = any(env.resources.get(name) != files for name, files in damage.resources.items())
    return tuple(c for c in COMPONENTS if c in found or (c == "context" and changed))


def broken(base: Base, damage: Damage, only: ComponentName | None = None) -> Env:
    """The package after the break, or after that part of it which lies in one component."""
    files = dict(damage.files)
    resources = dict(damage.resources)
    if only is not None:
        files = {p: d for p, d in files.items() if p.startswith(f"{only}/")}
        resources = resources if only == "context" else {}
    after = Damage(files, "").applied(base.env.files)
    return env_from_files(after, {**base.env.resources, **resources})


def _part(engine: Engine, base: Base, component: ComponentName, damage: Damage) -> Proof | None:
    try:
        env = broken(base, damage, component)
    except PackageError as error:
        return Proof(component, "bytes", error.file, f"the package cannot be read: {error.reason}")
    found = _verifier(engine, base, env) if component == "verifier" else _runs(engine, base, env, component)
    if found is not None and not found.words.startswith(UNREAD):
        return found
    # that a solver cannot read a sentence says less than what the sentence says
    words = shown(component, base.env, env)
    return Proof(component, "bytes", component, words) if words else found


def _whole(engine: Engine, base: Base, damage: Damage) -> Proof | None:
    try:
        env = broken(base, damage)
    except PackageError as error:
        return Proof("all", "bytes", error.file, f"the package cannot be read: {error.reason}")
    return _solvers(engine, env, "all") or _verifier(engine, base, env)


def _runs(engine: Engine, base: Base, env: Env, component: str) -> Proof | None:
    found = _solvers(engine, env, component)
    if found is None and component == "context":
        verdict = _graded(engine, env, dict(env.start), "")
        if verdict.outcome == "passed":
            return Proof(component, "start", env.start_tree, "the untouched workspace passes")
    if found is None and env.contract != base.env.contract:
        return _contract(engine, base, env, component)
    return found


def _contract(engine: Engine, base: Base, env: Env, component: str) -> Proof | None:
    """Another contract shows by a state of the battery that it judges otherwise than the truth."""
    try:
        opinions = Oracle(engine, env.contract, env.start).judge([s.state for s in base.battery.samples])
    except ContractUnanswerable as error:
        return Proof(component, "bytes", "contract", _line(str(error)))
    for sample, opinion in zip(base.battery.samples, opinions, strict=True):
        for requirement, ok in sample.truth.items():
            said = opinion.satisfied.get(requirement)
            if said is not None and said != ok:
                words = f"{requirement} is {'satisfied' if ok else 'broken'}, and the contract says otherwise"
                return Proof(component, "state", sample.id, words)
        if opinion.accepts != sample.right:
            return Proof(component, "state", sample.id, "the contract judges the whole otherwise")
    return None


def _solvers(engine: Engine, env: Env, component: str) -> Proof | None:
    kind = family(env.record.family or "")
    for role in ROLES:
        request = RolloutRequest(env, solver(kind, role), sown("witness", role))
        try:
            result = engine.rollouts([request])[0]
        except PackageError as error:
            return Proof(component, "bytes", error.file, error.reason)
        if result.trajectory.end == "infra_error":
            raise SandboxError(result.trajectory.error)
        if result.trajectory.end != "completed":
            return Proof(component, "solver", role, _line(result.trajectory.error or result.trajectory.end))
        verdict = engine.grade([(result, env)])[0]
        if not verifier_accepts(verdict):
            return Proof(component, "solver", role, _low(verdict))
    return None


# --- the verifier --------------------------------------------------------------------------------------------
def _verifier(engine: Engine, base: Base, env: Env) -> Proof | None:
    source = _new_source(base.env, env)
    if _CLOCK.search(source):
        return Proof("verifier", "bytes", "checks", "a check newly reads the clock")
    reference = next(s for s in base.battery.samples if s.id == "reference")
    if _CHANCE.search(source):
        found = _fickle(engine, env, reference)
        if found is not None:
            return found
    for sample in order(base.battery.samples, _concerned(base.env, env)):
        verdict = _graded(engine, env, sample.laid(env.start), sample.state.message)
        words = differs(sample, verdict)
        if words:
            return Proof("verifier", "state", sample.id, words)
    return _own_reference(engine, base, env)


def differs(sample: Sample, verdict: Verdict) -> str:
    """How a verdict departs from the truth of a state; empty where it does not."""
    if verdict.outcome == "verifier_error":
        return f"the verifier crashes: {_line(verdict.reason)}"
    scores = requirement_scores(verdict)
    for requirement, ok in sample.truth.items():
        said = scores.get(requirement, 1.0) == 1.0
        if said != ok:
            return f"{requirement} is {'satisfied' if ok else 'broken'}, and the verifier says otherwise"
    if verifier_accepts(verdict) != sample.right:
        return f"the state is {'right' if sample.right else 'wrong'}, and the verifier says otherwise"
    if (verdict.outcome == "passed") != sample.passed:
        return f"the state {'no longer passes' if sample.passed else 'now passes'}"
    return ""


def _fickle(engine: Engine, env: Env, sample: Sample) -> Proof | None:
    """One state graded until two marks differ. Which grading it was stays untold: that is chance."""
    marks = set()
    for _ in range(AGAIN):
        verdict = engine.grade_state(env, sample.laid(env.start), sample.state.message, fresh=True)
        marks.add((verdict.outcome, *(s.score for s in verdict.scores)))
        if len(marks) > 1:
            return Proof("verifier", "again", sample.id, "one state graded again gets another mark")
    return None


def _own_reference(engine: Engine, base: Base, env: Env) -> Proof | None:
    """The reference that the package now holds, under the sound verifier."""
    try:
        state = reference_state(env)
    except PackageError as error:
        return Proof("verifier", "bytes", error.file, error.reason)
    if state == reference_state(base.env) and env.reference.final_message == base.env.reference.final_message:
        return None
    verdict = _graded(engine, base.env, dict(state), env.reference.final_message)
    return None if verifier_accepts(verdict) else Proof("verifier", "state", "own reference", _low(verdict))


def _concerned(sound: Env, env: Env) -> frozenset[str]:
    """Requirements whose criterion, check or anchor changed."""
    old = {c.id: c for c in sound.verifier.criteria}
    new = {c.id: c for c in env.verifier.criteria}
    anchors = {a.id for a in sound.anchors.anchors if a not in env.anchors.anchors}
    files = {p for p in env.verifier_files if env.verifier_files[p] != sound.verifier_files.get(p)}
    found = {c.requirement for i, c in old.items() if new.get(i) != c}
    for criterion in new.values():
        changed = old.get(criterion.id) != criterion or criterion.check.partition(":")[0] in files
        if changed or anchors & set(criterion.anchors):
            found.add(criterion.requirement)
    return frozenset(found)


def _new_source(sound: Env, env: Env) -> str:
    """Lines of checks that the sound package does not have."""

    def lines(files: Mapping[str, bytes]) -> Iterator[str]:
        for path, data in files.items():
            if path.startswith("checks/"):
                yield from data.decode("utf-8", "replace").splitlines()

    known = set(lines(sound.verifier_files))
    return "\n".join(line for line in lines(env.verifier_files) if line not in known)


def _graded(engine: Engine, env: Env, state: dict[str, bytes], message: str) -> Verdict:
    verdict = engine.grade_states([(env, state, message)])[0]
    if verdict.outcome == "infra_error":
        raise SandboxError(verdict.reason)
    return verdict


def _low(verdict: Verdict) -> str:
    low = next((s for s in verdict.scores if s.score < 1), None)
    return _line(f"{low.criterion}: {low.reason}" if low else verdict.reason or verdict.outcome)


def _line(text: str) -> str:
    return " ".join(text.split())[:160]
