"""A package of rover's own as a task folder that Harbor runs.

Loose files in environment/ are what Harbor (and the adapter of `verifiers`) puts into the working folder of a prebuilt
image; with a Dockerfile beside them they would expect them in the image. So there is none: the image is a plain Python,
pinned, and the workspace comes with the task. The verifier has a container of its own, which gets the workspace as the
agent left it, and grades by the package's checks, standalone.

Where a criterion reads the final message, which Harbor keeps to itself, the instruction gains a sentence that asks to
write it to a file that Harbor collects.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rover.port.harbor.carried import carried
from rover.port.harbor.config import FILE
from rover.port.harbor.tree import Item, check_path
from rover.port.standalone import Standalone, folder
from rover.rollout.env import Env, reference_state
from rover.sandbox.protocol import Files
from rover_store.errors import PackageError

#: python:3.12-slim, by the digest of its index: bash, Python, no more
IMAGE = "python:3.12-slim@sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea"
WORKDIR = "/app"
#: stands empty in the image: an empty workspace is put nowhere
EMPTY_WORKDIR = "/srv"
MESSAGE = "/logs/artifacts/message.md"
#: who the agent is there
USER = 1000
VERIFIER_SECONDS = 300.0
#: names at the top of a workspace that Harbor would take for a definition of the environment
_RESERVED = ("Dockerfile", "docker-compose.yaml")


@dataclass(frozen=True, slots=True)
class Settings:
    """What an export chooses."""

    org: str = "rover"
    image: str = IMAGE
    workdir: str = WORKDIR
    network: str = "no-network"


@dataclass(frozen=True, slots=True)
class Written:
    """The task, and what a person should know of it."""

    tree: Mapping[str, Item]
    name: str
    notes: tuple[str, ...]


def task_of(env: Env, revision: str, settings: Settings) -> Written:
    """The task folder. PackageError where Harbor has no form for the package."""
    for name in _RESERVED:
        if name in env.start:
            raise PackageError(f"context/files/{name}", "", "at the top of a workspace; Harbor would build from it")
    if env.harness.mcp_servers:
        raise PackageError("harness/harness.json", "mcp_servers", "are not exported with checks of rover's own")
    own = folder(env)
    workdir = settings.workdir if env.start else EMPTY_WORKDIR
    notes = []
    instruction = env.instruction
    if own.message:
        instruction = f"{instruction.rstrip()}\n\n{sentence()}\n"
        notes.append(f"the instruction asks to write the final message to {MESSAGE}, where a criterion reads it")
    if own.imports:
        notes.append(f"its checks import {', '.join(own.imports)}, which the image has to bring")
    tree = {"instruction.md": Item(instruction.encode())}
    tree |= {f"environment/{path}": Item(data) for path, data in env.start.items()}
    tree |= {f"tests/grader/{path}": Item(data) for path, data in own.files.items()}
    tree["tests/test.sh"] = Item(test_script(workdir).encode(), executable=True)
    solved = solution(env, workdir)
    tree |= solved
    if not solved:
        notes.append("it has no reference, so the task has no solution")
    name = f"{settings.org}/{env.package}"
    tree[FILE] = Item(toml(env, revision, settings, own, name, workdir))
    for path in tree:
        check_path(path)
    tree |= carried(env, revision, tree)
    return Written(dict(sorted(tree.items())), name, tuple(notes))


def sentence() -> str:
    """What is asked of an agent whose final message is graded."""
    return f"When you are done, also write your final message to the file `{MESSAGE}`."


def toml(env: Env, revision: str, settings: Settings, own: Standalone, name: str, workdir: str) -> bytes:
    """task.toml."""
    import tomli_w

    rover: dict[str, Any] = {
        "package": env.package,
        "revision": revision,
        "components": {
            "context": env.context_id, "task": env.task_id, "harness": env.harness_id, "verifier": env.verifier_id,
        },
    }  # fmt: skip
    if env.record.family:
        rover["family"] = env.record.family
    if env.record.workspace:
        rover["workspace"] = env.record.workspace
    if own.message:
        rover["final_message"] = MESSAGE
    if own.imports:
        rover["python_packages"] = list(own.imports)
    metadata: dict[str, Any] = {"license": env.record.provenance.license} if env.record.provenance.license else {}
    keywords = {"keywords": list(env.record.tags)} if env.record.tags else {}
    return tomli_w.dumps(
        {
            "schema_version": "1.4",
            "artifacts": [workdir],
            "task": {"name": name, "description": env.record.title, **keywords},
            "metadata": {**metadata, "rover": rover},
            "agent": {"timeout_sec": max(env.harness.budget.seconds, 1.0), "user": USER},
            "verifier": {"timeout_sec": VERIFIER_SECONDS, "environment_mode": "separate"},
            "environment": {
                "docker_image": settings.image,
                "workdir": workdir,
                "network_mode": settings.network,
                "memory_mb": max(env.harness.limits.memory_bytes >> 20, 512),
                "healthcheck": {"command": ready(workdir), "interval_sec": 1.0, "timeout_sec": 60.0, "retries": 3},
            },
        }
    ).encode()


def ready(workdir: str) -> str:
    """Run once in the started container: the agent is a user of its own, and owns the workspace."""
    user = f"id {USER} >/dev/null 2>&1 || useradd --create-home --uid {USER} agent >/dev/null 2>&1 || true"
    made = f"mkdir -p {workdir} /logs/agent /logs/artifacts /logs/verifier"
    own = f"chown -R {USER} {workdir} /logs/agent /logs/artifacts 2>/dev/null"
    return f"{user}; {made} && ({own} || chmod -R a+rwX {workdir} /logs)"


def test_script(workdir: str) -> str:
    """tests/test.sh. A check that fails leaves no reward: that is an error there, not a 0."""
    return f"""#!/bin/bash
