"""Defects of a verifier that asks for more than the contract: bytes, order, case, spelling, rounding, columns."""

from __future__ import annotations

import hashlib

from rover.diagnose.inject.checks import (
    Pairs,
    about_content,
    all_pairs,
    criterion_of,
    declaring,
    prefixed,
    reference_of,
    rewritten,
    tail,
    unless,
    verifier_with,
)
from rover.diagnose.inject.protocol import Components, Damage, Expects, Masks, Unfit, V, rng_for
from rover.rollout.env import Env
from rover_store.records import Criterion, Deliverable
from rover_store.records.contract import CiteRule, RecordsRule, RowsRule

_STRICT: Expects = (("strict_verifier", "verifier"),)


class StrictVerifier:
    kind = "strict_verifier"
    summary = "the verifier compares a deliverable byte by byte, so that an equally valid one fails"
    repair = "V: check what the contract demands"
    expects: Expects = _STRICT
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        criteria = [c for c in about_content(env, self.kind) if reference_of(env, c) is not None]
        if not criteria:
            raise Unfit(self.kind, "the reference holds no deliverable")
        chosen = rng.sample(criteria, k=rng.randint(1, min(2, len(criteria))))

        def body(criterion: Criterion, path: str) -> str:
            data = reference_of(env, criterion) or b""
            return _BYTES.format(path=path, digest=hashlib.sha256(data).hexdigest())

        return rewritten(env, chosen, body, "compares deliverables byte by byte")


class StrictOrder:
    kind = "strict_order"
    summary = "the verifier wants rows or sources in one order, which the contract leaves open"
    repair = "V: compare without regard to order"
    expects: Expects = _STRICT
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        for rule in ("rows", "records", "cite"):
            try:
                criterion, need = criterion_of(env, self.kind, rule)
            except Unfit:
                continue
            target = next(d for d in env.contract.deliverables if d.id == need.deliverable)
            lines = self._lines(criterion, need.rule, target, seed)
            if lines:
                note = "wants the order of its own list"
                return prefixed(env, [criterion], lambda c, p, lines=lines: lines, note)  # type: ignore[misc]
        raise Unfit(self.kind, "nothing is listed whose order the contract leaves open")

    def _lines(self, criterion: Criterion, rule: object, target: Deliverable, seed: int) -> str:
        anchor = criterion.anchors[0] if criterion.anchors else ""
        if isinstance(rule, RowsRule) and target.key:
            return _ROW_ORDER.format(path=target.path, sheet=target.sheet, key=target.key[0], anchor=anchor)
        if isinstance(rule, RecordsRule):
            return _RECORD_ORDER.format(path=target.path, field=rule.field, key=rule.key[0], anchor=anchor)
        if isinstance(rule, CiteRule) and len(rule.paths) > 1:
            names = sorted(rule.paths, reverse=rng_for(self.kind, seed).random() < 0.5)
            return _CITE_ORDER.format(path=target.path, names=names)
        return ""


class StrictCase:
    kind = "strict_case"
    summary = "the verifier minds the case of text that the contract does not"
    repair = "V: compare without regard to case"
    expects: Expects = _STRICT
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        lowered = [p for p in all_pairs(env, self.kind) if any(t != t.lower() for t in p.texts)]
        raised = [p for p in all_pairs(env, self.kind) if any(t != t.upper() for t in p.texts)]
        ways = [(p, "lower") for p in lowered] + [(p, "upper") for p in raised]
        if not ways:
            raise Unfit(self.kind, "no text is compared")
        chosen, way = rng.choice(ways)
        test = f"all(rc.plain(found).{way}() == rc.plain(value) for found, value in pairs)"
        lines = chosen.lines + unless(test, "another spelling")
        return prefixed(env, [chosen.criterion], lambda c, p: lines, f"compares what is found in {way} case")


class StrictFormat:
    kind = "strict_format"
    summary = "the verifier wants a number written in one way, which the contract leaves open"
    repair = "V: compare numbers, not their spelling"
    expects: Expects = _STRICT
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        ways = [
            (p, form)
            for p in all_pairs(env, self.kind)
            for form in (":.2f", ":,.1f", ":,.0f", ":.3e")
            if any(f"{{{form}}}".format(n) != _usual(n) for n in p.numbers)
        ]
        if not ways:
            raise Unfit(self.kind, "no number is compared")
        chosen, form = rng.choice(ways)
        test = f'all(rc.plain(found) == f"{{value{form}}}" for found, value in pairs)'
        lines = chosen.lines + unless(test, "the number is not written as expected")
        return prefixed(env, [chosen.criterion], lambda c, p: lines, f"wants numbers written like {form}")


class StrictRounding:
    kind = "strict_rounding"
    summary = "the verifier rounds the expected value otherwise than the request says"
    repair = "V: compare within the contract's tolerance"
    expects: Expects = _STRICT
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        found = all_pairs(env, self.kind)
        ways = [(p, "int(value)") for p in found if any(int(n) != n for n in p.numbers)]
        ways += [(p, "round(value, -1)") for p in found if any(round(n, -1) != n for n in p.numbers)]
        if not ways:
            raise Unfit(self.kind, "no number is compared that rounding would change")
        chosen, form = rng.choice(ways)
        lines = chosen.lines + tail(
            f"all(rc.number(found) == {form} for found, value in pairs)", "not the rounded value"
        )
        return rewritten(env, [chosen.criterion], lambda c, p: lines, f"expects {form}")


