"""References between the records of a package: what one names, another has. Runs nothing of the package.

A check file is parsed, not executed. What only running can show is left to calibration.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from rover.policy.solution import SCRIPT, WHERE
from rover.rollout.env import Env, reference_state
from rover_store.errors import PackageError
from rover_store.records import Deliverable, Requirement
from rover_store.records.contract import CellsRule, EditRule, OrderRule, ProtectedRule

#: (file, field, reason)
Problem = tuple[str, str, str]

HARNESS = "harness/harness.json"
CONTRACT, VERIFIER, CASES = "task/contract.json", "verifier/verifier.json", "verifier/cases/cases.json"
ENDINGS = {
    "csv": (".csv",), "tsv": (".tsv",), "xlsx": (".xlsx",), "json": (".json", ".jsonl"), "markdown": (".md",),
    "text": (".txt", ".md"),
}  # fmt: skip


def problems(env: Env) -> tuple[Problem, ...]:
    """Everything that does not fit together, in the order of the files."""
    said = (*_context(env), *_deliverables(env), *_requirements(env), *_harness(env), *_criteria(env), *_coverage(env))
    return (*said, *_program(env)) if env.verifier.program is not None else (*said, *_cases(env), *_reference(env))


def _context(env: Env) -> Iterator[Problem]:
    yield from _twice("context/context.json", "files", (f.path for f in env.context.files))
    for i, file in enumerate(env.context.files):
        if file.path not in env.start:
            yield "context/context.json", f"files.{i}.path", f"{file.path} is not in the workspace"


def _deliverables(env: Env) -> Iterator[Problem]:
    access = {f.path: f.access for f in env.context.files}
    yield from _twice(CONTRACT, "deliverables", (d.id for d in env.contract.deliverables))
    for i, d in enumerate(env.contract.deliverables):
        field = f"deliverables.{i}"
        if not _inside(d.path):
            yield CONTRACT, f"{field}.path", f"{d.path!r} is no path inside the workspace"
        elif not d.path.lower().endswith(ENDINGS[d.type]):
            yield CONTRACT, f"{field}.type", f"{d.path} does not end like a file of type {d.type}"
        if d.in_place and d.path not in env.start:
            yield CONTRACT, f"{field}.path", f"{d.path} is edited in place but is not in the workspace"
        if access.get(d.path) == "protected":
            yield CONTRACT, f"{field}.path", f"{d.path} is a deliverable, and protected in context/context.json"
        columns = {c.name for c in d.columns}
        for key in d.key:
            if columns and key not in columns:
                yield CONTRACT, f"{field}.key", f"{key!r} is none of the columns"


def _requirements(env: Env) -> Iterator[Problem]:
    by_id = {d.id: d for d in env.contract.deliverables}
    givens = {g.name for g in env.contract.givens}
    yield from _twice(CONTRACT, "requirements", (r.id for r in env.contract.requirements))
    yield from _twice(CONTRACT, "givens", (g.name for g in env.contract.givens))
    for i, g in enumerate(env.contract.givens):
        if g.stated_in != "instruction" and g.stated_in not in env.start:
            yield CONTRACT, f"givens.{i}.stated_in", f"{g.stated_in} is not in the workspace"
    for i, r in enumerate(env.contract.requirements):
        field = f"requirements.{i}"
        if r.deliverable is not None and r.deliverable not in by_id:
            yield CONTRACT, f"{field}.deliverable", f"there is no deliverable {r.deliverable!r}"
        yield from ((CONTRACT, f"{field}.rule", why) for why in _rule(env, r, by_id.get(r.deliverable or "")))
        plain = r.rule.model_dump(mode="json")
        for name in sorted(_given_names(plain) - givens):
            yield CONTRACT, f"{field}.rule", f"there is no given {name!r}"
        for path in sorted(_sources(plain) - set(env.start)):
            yield CONTRACT, f"{field}.rule", f"the answer is asked of {path}, which is not in the workspace"


def _rule(env: Env, r: Requirement, about: Deliverable | None) -> Iterator[str]:
    if isinstance(r.rule, ProtectedRule):
        for path in r.rule.paths:
            if path not in env.start:
                yield f"{path} is not in the workspace, so it cannot be protected"
    elif isinstance(r.rule, CellsRule | OrderRule | EditRule) and about is not None:
        columns = [c.name for c in about.columns]
        if columns and r.rule.column not in columns:
            yield f"{about.id} has no column {r.rule.column!r}"


def _harness(env: Env) -> Iterator[Problem]:
    from rover.harness import mcp
    from rover.harness.mcp import records
    from rover.harness.tools import TOOLS

    for name in env.harness.tools:
        if name not in TOOLS:
            yield HARNESS, "tools", f"there is no tool {name!r}"
    yield from ((HARNESS, field, why) for field, why in records.problems(env.harness, mcp.carried(env.files)))


def _criteria(env: Env) -> Iterator[Problem]:
    needs = {r.id for r in env.contract.requirements}
    anchors = {a.id for a in env.anchors.anchors}
    yield from _twice(VERIFIER, "criteria", (c.id for c in env.verifier.criteria))
    yield from _twice("verifier/anchors.json", "anchors", (a.id for a in env.anchors.anchors))
    if not sum(c.weight for c in env.verifier.criteria):
        yield VERIFIER, "criteria", "no criterion has any weight, so nothing can pass"
    for i, c in enumerate(env.verifier.criteria):
        field = f"criteria.{i}"
        if c.requirement not in needs:
            yield VERIFIER, f"{field}.requirement", f"the contract has no requirement {c.requirement!r}"
        for name in c.anchors:
            if name not in anchors:
                yield VERIFIER, f"{field}.anchors", f"there is no anchor {name!r}"
        for path in c.paths:
            if not _inside(path):
                yield VERIFIER, f"{field}.paths", f"{path!r} is no path inside the workspace"
        why = "" if env.verifier.program is not None else _missing_function(env.verifier_files, c.check)
        if why:
            yield VERIFIER, f"{field}.check", why


def _program(env: Env) -> Iterator[Problem]:
    """A verifier that is a program: its files are there, and a solution shows that it accepts right work."""
    assert env.verifier.program is not None
    folder = env.verifier.program.files.strip("/")
    own = {p.removeprefix(f"{folder}/") for p in env.verifier_files if p.startswith(f"{folder}/")}
    if not own:
        yield VERIFIER, "program.files", f"there is no file in verifier/{folder}"
    for word in env.verifier.program.argv:
        if word.startswith("/tests/") and own and word.removeprefix("/tests/") not in own:
            yield VERIFIER, "program.argv", f"there is no file verifier/{folder}/{word.removeprefix('/tests/')}"
    if f"{WHERE}{SCRIPT}" not in env.files and "steps" not in (env.harness.requires or ()):  # each has its own
        yield f"{WHERE}{SCRIPT}", "", "the file is missing, so nothing shows that the verifier accepts right work"


def _missing_function(files: Mapping[str, bytes], check: str) -> str:
    """Why `checks/FILE.py:NAME` cannot be called, as far as reading shows; empty where it can."""
    path, _, name = check.partition(":")
    if not path.startswith("checks/") or ".." in path or not name.isidentifier():
        return f"{check!r} does not name a function of a file in checks/"
    if path not in files:
        return f"there is no file verifier/{path}"
    try:
        tree = ast.parse(files[path])
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"verifier/{path} is not Python ({' '.join(str(error).split())[:80]})"
    names = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}
    names |= {t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)}
    names |= {a.asname or a.name for n in tree.body if isinstance(n, ast.ImportFrom) for a in n.names}
    return "" if name in names else f"verifier/{path} defines no function {name}"


def _coverage(env: Env) -> Iterator[Problem]:
    """Each requirement has a criterion and a negative, and a critical one a critical criterion."""
    scored = {c.requirement for c in env.verifier.criteria}
    critical = {c.requirement for c in env.verifier.criteria if c.critical}
    broken = {n.requirement for n in env.cases.negatives}
    for r in env.contract.requirements:
        if r.id not in scored:
            yield VERIFIER, "criteria", f"no criterion scores the requirement {r.id!r}"
        elif r.critical and r.id not in critical:
            yield VERIFIER, "criteria", f"{r.id!r} is critical in the contract, its criterion is not"
        if r.id not in broken and env.verifier.program is None:
            yield CASES, "negatives", f"no negative breaks the requirement {r.id!r}"


def _cases(env: Env) -> Iterator[Problem]:
    from rover.verify.mutate import OPS

    needs = {r.id for r in env.contract.requirements}
    both = (("negatives", env.cases.negatives), ("alternatives", env.cases.alternatives))
    names = [m.id for _, rules in both for m in rules] + list(env.cases.states)
    yield from _twice(CASES, "", names)
    for field, rules in both:
        for i, m in enumerate(rules):
            if m.op not in OPS:
                yield CASES, f"{field}.{i}.op", f"there is no mutation called {m.op!r}"
            if m.path and not _inside(m.path):
                yield CASES, f"{field}.{i}.path", f"{m.path!r} is no path inside the workspace"
            if field == "negatives" and m.requirement not in needs:
                yield CASES, f"{field}.{i}.requirement", f"the contract has no requirement {m.requirement!r}"
            if field == "alternatives" and m.requirement is not None:
                yield CASES, f"{field}.{i}.requirement", "an alternative breaks no requirement"
    for name in env.cases.states:
        if not any(p.startswith(f"cases/{name}/") for p in env.verifier_files):
            yield CASES, "states", f"there is no state in verifier/cases/{name}"


def _reference(env: Env) -> Iterator[Problem]:
    try:
        state = reference_state(env)
    except PackageError as error:
        yield error.file, error.field, error.reason
        return
    if state == env.start:
        yield "verifier/reference/reference.json", "changes", "the reference changes nothing of the start state"


def _twice(file: str, field: str, names: Iterable[str]) -> Iterator[Problem]:
    for name, n in Counter(names).items():
        if n > 1:
            yield file, field, f"{name!r} is there {n} times"


def _inside(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts and "\\" not in path and "\0" not in path


def _given_names(value: Any) -> set[str]:
    """Names of givens that a rule refers to, however deep."""
    if isinstance(value, dict):
        own = {value["given"]} if set(value) == {"given"} and isinstance(value["given"], str) else set()
        return own.union(*(_given_names(v) for v in value.values()))
    return set().union(*(_given_names(v) for v in value)) if isinstance(value, list) else set()


def _sources(value: Any) -> set[str]:
    """Paths that the queries of a rule read."""
    if isinstance(value, dict):
        source = value.get("source")
        own = {source["path"]} if isinstance(source, dict) and "path" in source else set()
        right = value.get("right")
        own |= {right["path"]} if isinstance(right, dict) and set(right) <= {"path", "sheet"} else set()
        return own.union(*(_sources(v) for v in value.values()))
    return set().union(*(_sources(v) for v in value)) if isinstance(value, list) else set()
