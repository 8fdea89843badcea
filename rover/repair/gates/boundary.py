"""Gate (c): no answer can be read in what a policy sees, and context, task and verifier do not contradict.

An answer may be read in its own sources and nowhere else; of the reference nothing at all. The probes look for
both; the contradictions that a half repair leaves behind are looked for here as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from rover.diagnose.demands import asked, contract_sources
from rover.diagnose.registry import probes
from rover.repair.trial import Trial
from rover.rollout.env import Env
from rover_store.errors import SandboxError
from rover_store.records import GateResult
from rover_store.records.contract import ProtectedRule

#: probes whose confirmed findings are a leak or a contradiction between C, T and V
ASKED = ("inputs", "givens", "deliverables", "coverage", "contradictions", "anchors", "leaks")
#: a shorter piece of a reference is found by chance
LEAST = 40


def boundary_kept(trial: Trial) -> GateResult:
    """Static checks first; the probes that derive answers follow where those are silent."""
    problems = [*contradictions(trial.env), *reference_text(trial.env)]
    if not problems:
        problems = list(_probed(trial))
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return GateResult(gate="boundary", passed=False, reason=problems[0] + more)
    return GateResult(gate="boundary", passed=True, reason="no answer in view; C, T and V agree")


def _probed(trial: Trial) -> Iterator[str]:
    for probe in probes():
        if probe.name in ASKED:
            try:
                found = probe.run(trial.probing)
            except SandboxError as error:
                yield f"{probe.name}: {error.message}"
                continue
            yield from (f.message for f in found if f.status == "confirmed")


def reference_text(env: Env) -> Iterator[str]:
    """Files of the workspace that hold a whole reference file, whatever their line ends and blanks."""
    start = {path: _normal(data) for path, data in env.start.items()}
    for path, data in env.verifier_files.items():
        target = path.removeprefix("reference/files/")
        body = _normal(data)
        if target == path or len(body) < LEAST or target in env.start:
            continue
        yield from (f"{where} holds the reference's {target}" for where, text in start.items() if body in text)


def contradictions(env: Env) -> Iterator[str]:
    """What C, T and V say against each other."""
    yield from _workspace(env)
    yield from _verifier(env)
    yield from _reference(env)


def _workspace(env: Env) -> Iterator[str]:
    targets = {d.path for d in env.contract.deliverables}
    for path in contract_sources(env.contract):
        if path not in env.start:
            yield f"an answer is derived from {path}, which is not in the workspace"
    for requirement in env.contract.requirements:
        if isinstance(requirement.rule, ProtectedRule):
            for path in requirement.rule.paths:
                if path in targets:
                    yield f"{path} must be written and must not be changed"
                elif path not in env.start:
                    yield f"{requirement.id} protects {path}, which is not in the workspace"
    for deliverable in env.contract.deliverables:
        if deliverable.in_place and deliverable.path not in env.start:
            yield f"{deliverable.path} is to be edited in place and is not in the workspace"
        if PurePosixPath(deliverable.path).name not in env.instruction:
            yield f"the request does not name {deliverable.path}"


def _verifier(env: Env) -> Iterator[str]:
    rules = {r.id: r for r in env.contract.requirements}
    known = {d.path for d in env.contract.deliverables} | set(env.start)
    queries = {a.query for a in asked(env.contract)}
    anchors = {a.id: a for a in env.anchors.anchors}
    for criterion in env.verifier.criteria:
        if criterion.requirement not in rules:
            yield f"criterion {criterion.id} scores {criterion.requirement}, which the contract does not demand"
        if criterion.check.partition(":")[0] not in env.verifier_files:
            yield f"criterion {criterion.id}: {criterion.check.partition(':')[0]} is missing"
        unasked = [p for p in criterion.paths if p not in known]
        yield from (f"criterion {criterion.id} reads {path}, which nobody asks for" for path in unasked)
        for name in criterion.anchors:
            if name not in anchors:
                yield f"criterion {criterion.id}: anchor {name} is missing"
            elif anchors[name].query not in queries:
                yield f"anchor {name} answers a question that the contract does not ask"
    scored = {c.requirement for c in env.verifier.criteria if c.weight > 0 or c.critical}
    yield from (f"no criterion scores {name}" for name in rules if name not in scored)


def _reference(env: Env) -> Iterator[str]:
    targets = {d.path for d in env.contract.deliverables}
    for change in env.reference.changes:
        if change.path not in targets:
            yield f"the reference {'deletes' if change.deleted else 'writes'} {change.path}, which nobody asks for"


def _normal(data: bytes) -> bytes:
    return b" ".join(data.split())
