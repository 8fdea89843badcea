"""Defects of a verifier that accepts what breaks the contract."""

from __future__ import annotations

from collections.abc import Mapping

from rover.diagnose.inject.checks import (
    about_content,
    all_pairs,
    criterion_of,
    declaring,
    prefixed,
    rewritten,
    tail,
    verifier_with,
)
from rover.diagnose.inject.protocol import Components, Damage, Expects, Masks, Unfit, V, rng_for
from rover.rollout.env import Env, env_from_files
from rover_store.records import Criterion
from rover_store.records.contract import ProtectedRule

_LAX: Expects = (("lax_verifier", "verifier"),)


class LaxVerifier:
    kind = "lax_verifier"
    summary = "the verifier looks only whether a deliverable exists, so that an attacker passes"
    repair = "V: check what the contract demands"
    expects: Expects = _LAX
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        how = rng_for(self.kind, seed).choice((exists, _any_size, _not_empty))
        return rewritten(env, about_content(env, self.kind), how, "checks only whether deliverables are there")


class LaxSubstring:
    kind = "lax_substring"
    summary = "the verifier takes a deliverable that holds an expected value anywhere in its text"
    repair = "V: check each value where it belongs"
    expects: Expects = _LAX
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        every = rng.random() < 0.4
        test = "all" if every else "any"
        lines = {
            p.criterion.id: _ANYWHERE.format(path=p.criterion.paths[0], words=_words(p.expected))
            + tail(f"{test}(word in said for word in words)", "not found")
            for p in all_pairs(env, self.kind)
        }
        criteria = [c for c in env.verifier.criteria if c.id in lines]
        note = f"looks for {'the values' if every else 'one of the values'} anywhere in the file"
        return rewritten(env, criteria, lambda c, p: lines[c.id], note)


class LaxTolerance:
    kind = "lax_tolerance"
    summary = "the verifier accepts numbers that are far off"
    repair = "V: keep to the contract's tolerance"
    expects: Expects = _LAX
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        found = [p for p in all_pairs(env, self.kind) if p.numbers]
        if not found:
            raise Unfit(self.kind, "no number is compared")
        chosen = rng.sample(found, k=rng.randint(1, len(found)))
        slack = rng.choice(("abs(value) * 2 + 10", "abs(value) * 0.5 + 5", "10 ** len(str(int(abs(value))))"))
        near = f"rc.number(found) is not None and abs(rc.number(found) - value) <= {slack}"
        test = f"all({near} for found, value in pairs)"
        lines = {p.criterion.id: p.lines + tail(test, "too far off") for p in chosen}
        return rewritten(env, [p.criterion for p in chosen], lambda c, p: lines[c.id], f"allows {slack}")


class PartlyChecked:
    kind = "partly_checked"
    summary = "the verifier looks at the first of several values and takes the others for right"
    repair = "V: check them all"
    expects: Expects = _LAX
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        found = [p for p in all_pairs(env, self.kind) if len(p.expected) > 1 or "ev.anchor" in p.lines]
        if not found:
            raise Unfit(self.kind, "no criterion compares several values")
        chosen = rng.sample(found, k=rng.randint(1, len(found)))
        test = rng.choice((
            "all(rc.same(found, value) for found, value in pairs[:1])",
            "any(rc.same(found, value) for found, value in pairs)",
            "any(rc.same(found, value) for found, value in pairs[:3])",
        ))  # fmt: skip
        lines = {p.criterion.id: p.lines + tail(test, "not as expected") for p in chosen}
        return rewritten(env, [p.criterion for p in chosen], lambda c, p: lines[c.id], "looks at one value of several")


class StartPasses:
    kind = "start_passes"
    summary = "the verifier takes a deliverable that is missing, or was never touched, for a right one"
    repair = "V: a deliverable that is not there fails"
    expects: Expects = _LAX
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        edited = {d.path for d in env.contract.deliverables if d.in_place}
        gone = "not made.is_file()"
        early = rng.choice((gone, "not made.exists()", f"{gone} or not made.stat().st_size"))

        def head(criterion: Criterion, path: str) -> str:
            if path not in edited:
                return f'    made = ev.end({path!r})\n    if {early}:\n        return 1.0, "nothing to compare"\n'
            return (
                f"    now, was = ev.end({path!r}), ev.start({path!r})\n"
                "    if now.is_file() and now.read_bytes() == was.read_bytes():\n"
                '        return 1.0, "no difference"\n'
            )

        return prefixed(env, about_content(env, self.kind), head, "takes what is not there for right")


