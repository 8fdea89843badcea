"""One command: a fork of the supervisor that confines itself and becomes it."""

from __future__ import annotations

import os
from typing import Any

from rover.sandbox.docker.inside.jail import confine
from rover.sandbox.inside.command import BROKEN, arrange
from rover.sandbox.inside.confine import Powers, execute
from rover.sandbox.inside.entry import one_line


def become_command(powers: Powers, head: dict[str, Any], fds: tuple[int, ...]) -> None:
    """In the forked child: run the request's `argv` with its `env`, with all `fds` but the last, from 0 on. What
    keeps it from being confined is written to the last."""
    try:
        arrange(fds)
        confine(powers, head["limits"], [])
        execute(head["argv"], head["env"])
    except BaseException as error:
        os.write(len(fds) - 1, one_line(error).encode())
    finally:
        os._exit(BROKEN)
