"""The trial of a runtime: one box, really started, in which a command reads and writes a file."""

from __future__ import annotations

import contextlib

from rover.sandbox.protocol import Runtime
from rover_store.errors import SandboxError


def problem(runtime: Runtime, *more: str) -> str:
    """Why a runtime does not work here, in one line with what to do; empty where it does. `more`: shell commands that
    have to work in a box of its kind besides."""
    try:
        with contextlib.closing(runtime.open({"probe": b"1"})) as box:
            done = box.run(["/bin/sh", "-c", " && ".join(("cat probe", "echo 2 > probe", *more))])
            if done.exit_code == 0 and box.snapshot().entries["probe"].size == 2:
                return ""
            said = done.stderr.decode("utf-8", "replace").strip() or f"exit {done.exit_code}"
            return f"a command in it failed: {said}"
    except SandboxError as error:
        return error.message + (f"; {error.hint}" if error.hint else "")
