"""Worker processes that run the jobs of a bench, and the results that are kept as soon as each is there.

A result is a file of its own, written whole or not at all, under a name that says case, settings and code: a bench
that was killed goes on with what is missing.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import rover
import rover_store
from rover.bench.fcr_case import Job
from rover_store.ids import digest

#: what diagnosis and repair are made of: a result is good for as long as none of it changes
PARTS = (
    "sandbox", "policy", "harness", "verify", "rollout", "construct", "diagnose", "repair",
    "bench/fcr_case.py", "bench/counting.py", "bench/suites/decoys.py", "bench/suites/battery.py",
)  # fmt: skip
#: code, and the tables that it reads
_ENDINGS = (".py", ".json")
#: how often a case may take its worker down before it is given up
TRIES = 2


@cache
def code() -> str:
    """A digest over the code that a result rests on."""
    ours = Path(rover.__file__).parent
    theirs = Path(rover_store.__file__).parent
    found = [(ours, p) for part in PARTS for p in (ours / part, *(ours / part).rglob("*"))]
    found += [(theirs, p) for p in theirs.rglob("*")]
    files = {f"{root.name}/{p.relative_to(root)}": p for root, p in found if p.suffix in _ENDINGS and p.is_file()}
    return digest([[name, _text(files[name])] for name in sorted(files)])[:16]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


class Results:
    """The finished cases below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, job: Job) -> Path:
        facts = {k: v for k, v in asdict(job).items() if k not in ("store", "given")}
        given = {c: _tree(Path(f)) for c, f in sorted((job.given or {}).items())}
        return self.folder / f"{job.case}-{digest([facts, given, code()])[:16]}.json"

    def get(self, job: Job) -> dict[str, Any] | None:
        """The result of a job; None where there is none, or no whole one."""
        try:
            found = json.loads(self.path(job).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def put(self, job: Job, result: Mapping[str, Any]) -> None:
        path = self.path(job)
        beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        with beside.open("w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)


def _tree(folder: Path) -> str:
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return digest([[str(p.relative_to(folder)), p.read_bytes().hex()] for p in files])


@dataclass
class _Worker:
    process: subprocess.Popen[str]
    job: Job | None = None
    since: float = 0.0
    step: str = ""
    buffer: str = field(default="")


#: a finished job with its result, or with why there is none
Finished = tuple[Job, dict[str, Any] | None, str]


class Pool:
    """So many processes, each with one case at a time. `seconds` is what a case may take."""

    def __init__(self, workers: int, sandbox: str = "", seconds: float = 1800.0) -> None:
        self.workers = workers
        self.sandbox = sandbox
        self.seconds = seconds
        self.living: list[_Worker] = []
        self.selector = selectors.DefaultSelector()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in list(self.living):
            self._end(worker)
        self.selector.close()

    def run(self, jobs: Sequence[Job], idle: Callable[[Sequence[str]], None]) -> Iterator[Finished]:
        """Each job as it is finished, in no order. `idle` hears twice a second what is being done."""
        waiting = [deque(group) for group in _groups(jobs)]
        tries: dict[str, int] = {}
        left = len(jobs)
        mine: dict[int, deque[Job]] = {}
        while left:
            self._feed(waiting, mine)
            for worker, line in self._lines():
                if "result" in line or "error" in line:
                    job, worker.job, worker.step = worker.job, None, ""
                    assert job is not None
                    left -= 1
                    yield job, line.get("result"), line.get("error", "")
                else:
                    worker.step = str(line.get("step", worker.step))
            for worker, why in self._fallen():
                job = worker.job
                queue = mine.pop(worker.process.pid, deque())
                self._end(worker)
                if job is not None:
                    tries[job.case] = tries.get(job.case, 0) + 1
                    if tries[job.case] < TRIES and why != _SLOW:
                        queue.appendleft(job)
                    else:
                        left -= 1
                        yield job, None, why
                if queue:
                    waiting.insert(0, queue)
            idle([f"{w.job.case} {w.step}" for w in self.living if w.job is not None])

    def _feed(self, waiting: list[deque[Job]], mine: dict[int, deque[Job]]) -> None:
        """A job for every worker that has none, out of the group that it is at."""
        need = min(self.workers, sum(map(len, waiting)) + sum(map(len, mine.values())) + self._busy())
        while len(self.living) < need:
            self._start()
        for worker in self.living:
            if worker.job is not None:
                continue
            queue = mine.get(worker.process.pid)
            if not queue:
                if not waiting:
                    continue
                queue = mine[worker.process.pid] = waiting.pop(0)
            worker.job, worker.since = queue.popleft(), time.monotonic()
            assert worker.process.stdin is not None
            with suppress(OSError):  # one that has ended is found out below
                worker.process.stdin.write(json.dumps(asdict(worker.job)) + "\n")
                worker.process.stdin.flush()

    def _busy(self) -> int:
        return sum(w.job is not None for w in self.living)

    def _start(self) -> None:
        words = [sys.executable, "-m", "rover.bench.fcr_worker", self.sandbox]
        process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", start_new_session=True
        )
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        worker = _Worker(process)
        self.living.append(worker)
        self.selector.register(process.stdout, selectors.EVENT_READ, worker)

    def _lines(self) -> Iterator[tuple[_Worker, dict[str, Any]]]:
        """What the workers said, waiting half a second for it."""
        for key, _ in self.selector.select(0.5):
            worker: _Worker = key.data
            assert worker.process.stdout is not None
            chunk = os.read(worker.process.stdout.fileno(), 1 << 20)
            if not chunk:
                self.selector.unregister(worker.process.stdout)
            worker.buffer += chunk.decode("utf-8")
            while "\n" in worker.buffer:
                text, _, worker.buffer = worker.buffer.partition("\n")
                yield worker, json.loads(text)

    def _fallen(self) -> Iterator[tuple[_Worker, str]]:
        for worker in list(self.living):
            if worker.process.poll() is not None:
                yield worker, f"the worker ended with {worker.process.returncode} at {worker.step or 'its start'}"
            elif worker.job is not None and time.monotonic() - worker.since > self.seconds:
                yield worker, _SLOW

    def _end(self, worker: _Worker) -> None:
        self.living.remove(worker)
        process = worker.process
        process.kill()
        process.wait()
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout in self.selector.get_map():
            self.selector.unregister(process.stdout)
        with suppress(OSError):  # what it was to read last is lost with it
            process.stdin.close()
        process.stdout.close()


_SLOW = "it took longer than a case may"


def _groups(jobs: Sequence[Job]) -> list[list[Job]]:
    """Jobs that share an engine together, in the order of the first of each."""
    found: dict[str, list[Job]] = {}
    for job in jobs:
        found.setdefault(job.share or f"\n{job.case}", []).append(job)
    return list(found.values())
