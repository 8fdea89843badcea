"""A worker process of `rover bench fcr`: jobs come as JSON lines on stdin, what is told and done goes to stdout.

It ends with its parent: when stdin closes, at once. A crash of a case takes this process alone.
"""

from __future__ import annotations

import json
import os
import queue
import resource
import sys
import threading
from pathlib import Path
from typing import IO, Any

from rover.bench.counting import Counting
from rover.bench.fcr_case import Job, run
from rover.rollout.engine import Engine
from rover.rollout.records import MemoryEvidence
from rover.sandbox.registry import open_runtime
from rover_store.errors import RoverError
from rover_store.store import Store


class Worker:
    """One runtime; an engine with evidence of its own for each case, or for each group that shares one."""

    def __init__(self, sandbox: str, out: IO[str]) -> None:
        self.runtime = open_runtime(sandbox or None)
        self.out = out
        self.store: Store | None = None
        self.folder = ""
        self.engine: Engine | None = None
        self.share = ""

    def one(self, job: Job) -> None:
        try:
            self.say(done=job.case, result=self._run(job))
        except RoverError as error:  # bad input of this case, or no sandbox: the bench goes on with the others
            self.say(done=job.case, error=f"{type(error).__name__}: {error}")
            self.close()

    def _run(self, job: Job) -> dict[str, Any]:
        if self.store is None or self.folder != job.store:
            self.store, self.folder = Store.open(Path(job.store)), job.store
        if self.engine is None or not job.share or job.share != self.share:
            self.close()
            self.engine = Engine(self.runtime, Counting(MemoryEvidence()))
            self.share = job.share
        count = self.engine.evidence
        assert isinstance(count, Counting)
        count.asked.clear()
        before = _cpu()
        found = run(self.store, self.engine, count, job, lambda text: self.say(case=job.case, step=text))
        if not job.share:
            self.close()
        memory = max(resource.getrusage(who).ru_maxrss for who in _BOTH) / 1024
        return {**found, "cpu": round(_cpu() - before, 3), "memory": round(memory, 1)}

    def say(self, **row: Any) -> None:
        self.out.write(json.dumps(row) + "\n")
        self.out.flush()

    def close(self) -> None:
        if self.engine is not None:
            self.engine.close()
        self.engine = None


_BOTH = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


def _cpu() -> float:
    """CPU seconds of this process and of what it has waited for; most of what boxes use is not among them."""
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, _BOTH))


def main() -> None:
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever prints goes to stderr; stdout is the parent's
    jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            row = json.loads(line)
            row["runs"] = tuple((policy, seed) for policy, seed in row["runs"])
            jobs.put(Job(**row))
        os._exit(0)  # the parent is gone or has no more to do; boxes die with this process

    threading.Thread(target=listen, daemon=True).start()
    worker = Worker(sys.argv[1] if len(sys.argv) > 1 else "", out)
    worker.say(ready=os.getpid())
    while True:
        worker.one(jobs.get())


if __name__ == "__main__":
    main()
