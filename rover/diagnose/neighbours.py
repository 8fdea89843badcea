"""Neighbours of a package: one component in another version, neutral or recorded, that no rule for a defect chose.

T as its contract words it, H with every tool and room to spare, C bound to what package.json records. The verifier's
neighbour is the contract itself, which the oracle evaluates: no run is needed for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rover.diagnose.runs import with_request, with_room
from rover.rollout.env import Env, env_from_files
from rover_store.errors import NotFound, PackageError
from rover_store.ids import ComponentName

if TYPE_CHECKING:
    from rover.diagnose.protocol import ProbeContext
    from rover.sandbox.protocol import Files


def changed(ctx: ProbeContext, env: Env, component: ComponentName) -> Env | None:
    """`env` with one component in its neighbour version; None where there is none, or it is the same."""
    try:
        if component == "task":
            other = with_request(env)
        elif component == "harness":
            other = with_room(env)
        elif component == "context":
            other = with_recorded(ctx, env)
        else:
            return None
    except PackageError:
        return None
    return None if other.component_id(component) == env.component_id(component) else other


def with_recorded(ctx: ProbeContext, env: Env) -> Env:
    """The package bound to the versions of its resources that package.json records, as far as they can be read."""
    trees = dict(_recorded(ctx, env))
    if not trees:
        return env
    refs = tuple(
        r.model_copy(update={"tree": trees[f"{r.kind}/{r.name}"][0]}) if f"{r.kind}/{r.name}" in trees else r
        for r in env.context.resources
    )
    context = env.context.model_copy(update={"resources": refs})
    files = {**env.files, "context/context.json": context.dump()}
    return env_from_files(files, {**env.resources, **{name: found for name, (_, found) in trees.items()}})


def _recorded(ctx: ProbeContext, env: Env) -> Iterator[tuple[str, tuple[str, Mapping[str, bytes]]]]:
    bound = {f"{r.kind}/{r.name}": r.tree for r in env.context.resources}
    for edge in env.record.edges:
        name = edge.target.removeprefix("resources/")
        if edge.source != "context" or name == edge.target or bound.get(name) in (None, edge.version):
            continue
        content = _read(ctx, edge.version)
        if content:
            yield name, (edge.version, content)


def _read(ctx: ProbeContext, tree: str) -> Files | None:
    if ctx.read is None:
        return None
    try:
        return ctx.read(tree)
    except NotFound:
        return None