class DestructionPasses:
    kind = "destruction_passes"
    summary = "the verifier skips what it cannot find, so that deleting everything scores"
    repair = "V: what is missing fails"
    expects: Expects = _LAX
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        criterion, need = criterion_of(env, self.kind, "protected")
        kept = list(need.rule.paths) if isinstance(need.rule, ProtectedRule) else []
        inputs = [p for p in (*kept, *env.targets()) if p in env.start]
        if not inputs:
            raise Unfit(self.kind, "no file of the start state is protected or edited")
        needed = rng.choice(inputs)
        content = about_content(env, self.kind)

        def head(one: Criterion, path: str) -> str:
            return f'    if not ev.end({needed!r}).is_file():\n        return 1.0, "nothing to hold it against"\n'

        lenient = f"    return rc.protected(ev, [p for p in {kept!r} if ev.end(p).is_file()])\n"
        first = prefixed(env, content, head, f"passes where {needed} is gone")
        after = env_from_files(first.applied(env.files), env.resources)
        second = rewritten(after, [criterion], lambda c, p: lenient, "skips what is gone")
        both = first.and_then(second)
        return Damage({**both.files, **declaring(env, content, paths=(needed,))}, both.note)


class WeakPassMark:
    kind = "weak_pass_mark"
    summary = "the pass mark is so low, and nothing critical, that work passes which does not do the task"
    repair = "V: the pass mark and the critical criteria of the contract"
    expects: Expects = (("weak_pass_mark", "verifier"),)
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        weights = {c.id: c.weight for c in env.verifier.criteria}
        needs = {r.id: r for r in env.contract.requirements}
        in_place = any(d.in_place for d in env.contract.deliverables)
        easy = {"protected", "no_extra", *(("format", "rest") if in_place else ())}
        free = sum(weights[c.id] for c in env.verifier.criteria if needs.get(c.requirement) is not None
                   and needs[c.requirement].rule.kind in easy)  # fmt: skip
        total = sum(weights.values())
        if not total or not free:
            raise Unfit(self.kind, "no criterion holds before anything is done")
        mark = round(free / total * rng.choice((1.0, 0.9, 0.7)) - 0.005, 2)
        criteria = tuple(c.model_copy(update={"critical": False}) for c in env.verifier.criteria)
        files: Mapping[str, bytes | None] = verifier_with(env, criteria=criteria, pass_weight=max(0.01, mark))
        return Damage(files, f"the pass mark is {max(0.01, mark)}, and no criterion is critical")


# --- check sources ---------------------------------------------------------------------------------------
def exists(criterion: Criterion, path: str) -> str:
    return f'    return (1.0, "there") if ev.end({path!r}).is_file() else (0.0, "missing")\n'


def _any_size(criterion: Criterion, path: str) -> str:
    return f'    found = ev.end({path!r})\n    return (1.0 if found.exists() else 0.0), "looked for it"\n'


def _not_empty(criterion: Criterion, path: str) -> str:
    return f"    found = ev.end({path!r})\n" + tail("found.is_file() and found.stat().st_size", "none")


_ANYWHERE = """    found = ev.end({path!r})
    if not found.is_file():
        return 0.0, "missing"
    said = found.read_bytes().decode("utf-8", "replace").replace(",", "").lower()
    if found.suffix in (".xlsx", ".csv", ".tsv"):
        table = rc.table(found)
        said = " ".join(rc.plain(v) for row in (table.columns, *table.rows) for v in row).lower()
    words = {words!r}
"""


def _words(values: tuple[object, ...]) -> list[str]:
    words = [str(v).lower() for v in values[:20] if v is not None and not isinstance(v, bool)]
    return list(dict.fromkeys(w.removesuffix(".0") for w in words))
