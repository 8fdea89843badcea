"""Stages of a comparison: each is one command of rover, run in a process of its own, and skipped where it is done.

A stage is done once its marker holds the command that was run and those that it rests on: another scale or seed runs
it again, and all that is built on it. What a stage that was ended leaves behind is cleared away, or gone on from where
the command can. The commands are those that
anybody would type; WORK/logs holds what they said.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from rover_store.errors import StoreError
from rover_store.ids import digest

#: how a command of rover is started, whatever the search path holds
ROVER = (sys.executable, "-c", "from rover.cli.entry import main; main()")


@dataclass(frozen=True, slots=True)
class Stage:
    """One command. `name` is a path below WORK/logs; `rests_on`: the stages whose results it takes. `clears`: what it
    makes, removed before it runs; `resumes`: its folder, where it can go on from what is there (`--resume`)."""

    name: str
    command: Sequence[str]
    rests_on: Sequence[Stage] = ()
    #: words that change how it runs and not what comes of it, such as how many workers; no part of its identity
    manner: Sequence[str] = ()
    clears: Sequence[Path] = ()
    resumes: Path | None = None


    @property
    def identity(self) -> str:
        """The command, and the digest of those that it rests on."""
        below = digest([one.identity for one in self.rests_on]) if self.rests_on else ""
        return f"{shlex.join(self.command)}\n{below}\n"


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
        if not self.done(stage):
            self._told(stage.name)
            self._run(stage)

    def done(self, stage: Stage) -> bool:
        """Whether this very command ended well here before."""
        marker = self._marker(stage)
        return marker.is_file() and marker.read_text(encoding="utf-8") == stage.identity

    def _marker(self, stage: Stage) -> Path:
        return self.folder / "done" / stage.name

    def all(self, chains: Sequence[Sequence[Stage]], workers: int, tick: Callable[[int, int], None]) -> None:
        """Run chains of stages, so many at once, in order. An interrupt or a failure ends those that run, and all
        others stay undone. `tick` is told how many chains are done, of how many."""
        left = [chain for chain in chains if not all(self.done(s) for s in chain)]
        finished = len(chains) - len(left)
        tick(finished, len(chains))
        pool = ThreadPoolExecutor(max(1, workers), thread_name_prefix="stage")
        running: set[Future[None]] = {pool.submit(self._chain, chain) for chain in left}
        try:
            while running:
                ended, running = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
                for future in ended:
                    future.result()
                    finished += 1
                    tick(finished, len(chains))
        except BaseException:
            for future in running:
                future.cancel()
            self.stop()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _chain(self, chain: Sequence[Stage]) -> None:
        for stage in chain:
            self.one(stage)

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
        command = [*ROVER, *self._prepared(stage), *stage.manner]
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
        if code:
            raise StageFailed(f"{stage.name}: {_last_line(log)}", hint=f"all that it said: {log}")
        marker = self._marker(stage)
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.write_text(stage.identity, encoding="utf-8")

    def _prepared(self, stage: Stage) -> Sequence[str]:
        """The command as it is run now, where an earlier try may have left something."""
        begun = self.folder / "begun" / stage.name
        same = begun.is_file() and begun.read_text(encoding="utf-8") == stage.identity
        if same and stage.resumes is not None and (stage.resumes / "config.toml").is_file():
            return [*stage.command, "--resume"]
        for path in (*stage.clears, *([stage.resumes] if stage.resumes is not None else ())):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
            path.parent.mkdir(parents=True, exist_ok=True)
        begun.parent.mkdir(parents=True, exist_ok=True)
        begun.write_text(stage.identity, encoding="utf-8")
        return stage.command


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    said = next((line for line in reversed(lines) if line.startswith("rover: ")), lines[-1] if lines else "no output")
    return said.removeprefix("rover: ")[:300]