class StrictColumns:
    kind = "strict_columns"
    summary = "the verifier wants exactly its own columns or fields in its own order, the contract allows others"
    repair = "V: look for the named columns only"
    expects: Expects = _STRICT
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        criterion, need = criterion_of(env, self.kind, "format")
        target = next(d for d in env.contract.deliverables if d.id == need.deliverable)
        names = [c.name for c in target.columns]
        if len(names) < 2 or target.in_place:
            raise Unfit(self.kind, "the deliverable has no columns of its own")
        order = sorted(names) if rng.random() < 0.5 and sorted(names) != names else names
        found = (
            f"list(rc.json_object(ev.end({target.path!r})))"
            if any(r.rule.kind in ("field", "records", "set") for r in env.contract.requirements)
            else f"list(rc.table(ev.end({target.path!r}), {target.sheet!r}).columns)"
        )
        lines = f"    have = {found}\n" + unless(f"have == {order!r}", "other columns than expected")
        return prefixed(env, [criterion], lambda c, p: lines, f"wants exactly the columns {', '.join(order)}")


class ExtraDemand:
    kind = "extra_demand"
    summary = "the verifier scores something that nobody asks for: a file, a word in the last message, a column"
    repair = "V: drop the criterion"
    expects: Expects = (("extra_demand", "verifier"),)
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        path = rng.choice(("summary_log.txt", "README.md", "notes/method.txt", "changelog.md"))
        word = rng.choice(("completed", "N/A", "approved", "handed over"))
        target = rng.choice(env.targets())
        what, lines, paths = rng.choice((
            (path, f'    return (1.0 if ev.end("{path}").is_file() else 0.0), "a log"\n', (path,)),
            (
                f"the word {word!r} in the last message",
                f"    return (1.0 if {word!r} in ev.message else 0.0), \"how it was reported\"\n", (),
            ),
            (
                f"the name of who did it in {target}",
                f'    found = ev.end({target!r})\n    said = found.read_bytes() if found.is_file() else b""\n'
                '    return (1.0 if b"prepared by" in said.lower() else 0.0), "who prepared it"\n', (target,),
            ),
        ))  # fmt: skip
        evidence = "file" if paths else "message"
        extra = Criterion(
            id="documented", requirement="documented", paths=paths, check="checks/extra.py:documented", critical=True,
            evidence=evidence,
        )  # fmt: skip
        files = {
            **verifier_with(env, criteria=(*env.verifier.criteria, extra)),
            "verifier/checks/extra.py": f"def documented(ev):\n{lines}".encode(),
        }
        return Damage(files, f"the verifier also wants {what}")


class ImpossibleChecks:
    kind = "impossible_checks"
    summary = "two checks of the verifier exclude each other: no output satisfies both"
    repair = "V: check what the contract demands"
    expects: Expects = (("impossible_checks", "verifier"),)
    components: Components = ("verifier",)
    right: Masks = (V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        ways = [p for p in all_pairs(env, self.kind) if len(p.expected) > 0]
        criterion, need = criterion_of(env, self.kind, "format")
        target = next(d for d in env.contract.deliverables if d.id == need.deliverable)
        if target.columns and rng.random() < 0.5:
            return self._shape(env, criterion, target, rng.choice(ways))
        return self._twice(env, criterion, rng.choice(ways))

    def _shape(self, env: Env, criterion: Criterion, target: Deliverable, pairs: Pairs) -> Damage:
        """The format check wants a column gone that another check reads."""
        gone = target.columns[-1].name
        names = [c.name for c in target.columns if c.name != gone]
        objects = any(r.rule.kind in ("field", "records", "set") for r in env.contract.requirements)
        found = (
            f"list(rc.json_object(ev.end({target.path!r})))" if objects
            else f"list(rc.table(ev.end({target.path!r}), {target.sheet!r}).columns)"
        )  # fmt: skip
        lines = f"    have = {found}\n" + tail(f"sorted(have) == {sorted(names)!r}", "not the columns of the template")
        return rewritten(env, [criterion], lambda c, p: lines, f"wants {gone} gone, which another check reads")

    def _twice(self, env: Env, criterion: Criterion, pairs: Pairs) -> Damage:
        """The format check wants other values where another check wants the expected ones."""
        test = "not any(rc.plain(found) == rc.plain(value) for found, value in pairs)"
        lines = pairs.lines + unless(test, "a value of the draft was left in")
        note = f"rules out what the check of {pairs.requirement.id} wants"
        damage = prefixed(env, [criterion], lambda c, p: lines, note)
        return Damage({**damage.files, **declaring(env, [criterion], anchors=pairs.criterion.anchors)}, damage.note)


def _usual(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else str(number)


_BYTES = """    import hashlib

    found = ev.end({path!r})
    if not found.is_file():
        return 0.0, "missing"
    same = hashlib.sha256(found.read_bytes()).hexdigest() == "{digest}"
    return (1.0, "as expected") if same else (0.0, "differs from the golden file")
"""
_ROW_ORDER = """    have = [rc.plain(v).casefold() for v in rc.table(ev.end({path!r}), {sheet!r}).column({key!r})]
    want = [rc.plain(v).casefold() for v in ev.anchor({anchor!r}).column({key!r})]
    if have != want:
        return 0.0, "the rows are not those listed"
"""
_RECORD_ORDER = """    listed = rc.json_object(ev.end({path!r})).get({field!r}) or []
    have = [rc.plain(item.get({key!r})) for item in listed]
    want = [rc.plain(v) for v in ev.anchor({anchor!r}).column({key!r})]
    if have != want:
        return 0.0, "not the list expected"
"""
_CITE_ORDER = """    said = rc.text(ev.end({path!r}))
    places = [said.rfind(name) for name in {names!r}]
    if places != sorted(places):
        return 0.0, "the sources are not named as expected"
"""
