"""Probes that look at how the verifier adds up: a mark that lets too much through, checks that nothing can meet."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

from rover.diagnose.demands import asked, sources_named
from rover.diagnose.judged import Judged
from rover.diagnose.oracle.contract import ContractUnanswerable
from rover.diagnose.probes.static import named_files
from rover.diagnose.probes.workspace import same_file
from rover.diagnose.protocol import ProbeContext
from rover.rollout.env import Env
from rover.verify.grade import passes
from rover_store.records import Anchor, Criterion, Finding, Verifier
from rover_store.records.contract import NoExtraRule, ProtectedRule

#: share of the contract's weight that a pass stands for where nobody says otherwise
USUAL = Verifier.model_fields["pass_weight"].default


class PassMark:
    """What passes fulfils what the contract calls critical, and most of the rest; the verifier itself sees the gap."""

    name = "pass_mark"
    written_for = frozenset({"weak_pass_mark"})
    cost = 3

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        env = ctx.env
        through = [s for s in states(ctx) if passes(env.verifier, s.verdict.score, s.verdict.gate)]
        low = [(s, why) for s in through if not list(s.parted()) and (why := _too_little(env, s))]
        if not low:
            return ()
        state, why = low[0]
        return (
            Finding(
                probe=self.name,
                kind="weak_pass_mark",
                message=f"{state.name} passes, though {why}; the verifier sees it and lets it through",
                components=("verifier",),
                evidence=tuple(dict.fromkeys(s.id for s, _ in low))[:12],
                details={
                    "subject": "pass_weight",
                    "value": env.verifier.pass_weight,
                    "found": round(state.verdict.score or 0.0, 3),
                    "attackers": [s.name for s, _ in low if s.kind == "attacker"],
                    "requirements": [n for n, ok in state.opinion.satisfied.items() if not ok],
                },
                excludes=("the checks: each of them judges this work rightly",),
            ),
        )


class Impossible:
    """No two criteria exclude each other: what one rejects in all right work is not what another one wants."""

    name = "possible"
    written_for = frozenset({"impossible_checks"})
    cost = 3

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        found = states(ctx)
        right = _right(found)
        criteria = _excluding(ctx.env, found, right) or _apart(ctx.env, right)
        if not criteria:
            return ()
        text = f"no work meets all of {', '.join(criteria[:3])}, not even that of {len(right)} that fulfil the contract"
        return (_found(self.name, "impossible_checks", text, ctx.env, right, criteria, ""),)


class CopiedValues:
    """A check that holds expected values of its own holds those of the anchor."""

    name = "copied_values"
    written_for = frozenset({"wrong_anchor"})
    cost = 3

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        env = ctx.env
        right = _right(states(ctx))
        names = sources_named(env.contract)
        out = []
        for name in unmet(env, right):
            criterion = next(c for c in env.verifier.criteria if c.id == name)
            known = [_column(a, at) for a in env.anchors.anchors for at in range(len(a.value.columns))
                     if not criterion.anchors or a.id in criterion.anchors]  # fmt: skip
            known += [[g.value] for g in env.contract.givens]
            for literal in literals(env, criterion):
                odd = next((k for k in known if _nearly(literal, k)), None)
                if odd is not None and literal not in known and not names.intersection(map(str, literal)):
                    said = next(v for v, w in zip(literal, odd, strict=True) if v != w)
                    text = f"the check of {name} compares with {said!r} of its own, which no query gives"
                    found = _found(self.name, "wrong_anchor", text, env, right, [name], "")
                    out.append(found)
                    break
        return tuple(out)


class OldNames:
    """A check looks for no file of the workspace under a name that none has."""

    name = "old_names"
    written_for = frozenset({"misnamed_input"})
    cost = 3

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        env = ctx.env
        right = _right(states(ctx))
        known = {*env.start, *env.targets(), *(change.path for change in env.reference.changes)}
        out = []
        for name in unmet(env, right):
            criterion = next(c for c in env.verifier.criteria if c.id == name)
            for path in paths_in(env, criterion):
                like = same_file(env, path, set()) if path not in known else None
                if like is not None:
                    text = f"the check of {name} looks for {path}; the file is called {like}"
                    found = _found(self.name, "misnamed_input", text, env, right, [name], path)
                    out.append(found.model_copy(update={"details": {**found.details, "found": like}}))
                    break
        return tuple(out)


class Guarded:
    """No criterion that protects files protects what has to be written."""

    name = "guarded"
    written_for = frozenset({"protected_target"})
    cost = 3

    def run(self, ctx: ProbeContext) -> tuple[Finding, ...]:
        env = ctx.env
        right = _right(states(ctx))
        guards = {r.id for r in env.contract.requirements if isinstance(r.rule, ProtectedRule | NoExtraRule)}
        out = []
        for criterion in env.verifier.criteria:
            if criterion.requirement not in guards or criterion.id not in unmet(env, right):
                continue
            why = next(s.reason for s in right[0].verdict.scores if s.criterion == criterion.id)
            target = next((t for t in env.targets() if t in why), env.targets()[0] if env.targets() else "")
            text = f"{criterion.id} forbids {target}, which the task has written: {why[:120]}"
            out.append(_found(self.name, "protected_target", text, env, right, [criterion.id], target))
        return (*out, *self._with_the_contract(ctx))

    def _with_the_contract(self, ctx: ProbeContext) -> Iterator[Finding]:
        """Criteria that protect a deliverable because the contract itself does, which `contradictions` says of it."""
        env = ctx.env
        targets = set(env.targets())
        both = {
            r.id: sorted(targets & set(r.rule.paths))
            for r in env.contract.requirements
            if isinstance(r.rule, ProtectedRule) and targets & set(r.rule.paths)
        }
        held = [s for s in states(ctx) if s.kind == "reference"] if both else []
        for state in held:
            for score in state.verdict.scores:
                if score.requirement in both and score.score < 1:
                    path = both[score.requirement][0]
                    text = f"{score.criterion} forbids {path}, as the contract does that has it written"
                    yield _found(self.name, "protected_target", text, env, held, [score.criterion], path)


def states(ctx: ProbeContext) -> tuple[Judged, ...]:
    """End states that both judges have seen; none where the contract has no answer (`agreement` says so)."""
    try:
        return tuple(s for s in ctx.runs.judged if s.verdict.outcome not in ("verifier_error", "infra_error"))
    except ContractUnanswerable:
        return ()


def unmet(env: Env, right: Sequence[Judged]) -> list[str]:
    """Criteria of demands of the contract that give no full mark to any of several right pieces of work."""
    demanded = {r.id for r in env.contract.requirements}
    if len(right) < 2:
        return []
    marks = [{s.criterion: s.score for s in one.verdict.scores} for one in right]
    known = [c.id for c in env.verifier.criteria if c.requirement in demanded and (c.weight > 0 or c.critical)]
    return [name for name in known if all(m.get(name, 1.0) < 1 for m in marks)]


def _right(found: Sequence[Judged]) -> list[Judged]:
    """Work that fulfils the contract, by different hands."""
    return [s for s in found if s.honest and s.opinion.accepts]


def _excluding(env: Env, found: Sequence[Judged], right: Sequence[Judged]) -> list[str]:
    """A criterion that no right work meets and some wrong work does, with one that only the right work meets."""
    never = unmet(env, right)
    by_id = {c.id: c for c in env.verifier.criteria}
    valued = {a.requirement.id for a in asked(env.contract)}
    for name in never:
        twins = [c.id for c in env.verifier.criteria if c.requirement == by_id[name].requirement and c.id not in never]
        if twins:
            return [name, twins[0]]
        if by_id[name].requirement in valued:
            continue  # it wants another value, which is strict or wrong, and may well be written
        for state in found:
            marks = {s.criterion: s.score for s in state.verdict.scores}
            if state.opinion.accepts or marks.get(name, 0.0) < 1:
                continue
            others = [c for c, mark in marks.items() if mark < 1 and c not in never]
            if others:
                return [name, others[0]]
    return []


def literals(env: Env, criterion: Criterion) -> list[list[Any]]:
    """Lists of plain values, and single ones that something is compared with, in a check's own function."""
    out: list[list[Any]] = []
    for node in ast.walk(_function(env, criterion)):
        if isinstance(node, ast.List | ast.Tuple) and node.elts and all(_plain(e) is not None for e in node.elts):
            out.append([_plain(e) for e in node.elts])
    return out


