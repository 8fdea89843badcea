"""Defects of what lies in the workspace: an input that is gone, or lies there under another name, or twice."""

from __future__ import annotations

from rover.diagnose.demands import contract_sources
from rover.diagnose.inject.data import changed_table
from rover.diagnose.inject.edits import CONTEXT, added, binding, moved, rebound, remounted, replaced
from rover.diagnose.inject.protocol import C, Components, Damage, Expects, Masks, Unfit, V, rng_for
from rover.rollout.env import Env

_OLDER = (
    "{stem}_2024.{end}", "{stem}-2023.{end}", "{stem}_old.{end}", "{stem}_v1.{end}", "{Stem}.{end}", "{stem}s.{end}",
)  # fmt: skip
_FOLDERS = ("data", "inputs", "archive", "2024")


class MissingInput:
    kind = "missing_input"
    summary = "a file that the task needs is no longer part of the workspace"
    repair = "C: bind the file again"
    expects: Expects = (("missing_input", "context"),)
    components: Components = ("context",)
    right: Masks = (C,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        needed = [p for p in contract_sources(env.contract) if p in env.start]
        # a file of the package's own that is deleted would be lost; one in a resource can be bound again
        shared = [(p, held[0]) for p in needed if (held := binding(env, p)) is not None]
        if not shared:
            raise Unfit(self.kind, "the contract derives nothing from a file of a resource")
        path, ref = rng.choice(shared)
        context = rebound(env, ref, None)
        note = f"unbound the resource that holds {path}"
        if rng.random() < 0.5:  # whoever took the file out may also have taken it off the list
            context = context.model_copy(update={"files": tuple(f for f in context.files if f.path != path)})
            note += ", and context.json no longer lists it"
        return Damage({CONTEXT: context.dump()}, note)


class MisnamedInput:
    kind = "misnamed_input"
    summary = "a file that the task needs lies in the workspace under another name, such as last year's"
    repair = "C: give the file the name that the request uses"
    expects: Expects = (("misnamed_input", "context"),)
    components: Components = ("context",)
    right: Masks = (C,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        needed = [p for p in contract_sources(env.contract) if p in env.start]
        if not needed:
            raise Unfit(self.kind, "the contract derives nothing from a file")
        path = rng.choice(needed)
        if rng.random() < 0.35:
            found = remounted(env, path, rng.choice(_FOLDERS))
            if found is not None:
                context, new = found
                return Damage({CONTEXT: context.dump()}, f"{path} now lies at {new}")
        new = another_name(path, rng.choice(_OLDER))
        return moved(env, self.kind, path, new, f"{path} is now called {new}", listed=rng.random() < 0.6)


class ConflictingCopies:
    kind = "conflicting_copies"
    summary = "a source lies in the workspace twice: the one that the request names holds other figures"
    repair = "C: keep one, the one that the expected values are from; or C and V: keep the other, derive V again"
    expects: Expects = (("conflicting_copies", "context"),)
    components: Components = ("context",)
    right: Masks = (C, C | V)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        path, data, what = changed_table(env, self.kind, rng)
        folder, _, name = path.rpartition("/")
        copies = (f"{rng.choice(_FOLDERS)}/{name}", another_name(path, "{stem}_final.{end}"), f"copy_of_{name}")
        copy = rng.choice(copies if not folder else copies[:2])
        beside = added(env, self.kind, {copy: env.start[path]}, f"the former {path} lies beside it as {copy}")
        after = replaced(_with(env, beside), self.kind, path, data, f"{path}: {what}")
        return beside.and_then(after)


def another_name(path: str, pattern: str) -> str:
    """The path with a file name like the pattern's."""
    folder, _, name = path.rpartition("/")
    stem, _, end = name.rpartition(".")
    new = pattern.format(stem=stem, Stem=stem.title(), end=end)
    return f"{folder}/{new}" if folder else new


def _with(env: Env, damage: Damage) -> Env:
    from rover.rollout.env import env_from_files

    return env_from_files(damage.applied(env.files), {**env.resources, **damage.resources})
