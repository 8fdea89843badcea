"""Runs inside a box: one grading with folders listed backwards, or under another hash seed.

Clock and random numbers are moved by rover.verify.conditions; this is what they leave. Patched for the fork of this
call alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from rover.verify.inside import grade

_RUN = "import json,sys;from rover.verify.inside import grade;print(json.dumps(grade(json.load(sys.stdin))))"


def grade_shaken(payload: dict[str, Any]) -> list[dict[str, Any]]:
    """What `rover.verify.inside:grade` gives; `shake` says what is moved: order (or order-back) or hash."""
    shake = payload.pop("shake")
    if shake == "hash":
        return _in_another_process(payload)
    _turn_listings(back=shake == "order-back")
    return grade(payload)


def _in_another_process(payload: dict[str, Any]) -> list[dict[str, Any]]:
    env = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    text = json.dumps(payload).encode()
    done = subprocess.run([sys.executable, "-c", _RUN], input=text, env=env, capture_output=True, check=False)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def _turn_listings(*, back: bool) -> None:
    """Folders are listed by name, or by name backwards."""
    plain, scan = os.listdir, os.scandir

    class Turned:
        """The entries of a folder in a fixed order."""

        def __init__(self, path: Any) -> None:
            with scan(path) as entries:
                self._entries = iter(sorted(entries, key=lambda e: os.fsdecode(e.name), reverse=back))

        def __iter__(self) -> Any:
            return self._entries

        def __next__(self) -> Any:
            return next(self._entries)

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *error: object) -> None:
            self.close()

        def close(self) -> None:
            self._entries = iter(())

    os.listdir = lambda path=".": sorted(plain(path), reverse=back)  # type: ignore[assignment]
    os.scandir = lambda path=".": Turned(path)  # type: ignore[assignment]
