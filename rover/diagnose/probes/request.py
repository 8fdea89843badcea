"""Probes that read the request against the contract: another value, two values, another task, a tool nobody has."""

from __future__ import annotations

import re

from rover.diagnose.demands import columns_of, parts, sources_named, states, states_given
from rover.diagnose.probes.static import known_file, named_files
from rover.diagnose.protocol import ProbeContext
from rover.diagnose.restate import instead, missing, whole
from rover.harness.tools.specs import TOOLS
from rover.rollout.env import Env
from rover_store.ids import ComponentName
from rover_store.records import Finding, GivenValue, Scalar
from rover_store.records.contract import OrderRule

#: what one unit is in another one, as far as a request would use it
_FACTORS = (100.0, 1000.0, 12.0, 60.0, 24.0, 7.0)
#: a name that a request says is to be called or used
_TOLD = re.compile(r"(?:\b[Tt]ool|\b[Cc]all|\b[Ww]ith|\b[Uu]sing|\b[Uu]se)\s+`([a-z]+(?:_[a-z]+)+)`")
_VALUES = re.compile(r'"([^"\n]+)"|(?<![\w.`-])(\d{4}-\d\d-\d\d|\d+(?:\.\d+)?)(?![\w`-]|\.\d)(?!\s*decimals?\b)')
_DOWN = re.compile(r"\b(?:largest|highest|latest|newest) first\b|\bdescending\b", re.IGNORECASE)
_UP = re.compile(r"\b(?:smallest|lowest|earliest|oldest) first\b|\bascending\b", re.IGNORECASE)
_UNITS = (
    r"thousands?|hundreds?|dozens?|hundredths|thousandths|per ?cent|%|mm|cm|m|km|inch(?:es)?|ft|feet|miles?|mg|g|kg|oz"
    r"|lb|pounds?|cents?|minutes?|hours?|days?|weeks?|months?"
)
_DAY = re.compile(r"(\d{1,4})[-./ ](\d{1,2})[-./ ](\d{1,4})")
_EVIDENCE = ("task/instruction.md", "task/contract.json")


class WrongGivens:
    """Where the request states a value for something, it is the value that the contract goes by."""

    name = "given_values"
    written_for = frozenset({"wrong_given", "wrong_unit"})
    cost = 0

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        env = ctx.env
        out = []
        for given in env.contract.givens:
            if given.stated_in != "instruction" or states_given(env.instruction, env.contract, given):
                continue
            for said in instead(env.instruction, env.contract, given)[:1]:
                out.append(self._finding(given, said, env.instruction))
        return tuple(out)

    def _finding(self, given: GivenValue, said: str, request: str) -> Finding:
        other, said = unit_said(given.value, said, request)
        text = f"the request says {said} where the contract says {given.value}"
        if other:
            text += f": {other}"
        return Finding(
            probe=self.name,
            kind="wrong_unit" if other else "wrong_given",
            message=f"{text} ({given.name})",
            components=("task",),
            evidence=_EVIDENCE,
            details={"subject": given.name, "value": given.value, "found": said, "stated_in": "instruction"},
        )


class TwoReadings:
    """For each value and each deliverable the request states one thing, not two."""

    name = "two_readings"
    written_for = frozenset({"ambiguous_request"})
    cost = 0

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        env = ctx.env
        out = []
        unstated = missing(env.instruction, env.contract)
        wrong = {said for g in unstated for said in instead(env.instruction, env.contract, g)}  # said by `given_values`
        for given in env.contract.givens:
            if given.stated_in != "instruction" or not states_given(env.instruction, env.contract, given):
                continue
            other = [*instead(env.instruction, env.contract, given), *strangers_beside(env, given)]
            for said in [o for o in other if o not in wrong][:1]:
                text = f"the request states {given.value} and {said} for one thing ({given.name})"
                out.append(self._finding(text, given.name, given.value, said))
        for need in env.contract.requirements:
            if isinstance(need.rule, OrderRule):
                near = [c for c in _sentences(env.instruction) if f"`{need.rule.column}`" in c]
                ways = [p for p in (_DOWN, _UP) if any(p.search(c) for c in near)]
                if len(ways) == 2:
                    text = f"the request wants the rows sorted by {need.rule.column} in both directions"
                    out.append(self._finding(text, need.id, need.rule.column, "both directions"))
        new = [d.path for d in env.contract.deliverables if not d.in_place]
        for path in new:
            ending = path.rpartition(".")[2]
            strangers = [n for n in named_files(env.instruction) if not known_file(ctx, n) and n.endswith("." + ending)]
            if states(env.instruction, path) and strangers:
                text = f"the request names {path} and {strangers[0]} for one deliverable"
                out.append(self._finding(text, path, path, strangers[0]))
        return tuple(out)

    def _finding(self, text: str, subject: str, value: Scalar, said: str) -> Finding:
        return Finding(
            probe=self.name,
            kind="ambiguous_request",
            message=text,
            components=("task",),
            evidence=_EVIDENCE,
            details={"subject": subject, "value": value, "found": said, "stated_in": "instruction"},
        )


class Reading:
    """Read by its own family, the request is the task that the contract describes.

    The request is written again from the contract, in the words of the one that is there; what a solver reads in
    the two has to be one. No kind of damage is known here.
    """

    name = "reading"
    written_for = frozenset[str]()
    cost = 0

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        family = ctx.runs.family
        reads = getattr(family, "reads", None)
        if reads is None:
            return ()
        env = ctx.env
        again = whole(env)
        if again == env.instruction:
            return ()
        now, meant = reads(env.instruction), reads(again)
        if meant is None or now == meant:
            return ()
        lost, extra = terms(again) - terms(env.instruction), terms(env.instruction) - terms(again)
        kind = "missing_given" if not extra else "ambiguous_request" if not lost else "wrong_given"
        what = "cannot be read" if now is None else "reads as another task than the contract's"
        return (
            Finding(
                probe=self.name,
                kind=kind,
                message=f"the request {what}: {difference(env.instruction, again)}",
                components=("task",),
                evidence=_EVIDENCE,
                details={"subject": "request", "stated_in": "instruction"},
                excludes=("context, harness and verifier: only request and contract were read",),
            ),
        )


