"""Defects of the request's wording: two readings, words that got lost, tools that nobody offers, an answer told."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from rover.diagnose.demands import columns_of, states_given
from rover.diagnose.inject.leaks import told, worth_telling
from rover.diagnose.inject.protocol import Components, Damage, Expects, H, Masks, T, Unfit, V, rng_for
from rover.diagnose.inject.task import CONTRACT, INSTRUCTION
from rover.diagnose.inject.values import other_value
from rover.diagnose.restate import words
from rover.harness.tools.specs import TOOLS
from rover.rollout.env import Env
from rover_store.records.contract import CellsRule, EditRule, FieldRule, FigureRule, OrderRule, ProtectedRule


class ContradictoryRequest:
    kind = "contradictory_request"
    summary = "the request says two things of one: two values, two files, two orders"
    repair = "T: say the one that the contract says"
    expects: Expects = (("ambiguous_request", "task"),)
    components: Components = ("task",)
    right: Masks = (T,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        ways = [_two_values, _two_values, _two_files, _two_orders]
        rng.shuffle(ways)
        for way in ways:
            said = way(env, rng)
            if said:
                return Damage({INSTRUCTION: _inserted(env.instruction, said, rng)}, f"the request also says: {said}")
        raise Unfit(self.kind, "the request says nothing of which it could say the opposite")


class VagueRequest:
    kind = "vague_request"
    summary = "the request lost the wording of a column, a sheet, a label or an order that the verifier goes by"
    repair = "T: say it again"
    expects: Expects = (("missing_given", "task"),)
    components: Components = ("task",)
    right: Masks = (T,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        ways: list[Callable[[Env, random.Random], tuple[str, str] | None]] = [_no_name, _no_order, _no_label, _no_sheet]
        rng.shuffle(ways)
        for way in ways:
            found = way(env, rng)
            if found is not None and found[0] != env.instruction:
                return Damage({INSTRUCTION: found[0].encode()}, found[1])
        raise Unfit(self.kind, "the request names no column, order, label or sheet that could get lost")


class ForbiddenDeliverable:
    kind = "forbidden_deliverable"
    summary = "the request and its contract forbid to change the very file that they want changed"
    repair = "T and V together: protect the other files only"
    expects: Expects = (("contradiction", "task"), ("protected_target", "verifier"))
    components: Components = ("task", "verifier")
    right: Masks = (T | V,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        targets = [d for d in env.contract.deliverables if d.in_place]
        needs = [r for r in env.contract.requirements if isinstance(r.rule, ProtectedRule)]
        if not targets or not needs:
            raise Unfit(self.kind, "nothing is edited in place beside files that are protected")
        from rover.diagnose.inject.starts import ProtectedTarget

        path = rng.choice(targets).path
        rule = needs[0].rule
        assert isinstance(rule, ProtectedRule)
        wider = needs[0].model_copy(update={"rule": ProtectedRule(paths=tuple(sorted({*rule.paths, path})))})
        requirements = tuple(wider if r.id == wider.id else r for r in env.contract.requirements)
        contract = env.contract.model_copy(update={"requirements": requirements})
        said = rng.choice((f"`{path}` must stay as it is.", f"Do not touch `{path}`.", f"Keep `{path}` unchanged."))
        damage = ProtectedTarget().guarded(env, targets[0])
        files = {INSTRUCTION: _inserted(env.instruction, said, rng), CONTRACT: contract.dump(), **damage.files}
        return Damage(files, f"the request also says: {said}; {damage.note}")


class AnswerInRequest:
    kind = "answer_in_request"
    summary = "the request tells the result that it asks for"
    repair = "T: leave the result out"
    expects: Expects = (("leaked_answer", "task"),)
    components: Components = ("task",)
    right: Masks = (T,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        small = [a for a in worth_telling(env) if len(a.value.rows) <= 12]
        if not small:
            raise Unfit(self.kind, "no answer is short enough to be told in a request")
        start = rng.choice(("Last time it came out like this:", "For comparison, what we expect:", "It should give:"))
        text = f"{env.instruction.rstrip()}\n\n{told(rng.choice(small), start).decode()}"
        return Damage({INSTRUCTION: text.encode()}, "the request tells an answer")


class UnknownTool:
    kind = "unknown_tool"
    summary = "the request wants a tool used that the harness does not offer"
    repair = "T: leave the tool to the worker; or H: offer it, where there is such a tool"
    expects: Expects = (("contradiction", "task"),)
    components: Components = ("task",)
    right: Masks = (T,)
    fixable = True

    def inject(self, env: Env, seed: int) -> Damage:
        rng = rng_for(self.kind, seed)
        known = sorted(set(TOOLS) - set(env.harness.tools))
        real = bool(known) and rng.random() < 0.5
        tool = rng.choice(known) if real else rng.choice(("merge_tables", "save_report", "query_sql", "format_sheet"))
        target = rng.choice(env.targets())
        said = rng.choice((
            f"Use the tool `{tool}` for `{target}`.", f"Write `{target}` with `{tool}` alone.",
            f"Call `{tool}` with `mode` set to \"replace\" for `{target}`.",
        ))  # fmt: skip
        text = _inserted(env.instruction, said, rng)
        return Damage({INSTRUCTION: text}, f"the request says: {said}", right=(T, H) if real else (T,))


# --- two readings --------------------------------------------------------------------------------------------
def _two_values(env: Env, rng: random.Random) -> str:
    givens = [g for g in env.contract.givens if g.stated_in == "instruction"]
    rng.shuffle(givens)
    for given in givens:
        columns = columns_of(env.contract, given.name)
        new = other_value(env, given, rng)
        if not states_given(env.instruction, env.contract, given):
            continue
        what = f"`{columns[0]}`" if columns else f"the {given.meaning or 'limit'}"
        return rng.choice((
            f"For {what} take {words(new)}.", f"Note that {what} goes by {words(new)} here.",
            f"As agreed, {words(new)} is what counts for {what}.",
        ))  # fmt: skip
    return ""


def _two_files(env: Env, rng: random.Random) -> str:
    new = [d.path for d in env.contract.deliverables if not d.in_place]
    if not new:
        return ""
    path = rng.choice(new)
    stem, _, end = path.rpartition(".")
    other = rng.choice((f"{stem}_report.{end}", f"final/{path.rpartition('/')[2]}", f"{stem}_v2.{end}"))
    return rng.choice((f"The result belongs in `{other}`.", f"Save everything as `{other}`."))


def _two_orders(env: Env, rng: random.Random) -> str:
    rules = [r.rule for r in env.contract.requirements if isinstance(r.rule, OrderRule)]
    if not rules:
        return ""
    way = "smallest first" if rules[0].descending else "largest first"
    return f"The rows are to be in the order of `{rules[0].column}`, {way}."


def _inserted(text: str, said: str, rng: random.Random) -> bytes:
    """The request with one more sentence: at its end, or before its last paragraph."""
    parts = text.rstrip().split("\n\n")
    if len(parts) > 2 and rng.random() < 0.5:
        parts.insert(len(parts) - 1, said)
        return ("\n\n".join(parts) + "\n").encode()
    return f"{text.rstrip()} {said}\n".encode()


# --- words that got lost -------------------------------------------------------------------------------------
def _no_name(env: Env, rng: random.Random) -> tuple[str, str] | None:
    """A column or field that only the request can tell."""
    made = [c.name for d in env.contract.deliverables if not d.in_place for c in d.columns]
    names = [name for name in made if _of_result(env, name)]
    names += [r.rule.column for r in env.contract.requirements if isinstance(r.rule, EditRule)]
    names = [n for n in names if f"`{n}`" in env.instruction]
    if not names:
        return None
    name = rng.choice(names)
    vague = rng.choice(("a column of its own", "the usual column", "a fitting name", "the next column"))
    text = env.instruction.replace(f"`{name}`", vague)
    return text, f"the request says {vague!r} for `{name}`"


def _no_order(env: Env, rng: random.Random) -> tuple[str, str] | None:
    if not any(isinstance(r.rule, OrderRule) for r in env.contract.requirements):
        return None
    whole = r"(?:[-*] |\d+\. )?(?:Sort|Order) the result by `[^`]+`[^.]*\.[ \n]?"
    if rng.random() < 0.5:
        return re.sub(whole, "", env.instruction, count=1), "the request no longer says in which order"
    pattern = r"(?:,| in) (?:largest first|smallest first|descending order|ascending order)(?=\.)"
    return re.sub(pattern, "", env.instruction, count=1), "the request no longer says which way to sort"


def _no_label(env: Env, rng: random.Random) -> tuple[str, str] | None:
    labels = [r.rule.label for r in env.contract.requirements if isinstance(r.rule, FigureRule)]
    labels = [n for n in labels if f'"{n}"' in env.instruction]
    if not labels:
        return None
    label = rng.choice(labels)
    vague = rng.choice(("a short label", "its usual name", "a fitting heading"))
    return env.instruction.replace(f'"{label}"', vague), f"the request says {vague!r} for the label {label!r}"


def _no_sheet(env: Env, rng: random.Random) -> tuple[str, str] | None:
    sheets = [d for d in env.contract.deliverables if d.sheet and not d.in_place]
    for target in sheets:
        said = f"the sheet `{target.sheet}` of `{target.path}`"
        if said in env.instruction:
            return env.instruction.replace(said, f"`{target.path}`"), f"the request no longer names {target.sheet}"
    return None


def _of_result(env: Env, name: str) -> bool:
    """Whether the name is the result's own: one that stands in a source too, a worker would find there."""
    measured = {r.rule.column for r in env.contract.requirements if isinstance(r.rule, CellsRule)}
    fields = {r.rule.field for r in env.contract.requirements if isinstance(r.rule, FieldRule)}
    return name in measured | fields


