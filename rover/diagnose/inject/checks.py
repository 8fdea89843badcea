"""Rewriting checks: which criteria look into a deliverable, and their functions with another body.

`pairs` gives, for a criterion of any family, lines of Python that lay what was found beside what is expected; a body
then says what it makes of them. So one way to be wrong is written once and fits tables, objects, texts and edits.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rover.diagnose.inject.protocol import Damage, Unfit
from rover.rollout.env import Env
from rover_store.records import Criterion, Deliverable, Requirement, Scalar
from rover_store.records.contract import CellsRule, EditRule, FieldRule, FigureRule, RecordsRule, RowsRule
from rover_store.records.query import Given

VERIFIER = "verifier/verifier.json"
Body = Callable[[Criterion, str], str]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Lines that define `pairs`, a list of (found, expected); and the expected values as they are now."""

    criterion: Criterion
    requirement: Requirement
    lines: str
    expected: tuple[Scalar | None, ...]

    @property
    def numbers(self) -> tuple[float, ...]:
        """The expected values where all are numbers, else nothing."""
        found = [v for v in self.expected if isinstance(v, int | float) and not isinstance(v, bool)]
        return tuple(found) if len(found) == len(self.expected) else ()

    @property
    def texts(self) -> tuple[str, ...]:
        """The expected values where all are text, else nothing."""
        found = [v for v in self.expected if isinstance(v, str)]
        return tuple(found) if len(found) == len(self.expected) else ()


def about_content(env: Env, kind: str) -> list[Criterion]:
    """Criteria that look into a deliverable."""
    targets = set(env.targets())
    found = [c for c in env.verifier.criteria if c.paths and set(c.paths) <= targets]
    if not found:
        raise Unfit(kind, "no criterion looks into a deliverable")
    return found


def rewritten(env: Env, criteria: list[Criterion], body: Body, note: str) -> Damage:
    """The named checks with another body: `body(criterion, path)` gives its lines, indented."""
    sources: dict[str, str] = {}
    for criterion in criteria:
        file, _, function = criterion.check.partition(":")
        source = sources.get(file) or env.verifier_files[file].decode()
        text = body(criterion, criterion.paths[0] if criterion.paths else "")
        if "rc." in text and "import rover_checks as rc" not in source:
            text = f"    import rover_checks as rc\n\n{text}"
        sources[file] = _with_body(source, function, text)
    files = {f"verifier/{file}": text.encode() for file, text in sources.items()}
    return Damage(files, f"the check of {', '.join(c.requirement for c in criteria)} {note}")


def prefixed(env: Env, criteria: list[Criterion], head: Body, note: str) -> Damage:
    """The named checks as they are, with lines before all else: `head(criterion, path)` gives them, indented."""
    sources: dict[str, str] = {}
    for criterion in criteria:
        file, _, function = criterion.check.partition(":")
        source = sources.get(file) or env.verifier_files[file].decode()
        text = head(criterion, criterion.paths[0] if criterion.paths else "")
        if "rc." in text and "import rover_checks as rc" not in source:
            text = f"    import rover_checks as rc\n\n{text}"
        sources[file] = _with_head(source, function, text)
    files = {f"verifier/{file}": text.encode() for file, text in sources.items()}
    return Damage(files, f"the check of {', '.join(c.requirement for c in criteria)} {note}")


def declaring(
    env: Env, criteria: list[Criterion], *, paths: tuple[str, ...] = (), anchors: tuple[str, ...] = ()
) -> dict[str, bytes | None]:
    """verifier.json in which these criteria also declare to read some files and anchors."""
    named = {c.id for c in criteria}

    def wider(c: Criterion) -> Criterion:
        if c.id not in named:
            return c
        wide = {"paths": (*c.paths, *paths), "anchors": (*c.anchors, *anchors)}
        return c.model_copy(update={name: tuple(dict.fromkeys(found)) for name, found in wide.items()})

    return verifier_with(env, criteria=tuple(wider(c) for c in env.verifier.criteria))


def criterion_of(env: Env, kind: str, rule: str) -> tuple[Criterion, Requirement]:
    """The first criterion whose requirement has a rule of this kind. Unfit where there is none."""
    needs = {r.id: r for r in env.contract.requirements}
    for criterion in env.verifier.criteria:
        need = needs.get(criterion.requirement)
        if need is not None and need.rule.kind == rule:
            return criterion, need
    raise Unfit(kind, f"no criterion scores a requirement of the kind {rule}")


def all_pairs(env: Env, kind: str) -> list[Pairs]:
    """What can be laid side by side, criterion by criterion. Unfit where nothing can."""
    needs = {r.id: r for r in env.contract.requirements}
    deliverables = {d.id: d for d in env.contract.deliverables}
    found = []
    for criterion in about_content(env, kind):
        need = needs.get(criterion.requirement)
        target = deliverables.get(need.deliverable or "") if need else None
        if need is not None and target is not None:
            made = _pairs(env, criterion, need, target)
            if made is not None and made.expected:
                found.append(made)
    if not found:
        raise Unfit(kind, "no criterion compares values")
    return found


def tail(test: str, wrong: str) -> str:
    """The last lines of a body: full marks where the test holds of the pairs."""
    return f'    return (1.0, "as expected") if {test} else (0.0, {wrong!r})\n'


def unless(test: str, wrong: str) -> str:
    """Lines that end a check with nothing where the test does not hold of the pairs."""
    return f"    if not ({test}):\n        return 0.0, {wrong!r}\n"