# Grades {workdir} by the checks of a rover package; see grader/grade.py. Needs Python 3.11 or newer.
here="$(cd "$(dirname "$0")" && pwd)"
for python in python3 python python3.14 python3.13 python3.12 python3.11; do
  if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    exec "$python" -B "$here/grader/grade.py" {workdir} --message {MESSAGE} --reward /logs/verifier
  fi
done
echo "no reward: no Python of 3.11 or newer is there" >&2
exit 3
"""


def solution(env: Env, workdir: str) -> dict[str, Item]:
    """solution/: the reference end state, laid over the start. Empty where the package has none."""
    if not env.reference.changes and not env.reference.final_message:
        return {}
    state = reference_state(env)
    gone = sorted(path for path in env.start if path not in state)
    new: Files = {path: data for path, data in state.items() if env.start.get(path) != data}
    folders = sorted({path.rpartition("/")[0] for path in new if "/" in path})
    lines = ["#!/bin/bash", "# Lays down the reference end state.", "set -e",
             'here="$(cd "$(dirname "$0")" && pwd)"', f"cd {workdir}"]  # fmt: skip
    lines += [f"rm -rf -- {shlex.quote(path)}" for path in gone]
    lines += [f"mkdir -p -- {shlex.quote(path)}" for path in folders]
    lines += [f'cat < "$here"/files/{shlex.quote(path)} > {shlex.quote(path)}' for path in new]
    out = {f"solution/files/{path}": Item(data) for path, data in new.items()}
    if env.reference.final_message and any(c.evidence == "message" for c in env.verifier.criteria):
        lines += [f"mkdir -p {MESSAGE.rpartition('/')[0]}", f'cat < "$here"/message.md > {MESSAGE}']
        out["solution/message.md"] = Item(env.reference.final_message.encode())
    out["solution/solve.sh"] = Item(("\n".join(lines) + "\n").encode(), executable=True)
    return out