def paths_in(env: Env, criterion: Criterion) -> list[str]:
    """File names that a check's own function mentions."""
    texts = [n.value for n in ast.walk(_function(env, criterion)) if isinstance(n, ast.Constant)]
    return [t for t in texts if isinstance(t, str) and named_files(t) == (t,)]


def _function(env: Env, criterion: Criterion) -> ast.AST:
    """The function of a check; an empty module where it cannot be parsed."""
    file, _, name = criterion.check.partition(":")
    try:
        tree = ast.parse(env.verifier_files.get(file, b""))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module(body=[], type_ignores=[])
    found = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name]
    return found[-1] if found else ast.Module(body=[], type_ignores=[])  # the last one counts


def _plain(node: ast.expr) -> Any:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, str | int | float) and not isinstance(value, bool) else None


def _column(anchor: Anchor, at: int) -> list[Any]:
    return [row[at] for row in anchor.value.rows]


def _nearly(mine: list[Any], theirs: list[Any]) -> bool:
    """All but one of the values are the same, in place; of a single one, the sort."""
    if len(mine) != len(theirs):
        return False
    differing = [(a, b) for a, b in zip(mine, theirs, strict=True) if a != b]
    if len(mine) == 1 and differing:
        a, b = differing[0]
        if isinstance(a, str) and isinstance(b, str):
            return SequenceMatcher(None, a, b).ratio() > 0.6
        return not isinstance(a, str) and not isinstance(b, str)
    return len(differing) == 1


