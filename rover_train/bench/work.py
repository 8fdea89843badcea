"""Stages of a comparison: each is one command of rover, run in a process of its own, and skipped where it is done.

A stage is done once its marker stands. What a stage that was ended leaves behind is cleared away, or gone on from
where the command can. The commands are those that anybody would type; WORK/logs holds what they said.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from rover_store.errors import StoreError

#: how a command of rover is started, whatever the search path holds
ROVER = (sys.executable, "-c", "from rover.cli.entry import main; main()")


@dataclass(frozen=True, slots=True)
class Stage:
    """One command. `name` is a path below WORK/logs; `done` says that it need not run (again)."""

    name: str
    command: Callable[[], Sequence[str]]
    done: Callable[[], bool]


class StageFailed(StoreError):
    """A command of a comparison failed; what others finished is kept."""


class Work:
    """A folder of work, and the commands that run in its store."""

    def __init__(self, folder: Path, told: Callable[[str], None] = lambda line: None) -> None:
        self.folder = folder
        self.store = folder / "store"
        self._told = told
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def one(self, stage: Stage) -> None:
        """Run a stage unless it is done."""
        if stage.done():
            return
        self._told(stage.name)
        self._run(stage)

    def all(self, stages: Sequence[Stage], workers: int, tick: Callable[[int, int], None]) -> None:
        """Run stages, so many at once. An interrupt or a failure ends those that run, and all others stay undone."""
        left = [s for s in stages if not s.done()]
        finished = len(stages) - len(left)
        tick(finished, len(stages))
        pool = ThreadPoolExecutor(max(1, workers), thread_name_prefix="stage")
        running: set[Future[None]] = {pool.submit(self.one, stage) for stage in left}
        try:
            while running:
                ended, running = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
                for future in ended:
                    future.result()
                    finished += 1
                    tick(finished, len(stages))
        except BaseException:
            for future in running:
                future.cancel()
            self.stop()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def stop(self) -> None:
        """End the commands that run, as Ctrl-C does: they keep what they finished."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        for process in running:
            process.send_signal(signal.SIGINT)

    def _run(self, stage: Stage) -> None:
        log = self.folder / "logs" / f"{stage.name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        # a comparison counts processes, not threads: two threads that share two cores with another run are slower
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "ROVER_STORE": str(self.store)}
        command = [*ROVER, *stage.command()]
        with log.open("ab") as out:
            with self._lock:
                if self._stopped:
                    raise StageFailed(f"{stage.name}: not begun, another one failed")
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment, start_new_session=True
                )
                self._running.add(process)
            try:
                code = process.wait()
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGINT)
                    process.wait()
                with self._lock:
                    self._running.discard(process)
        if code or not stage.done():
            raise StageFailed(f"{stage.name}: {_last_line(log)}", hint=f"all that it said: {log}")


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    said = next((line for line in reversed(lines) if line.startswith("rover: ")), lines[-1] if lines else "no output")
    return said.removeprefix("rover: ")[:300]