class NamedTools:
    """A tool that the request tells the policy to use is offered."""

    name = "named_tools"
    written_for = frozenset({"contradiction", "tool_removed"})
    cost = 0

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        env = ctx.env
        said = dict.fromkeys(_TOLD.findall(env.instruction))
        said |= dict.fromkeys(t for t in re.findall(r"`([a-z_]+)`", env.instruction) if t in TOOLS and "_" in t)
        taken = sources_named(env.contract) | {c.lower() for c in _headers(env)}
        both: tuple[ComponentName, ...] = ("task", "harness")
        return tuple(
            Finding(
                probe=self.name,
                kind="contradiction",
                message=f"the request says to use the tool {tool}, which the harness does not offer",
                components=both if tool in TOOLS else ("task",),
                evidence=("task/instruction.md", "harness/harness.json"),
                details={"subject": tool, "value": tool, "tools": [tool]},
            )
            for tool in said
            if tool not in env.harness.tools and tool not in taken
        )


def strangers_beside(env: Env, given: GivenValue) -> list[str]:
    """Values that a sentence states for a given's column, or for what it means, and that the contract knows nowhere."""
    known: list[Scalar] = [g.value for g in env.contract.givens]
    values = list(known)
    known += [t for part in parts(env.contract) if (t := getattr(part, "tolerance", None))]
    columns = columns_of(env.contract, given.name)
    subjects = [f"`{c}`" for c in columns] or ([given.meaning] if given.meaning else [])
    labels = {str(v).lower() for v in sources_named(env.contract)}
    out = []
    for sentence in _sentences(env.instruction):
        if not any(s in sentence for s in subjects) or any(states(sentence, v) for v in values):
            continue
        for quoted, number in _VALUES.findall(sentence):
            value = quoted or number
            alike = isinstance(given.value, str) == bool(quoted or "-" in number)
            if alike and value.lower() not in labels and not any(states(value, k) for k in known):
                out.append(value)
    return out


def terms(text: str) -> set[str]:
    """What a request names: names in backticks, words in quotes, numbers, and which way to sort."""
    named = set(re.findall(r"`([^`\n]+)`", text)) | {a or b for a, b in _VALUES.findall(text)}
    return named | ({"descending"} if _DOWN.search(text) else set()) | ({"ascending"} if _UP.search(text) else set())


def _headers(env: Env) -> set[str]:
    """First cells of text tables in the workspace: names that a request may mean by backticks."""
    heads = [d.partition(b"\n")[0][:2000] for p, d in env.start.items() if p.endswith((".csv", ".tsv"))]
    return {c.strip(' "\r') for h in heads for c in re.split(r"[,;\t]", h.decode("utf-8", "replace"))}


def unit_said(value: Scalar, said: str, request: str) -> tuple[str, str]:
    """How the request says the value in another unit or format (empty: it says another value), and its words."""
    unit = re.search(rf"(?<![\w.]){re.escape(said)}\s?({_UNITS})(?!\w)", request)
    if unit is not None and isinstance(value, int | float):
        return f"the unit is {unit[1]}", unit.group()
    return in_another_unit(value, said), said


def in_another_unit(value: Scalar, said: str) -> str:
    """How `said` is the value in another unit or format; empty where it is another value."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            other = float(said.replace(",", ""))
        except ValueError:
            return ""
        if isinstance(value, int) and 1800 <= value <= 2100 and other == value % 100:
            return "the same year without its century"
        for factor in _FACTORS:
            for scaled, how in ((value * factor, f"times {factor:g}"), (value / factor, f"divided by {factor:g}")):
                if other and abs(scaled - other) <= 1e-9 * max(1.0, abs(other)):
                    return f"the same {how}"
        return ""
    mine, its = _day_parts(str(value)), _day_parts(said)
    if mine and its and mine == its and str(value) != said:
        return "the same date in another format"
    return ""


def difference(now: str, meant: str) -> str:
    """The first sentence of the request that stands in none like it in the other one."""
    other = set(_sentences(meant))
    first = next((s for s in _sentences(now) if s not in other), "")
    mine = set(_sentences(now))
    wanted = next((s for s in _sentences(meant) if s not in mine), "")
    if first and wanted:
        return f"{first[:90]!r}, and not {wanted[:90]!r}"
    return repr((first or wanted)[:180])


def _sentences(text: str) -> list[str]:
    lines = [re.sub(r"^\s*(?:[-*]|\d+[.)])\s+", "", line).strip() for line in text.splitlines()]
    return [s for line in lines for s in re.split(r"(?<=[.;:])\s+", line) if s]


def _day_parts(text: str) -> tuple[int, ...]:
    """Day, month and year in any order; empty where it is no date."""
    found = _DAY.fullmatch(text.strip())
    if found is None:
        compact = re.fullmatch(r"(\d{4})(\d\d)(\d\d)", text.strip())
        numbers = tuple(int(g) for g in compact.groups()) if compact else ()
    else:
        numbers = tuple(int(g) for g in found.groups())
    if len(numbers) != 3 or sum(n >= 1000 for n in numbers) > 1 or min(numbers) > 12:
        return ()
    return tuple(sorted(n % 100 for n in numbers))
