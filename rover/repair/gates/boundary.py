"""Gate (c): no answer can be read in what a policy sees, and context, task and verifier do not contradict.

An answer may be read in its own sources and nowhere else; of the reference nothing at all. The probes look for
both; the contradictions that a half repair leaves behind are looked for here as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from rover.diagnose.demands import asked, contract_sources
from rover.diagnose.registry import probes_for
from rover.repair.trial import Trial
from rover.rollout.env import Env
from rover_store.errors import SandboxError
from rover_store.ids import blob_id
from rover_store.records import GateResult
from rover_store.records.contract import ProtectedRule

#: probes beside those that only read records: they look for an answer in view, or for values that part
ASKED = frozenset(
    {
        "anchors", "leaks", "spelling", "unit", "copies", "half_done", "deliverable_names", "answer_in_view",
    }
)  # fmt: skip
#: probes of records that look for no leak and no contradiction
ELSEWHERE = frozenset({"edges", "tools"})
#: a shorter piece of a reference is found by chance
LEAST = 40

#: what is wrong, and the ids that show it
Problem = tuple[str, tuple[str, ...]]


def boundary_kept(trial: Trial) -> GateResult:
    """Static checks first; the probes that derive answers follow where those are silent."""
    env = trial.env
    problems: list[Problem] = [(line, (env.context_id, env.task_id, env.verifier_id)) for line in contradictions(env)]
    problems += in_view(env)
    if not problems:
        problems = list(_probed(trial))
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        evidence = tuple(dict.fromkeys(e for _, ids in problems for e in ids))[:8]
        return GateResult(gate="boundary", passed=False, reason=problems[0][0] + more, evidence=evidence)
    return GateResult(gate="boundary", passed=True, reason="no answer in view; C, T and V agree")


def _probed(trial: Trial) -> Iterator[Problem]:
    for probe in probes_for(trial.env):
        if probe.name in ELSEWHERE or not (probe.cost == 0 or probe.name in ASKED):
            continue
        try:
            found = probe.run(trial.probing)
        except SandboxError as error:
            yield f"{probe.name}: {error.message}", ()
            continue
        yield from ((f.message, f.evidence) for f in found if f.status == "confirmed")


def in_view(env: Env) -> Iterator[Problem]:
    """Files of the workspace, and the request, that hold what only the verifier may know: a file of the reference,
    its final message, a check, the anchors. Line ends and blanks do not hide it."""
    seen = {path: (_normal(data), blob_id(data)) for path, data in env.start.items()}
    seen["the request"] = (_normal(env.instruction.encode()), env.task_id)
    for what, hidden in _hidden(env):
        body = _normal(hidden)
        if len(body) < LEAST:
            continue
        for where, (text, shown) in seen.items():
            if body in text:
                yield f"{where} holds {what}", (where, shown, blob_id(hidden))


def _hidden(env: Env) -> Iterator[tuple[str, bytes]]:
    for path, data in env.verifier_files.items():
        target = path.removeprefix("reference/files/")
        if target != path and target not in env.start:
            yield f"the reference's {target}", data
        elif path.startswith("checks/") or path in ("anchors.json", "verifier.json"):
            yield f"the verifier's {path}", data
    if env.reference.final_message:
        yield "the reference's final message", env.reference.final_message.encode()


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
        if env.verifier.program is None and criterion.check.partition(":")[0] not in env.verifier_files:
            yield f"criterion {criterion.id}: {criterion.check.partition(':')[0]} is missing"
        unasked = [p for p in criterion.paths if p not in known]
        yield from (f"criterion {criterion.id} reads {path}, which nobody asks for" for path in unasked)
        for name in criterion.anchors:
            if name not in anchors:
                yield f"criterion {criterion.id}: anchor {name} is missing"
            elif anchors[name].query not in queries:
                yield f"anchor {name} answers a question that the contract does not ask"
    scored = {c.requirement for c in env.verifier.criteria if c.weight > 0 or c.critical}
    told = {r.id for r in env.contract.requirements if env.verifier.program is not None and not r.weight}
    yield from (f"no criterion scores {name}" for name in rules if name not in scored | told)


def _reference(env: Env) -> Iterator[str]:
    targets = {d.path for d in env.contract.deliverables}
    for change in env.reference.changes:
        if change.path not in targets:
            yield f"the reference {'deletes' if change.deleted else 'writes'} {change.path}, which nobody asks for"


def _normal(data: bytes) -> bytes:
    return b" ".join(data.split())