def _apart(env: Env, right: Sequence[Judged]) -> list[str]:
    """Two criteria of which every right piece of work fails one, and none meets both."""
    demanded = {r.id for r in env.contract.requirements}
    known = [c.id for c in env.verifier.criteria if c.requirement in demanded]
    if len(right) < 2:
        return []
    marks = [{s.criterion: s.score for s in one.verdict.scores} for one in right]
    for at, one in enumerate(known):
        for other in known[at + 1 :]:
            if all((m.get(one, 0.0) < 1) != (m.get(other, 0.0) < 1) for m in marks):
                return [one, other]
    return []


def _too_little(env: Env, state: Judged) -> str:
    """Why this work should not pass; empty where it may."""
    broken = [n for n, ok in state.opinion.satisfied.items() if not ok]
    if not broken:
        return ""
    critical = [r.id for r in env.contract.requirements if r.critical and r.id in broken]
    if critical:
        return f"it breaks {critical[0]}, which the contract calls critical"
    share = state.verdict.score or 0.0
    return f"it has {share:.2f} of the weight, and a pass usually takes {USUAL:.2f}" if share < USUAL - 1e-9 else ""


def _found(
    probe: str, kind: str, text: str, env: Env, right: Sequence[Judged], criteria: list[str], path: str
) -> Finding:
    needs = [c.requirement for c in env.verifier.criteria if c.id in criteria]
    subject = path or criteria[0]
    return Finding(
        probe=probe,
        kind=kind,
        message=text,
        components=("verifier",),
        requirement=needs[0],
        evidence=tuple(dict.fromkeys(s.id for s in right))[:12],
        details={"subject": subject, "criteria": criteria, "requirements": needs, **({"path": path} if path else {})},
        excludes=("an agent's mistake, and context, task and harness: this work fulfils the contract",),
    )
