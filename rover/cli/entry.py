"""The `rover` script: an interrupt is answered in one line from the first moment on, before anything is imported."""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # `signal` makes enums first, which takes longer
import os


def main() -> None:
    """Run the command line and exit."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)
    from rover.cli.main import main as command_line

    command_line()


def stop(number: int, frame: object) -> None:
    """End at once: there is nothing to take back yet, or no longer."""
    os.write(2, b"rover: interrupted; finished work is kept\n")
    os._exit(130)
