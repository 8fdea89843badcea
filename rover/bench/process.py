"""What a process costs: CPU time of it and of what it waited for, and the most memory it held."""

from __future__ import annotations

import os
import subprocess
import sys
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


#: starts the command and writes its status, CPU seconds and peak memory. A process begins with the memory of the one
#: that started it, in the kernel's count: so a small one stands between.
_BETWEEN = """
import os, sys
fd = int(sys.argv[1])
child = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(child, 0)
cpu = usage.ru_utime + usage.ru_stime
os.write(fd, b"%d %f %d" % (os.waitstatus_to_exitcode(status), cpu, usage.ru_maxrss))
"""


def run(words: Sequence[str | Path], folder: Path, stdin: Path | None = None) -> Cost:
    """Run a command to its end. UsageError with the last line it said where it fails."""
    reader, writer = os.pipe()
    command = [sys.executable, "-I", "-S", "-c", _BETWEEN, str(writer), *(str(word) for word in words)]
    with open(stdin or os.devnull, "rb") as given, open(reader, "rb") as told:
        try:
            done = subprocess.run(
                command, cwd=folder, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                env=environment(folder), pass_fds=[writer], check=False,
            )  # fmt: skip
        finally:
            os.close(writer)
        figures = told.read().split()
    output = done.stdout.decode("utf-8", "replace")
    if len(figures) != 3 or figures[0] != b"0":
        last = (output.strip().splitlines() or ["no word"])[-1]
        raise UsageError(f"{' '.join(str(w) for w in words[:2])} failed: {last}")
    return Cost(float(figures[1]), int(figures[2]) / 1024, output)
