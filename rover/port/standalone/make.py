"""Lays a verifier out as a folder: checks, anchors, what checks may see of the start, and the code that runs them."""

from __future__ import annotations

import ast
import io
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import distribution
from importlib.resources import files as resources

from rover.rollout.env import Env
from rover.sandbox.protocol import Files
from rover.verify.plan import Graded, Part, criterion_of, job_of, plan
from rover.verify.shown import Shown
from rover_store.errors import PackageError
from rover_store.records import Limits
from rover_store.records.base import to_json

#: modules that run checks: the same that run in a sandbox of rover's. They need nothing but Python and openpyxl.
MODULES = ("inside", "conditions", "process")
LIBRARY = "checklib"
BOOKS = (".xlsx", ".xlsm")
#: what a check may import beside Python's own library
CHECKS = "rover_checks"
VENDORED = ("openpyxl", "et_xmlfile")


@dataclass(frozen=True, slots=True)
class Standalone:
    """The folder, and what it needs that it does not hold."""

    files: Files
    #: modules that checks import and the folder does not bring
    imports: tuple[str, ...] = ()
    #: whether a criterion reads the final message
    message: bool = False


def folder(env: Env) -> Standalone:
    """The verifier of a package as a folder. PackageError for one whose verifier is a program."""
    if env.verifier.program is not None:
        raise PackageError("verifier/verifier.json", "program", "is a program already, not a set of checks")
    checks = {p: d for p, d in env.verifier_files.items() if p.startswith("checks/")}
    imported = imports(checks)
    out: dict[str, bytes] = {"grade.py": _own("rover.port.standalone", "grade.py"), "plan.json": to_json(_plan(env))}
    out |= checks
    out |= {f"start/{path}": data for path, data in _start(env).items()}
    out |= library()
    if "openpyxl" in imported or _reads_books(env):
        out["vendor/openpyxl.zip"] = vendored()
    missing = tuple(sorted(imported - {"openpyxl", CHECKS}))
    return Standalone(dict(sorted(out.items())), missing, any(c.evidence == "message" for c in env.verifier.criteria))


def _plan(env: Env) -> dict[str, object]:
    """What grade.py needs to know: criteria, what is run together, and what each is shown."""
    todo = plan(env.verifier.criteria, env.verifier_files, Graded(env.start, {}))
    times = job_of(todo.calls[0], env.verifier_files, Limits()) if todo.calls else {"check_wall_s": 1.0, "wall_s": 1.0}
    return {
        "package": env.package,
        "components": {"context": env.context_id, "task": env.task_id, "harness": env.harness_id,
                       "verifier": env.verifier_id},
        "pass_weight": env.verifier.pass_weight,
        "check_wall_s": times["check_wall_s"],
        "wall_s": times["wall_s"],
        "criteria": [
            {"id": c.id, "requirement": c.requirement, "weight": c.weight, "critical": c.critical}
            for c in env.verifier.criteria
        ],
        "calls": [[_part(env, part) for part in parts] for parts in todo.calls],
    }  # fmt: skip


def _part(env: Env, part: Part) -> dict[str, object]:
    shown: Shown = part.shown
    return {
        "paths": None if shown.paths is None else list(shown.paths),
        "message": shown.message,
        "criteria": [criterion_of(c, env.verifier_files) for c in part.criteria],
    }


def _start(env: Env) -> Files:
    """The files of the start that some criterion is shown."""
    groups = plan(env.verifier.criteria, env.verifier_files, Graded(env.start, {})).groups
    return {path: data for path, data in env.start.items() if any(shown.files({path: data}) for shown in groups)}


def _reads_books(env: Env) -> bool:
    paths = {*env.start, *env.targets(), *(p for c in env.verifier.criteria for p in c.paths)}
    return any(path.lower().endswith(BOOKS) for path in paths)


def imports(checks: Files) -> set[str]:
    """Modules that check files import and Python does not bring. A file that is no Python says so when it runs."""
    return {name for data in checks.values() for name in _imported(data) if name not in sys.stdlib_module_names}


def _imported(source: bytes) -> Iterator[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


@cache
def library() -> dict[str, bytes]:
    """The modules that run checks, below lib/."""
    out = {"lib/rover/__init__.py": _own("rover", "__init__.py")}
    out["lib/rover/verify/__init__.py"] = _own("rover.verify", "__init__.py")
    out |= {f"lib/rover/verify/{name}.py": _own("rover.verify", f"{name}.py") for name in MODULES}
    for item in sorted(resources("rover.verify.checklib").iterdir(), key=lambda i: i.name):
        if item.name.endswith(".py"):
            out[f"lib/rover/verify/{LIBRARY}/{item.name}"] = item.read_bytes()
    return out


def _own(package: str, name: str) -> bytes:
    return (resources(package) / name).read_bytes()


@cache
def vendored() -> bytes:
    """openpyxl and what it needs, as a zip that Python imports from: its own files, licences too."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in VENDORED:
            for path in sorted(distribution(name).files or (), key=str):
                if str(path).endswith(".py") or "LICEN" in path.name:
                    entry = zipfile.ZipInfo(str(path), (1980, 1, 1, 0, 0, 0))
                    entry.compress_type = zipfile.ZIP_DEFLATED
                    archive.writestr(entry, path.read_binary())
    return buffer.getvalue()
