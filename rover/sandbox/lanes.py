"""One living box for many rollouts: each lane is a folder of it, and one call does what all lanes have asked for.

A lane is a `Sandbox` to its user. It starts as a folder beside other lanes, and only rover's own tools run there:
they keep to their folder, so lanes are kept apart by those tools rather than by the kernel. Where that is not enough
a lane gets a box of its own and stays there: for a command (`run`), for a workspace that is large from the start or
grows, and where a call breaks a limit or ends its process. It comes there by doing again what it did since its start,
so it goes on exactly as a box of its own would have gone all along. A shared call that fails is done again lane by
lane, so that one lane's breach is never another's.

Errors: SandboxError in the one lane whose own box fails; in all lanes where no box can be opened.
"""

from __future__ import annotations

import base64
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from rover.sandbox.paths import check_paths
from rover.sandbox.protocol import CallResult, Completed, Entry, Files, Runtime, Sandbox, Snapshot
from rover_store.errors import SandboxError
from rover_store.ids import blob_id, digest
from rover_store.records import Limits

ENTRY = "rover.sandbox.inside.lanes:perform"
BOOKS_ENTRY = "rover.sandbox.inside.lanes_books:perform"
BOOKS = "rover.harness.inside_books"
#: what a lane may hold beside others: of its own limits a quarter, and never more than this
MOST_BYTES, MOST_INODES = 16 << 20, 2000
#: bytes of start states that the box keeps
KEEP = 64 << 20
#: boxes of lanes that stand apart work side by side
WORKERS = 4

