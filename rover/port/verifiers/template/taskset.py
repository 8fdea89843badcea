"""Tasks of a rover store, for verifiers 0.4 and newer: data/tasks.jsonl, one a line, and data/blobs, their files.

The workspace of a task is the current folder of the runtime. The agent gets the instruction alone; nothing of the
verifier enters the runtime. When the agent is done, the files of the workspace are brought here and graded by the
task's own folder of checks (grade.py), in a process of its own on this machine: it runs code of the package, outside of
any sandbox. A check that fails raises: it is never a reward. What the agent can cause (a workspace that cannot be
packed or unpacked, since it replaced the tools for it or gave a file and a folder one name) has failed.
"""

from __future__ import annotations

import asyncio
import base64
import errno
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import verifiers.v1 as vf

DATA = Path(__file__).parent / "data"
#: bytes of a workspace, packed, that are looked at; one that is larger has failed
MOST_BYTES = 300 << 20
#: all files of the current folder; a larger answer is cut, which its length shows
PACK = f"tar -cf - . | head -c {MOST_BYTES + 1} | base64"
#: what that needs of the runtime; asked before the agent begins, since it may take them away
NEEDS = "command -v tar && command -v head && command -v base64"
#: a workspace that nobody can look at
_FAILED: dict[str, Any] = {"passed": False, "share": 0.0, "gate": 0, "scores": {}}
#: grade.py ends with this where a check failed
CHECK_FAILED = 3
#: files of a workspace that are looked at; one with more has failed
MOST_FILES = 20_000
#: what is wrong with the names in a workspace, not with this machine
_NAMES = frozenset({errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EILSEQ})
#: what tarfile raises for a stream that is none: a link to nothing or to itself, a name with a zero in it, any size
_STREAM = (tarfile.TarError, EOFError, KeyError, ValueError, OverflowError, RecursionError)
#: gradings at the same time: they compute
_SLOTS = threading.Semaphore(max(1, os.cpu_count() or 1))


class RoverData(vf.TaskData):
    """A task. Files are named by the digests of their bytes, in data/blobs."""

    package: str
    revision: str
    license: str
    #: component -> git tree id
    components: dict[str, str]
    start: dict[str, str]
    #: path -> digest, or nothing where the reference deletes the file
    reference: dict[str, str | None]
    reference_message: str
    verifier: dict[str, str]
    grading_s: float


class RoverTask(vf.Task[RoverData]):
    """The workspace at its start, and what the checks say of it at the end."""

    async def setup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        """Lay the workspace out. RuntimeError where the runtime lacks what grading needs of it."""
        await _run(runtime, "sh", "-c", NEEDS)
        for path, digest in self.data.start.items():
            await runtime.write(path, blob(digest))

    async def finalize(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        """The state in which the agent left the workspace is what is graded."""
        trace.info["rover"] = {"revision": self.data.revision, "package": self.data.package}

    async def validate(self, runtime: vf.Runtime) -> bool:
        """The reference, done: does it pass?"""
        for path, digest in self.data.reference.items():
            if digest is None:
                await _run(runtime, "rm", "-rf", "--", path)
            else:
                await runtime.write(path, blob(digest))
        verdict = await self.verdict(runtime, self.data.reference_message)
        return bool(verdict["passed"])

    @vf.reward
    async def passed(self, trace: vf.Trace, runtime: vf.Runtime) -> float:
        """1 where the end state passes, else 0. The share of the weight and each criterion are metrics."""
        verdict = await self.verdict(runtime, trace.last_reply)
        trace.record_metrics({"share": verdict["share"], "gate": verdict["gate"]})
        trace.record_metrics({f"criterion.{name}": found["score"] for name, found in verdict["scores"].items()})
        return float(verdict["passed"])

    async def verdict(self, runtime: vf.Runtime, message: str) -> dict[str, Any]:
        """What the checks say of the workspace as it is. RuntimeError where one of them failed."""
        done = await runtime.run(["sh", "-c", PACK], {})
        packed = unwrapped(done.stdout)
        if done.exit_code or packed is None or len(packed) > MOST_BYTES:
            return dict(_FAILED)
        return await asyncio.to_thread(grade, self.data, packed, message)


class RoverConfig(vf.TasksetConfig):
    """Which packages: all, or these."""

    packages: list[str] | None = None


class RoverTaskset(vf.Taskset[RoverTask, RoverConfig]):
    """The tasks, in the order of their names."""

    def load(self) -> Iterator[RoverTask]:
        for line in (DATA / "tasks.jsonl").read_text(encoding="utf-8").split("\n")[:-1]:
            data = RoverData.model_validate_json(line)
            if self.config.packages is None or data.package in self.config.packages:
                yield RoverTask(data, self.config.task)


def blob(digest: str) -> bytes:
    """The bytes of a file of the package."""
    return (DATA / "blobs" / digest[:2] / digest).read_bytes()


def grade(data: RoverData, packed: bytes, message: str) -> dict[str, Any]:
    """Run grade.py on a packed workspace."""
    with _SLOTS, tempfile.TemporaryDirectory(prefix="rover-grade-") as scratch:
        folder, end, said = (Path(scratch, name) for name in ("verifier", "end", "message"))
        for path, digest in data.verifier.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(blob(digest))
        end.mkdir()
        if not unpack(packed, end):
            return dict(_FAILED)
        said.write_text(message, encoding="utf-8", errors="replace")
        argv = [sys.executable, "-I", "-B", str(folder / "grade.py"), str(end), "--message", str(said)]
        done = subprocess.run(argv, capture_output=True, timeout=data.grading_s, check=False)
    if done.returncode not in (0, CHECK_FAILED):
        raise RuntimeError(f"grade.py ended with {done.returncode}: {done.stderr.decode('utf-8', 'replace')[-500:]}")
    verdict: dict[str, Any] = json.loads(done.stdout)
    if "error" in verdict:
        raise RuntimeError(f"a check failed: {verdict['error']}")
    return verdict


def unwrapped(text: str | bytes) -> bytes | None:
    """The bytes in a text; None where it is none that base64 writes."""
    try:
        return base64.b64decode(text)
    except ValueError:
        return None


def unpack(packed: bytes, folder: Path) -> bool:
    """Plain files as they are; everything else becomes a link to nowhere, which no check reads.

    False: too much, or nothing that can be laid out here. OSError where this machine fails (a full disk).
    """
    try:
        return _laid(packed, folder)
    except _STREAM:
        return False
    except OSError as error:
        if error.errno in _NAMES:
            return False
        raise


def _laid(packed: bytes, folder: Path) -> bool:
    others: list[str] = []
    total = 0
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:") as archive:
        for count, member in enumerate(archive):
            path = os.path.normpath(member.name)
            if count > MOST_FILES:
                return False
            if member.isdir() or path == "." or path.startswith((os.sep, "..")):
                continue
            plain = member.isreg() and not member.issparse()  # a sparse one may claim any size
            file = archive.extractfile(member) if plain or member.islnk() else None
            data = file.read(MOST_BYTES + 1) if file is not None else b""
            total += len(data)
            if total > MOST_BYTES:  # links to one file unfold it again and again
                return False
            if file is None:
                others.append(path)
                continue
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    for path in others:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).symlink_to("nowhere")
    return True


async def _run(runtime: vf.Runtime, *argv: str) -> vf.ProgramResult:
    done = await runtime.run(list(argv), {})
    if done.exit_code:
        raise RuntimeError(f"{argv[0]} ended with {done.exit_code}: {done.stderr[-500:]}")
    return done
