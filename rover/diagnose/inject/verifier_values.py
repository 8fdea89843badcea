"""Defects of what the verifier expects: wrong, outdated, missing or doubled values, an unsound reference."""

from __future__ import annotations

import random

from rover.diagnose.inject.checks import Pairs, all_pairs, declaring, prefixed, rewritten, tail, verifier_with
from rover.diagnose.inject.context import another_name
from rover.diagnose.inject.data import changed_table
from rover.diagnose.inject.edits import replaced
from rover.diagnose.inject.protocol import Components, Damage, Expects, Masks, Unfit, V, rng_for
from rover.rollout.env import Env, env_from_files
from rover_store.records import Anchor, Anchors, Reference, Scalar, Table

ANCHORS = "verifier/anchors.json"
REFERENCE = "verifier/reference/reference.json"


class WrongAnchor:
    kind = "wrong_anchor"
    summary = "an expected value is wrong"
    repair = "V: derive the anchors again"
    expects: Expects = (("wrong_anchor", "verifier"),)
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        filled = [n for n, a in enumerate(env.anchors.anchors) if a.value.rows]
        if not filled:
            raise Unfit(self.kind, "no anchor holds a value")
        number = rng.choice(filled)
        anchor = env.anchors.anchors[number]
        if len(anchor.value.rows) > 2 and rng.random() < 0.3:
            gone = rng.randrange(len(anchor.value.rows))
            rows = tuple(r for i, r in enumerate(anchor.value.rows) if i != gone)
            note = f"anchor {anchor.id} lacks a row"
        else:
            rows, note = _one_wrong(anchor, rng)
        changed = anchor.model_copy(update={"value": Table(columns=anchor.value.columns, rows=rows)})
        return Damage({ANCHORS: _with(env, number, changed)}, note)


class StaleAnchor:
    kind = "stale_anchor"
    summary = "the data was brought up to date and recorded so, the verifier still expects what the old data gave"
    repair = "V: derive it again"
    expects: Expects = (("stale_anchor", "verifier"),)
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        path, data, what = changed_table(env, self.kind, rng_for(self.kind, seed))
        damage = replaced(env, self.kind, path, data, f"{path}: {what}; only the verifier was left as it was")
        files = damage.applied(env.files)
        after = env_from_files(files, {**env.resources, **damage.resources})
        bound = {f"resources/{r.kind}/{r.name}": r.tree for r in after.context.resources}
        edges = tuple(
            e.model_copy(update={"version": bound[e.target]}) if e.source == "context" and e.target in bound
            else e.model_copy(update={"version": after.context_id})
            if e.source in ("task", "harness") and e.target == "context"
            else e
            for e in env.record.edges
        )  # fmt: skip
        record = env.record.model_copy(update={"edges": edges})
        return Damage({**damage.files, "package.json": record.dump()}, damage.note, damage.resources)


class MissingAnchor:
    kind = "missing_anchor"
    summary = "a check reads an expected value that the verifier no longer holds"
    repair = "V: derive it again"
    expects: Expects = (("missing_anchor", "verifier"),)
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        used = {a for c in env.verifier.criteria for a in c.anchors}
        choices = [n for n, a in enumerate(env.anchors.anchors) if a.id in used]
        if not choices:
            raise Unfit(self.kind, "no criterion reads an anchor")
        number = rng.choice(choices)
        anchor = env.anchors.anchors[number]
        if rng.random() < 0.5:
            left = tuple(a for a in env.anchors.anchors if a.id != anchor.id)
            return Damage({ANCHORS: Anchors(anchors=left).dump()}, f"anchor {anchor.id} is gone")
        new = anchor.model_copy(update={"id": f"{anchor.id}-v2"})
        return Damage({ANCHORS: _with(env, number, new)}, f"anchor {anchor.id} is now called {new.id}")


class LiteralDiffers:
    kind = "literal_differs"
    summary = "a check holds its own copy of an expected value, and the copy disagrees with the anchor"
    repair = "V: compare with the anchor"
    expects: Expects = (("wrong_anchor", "verifier"),)
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        chosen: Pairs = rng.choice(all_pairs(env, self.kind))
        values = list(chosen.expected)
        at = rng.choice([i for i, v in enumerate(values) if v is not None] or [0])
        old = values[at]
        if old is None:
            raise Unfit(self.kind, "no value is compared")
        values[at] = _other(old, rng)
        copy = "    copied = " + repr(values) + "\n" if len(values) <= 40 else ""
        if not copy or len(values) != len(chosen.expected):
            raise Unfit(self.kind, "the expected values are too many to be copied into a check")
        given = "ev.anchor" not in chosen.lines or len(values) > 1
        test = "len(pairs) == len(copied) and all(rc.same(f, v, None, 0.06) for (f, _), v in zip(pairs, copied))"
        if not given:  # one value for many rows
            test = "bool(pairs) and all(rc.same(f, copied[0], None, 0.06) for f, _ in pairs)"
        lines = chosen.lines + copy + tail(test, "not as expected")
        note = f"compares with {values[at]} of its own, the anchor says {old}"
        return rewritten(env, [chosen.criterion], lambda c, p: lines, note)


