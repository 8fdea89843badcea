"""How commands ended, and one that lives beside other requests."""

from __future__ import annotations

import os
from typing import Any

from rover.sandbox.docker.inside.channel import Channel
from rover.sandbox.docker.inside.host import write
from rover.sandbox.docker.inside.jail import Processes
from rover.sandbox.docker.inside.job import Job

Answer = tuple[dict[str, Any], list[bytes]]


class Live:
    """A command that lives beside other requests."""

    def __init__(self, pid: int, pidfd: int, job: Job, channel: Channel, pipes: list[int]) -> None:
        self.job, self.channel = job, channel
        self._pid = pid
        self._fds = [*pipes, pidfd]
        self._report = pipes[2]

    def finish(self, processes: Processes) -> None:
        """Tell the host how it ended. Its processes are dead."""
        self.job.finish()
        self.channel.drain()
        head, body = ended(os.read(self._report, 4096), processes.status(self._pid), self.job)
        write({**head, "live": "ended"}, body)
        self.channel.close()
        for fd in self._fds:
            os.close(fd)


def ended(said: bytes, status: int, job: Job) -> Answer:
    """The answer for a command that has ended: `said` is what kept it from being confined, if anything did."""
    if said and not job.breach:
        return {"error": f"the command could not be confined: {said.decode('utf-8', 'replace')}"}, []
    return with_streams({"status": status, "breach": job.breach, "cpu_s": job.cpu_s, "wall_s": job.wall_s}, job)


def with_streams(head: dict[str, Any], job: Job) -> Answer:
    out, err = (bytes(stream) for stream in job.streams.values())
    return {**head, "stdout": len(out), "stderr": len(err)}, [out, err]