def _pairs(env: Env, criterion: Criterion, need: Requirement, target: Deliverable) -> Pairs | None:
    rule, path = need.rule, target.path
    values = {a.id: a.value for a in env.anchors.anchors}
    anchor = criterion.anchors[0] if criterion.anchors else ""
    table = values.get(anchor)
    if table is None or not table.rows:
        return None
    columns = table.columns

    def expected(names: tuple[str, ...]) -> tuple[Scalar | None, ...]:
        return tuple(row[columns.index(n)] for n in names for row in table.rows)

    where = f"rc.table(ev.end({path!r}), {target.sheet!r})"
    if isinstance(rule, RowsRule):
        key = tuple(c for c in columns if c in target.key) or columns[:1]
        return Pairs(criterion, need, _ROWS.format(found=where, anchor=anchor, key=key[0]), expected(key[:1]))
    if isinstance(rule, CellsRule) and rule.column in columns:
        key = tuple(c for c in columns if c in target.key)
        if not key:
            return None
        lines = _CELLS.format(found=where, anchor=anchor, key=list(key), column=rule.column)
        return Pairs(criterion, need, lines, expected((rule.column,)))
    if isinstance(rule, FieldRule):
        lines = f"    pairs = [(rc.json_object(ev.end({path!r})).get({rule.field!r}), ev.value({anchor!r}))]\n"
        return Pairs(criterion, need, lines, table.rows[0][:1])
    if isinstance(rule, RecordsRule):
        names = tuple(c.name for c in rule.columns if c.name not in rule.key and c.name in columns)
        if not names or not set(rule.key) <= set(columns):
            return None
        lines = _RECORDS.format(path=path, field=rule.field, anchor=anchor, key=list(rule.key), column=names[-1])
        return Pairs(criterion, need, lines, expected(names[-1:]))
    if isinstance(rule, FigureRule):
        lines = _FIGURE.format(path=path, label=rule.label.lower(), anchor=anchor)
        return Pairs(criterion, need, lines, table.rows[0][:1])
    if isinstance(rule, EditRule) and isinstance(rule.value, Given):
        value = {g.name: g.value for g in env.contract.givens}.get(rule.value.given)
        if value is None or not set(columns) <= {c.name for c in target.columns}:
            return None
        lines = _EDIT.format(found=where, anchor=anchor, key=list(columns), column=rule.column, value=value)
        return Pairs(criterion, need, lines, (value,))
    return None


_ROWS = """    have = [rc.plain(v) for v in {found}.column({key!r})]
    want = [rc.plain(v) for v in ev.anchor({anchor!r}).column({key!r})]
    have += [""] * (len(want) - len(have))
    want += [""] * (len(have) - len(want))
    pairs = list(zip(sorted(have), sorted(want)))
"""
_CELLS = """    seen, wanted, key = {found}, ev.anchor({anchor!r}), {key!r}
    have = dict(zip([" ".join(map(rc.plain, row)).lower() for row in seen.pick(key)], seen.column({column!r})))
    both = zip(wanted.pick(key), wanted.column({column!r}))
    pairs = [(have.get(" ".join(map(rc.plain, row)).lower()), value) for row, value in both]
"""
_RECORDS = """    wanted, key = ev.anchor({anchor!r}), {key!r}
    seen = rc.json_object(ev.end({path!r})).get({field!r}) or []
    have = {{" ".join(rc.plain(item.get(k)) for k in key).lower(): item.get({column!r}) for item in seen}}
    both = zip(wanted.pick(key), wanted.column({column!r}))
    pairs = [(have.get(" ".join(map(rc.plain, row)).lower()), value) for row, value in both]
"""
_FIGURE = """    about = [line for line in rc.text(ev.end({path!r})).splitlines() if {label!r} in line.lower()]
    said = about[0].lower().split({label!r}, 1)[1].strip(" *|:`\\"") if about else ""
    said = said.split(" (")[0].removeprefix("- ").removeprefix("is ").rstrip(" .;*|")
    pairs = [(said, ev.value({anchor!r}))]
"""
_EDIT = """    after, key = {found}, {key!r}
    have = dict(zip([" ".join(map(rc.plain, row)).lower() for row in after.pick(key)], after.column({column!r})))
    listed = [" ".join(map(rc.plain, row)).lower() for row in ev.anchor({anchor!r}).pick(key)]
    pairs = [(have.get(row), {value!r}) for row in listed]
"""


def _with_body(source: str, function: str, body: str) -> str:
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            lines = source.splitlines(keepends=True)
            argument = node.args.args[0].arg if node.args.args else "ev"
            head = f"def {function}({argument}):\n"
            text = body if argument == "ev" else body.replace("ev.", f"{argument}.")
            return "".join(lines[: node.lineno - 1]) + head + text + "".join(lines[node.end_lineno :])
    return f"{source.rstrip()}\n\n\ndef {function}(ev):\n{body}"


def _with_head(source: str, function: str, head: str) -> str:
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            lines = source.splitlines(keepends=True)
            argument = node.args.args[0].arg if node.args.args else "ev"
            text = head if argument == "ev" else head.replace("ev.", f"{argument}.")
            told = ast.get_docstring(node) is not None
            after = (node.body[0].end_lineno or node.lineno) if told else node.body[0].lineno - 1
            return "".join(lines[:after]) + text + "".join(lines[after:])
    raise ValueError(f"no function {function}")


def reference_of(env: Env, criterion: Criterion) -> bytes | None:
    """The reference's file that a criterion looks into."""
    return env.verifier_files.get(f"reference/files/{criterion.paths[0]}") if criterion.paths else None


def verifier_with(env: Env, **update: Any) -> dict[str, bytes | None]:
    """verifier.json with other fields."""
    return {VERIFIER: env.verifier.model_copy(update=update).dump()}
