"""The command line called as a person calls it, and what a refusal has to look like.

    rover("list")                 in this process: exit code, stdout, stderr
    script("run", "*", cwd=...)   the script as a process of its own
    state(folder)                 all that a refusal must leave as it was: refs, operation log, packs
    refused(said, 2, "a part")    one line on stderr (and a hint at most), nothing on stdout, the right exit code
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from rover.cli.main import run
from rover_store.store import Store

SCRIPT = [sys.executable, "-c", "from rover.cli.entry import main; main()"]
INTERRUPTED = "rover: interrupted; finished work is kept"


class Said(NamedTuple):
    """What a call gave."""

    code: int
    out: str
    err: str


def rover(*words: str) -> Said:
    """One command in this process; whatever it raises fails the test."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(words)
    return Said(code, out.getvalue(), err.getvalue())


def script(*words: str | bytes, cwd: Path, env: Mapping[str, str] | None = None, **more: Any) -> Said:
    """One command as a process."""
    more = {"env": environment(**(env or {})), "timeout": 120, "capture_output": True, "check": False} | more
    done = subprocess.run([*SCRIPT, *words], cwd=cwd, **more)
    return Said(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


def environment(**more: str) -> dict[str, str]:
    """The environment of a process, without a store of its own."""
    return {k: v for k, v in os.environ.items() if k != "ROVER_STORE"} | more


def state(folder: Path) -> tuple[object, ...]:
    """Every ref, the operation log and the packs of the store of a folder."""
    store = Store.open(folder)
    packs = sorted(p.name for p in (store.git / "objects/pack").iterdir())
    return store.refs.head(), dict(store.refs.all("refs/")), store.op_log(), packs


def refused(said: Said, code: int, *parts: str) -> None:
    """One line that says what is wrong, at most one hint, no data."""
    lines = said.err.splitlines()
    assert said.code == code, said
    assert said.out == "", said
    assert lines, said
    assert lines[0].startswith("rover: "), said
    assert len(lines) <= 2, said
    assert all(line.startswith("  hint: ") for line in lines[1:]), said
    for part in parts:
        assert part in lines[0], said
    assert "Traceback" not in said.err
    assert "internal error" not in said.err
