"""What a defect hides: the package with its context, task and harness put right, and what is still wrong then.

A broken request or a missing file keeps every solver from an end state, so that nobody sees what else the verifier
would have said of one. The proposals for C, T and H put the package right as far as they can; the diagnosis of that
neighbour adds findings that the first one could not make. Only findings come back: proposals are asked for again, on
the package as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rover.diagnose.diagnosis import diagnose
from rover.diagnose.protocol import ProbeContext
from rover.repair.candidates import Builder, Frozen, Parent
from rover.repair.conflicts import conflict
from rover.rollout.engine import Engine
from rover.rollout.env import Env
from rover_store.errors import PackageError
from rover_store.ids import BIT, ComponentName
from rover_store.records import Diagnosis, Finding

#: components that can keep a solver from its end
BEFORE = ("context", "task", "harness")


def put_right(parent: Parent, proposals: Sequence[Frozen]) -> Env | None:
    """The package with the proposals for C, T and H in place and its verifier as it is; None where there are none.

    Edits that clash, or that cannot be read together, put nothing right.
    """
    chosen = [p for p in proposals if p.record.component in BEFORE]
    if not chosen:
        return None
    builder = Builder(parent, chosen, lambda env: {})
    mask = sum(BIT[p.record.component] for p in chosen)
    try:
        env = builder.unbuilt(mask)
        return None if conflict(chosen, env) else env
    except PackageError:
        return None


def behind(
    engine: Engine,
    env: Env,
    found: Diagnosis,
    *,
    seed: int,
    without: frozenset[str],
    progress: Callable[[str], None] | None = None,
) -> tuple[Finding, ...]:
    """Confirmed findings of the neighbour that the first diagnosis does not have, each saying what was put right."""
    resources = {f"{r.kind}/{r.name}": r.tree for r in env.context.resources}
    context = ProbeContext(env, engine, seed, resources)
    now = diagnose(context, without=without, progress=progress)
    known = {(f.kind, f.components[0]) for f in found.findings if f.status == "confirmed"}
    return tuple(
        f.model_copy(update={"details": {**f.details, "behind": found.package}})
        for f in now.findings
        if f.status == "confirmed" and (f.kind, f.components[0]) not in known
    )


def joined(found: Diagnosis, more: Sequence[Finding]) -> Diagnosis:
    """The diagnosis with the findings from behind it, and the components that they blame."""
    if not more:
        return found
    blame: dict[ComponentName, float] = dict(found.blame or {})
    for finding in more:
        first = finding.components[0]
        blame[first] = max(blame.get(first, 0.0), finding.confidence or 0.5)
    ordered = dict(sorted(blame.items(), key=lambda pair: -pair[1]))
    names = ", ".join(dict.fromkeys(f"{f.kind} ({f.components[0]})" for f in more))
    return found.model_copy(
        update={
            "findings": (*found.findings, *more),
            "blame": ordered,
            "summary": f"{found.summary}; behind it, once that is put right: {names}",
        }
    )
