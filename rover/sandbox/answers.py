"""What a box's supervisor answers, read as what it is: data from the other side of a wall, which a command may have
taken over. What does not have the shape of an answer ends the box with a SandboxError, and nothing of it is used."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Protocol, get_args

from rover.sandbox.paths import check_paths
from rover.sandbox.protocol import Breach, CallResult, Completed, Entry, Files, Snapshot
from rover.sandbox.warm import kind
from rover_store.errors import SandboxError
from rover_store.ids import blob_id

#: The kernel ends a process over its own limits by these: SIGXCPU, SIGXFSZ.
SIGNALS: dict[int, Breach] = {signal.SIGXCPU: "cpu", signal.SIGXFSZ: "disk"}
#: What reading something that is no answer raises.
NOT_AN_ANSWER = (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError, MemoryError)
#: And what a message raises that cannot be read at all.
NO_MESSAGE = (ValueError, RecursionError, OverflowError, MemoryError)
NO_ANSWER = "the box gave an answer that is none"
_ID = re.compile(r"[0-9a-f]{40}")
_KINDS = ("file", "executable", "link")


class Answer(Protocol):
    """A message of the supervisor."""

    @property
    def head(self) -> dict[str, Any]: ...

    @property
    def body(self) -> bytes: ...


class Answering(ABC):
    """What boxes with a supervisor do in one way, however they speak to it."""

    _start: dict[str, Entry] | None  # None: nothing is laid out

    @abstractmethod
    def _request(self, head: dict[str, Any], parts: list[bytes] | None = None) -> Answer:
        """One exchange. SandboxError where there is no answer, or the answer is an error."""

    @abstractmethod
    def close(self) -> None:
        """End the box and everything in it."""

    def snapshot(self) -> Snapshot:
        answer = self._request({"do": "snapshot"})
        with self._reading():
            return snapshot(answer, self._start or {})

    def prepare(self, modules: tuple[str, ...] = ()) -> None:
        """Start the process that calls are forked from, so that the first call finds it."""
        self._request({"do": "warm", "kind": kind(modules)})

    def processor_time(self) -> float:
        """Seconds of processor time that everything in the box has used so far."""
        answer = self._request({"do": "usage"})
        with self._reading():
            return float(answer.head["cpu_s"])

    def descriptors(self) -> int:
        """How many descriptors the box's own processes have open."""
        answer = self._request({"do": "usage"})
        with self._reading():
            return int(answer.head["descriptors"])

    def _lay_out(self, files: Files, start: dict[str, Entry], bounds: dict[str, int]) -> None:
        """Make these files the start state, sending what the box does not have. Where that fails there is none."""
        self._start = None
        rows = [[path, entry.blob, entry.size] for path, entry in start.items()]
        answer = self._request({"do": "missing", "files": rows})
        with self._reading():
            missing = set(answer.head["missing"])
        send = {entry.blob: files[path] for path, entry in start.items() if entry.blob in missing}
        head = {"do": "start", "files": rows, "blobs": [[blob, len(data)] for blob, data in send.items()], **bounds}
        self._request(head, list(send.values()))
        self._start = start

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Around the reading of an answer."""
        try:
            yield
        except SandboxError:
            self.close()
            raise
        except NOT_AN_ANSWER:
            self.close()
            raise SandboxError(NO_ANSWER) from None


def manifest(files: Files) -> dict[str, Entry]:
    """A start state as a manifest, sorted."""
    check_paths(files)
    return {path: Entry(blob_id(files[path]), len(files[path])) for path in sorted(files)}


def snapshot(answer: Answer, start: dict[str, Entry]) -> Snapshot:
    """The whole workspace, from what differs from its start."""
    entries = dict(start)
    for path in answer.head["removed"]:
        entries.pop(path, None)
    if changed := answer.head["entries"]:
        check_paths(changed)
        entries.update((path, _entry(path, *found)) for path, found in changed.items())
        entries = dict(sorted(entries.items()))
    rest, new = memoryview(answer.body), {}
    for blob, size in answer.head["new"]:
        new[blob] = bytes(rest[:size])
        rest = rest[size:]
        if blob_id(new[blob]) != blob:
            raise ValueError(blob)
    refused = answer.head["refused"]
    return Snapshot(entries, new, {str(path): str(reason) for path, reason in refused.items()})


def _entry(path: str, blob: str, size: int, kind: Any) -> Entry:
    path.encode()  # ValueError where no tree could hold it
    if not _ID.fullmatch(blob) or kind not in _KINDS or type(size) is not int or size < 0:
        raise ValueError(path)
    return Entry(blob, size, kind)


def completed(answer: Answer) -> Completed:
    """How a command ended."""
    said, size = answer.head, answer.head["stdout"]
    breach: Breach | None = _breach(said) or SIGNALS.get(said["status"] & 0x7F)
    code = None if said["breach"] else exit_code(said["status"])
    return Completed(
        code, answer.body[:size], answer.body[size:], breach, float(said["cpu_s"]), float(said["wall_s"])
    )


def returned(said: dict[str, Any], out: bytes, err: bytes, text: bytes) -> CallResult:
    """What a call gave: `text` is what it wrote as its result, if it came so far."""
    if breach := _breach(said):
        return CallResult(error=f"over the limit on {breach}", breach=breach, stdout=out, stderr=err)
    reason = f"the call ended without a value (exit {exit_code(said['status'])})"
    try:
        value = json.loads(text)
        error, traceback = value.get("error", ""), value.get("traceback", "")
    except (ValueError, RecursionError, AttributeError):
        return CallResult(error=reason, stdout=out, stderr=err)
    if not isinstance(error, str) or not isinstance(traceback, str):
        return CallResult(error=reason, stdout=out, stderr=err)
    return CallResult(value.get("value"), error, traceback, None, out, err)


def _breach(said: dict[str, Any]) -> Breach | None:
    found: Breach | None = said["breach"]
    if found is not None and found not in get_args(Breach):
        raise ValueError(found)
    return found


def exit_code(status: int) -> int:
    """A shell's exit code for a wait status."""
    return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
