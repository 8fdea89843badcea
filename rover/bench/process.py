"""What a process costs: CPU time of it and of what it waited for, and the most memory it held."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rover_store.errors import UsageError


class Cost(NamedTuple):
    """CPU seconds (user and system), peak memory in MB, and what it printed."""

    cpu: float
    rss: float
    output: str


def environment(home: Path) -> dict[str, str]:
    """An environment in which git and dvc read no configuration of the machine."""
    own = {k: v for k, v in os.environ.items() if k in ("PATH", "PYTHONPATH", "ROVER_ZLIB", "LANG", "TMPDIR")}
    who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in _PERSON.items()}
    return {**own, **who, "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "DVC_NO_ANALYTICS": "1"}


_PERSON = {"NAME": "Bench", "EMAIL": "bench@localhost"}


def run(words: Sequence[str | Path], folder: Path, stdin: Path | None = None) -> Cost:
    """Run a command to its end. UsageError with the last line it said where it fails."""
    with open(stdin or os.devnull, "rb") as given:
        child = subprocess.Popen(
            [str(word) for word in words], cwd=folder, stdin=given, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, env=environment(folder),
        )  # fmt: skip
        assert child.stdout is not None
        with child.stdout as out:
            output = out.read().decode("utf-8", "replace")
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        last = (output.strip().splitlines() or ["no word"])[-1]
        raise UsageError(f"{' '.join(str(w) for w in words[:2])} failed: {last}")
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, output)