class UnsoundReference:
    kind = "unsound_reference"
    summary = "a write of the reference run was refused or cut off and nobody noticed: the reference lacks it"
    repair = "V: make the reference again"
    expects: Expects = (("unsound_reference", "verifier"),)
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        changes = [c for c in env.reference.changes if not c.deleted]
        if not changes:
            raise Unfit(self.kind, "the reference writes nothing")
        gone = rng.choice(changes).path
        stored = f"verifier/reference/files/{gone}"
        data = env.files[stored]
        if rng.random() < 0.5 or gone.endswith(".xlsx"):
            left = tuple(c for c in env.reference.changes if c.path != gone)
            record: Reference = env.reference.model_copy(update={"changes": left})
            return Damage({REFERENCE: record.dump(), stored: None}, f"the reference does not write {gone}")
        cut = b"" if rng.random() < 0.4 else data[: max(1, len(data) * 3 // 5)]
        return Damage({stored: cut}, f"the reference's {gone} is cut off after {len(cut)} bytes")


class OldNameRead:
    kind = "old_name_read"
    summary = "the verifier reads a file of the workspace under a name that it no longer has"
    repair = "V: read it under its name"
    expects: Expects = (("misnamed_input", "verifier"),)
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        found = all_pairs(env, self.kind)
        sources = sorted({s for p in found for s in _sources(env, p)} & set(env.start)) or sorted(env.start)
        tables = [p for p in sources if p.rpartition(".")[2] in ("csv", "tsv", "xlsx", "json")]
        if not tables:
            raise Unfit(self.kind, "the workspace holds no table")
        path = rng.choice(tables)
        old = another_name(path, rng.choice(("{stem}_2024.{end}", "{stem}-2023.{end}", "{stem}_old.{end}")))
        chosen = rng.choice(found)
        head = (
            f"    source = ev.start({old!r})\n    if not source.is_file():\n"
            f'        return 0.0, "{old.rpartition("/")[2]} is missing"\n'
        )
        damage = prefixed(env, [chosen.criterion], lambda c, p: head, f"looks for {old} instead of {path}")
        return Damage({**damage.files, **declaring(env, [chosen.criterion], paths=(old,))}, damage.note)


class UnscoredRequirement:
    kind = "unscored_requirement"
    summary = "a demand of the contract is scored by no criterion, or without weight"
    repair = "V: score it"
    expects: Expects = (("unscored_requirement", "verifier"),)
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        if len(env.verifier.criteria) < 2:
            raise Unfit(self.kind, "the verifier has a single criterion")
        gone = rng.choice(env.verifier.criteria)
        if rng.random() < 0.3:  # computed, and never added to the score
            criteria = tuple(
                c.model_copy(update={"weight": 0.0, "critical": False}) if c.requirement == gone.requirement else c
                for c in env.verifier.criteria
            )
            return Damage(verifier_with(env, criteria=criteria), f"{gone.requirement} has no weight")
        criteria = tuple(c for c in env.verifier.criteria if c.requirement != gone.requirement)
        return Damage(verifier_with(env, criteria=criteria), f"the criterion of {gone.requirement} is gone")


def _with(env: Env, number: int, changed: Anchor) -> bytes:
    anchors = tuple(changed if i == number else a for i, a in enumerate(env.anchors.anchors))
    return env.anchors.model_copy(update={"anchors": anchors}).dump()


def _one_wrong(anchor: Anchor, rng: random.Random) -> tuple[tuple[tuple[Scalar | None, ...], ...], str]:
    cells = [
        (r, c)
        for r, row in enumerate(anchor.value.rows)
        for c, cell in enumerate(row)
        if cell is not None and not isinstance(cell, bool)
    ]
    if not cells:
        raise Unfit("wrong_anchor", "the anchor holds no value")
    at = rng.choice(cells)
    old = anchor.value.rows[at[0]][at[1]]
    assert old is not None
    new = _other(old, rng)
    rows = tuple(
        tuple(new if (i, j) == at else cell for j, cell in enumerate(row)) for i, row in enumerate(anchor.value.rows)
    )
    return rows, f"anchor {anchor.id} says {new} instead of {old}"


def _other(value: Scalar, rng: random.Random) -> Scalar:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + rng.choice((1, 2, 10))
    if isinstance(value, float):
        return round(value * rng.choice((1.1, 0.9, 2.0)) + 1, 4)
    return f"{value}x" if rng.random() < 0.5 else f"{value} (new)"


def _sources(env: Env, pairs: Pairs) -> set[str]:
    from rover.diagnose.demands import sources

    wanted = set(pairs.criterion.anchors)
    return {s.path for a in env.anchors.anchors if a.id in wanted for s in sources(a.query)}

