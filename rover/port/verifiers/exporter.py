"""`rover export verifiers`: a Python package whose module exports one Taskset, as verifiers 0.4 loads it.

    OUT/pyproject.toml, README.md
    OUT/MODULE/__init__.py, taskset.py       the same for every export
    OUT/MODULE/data/tasks.jsonl              a row a package
    OUT/MODULE/data/blobs/ab/abcd...         files by the digest of their bytes, each once

Left out, with the reason: packages whose verifier is a program, or that need an image: `rover export harbor`.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files as resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from rover.port import licenses
from rover.port.protocol import Export, Exported
from rover.port.standalone.make import Standalone, folder
from rover.port.verifiers import text
from rover.rollout.env import Env, load_env, reference_state
from rover.sandbox.protocol import Files
from rover_store.errors import PackageError, UsageError

if TYPE_CHECKING:
    from rover_store.layout import PackageEntry

OPTIONS = {
    "name": "name of the Python package",
    "version": "its version, where it is to be published",
    "license": "the licence, where the packages name none or several",
}
DEFAULT = "rover-tasks"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_VERSION = re.compile(r"\d+(\.\d+){0,3}((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?(\+[a-z0-9]+(\.[a-z0-9]+)*)?")
#: modules that verifiers would take instead
_TAKEN = ("verifiers", "harbor", "nemo-gym", "openenv", "textarena")
#: longest time of a grading beyond that of the checks
_SLACK_S = 120.0


class VerifiersExporter:
    """A way out to training and evaluation by verifiers."""

    kind = "verifiers"

    def onward(self, options: Mapping[str, str], out: Path) -> str:
        """What to do next."""
        name = options.get("name", DEFAULT)
        return f"next: pip install {_place(out)} && vf-validate {name} --runtime.type subprocess"

    def write(self, job: Export, folder: Path) -> Iterable[Exported]:
        """Tasks first, then what names them. UsageError where no package can be written."""
        name, version = _names(job)
        module = name.replace("-", "_")
        data = folder / module / "data"
        (data / "blobs").mkdir(parents=True)
        rows: list[dict[str, Any]] = []
        written: list[Exported] = []
        for entry in job.entries:
            row, done = _task(job, entry, data / "blobs", module)
            rows += [row] if row else []
            written.append(done)
            yield done
        if not rows:
            raise UsageError(f"no package can be a task of verifiers: {written[0].name}: {written[0].notes[0]}")
        lines = "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
        (data / "tasks.jsonl").write_bytes(lines.encode())
        given = job.options.get("license", "")
        facts = text.Facts(
            name, module, version, job.revision, tuple(rows), tuple(row for row in written if not row.path),
            [given] if given else licenses.named(row["license"] for row in rows),
        )  # fmt: skip
        (folder / "pyproject.toml").write_text(text.pyproject(facts), encoding="utf-8")
        (folder / "README.md").write_text(text.readme(facts), encoding="utf-8")
        for path, content in _module(facts).items():
            (folder / module / path).write_bytes(content)


def _place(out: Path) -> str:
    """A folder as a word that pip does not take for the name of a package."""
    return shlex.quote(str(out) if out.is_absolute() or out.parts[:1] == ("..",) else f"./{out}")


def _names(job: Export) -> tuple[str, str]:
    """Name and version of the package."""
    unknown = sorted(set(job.options) - set(OPTIONS))
    if unknown:
        raise UsageError(f"verifiers has no option {unknown[0]!r}", hint=f"options: {', '.join(OPTIONS)}")
    name = job.options.get("name", DEFAULT)
    if not _NAME.fullmatch(name) or name in _TAKEN or len(name) > 60:
        reason = "is the name of another taskset" if name in _TAKEN else "lowercase words joined by hyphens are one"
        raise UsageError(f"name={name}: {reason}")
    version = job.options.get("version", f"0.1.0+g{job.revision[:12]}")
    if not _VERSION.fullmatch(version):
        raise UsageError(f"version={version}: is no version of a Python package, as 1.2.0")
    return name, version


def _module(facts: text.Facts) -> dict[str, bytes]:
    """The module's own files."""
    template = resources("rover.port.verifiers") / "template"
    init = Template((template / "__init__.py.txt").read_text(encoding="utf-8"))
    return {
        "__init__.py": init.substitute(SUMMARY=text.summary(facts), MODULE=facts.module).encode(),
        "taskset.py": (template / "taskset.py").read_bytes(),
    }


def _task(job: Export, entry: PackageEntry, blobs: Path, module: str) -> tuple[dict[str, Any], Exported]:
    """The row of a package with its blobs written; an empty row, and the reason, where it cannot be one."""
    try:
        env = load_env(job.store, entry.tree)
    except PackageError as error:
        return {}, Exported(entry.name, notes=(error.message,))
    why = next(_obstacles(env), "")
    made = Standalone({}) if why else folder(env)
    if made.imports:
        why = f"its checks import {', '.join(made.imports)}, which no task brings"
    if why:
        return {}, Exported(entry.name, notes=(why,))
    place = env.context.environment
    workdir = place.workdir if place else ""
    notes = (f"its instruction may speak of {workdir}: run it in a container",) if workdir else ()
    row: dict[str, Any] = {
        "id": entry.name,
        "name": entry.name,
        "description": env.record.title,
        "prompt": env.instruction,
        "workdir": workdir or None,
        "package": entry.name,
        "revision": job.revision,
        "license": env.record.provenance.license,
        "components": dict(sorted(entry.components.items())),
        "start": _kept(env.start, blobs),
        "reference": _changes(env, blobs),
        "reference_message": env.reference.final_message,
        "verifier": _kept(made.files, blobs),
        "grading_s": _seconds(made),
    }
    return row, Exported(entry.name, f"{module}/data/tasks.jsonl", notes)


def _obstacles(env: Env) -> Iterator[str]:
    """Why a package cannot be a task there."""
    if env.verifier.program is not None:
        yield "its verifier is a program: rover export harbor, which verifiers takes"
    place = env.context.environment
    if place and (place.image or place.dockerfile):
        yield "it needs an image: rover export harbor, which verifiers takes"
    needs = sorted(set(env.harness.requires or ()) - {"workdir"})
    if needs:
        yield f"it needs {', '.join(needs)}"
    if not env.reference.changes and not env.reference.final_message:
        yield "it has no reference, which the gold check plays"


def _changes(env: Env, blobs: Path) -> dict[str, str | None]:
    """The reference as a change of the start: what it deletes first, then what it writes."""
    end = reference_state(env)
    gone: dict[str, str | None] = {path: None for path in env.start if path not in end}
    return {**gone, **_kept({path: data for path, data in end.items() if env.start.get(path) != data}, blobs)}


def _kept(files: Files, blobs: Path) -> Mapping[str, str]:
    """Write each file's bytes once; path -> digest."""
    out: dict[str, str] = {}
    for path, data in sorted(files.items()):
        digest = out[path] = hashlib.sha256(data).hexdigest()
        target = blobs / digest[:2] / digest
        if not target.exists():
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(data)
    return out


def _seconds(made: Standalone) -> float:
    """How long a grading may take before it is given up: every call of the checks, twice."""
    plan = json.loads(made.files["plan.json"])
    return float(2 * len(plan["calls"]) * plan["wall_s"] + _SLACK_S)
