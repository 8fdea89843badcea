"""Changes of a workspace that injectors share: one more file, other bytes for a file, another place for it."""

from __future__ import annotations

from typing import Literal

from rover.diagnose.inject.protocol import Damage, Unfit
from rover.diagnose.runs import mounted
from rover.rollout.env import Env, tree_of
from rover_store.records import Context, ContextFile, ResourceRef

CONTEXT = "context/context.json"
Access = Literal["editable", "protected"]
Role = Literal["input", "starter", "distractor"]


def added(
    env: Env, kind: str, files: dict[str, bytes], note: str, *, access: Access = "protected", role: Role = "distractor"
) -> Damage:
    """The package with more files of its own, each listed in its context."""
    for path in files:
        parts = path.split("/")
        above = {"/".join(parts[:depth]) for depth in range(1, len(parts))}
        if path in env.start or above & set(env.start) or any(p.startswith(f"{path}/") for p in env.start):
            raise Unfit(kind, f"{path} exists already")
    listed = {f.path for f in env.context.files}
    more = tuple(ContextFile(path=p, access=access, role=role) for p in files if p not in listed)
    context = env.context.model_copy(update={"files": (*env.context.files, *more)})
    return Damage({CONTEXT: context.dump(), **{f"context/files/{p}": d for p, d in files.items()}}, note)


def binding(env: Env, path: str) -> tuple[ResourceRef, str] | None:
    """The resource that holds a file of the workspace, and the path inside; None for a file of the package's own."""
    if f"context/files/{path}" in env.files:
        return None
    for ref in env.context.resources:
        inside = mounted(env, ref).get(path)
        if inside is not None:
            return ref, inside
    return None


def replaced(env: Env, kind: str, path: str, data: bytes, note: str, *, siblings: bool = False) -> Damage:
    """Other bytes for a file of the workspace: in the package, or in a new version of the resource that holds it."""
    held = binding(env, path)
    if held is None:
        if siblings or f"context/files/{path}" not in env.files:
            raise Unfit(kind, f"{path} lies in no resource of the package")
        return Damage({f"context/files/{path}": data}, note)
    ref, inside = held
    name = f"{ref.kind}/{ref.name}"
    tree = {**env.resources[name], inside: data}
    context = rebound(env, ref, ref.model_copy(update={"tree": tree_of(tree)}))
    return Damage({CONTEXT: context.dump()}, note, {name: tree}, siblings)


def moved(env: Env, kind: str, path: str, new: str, note: str, *, listed: bool = True) -> Damage:
    """A file of the workspace under another path, as a file of the package's own. `listed`: context.json follows."""
    if new in env.start or any(p.startswith(f"{new}/") for p in env.start):
        raise Unfit(kind, f"{new} exists already")
    files: dict[str, bytes | None] = {f"context/files/{new}": env.start[path]}
    context = _renamed(env.context, path, new) if listed else env.context
    held = binding(env, path)
    if held is None:
        files[f"context/files/{path}"] = None
    else:
        ref, _ = held
        context = context.model_copy(update={"resources": tuple(r for r in context.resources if r != ref)})
        files |= {f"context/files/{p}": env.start[p] for p in mounted(env, ref) if p != path}
    return Damage({CONTEXT: context.dump(), **files}, note)


def rebound(env: Env, old: ResourceRef, new: ResourceRef | None) -> Context:
    """The context with a resource bound otherwise, or not at all."""
    refs = tuple(r if r != old else new for r in env.context.resources)
    return env.context.model_copy(update={"resources": tuple(r for r in refs if r is not None)})


def remounted(env: Env, path: str, folder: str) -> tuple[Context, str] | None:
    """The context with the resource of a file mounted in another folder, and the file's path there."""
    held = binding(env, path)
    if held is None or len(mounted(env, held[0])) != 1:
        return None
    ref, inside = held
    new = f"{folder}/{inside.removeprefix('files/')}"
    if new in env.start or folder in env.start:
        return None
    return _renamed(rebound(env, ref, ref.model_copy(update={"mount": folder})), path, new), new


def _renamed(context: Context, old: str, new: str) -> Context:
    files = tuple(f.model_copy(update={"path": new}) if f.path == old else f for f in context.files)
    return context.model_copy(update={"files": files})
