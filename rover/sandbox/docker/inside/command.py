"""One command: a fork of the supervisor that confines itself and becomes it."""

from __future__ import annotations

import errno
import os
from typing import Any

from rover.sandbox.docker.inside.jail import confine
from rover.sandbox.inside.command import BROKEN, arrange
from rover.sandbox.inside.confine import Powers, find_program
from rover.sandbox.inside.entry import one_line


def become_command(powers: Powers, head: dict[str, Any], fds: tuple[int, ...]) -> None:
    """In the forked child: run the request's `argv` with its `env`, with all `fds` but the last, from 0 on. What
    keeps it from being confined is written to the last."""
    try:
        arrange(fds)
        confine(powers, head["limits"], [])
        _become(head["argv"], head["env"])
    except BaseException as error:
        os.write(len(fds) - 1, one_line(error).encode())
    finally:
        os._exit(BROKEN)


def _become(argv: list[str], env: dict[str, str]) -> None:
    """Where it cannot, end with what a shell would say and the exit code it would give."""
    name = argv[0] if argv else ""
    try:
        program = find_program(name, env.get("PATH", ""))
        if program is None:
            raise FileNotFoundError(errno.ENOENT, "not found")
        os.execve(program, argv, env)
    except (OSError, ValueError) as error:  # ValueError: a null byte, text that no file system can hold
        said = error.strerror if isinstance(error, OSError) else str(error)
        os.write(2, f"{name}: {said}\n".encode("utf-8", "backslashreplace"))
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)
