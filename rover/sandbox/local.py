"""A plain runtime for tests: a temporary folder and ordinary processes. It confines nothing.

What runs here sees the host's files, network and processes; its Probe says so in `unmet`. It is never chosen
unless named. There is no `/w`: the workspace is the current folder, and `ROVER_W` names it.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rover.sandbox.paths import check_paths
from rover.sandbox.protocol import Breach, CallResult, Completed, Entry, Files, Place, Probe, Snapshot
from rover.sandbox.runtime_id import runtime_id
from rover_store.errors import SandboxError
from rover_store.ids import blob_id
from rover_store.records import Limits

UNMET = (
    "network",
    "host files",
    "host processes",
    "capabilities",
    "memory ceiling",
    "process ceiling",
    "disk ceiling",
    "daemons that leave their process group",
)


class LocalRuntime:
    """Tests only: opens boxes that are folders."""

    kind = "local"

    def probe(self) -> Probe:
        return Probe("local", True, "for tests only: nothing is confined", tier=0, unmet=UNMET)

    def runtime_id(self) -> str:
        return runtime_id("local", 0, UNMET)

    def open(self, files: Files, *, limits: Limits | None = None, place: Place | None = None) -> LocalSandbox:
        if place is not None and (place.links or place.image or place.build):
            raise SandboxError("the local sandbox has no place but its folder")
        return LocalSandbox(files, limits or Limits())

    def close(self) -> None:
        """Nothing is shared between boxes."""


class LocalSandbox:
    """A folder in which commands run as plain processes."""

    def __init__(self, files: Files, limits: Limits) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="rover-local-"))
        self._work = self._folder / "w"
        self._limits = limits
        self._start: Files = {}
        self._known: set[str] = set()
        self._closed = False
        self._end = weakref.finalize(self, _remove, self._folder)
        self.reset(files)

    def run(
        self,
        argv: list[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        channel: socket.socket | None = None,
    ) -> Completed:
        if channel is None:
            return self._execute(argv, stdin, dict(env or {}), limits or self._limits)
        # the number stays what it is here: this kind keeps nothing apart
        more = {**(env or {}), "ROVER_CHANNEL": str(channel.fileno())}
        return self._execute(argv, stdin, more, limits or self._limits, keep=channel.fileno())

    def call(self, entry: str, payload: Any, *, limits: Limits | None = None) -> CallResult:
        job = json.dumps({"entry": entry, "payload": payload}).encode()
        with tempfile.TemporaryFile() as answer:
            argv = [sys.executable, "-P", "-m", "rover.sandbox.inside.entry", str(answer.fileno())]
            path = os.pathsep.join(p for p in sys.path if p)
            env = {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
            done = self._execute(argv, job, env, limits or self._limits, keep=answer.fileno())
            answer.seek(0)
            text = answer.read()
        if done.breach or not text:
            reason = done.breach or f"the call ended without a value (exit {done.exit_code})"
            return CallResult(error=reason, breach=done.breach, stdout=done.stdout, stderr=done.stderr)
        return CallResult(**json.loads(text), stdout=done.stdout, stderr=done.stderr)

    def snapshot(self) -> Snapshot:
        entries: dict[str, Entry] = {}
        new: dict[str, bytes] = {}
        refused: dict[str, str] = {}
        for path in sorted(self._work.rglob("*")):
            name = str(path.relative_to(self._work))
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode):
                continue
            if not _is_utf8(name):
                refused[os.fsencode(name).decode("utf-8", "backslashreplace")] = "its name is not UTF-8"
                continue
            if stat.S_ISLNK(mode):
                data, kind = os.readlink(os.fsencode(path)), "link"
            elif stat.S_ISREG(mode):
                data, kind = path.read_bytes(), "executable" if mode & 0o100 else "file"
            else:
                refused[name] = "not a file, folder or link"
                continue
            blob = blob_id(data)
            entries[name] = Entry(blob, len(data), kind)  # type: ignore[arg-type]
            if blob not in self._known:
                new[blob] = data
        self._known |= set(new)
        return Snapshot(entries, new, refused)

    def reset(self, files: Files | None = None, *, limits: Limits | None = None) -> None:
        if self._closed:
            raise SandboxError("the box is closed")
        if files is not None:
            check_paths(files)
            self._start = dict(files)
        self._limits = limits or self._limits
        _remove(self._work)
        self._work.mkdir()
        for name, data in self._start.items():
            target = self._work / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        self._known = {blob_id(data) for data in self._start.values()}

    def close(self) -> None:
        self._closed = True
        self._end()

    def _execute(
        self, argv: list[str], stdin: bytes, env: dict[str, str], limits: Limits, keep: int = -1
    ) -> Completed:
        if self._closed:
            raise SandboxError("the box is closed")
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}"
        base = {"PATH": path, "HOME": "/tmp", "LANG": "C.UTF-8", "ROVER_W": str(self._work), "TZ": "UTC"}
        start, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        try:
            process = subprocess.Popen(
                argv,
                cwd=self._work,
                env=base | env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=() if keep < 0 else (keep,),
            )
        except (OSError, ValueError, IndexError) as error:
            said = f"{argv[0] if argv else ''}: {getattr(error, 'strerror', None) or error}\n"
            code = 127 if isinstance(error, FileNotFoundError) else 126
            return Completed(code, b"", said.encode("utf-8", "backslashreplace"))
        breach, out, err = _watch(process, stdin, limits)
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
        return Completed(None if breach else code, out, err, breach, max(cpu, 0.0), time.monotonic() - start)


def _watch(process: subprocess.Popen[bytes], stdin: bytes, limits: Limits) -> tuple[Breach | None, bytes, bytes]:
    """Feed and drain a process until it ends or breaks the limit on time or output; then kill its group."""
    streams: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
    breaches: list[Breach] = []

    def drain(name: str) -> None:
        pipe = getattr(process, name)
        while data := pipe.read1(65536):
            streams[name] += data
            if sum(map(len, streams.values())) > limits.output_bytes:
                breaches.append("output")
                _kill(process)
                return

    def feed() -> None:
        assert process.stdin is not None
        with contextlib.suppress(OSError), process.stdin:
            process.stdin.write(stdin)

    threads = [threading.Thread(target=drain, args=(n,), daemon=True) for n in streams]
    threads.append(threading.Thread(target=feed, daemon=True))
    for thread in threads:
        thread.start()
    try:
        process.wait(limits.wall_s)
    except subprocess.TimeoutExpired:
        breaches.insert(0, "wall")
    finally:
        _kill(process)
        process.wait()
        for thread in threads:
            thread.join(1)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
    out = bytes(streams["stdout"][: limits.output_bytes])
    return (breaches[0] if breaches else None), out, bytes(streams["stderr"][: limits.output_bytes - len(out)])


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _remove(folder: Path) -> None:
    """Remove a folder that hostile commands may have made unreadable."""
    for parent, folders, _ in os.walk(folder):
        for name in folders:
            path = os.path.join(parent, name)
            if not os.path.islink(path):
                os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)