Ask = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Start:
    """A start state: its id, its bytes, its manifest."""

    id: str
    files: Files
    entries: Mapping[str, Entry]
    size: int

    @classmethod
    def of(cls, files: Files) -> Start:
        check_paths(files)
        entries = {path: Entry(blob_id(files[path]), len(files[path])) for path in sorted(files)}
        return cls(digest({p: e.blob for p, e in entries.items()}), files, entries, sum(map(len, files.values())))


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a function. `writes`: whether it may change the workspace."""

    entry: str
    payload: Any
    limits: Limits
    writes: bool

    def job(self) -> dict[str, Any]:
        return {"entry": self.entry, "payload": self.payload}


@dataclass(frozen=True, slots=True)
class Run:
    """One command."""

    argv: list[str]
    stdin: bytes
    env: Mapping[str, str] | None
    limits: Limits


@dataclass(slots=True)
class Lane:
    """One lane: where it began, what has changed it since, and what it holds."""

    number: int
    start: Start
    limits: Limits
    done: list[Call] = field(default_factory=list)
    entries: Mapping[str, Entry] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    new: dict[str, bytes] = field(default_factory=dict)
    sent: set[str] = field(default_factory=set)
    laid: bool = False  # whether the shared box holds its folder as it stands
    apart: Sandbox | None = None  # its own box
    leaves: bool = False  # it has to go there


class LaneBox:
    """The lanes. `serve` is the handler of a rendezvous; `sandbox` gives a lane's user his box.

    `writes` says of a call's payload whether it may change the workspace: after one that may not, nothing is scanned.
    """

    def __init__(self, runtime: Runtime, *, writes: Callable[[Any], bool] = lambda payload: True) -> None:
        self._runtime = runtime
        self._writes = writes
        self._box: Sandbox | None = None
        self._kept: dict[str, int] = {}  # start states in the box -> bytes
        self._lanes: dict[int, Lane] = {}
        self._starts: dict[int, Start] = {}  # by the identity of the mapping, which the start holds on to
        self._idle: list[Sandbox] = []
        self._own: set[Sandbox] = set()
        self._threads: ThreadPoolExecutor | None = None
        self._closed = False

    def sandbox(self, number: int, ask: Ask) -> LaneSandbox:
        """The box of one lane. `ask` hands a request to `serve` and waits for the answer."""
        return LaneSandbox(self, number, ask)

    def __enter__(self) -> LaneBox:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End all boxes; from any thread, also while a call runs, which is then cancelled."""
        self._closed = True
        for box in [*self._own, *([self._box] if self._box is not None else [])]:
            box.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False)

    # --- requests ----------------------------------------------------------------------------------------
    def reset(self, number: int, files: Files | None, limits: Limits | None) -> None:
        """Lay a lane out anew; nothing is done before its next request."""
        lane = self._lanes.get(number)
        if lane is not None and lane.apart is not None:
            self._idle.append(lane.apart)
        if files is None:
            if lane is None:
                raise SandboxError("the lane has no start state")
            start = lane.start
        else:
            start = self._start(files)
        fresh = Lane(number, start, limits or (lane.limits if lane else Limits()), entries=start.entries)
        fresh.sent = {entry.blob for entry in start.entries.values()}
        fresh.leaves = start.size > self._bytes(fresh) or 2 * len(start.entries) > self._inodes(fresh)
        self._lanes[number] = fresh

    def serve(self, pending: list[tuple[int, Any]]) -> dict[int, Any]:
        """Do what the lanes ask for: Call or Run. Those in the shared box in one call."""
        if self._closed:
            raise SandboxError("the box was closed meanwhile")
        shared: list[tuple[Lane, Call]] = []
        alone: list[tuple[Lane, Call | Run]] = []
        for number, request in pending:
            lane = self._lanes[number]
            lane.leaves = lane.leaves or isinstance(request, Run)
            if lane.leaves or not isinstance(request, Call):
                alone.append((lane, request))
            else:
                shared.append((lane, request))
        answers: dict[int, Any] = {}
        answers |= self._shared(shared, alone)
        answers |= self._alone(alone)
        return answers

    # --- the shared box ----------------------------------------------------------------------------------
    def _shared(self, work: list[tuple[Lane, Call]], alone: list[tuple[Lane, Call | Run]]) -> dict[int, Any]:
        """The answers of lanes in the shared box; those that have to leave it are put on `alone`."""
        if not work:
            return {}
        found = self._together(work)
        if found is None:  # whose fault it was is seen when each does its work by itself
            found = []
            for lane, call in work:
                lane.laid = False
                found += self._together([(lane, call)]) or [None]
        answers: dict[int, Any] = {}
        for (lane, call), said in zip(work, found, strict=True):
            if said is None or said.get("over"):
                lane.leaves = True
                alone.append((lane, call))
            else:
                answers[lane.number] = self._told(lane, call, said)
        return answers

    def _together(self, work: list[tuple[Lane, Call]]) -> list[Any] | None:
        """What one call says of each lane's work; None where it broke a limit or its process ended."""
        jobs = [self._job(lane, call) for lane, call in work]
        calls = [call for _, call in work]
        books = any(job["entry"].startswith(BOOKS) for lane in jobs for job in lane["calls"])
        for _ in range(2):
            try:
                box = self._open()
                starts, forget = self._missing([lane.start for lane, _ in work if not lane.laid])
                payload = {"starts": starts, "forget": forget, "jobs": jobs}
                limits = _least([call.limits for call in calls])
                result = box.call(BOOKS_ENTRY if books else ENTRY, payload, limits=limits)
            except SandboxError:
                if self._closed:
                    raise SandboxError("the box was closed meanwhile") from None
                self._lost()
                jobs = [self._job(lane, call) for lane, call in work]
                continue
            if result.breach == "cancelled":
                raise SandboxError("the box was closed meanwhile")
            if result.breach or result.error or not isinstance(result.value, list):
                for start in starts:  # it may have ended in the midst of laying them down
                    self._kept.pop(start, None)
                return None
            for (lane, _), job, said in zip(work, jobs, result.value, strict=True):
                lane.laid = True
                said["anew"] = "reset" in job
            return result.value
        return None

    def _job(self, lane: Lane, call: Call) -> dict[str, Any]:
        job: dict[str, Any] = {"lane": lane.number, "calls": [call.job()], "scan": call.writes}
        if not lane.laid:
            job["reset"] = lane.start.id
            job["calls"] = [*(c.job() for c in lane.done), call.job()]
            job["scan"] = call.writes or bool(lane.done)
        return {**job, "bytes": self._bytes(lane), "inodes": self._inodes(lane)}

    def _told(self, lane: Lane, call: Call, said: dict[str, Any]) -> CallResult:
        """Note what a call changed, and give its answer."""
        if "changed" in said:
            self._note(lane, lane.start.entries if said["anew"] else lane.entries, said)
        if call.writes:
            lane.done.append(call)
        return CallResult(said.get("value"), said.get("error", ""), said.get("traceback", ""))

    def _note(self, lane: Lane, base: Mapping[str, Entry], said: dict[str, Any]) -> None:
        lane.refused = said["refused"]
        if not (said["changed"] or said["removed"]):
            lane.entries = base
            return
        entries = dict(base)
        for path in said["removed"]:
            entries.pop(path, None)
        for path, (blob, size, kind, text) in said["changed"].items():
            entries[path] = Entry(blob, size, kind)
            if blob not in lane.sent:
                lane.new[blob] = base64.b64decode(text)
                lane.sent.add(blob)
        lane.entries = dict(sorted(entries.items()))

    def _open(self) -> Sandbox:
        if self._box is None:
            self._kept = {}
            self._box = self._runtime.open({}, limits=Limits(disk_bytes=2 << 30, inodes=500_000))
        return self._box

    def _lost(self) -> None:
        """The shared box is not to be trusted any more: another one takes its place, and every lane is laid anew."""
        if self._box is not None:
            self._box.close()
        self._box = None
        for lane in self._lanes.values():
            lane.laid = False

    def _missing(self, starts: list[Start]) -> tuple[dict[str, dict[str, str]], bool]:
        """Start states that the box does not hold yet, and whether it has to let go of the others first."""
        wanted = {start.id: start for start in starts}
        new = [start for start in wanted.values() if start.id not in self._kept]
        forget = bool(new) and sum(self._kept.values()) + sum(start.size for start in new) > KEEP
        if forget:
            new, self._kept = list(wanted.values()), {}
        self._kept |= {start.id: start.size for start in new}
        files = {s.id: {path: base64.b64encode(data).decode() for path, data in s.files.items()} for s in new}
        return files, forget

    def _start(self, files: Files) -> Start:
        known = self._starts.get(id(files))
        if known is None or known.files is not files:
            if len(self._starts) > 4096:
                self._starts.clear()
            known = self._starts[id(files)] = Start.of(files)
        return known

    def _bytes(self, lane: Lane) -> int:
        return min(MOST_BYTES, lane.limits.disk_bytes // 4)

    def _inodes(self, lane: Lane) -> int:
        return min(MOST_INODES, lane.limits.inodes // 4)

    # --- boxes of their own ------------------------------------------------------------------------------
    def _alone(self, work: list[tuple[Lane, Call | Run]]) -> dict[int, Any]:
        if len(work) < 2:
            return {lane.number: self._by_itself(lane, request) for lane, request in work}
        if self._threads is None:
            self._threads = ThreadPoolExecutor(WORKERS, thread_name_prefix="lane")
        found = self._threads.map(lambda one: self._by_itself(*one), work)
        return {lane.number: answer for (lane, _), answer in zip(work, found, strict=True)}

    def _by_itself(self, lane: Lane, request: Call | Run) -> CallResult | Completed | SandboxError:
        """Do it in the lane's own box."""
        try:
            box = lane.apart or self._set_apart(lane)
            if isinstance(request, Run):
                done: CallResult | Completed = box.run(
                    request.argv, stdin=request.stdin, env=request.env, limits=request.limits
                )
            else:
                done = box.call(request.entry, request.payload, limits=request.limits)
            if isinstance(request, Run) or request.writes:
                snapshot = box.snapshot()
                lane.entries, lane.refused = snapshot.entries, snapshot.refused
                lane.new.update(snapshot.new)
            return done
        except SandboxError as error:
            return error

    def _set_apart(self, lane: Lane) -> Sandbox:
        """Give a lane its own box, in which everything is done again that it did so far."""
        box = self._lent(lane)
        lane.apart = box
        for call in lane.done:
            box.call(call.entry, call.payload, limits=call.limits)
        lane.done = []
        return box

    def _lent(self, lane: Lane) -> Sandbox:
        while (box := self._spare()) is not None:
            try:
                box.reset(lane.start.files, limits=lane.limits)
                return box
            except SandboxError:
                box.close()
                self._own.discard(box)
        box = self._runtime.open(lane.start.files, limits=lane.limits)
        self._own.add(box)
        if self._closed:  # meanwhile: nobody else would close it
            box.close()
            raise SandboxError("the box was closed meanwhile")
        return box

    def _spare(self) -> Sandbox | None:
        """A box that no lane has any more; other threads may take one at the same time."""
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def snapshot_of(self, number: int) -> Snapshot:
        """A lane's workspace after its last call, with what is new since it was last asked for."""
        lane = self._lanes[number]
        new, lane.new = lane.new, {}
        return Snapshot(lane.entries, new, lane.refused)

    def call_of(self, number: int, entry: str, payload: Any, limits: Limits | None) -> Call:
        return Call(entry, payload, limits or self.limits_of(number), self._writes(payload))

    def limits_of(self, number: int) -> Limits:
        return self._lanes[number].limits


class LaneSandbox:
    """One lane as a box."""

    def __init__(self, lanes: LaneBox, number: int, ask: Ask) -> None:
        self._lanes = lanes
        self._number = number
        self._ask = ask

    def run(
        self,
        argv: list[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        channel: socket.socket | None = None,
    ) -> Completed:
        if channel is not None:
            raise SandboxError("a lane has no commands that live on")
        done: Completed = self._ask(Run(argv, stdin, env, limits or self._lanes.limits_of(self._number)))
        return done

    def call(self, entry: str, payload: Any, *, limits: Limits | None = None) -> CallResult:
        done: CallResult = self._ask(self._lanes.call_of(self._number, entry, payload, limits))
        return done

    def snapshot(self) -> Snapshot:
        return self._lanes.snapshot_of(self._number)

    def reset(self, files: Files | None = None, *, limits: Limits | None = None) -> None:
        self._lanes.reset(self._number, files, limits)

    def close(self) -> None:
        """The lane's folder is thrown away when it is next used."""


def _least(limits: list[Limits]) -> Limits:
    """The narrowest of some limits, each by itself."""
    if all(one == limits[0] for one in limits):
        return limits[0]
    return Limits(**{name: min(getattr(one, name) for one in limits) for name in Limits.model_fields})
