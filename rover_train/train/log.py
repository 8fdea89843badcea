"""The log of a run: log.jsonl, one JSON object a line, and the trackers that get the same numbers.

    log.write({"kind": "train", "step": 3, "loss": 0.41, "time": {"seconds": 1.2, "tokens_s": 900.0}})

`kind` and `step` (updates or steps done) are always there. All that depends on the machine stands below `time`,
so that the log of a resumed run equals that of an unbroken one but for `time`. On resume the lines beyond the
checkpoint's step are cut off.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rover_train.train.disk import Disk
from rover_train.train.errors import DiskError

Told = Callable[[Mapping[str, Any]], object]


class RunLog:
    """Appends rows; tells them to whoever listens (`told`: the live table, trackers)."""

    def __init__(
        self, path: Path, *, keep_to: int | None = None, told: Sequence[Told] = (), disk: Disk | None = None
    ) -> None:
        """`keep_to`: cut an old log to the rows of that step and before; None: begin anew."""
        self.path = path
        self.told = list(told)
        kept = [] if keep_to is None or not path.exists() else _rows(path, keep_to)
        try:
            (disk or Disk()).replace(path, b"".join(kept))
        except OSError as error:
            raise DiskError(path, f"not written: {error.strerror or error}") from error
        self._file = open(path, "ab")  # noqa: SIM115  (held as long as the run)

    def write(self, row: Mapping[str, Any]) -> None:
        """One row, on its way to the disk when this returns."""
        line = json.dumps(_finite(row), ensure_ascii=False, allow_nan=False).encode() + b"\n"
        try:
            self._file.write(line)
            self._file.flush()
        except OSError as error:
            raise DiskError(self.path, f"not written: {error.strerror}") from error
        for told in self.told:
            told(row)

    def sync(self) -> None:
        """All rows are on the disk: before a checkpoint that counts on them."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise DiskError(self.path, f"not written: {error.strerror}") from error

    def close(self) -> None:
        self._file.close()


def _finite(value: Any) -> Any:
    """JSON has no word for what is not finite: null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, list | tuple) else value


def _rows(path: Path, keep_to: int) -> list[bytes]:
    """The whole lines of steps up to `keep_to`; a line that broke off ends the log."""
    kept = []
    for line in path.read_bytes().splitlines(keepends=True):
        try:
            step = json.loads(line)["step"] if line.endswith(b"\n") else None
        except (ValueError, KeyError, TypeError):
            step = None
        if step is None or step > keep_to:
            break
        kept.append(line)
    return kept


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a log."""
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n")]
