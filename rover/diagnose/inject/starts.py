"""Defects of the start state: the goal holds already, an earlier run left something, what is edited is protected."""

from __future__ import annotations

import random

from rover.diagnose.inject.checks import criterion_of, rewritten, verifier_with
from rover.diagnose.inject.edits import CONTEXT, added, replaced
from rover.diagnose.inject.grids import read
from rover.diagnose.inject.leaks import made
from rover.diagnose.inject.protocol import C, Components, Damage, Expects, Masks, Unfit, V, rng_for
from rover.rollout.env import Env
from rover_store.records import Deliverable
from rover_store.records.contract import EditRule, ProtectedRule
from rover_store.records.query import Given, Source


class GoalAtStart:
    kind = "goal_at_start"
    summary = "what the task asks for holds already when it begins"
    repair = "C: put the start state back to before the work"
    expects: Expects = (("goal_at_start", "context"),)
    components: Components = ("context",)
    right: Masks = (C,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        done = made(env)
        if not done or set(done) != set(env.targets()):
            raise Unfit(self.kind, "the reference does not hold every deliverable")
        total: Damage | None = None
        for path, data in done.items():
            note = f"{path} is there already, finished"
            if path in env.start:
                one = replaced(env, self.kind, path, data, note)
            else:
                one = added(env, self.kind, {path: data}, note, access="editable", role="starter")
            if total is not None and CONTEXT in total.files and CONTEXT in one.files:
                raise Unfit(self.kind, "several deliverables")
            total = one if total is None else total.and_then(one)
        assert total is not None
        return total


class LeftoverOutput:
    kind = "leftover_output"
    summary = "what an earlier run left was not cleared away: it stands where the deliverable has to go"
    repair = "C: clear it away"
    expects: Expects = (("leftover_output", "context"),)
    components: Components = ("context",)
    right: Masks = (C,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        target = rng.choice(env.contract.deliverables)
        if target.in_place:
            return self._half_edited(env, target, rng)
        data = made(env).get(target.path) or b"unfinished\n"
        part = data[: max(1, len(data) * 2 // 3)]
        folder = target.path.rpartition("/")[0]
        if folder and rng.random() < 0.5:  # the folder of the deliverable was once written as a file
            note = f"a file called {folder} stands where the folder has to be"
            return added(env, self.kind, {folder: part}, note, access="editable", role="starter")
        piece = rng.choice(("part-00000", "0.tmp", ".partial"))
        note = f"{target.path} is a folder of an earlier run's pieces"
        return added(env, self.kind, {f"{target.path}/{piece}": part}, note, access="editable", role="starter")

    def _half_edited(self, env: Env, target: Deliverable, rng: random.Random) -> Damage:
        """The table as a run that stopped half way left it: rows that it had done no longer meet the conditions."""
        rule = next((r.rule for r in env.contract.requirements if isinstance(r.rule, EditRule)), None)
        grid = read(env, Source(path=target.path, sheet=target.sheet))
        values = {g.name: g.value for g in env.contract.givens}
        rows = next((a.value for a in env.anchors.anchors if rule and a.query == rule.rows.answer), None)
        if rule is None or grid is None or rows is None or not isinstance(rule.value, Given):
            raise Unfit(self.kind, f"{target.path} cannot be left half edited")
        if rule.column not in {f.column for f in rule.rows.answer.filters}:
            raise Unfit(self.kind, "the edited column is no condition, so that a half edited table is as good")
        keys = [grid.header.index(c) for c in rows.columns]
        listed = {tuple(str(c) for c in row) for row in rows.rows}
        at, done = grid.header.index(rule.column), 0
        for row in grid.rows:
            if tuple(str(row[k]) for k in keys) in listed and (done == 0 or rng.random() < 0.5):
                row[at], done = values[rule.value.given], done + 1
        return replaced(env, self.kind, target.path, grid.render(), f"{done} rows of {target.path} are edited already")


class ProtectedTarget:
    kind = "protected_target"
    summary = "the verifier protects a file that the task has to write"
    repair = "V: protect the other files only; C and V where context.json says it too"
    expects: Expects = (("protected_target", "verifier"),)
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        target = rng.choice(env.contract.deliverables)
        damage = self.guarded(env, target)
        if not target.in_place or rng.random() < 0.5:
            return damage
        files = tuple(
            f.model_copy(update={"access": "protected"}) if f.path == target.path else f for f in env.context.files
        )
        context = env.context.model_copy(update={"files": files})
        return Damage(
            {**damage.files, CONTEXT: context.dump()},
            f"{damage.note}; context.json calls it protected",
            expects=(("protected_target", "context"),),
            components=("context", "verifier"),
            right=(C | V,),
        )

    def guarded(self, env: Env, target: Deliverable) -> Damage:
        if target.in_place:
            criterion, need = criterion_of(env, self.kind, "protected")
            kept = need.rule.paths if isinstance(need.rule, ProtectedRule) else ()
            body = f"    return rc.protected(ev, {sorted({*kept, target.path})!r})\n"
        else:
            criterion, _ = criterion_of(env, self.kind, "no_extra")
            allowed = [p for p in env.targets() if p != target.path]
            body = f"    return rc.no_extra(ev, {allowed!r})\n"
        damage = rewritten(env, [criterion], lambda c, p: body, f"forbids {target.path}")
        critical = tuple(
            c.model_copy(update={"critical": True}) if c.id == criterion.id else c for c in env.verifier.criteria
        )
        return Damage({**damage.files, **verifier_with(env, criteria=critical)}, damage.note)
