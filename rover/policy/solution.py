"""The solution policy: runs the solution that a package brings along, as one shell turn.

The solution's files stand at /solution while its script runs, and are gone before the workspace is looked at. They are
part of no component and of no end state; nothing but this policy ever shows them.
"""

from __future__ import annotations

import base64
import json
import random
import re
import shlex
import socket
from collections.abc import Generator, Mapping
from typing import Any

from rover.policy.plan import PlanSession
from rover.policy.protocol import PolicyFailure, PolicyView, Session
from rover.sandbox.protocol import CallResult, Completed, Files, Place, Sandbox, Snapshot
from rover_store.errors import SandboxError, UsageError
from rover_store.ids import blob_id, digest
from rover_store.records import Call, Limits, ToolCall

#: where a package keeps it
WHERE = "demonstrations/solution/"
SCRIPT = "solve.sh"
#: `{"env": {NAME: VALUE}}`, the variables that the script alone finds; need not be there
SETTINGS = "demonstrations/solution.json"
#: folder of the workspace that stands at /solution meanwhile
FOLDER = ".rover-solution"
#: how the script that lays it out says that the workspace has something of this name
_TAKEN = 17
COMMAND = f"bash /solution/{SCRIPT}"
VERSION = "1"
MOST_BYTES = 32 << 20


#: what a careless one does afterwards to one of the files that it was asked for
SLIPS = {"forget": "rm -rf -- {}", "empty": ": > {}"}


def variables_of(files: Files) -> dict[str, str]:
    """The variables that a package gives its solution; none where their file cannot be read."""
    try:
        env = json.loads(files.get(SETTINGS, b"{}")).get("env", {})
        return {str(k): v for k, v in env.items() if isinstance(v, str)}
    except (ValueError, AttributeError, RecursionError):
        return {}


class SolutionPolicy:
    """Runs `solve.sh`, with care or with one slip. Its id is a digest of the solution's files and variables."""

    attacker = False
    #: what it needs beside the package's own place
    place = Place(links=(("/solution", FOLDER),))

    def __init__(self, files: Files, env: Mapping[str, str] | None = None, slip: str = "") -> None:
        """`files`: the folder, solve.sh among them; `env`: variables that the script alone finds."""
        if slip and slip not in SLIPS:
            raise UsageError(f"a solution has no slip called {slip!r}", hint=f"known: {', '.join(SLIPS)}")
        if SCRIPT not in files:
            raise UsageError(f"the package has no {WHERE}{SCRIPT}, so there is no solution to run")
        if sum(map(len, files.values())) > MOST_BYTES:
            raise UsageError(f"{WHERE} holds more than {MOST_BYTES >> 20} MB")
        self._files = dict(sorted(files.items()))
        self._env = dict(sorted((env or {}).items()))
        named = {path: blob_id(data) for path, data in self._files.items()}
        self._slip = slip
        self.id = f"solution:{VERSION}:{digest([named, self._env])[:16]}" + (f":{slip}" if slip else "")

    def start(self, view: PolicyView, seed: int) -> Session:
        if not view.offers("shell"):
            raise PolicyFailure("a solution is a script, and the harness offers no shell")
        return PlanSession(self._plan, view, seed)

    def _plan(self, view: PolicyView, seed: int) -> Generator[ToolCall, Call, str]:
        """The script; after it, one file that was written and that the request names is spoilt, if that is wanted."""
        done = yield ToolCall(id="c1", tool="shell", arguments={"command": COMMAND})
        made = sorted(a.path for a in done.writes if a.blob is not None)
        asked_for = [p for p in made if p in view.instruction or p.rpartition("/")[2] in view.instruction]
        if self._slip and made:
            path = random.Random(seed).choice(asked_for or made)
            command = SLIPS[self._slip].format(shlex.quote(path))
            yield ToolCall(id="c2", tool="shell", arguments={"command": command})
        return ""

    def around(self, box: Sandbox) -> Sandbox:
        """The box with the solution shown to the command that runs it, and to nothing else."""
        return _Shown(box, self._files, self._env)


class _Shown:
    """A box whose one command finds files beside the workspace."""

    def __init__(self, box: Sandbox, files: Files, env: Mapping[str, str]) -> None:
        self._box = box
        self._files = files
        self._env = env

    def run(
        self,
        argv: list[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        channel: socket.socket | None = None,
    ) -> Completed:
        if argv != ["sh", "-c", COMMAND]:
            return self._box.run(argv, stdin=stdin, env=env, limits=limits, channel=channel)
        if self._script(laid_out(self._files), "the solution could not be laid out") == _TAKEN:
            raise PolicyFailure(f"the workspace has a {FOLDER}, which is where a solution stands while it runs")
        done = self._box.run(argv, stdin=stdin, env={**(env or {}), **self._env}, limits=limits)
        if done.breach != "cancelled":
            self._script(f"rm -rf {FOLDER}", "the solution could not be taken away again")
        return done

    def _script(self, script: str, failed: str) -> int:
        done = self._box.run(["sh"], stdin=script.encode())
        if done.exit_code not in (0, _TAKEN):
            said = " ".join(done.stderr.decode("utf-8", "replace").split())[:200]
            raise SandboxError(f"{failed}: {done.breach or said}")
        return done.exit_code

    def call(self, entry: str, payload: Any, *, limits: Limits | None = None) -> CallResult:
        return self._box.call(entry, payload, limits=limits)

    def snapshot(self) -> Snapshot:
        return self._box.snapshot()

    def reset(self, files: Files | None = None, *, limits: Limits | None = None) -> None:
        self._box.reset(files, limits=limits)

    def close(self) -> None:
        self._box.close()


def laid_out(files: Files) -> str:
    """A script that makes the folder with these files, if it is not there. All may be run: packages keep no modes."""
    lines = ["set -e", f"if [ -e {FOLDER} ] || [ -L {FOLDER} ]; then exit {_TAKEN}; fi", f"mkdir {FOLDER}"]
    for path, data in files.items():
        at = shlex.quote(f"{FOLDER}/{path}")
        if "/" in path:
            lines.append(f"mkdir -p -- {shlex.quote(f'{FOLDER}/{path}'.rpartition('/')[0])}")
        lines += [f"base64 -d > {at} <<'END'", *_wrapped(data), "END", f"chmod 755 -- {at}"]
    return "\n".join([*lines, ""])


def _wrapped(data: bytes) -> list[str]:
    return re.findall(".{1,4000}", base64.b64encode(data).decode())
