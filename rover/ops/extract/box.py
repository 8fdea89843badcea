"""The host's side: one box for all files of a comparison, opened when the first one needs it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rover_store.errors import SandboxError

if TYPE_CHECKING:
    from rover.sandbox.protocol import Runtime, Sandbox

ENTRY = {"workbook": "rover.ops.extract.books:read", "archive": "rover.ops.extract.packed:read"}
OTHERS = "rover.ops.extract.prose:read"
PICTURES = "rover.ops.extract.pictures:read"


#: seconds that all files of one comparison may take together
BUDGET_S = 300


class Extractor:
    """An `Extract` of rover_store.diffs, in boxes of a kind or a runtime (which is closed with it).

    Where no box can be opened it gives None, and `trouble` says why.
    """

    def __init__(self, runtime: str | Runtime | None = None) -> None:
        self._kind = runtime if isinstance(runtime, str) else None
        self._runtime: Runtime | None = None if isinstance(runtime, str) else runtime
        self._box: Sandbox | None = None
        self._left = float(BUDGET_S)
        self.trouble = ""

    def __call__(self, form: str, sides: Sequence[bytes]) -> list[dict[str, Any]] | None:
        if self.trouble:
            return None
        start = time.monotonic()
        try:
            box = self._open()
            box.reset({str(i): data for i, data in enumerate(sides)})
            return [self._read(box, form, str(i)) for i in range(len(sides))]
        except SandboxError as error:
            self._box = None
            self.trouble = error.message
            return None
        finally:
            self._left -= time.monotonic() - start
            if self._left < 0 and not self.trouble:
                self.trouble = f"the first ones took more than {BUDGET_S} s"

    def _read(self, box: Sandbox, form: str, name: str) -> dict[str, Any]:
        entry = PICTURES if form == "image" else ENTRY.get(form, OTHERS)
        done = box.call(entry, {"form": form, "file": name})
        if done.breach:
            return {"error": f"over the limit on {_LIMITS.get(done.breach, done.breach)}"}
        if done.error:
            return {"error": done.error.removeprefix("Unreadable: ")}
        return done.value if isinstance(done.value, dict) else {"error": "no answer"}

    def _open(self) -> Sandbox:
        if self._box is None:
            from rover.sandbox.registry import make_runtime
            from rover_store.records import Limits

            limits = Limits(
                wall_s=20, cpu_s=15, memory_bytes=1 << 30, file_bytes=96 << 20, disk_bytes=192 << 20,
                output_bytes=1 << 16,
            )  # fmt: skip
            self._runtime = self._runtime or make_runtime(self._kind)
            self._box = self._runtime.open({}, limits=limits)
        return self._box

    def close(self) -> None:
        for part in (self._box, self._runtime):
            if part is not None:
                part.close()
        self._box = self._runtime = None

    def __enter__(self) -> Extractor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_LIMITS = {"wall": "time", "cpu": "processor time", "output": "output", "memory": "memory", "disk": "disk"}
