"""Runs the checks of one grading. Entry `rover.verify.inside:grade`; it runs in a child of the box, forked for
this grading alone, whose folder holds end/, start/ and verifier/.

Checks are package content and are not trusted. Each runs in a fork of its own: what it does to memory, modules
or the library ends with it. It gets no descriptor but the pipe of its result and the pipe of its prints, both
bounded. Its time, memory, file size and processes are limited, its leftover processes are killed, and what it
changed of the workspace is found by looking at every file again. All of that is recorded as `error`, a fault of
the verifier; a deliverable that cannot be read is not, it scores 0.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import math
import os
import re
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType
from typing import Any

from rover.verify import checklib
from rover.verify.checklib import Evidence, Unreadable

Json = dict[str, Any]

RESULT_BYTES = 64 << 10
PRINT_BYTES = 256 << 10
REASON_CHARS = 500
MEMORY_BYTES = 1 << 30
FILE_BYTES = 1 << 20

_CHECK = re.compile(r"(checks/[\w./-]+\.py):([A-Za-z_]\w*)")


def grade(payload: Json) -> list[Json]:
    """Scores of the criteria in `payload`, in their order: [{"criterion", "score", "reason"} or {.., "error"}].

    payload: criteria [{id, check, paths}], message, irregular {path: reason}, check_wall_s, wall_s.
    """
    os.umask(0o077)
    _become_reaper()
    _own_names()
    anchors = _anchors()
    deadline = time.monotonic() + float(payload.get("wall_s", 25.0))
    _read_once(payload["criteria"])
    before, seen = _contents(), _stats()
    out: list[Json] = []
    spoilt = ""
    for criterion in payload["criteria"]:
        left = min(float(payload.get("check_wall_s", 10.0)), deadline - time.monotonic())
        if spoilt or left <= 0:
            found = {"error": spoilt or "no time was left for this check"}
        else:
            found = _irregular(criterion, payload) or _isolated(criterion, payload, anchors, left)
            if _stats() != seen:
                found = {"error": "the check changed the workspace"}
                spoilt = f"not run: {criterion['id']} changed the workspace"
        out.append({"criterion": criterion["id"], **found})
    if not spoilt and _contents() != before:  # a mapped write may change no time stamp
        out = [o if "error" in o else {**o, "error": "a check changed the workspace"} for o in out]
    return out


def _irregular(criterion: Json, payload: Json) -> Json | None:
    """Infrastructure first: evidence that is no regular file fails the criterion before any check runs."""
    for path in criterion.get("paths", ()):
        for known, reason in payload.get("irregular", {}).items():
            if path == known or path.startswith(known + "/"):
                return {"score": 0.0, "reason": f"{path}: {reason}"}
    return None


def _anchors() -> Json:
    try:
        stored = json.loads(Path("verifier/anchors.json").read_bytes())
    except FileNotFoundError:
        return {}
    return {a["id"]: a["value"] for a in stored["anchors"]}


def _own_names() -> None:
    """Only rover's own library answers to the name that checks import; the workspace is never searched."""
    sys.modules[checklib.IMPORT_NAME] = checklib
    here = os.getcwd()
    sys.path[:] = [p for p in sys.path if p and not os.path.abspath(p).startswith(here)]
    sys.dont_write_bytecode = True


#: compiled check files; compiling runs nothing of them
_CODE: dict[str, CodeType] = {}


def _read_once(criteria: list[Json]) -> None:
    """Parse tables and compile checks before forking, so that the checks of one grading share the work."""
    _CODE.clear()
    for name in dict.fromkeys(m[1] for c in criteria if (m := _CHECK.fullmatch(c["check"])) and ".." not in m[1]):
        with contextlib.suppress(Exception):  # whatever is wrong with it is said by the check that needs it
            _CODE[name] = compile(Path("verifier", name).read_bytes(), f"verifier/{name}", "exec")
    for path in dict.fromkeys(p for c in criteria for p in c.get("paths", ())):
        for state in ("end", "start"):
            with contextlib.suppress(Unreadable, ValueError, MemoryError):
                checklib.table(Path(state, path))


# --- one check, in a process of its own --------------------------------------------------------------------
def _isolated(criterion: Json, payload: Json, anchors: Json, wall_s: float) -> Json:
    result_r, result_w = os.pipe()
    prints_r, prints_w = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        try:
            _confine(result_w, prints_w, wall_s)
            answer = _answer(criterion, payload, anchors)
            os.write(3, json.dumps(answer).encode()[:RESULT_BYTES])
        finally:
            os._exit(0)
    os.close(result_w)
    os.close(prints_w)
    why = "the check could not be watched"
    try:
        data, why = _drain(pid, result_r, prints_r, time.monotonic() + wall_s)
    finally:
        os.close(result_r)
        os.close(prints_r)
        status = _end(pid, 0.0 if why else 0.2)
    return _read(data, why, status)


def _confine(result_w: int, prints_w: int, wall_s: float) -> None:
    """Inside the fork: descriptor 0 is empty, 1 and 2 are the prints, 3 the result, and nothing else is open."""
    os.setpgid(0, 0)
    result, prints = os.dup(result_w), os.dup(prints_w)
    empty = os.open(os.devnull, os.O_RDONLY)
    high = max(result, prints, empty) + 1
    result, prints, empty = (_lift(fd, high) for fd in (result, prints, empty))
    for fd, at in ((empty, 0), (prints, 1), (prints, 2), (result, 3)):
        os.dup2(fd, at, inheritable=at < 3)
    os.closerange(4, 4096)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit is an OSError
    _limit(resource.RLIMIT_AS, _mapped() + MEMORY_BYTES)
    _limit(resource.RLIMIT_CPU, max(1, math.ceil(wall_s)))
    _limit(resource.RLIMIT_FSIZE, FILE_BYTES)
    _limit(resource.RLIMIT_CORE, 0)


def _lift(fd: int, at: int) -> int:
    return fcntl.fcntl(fd, fcntl.F_DUPFD, max(at, 10))


def _limit(what: int, value: int) -> None:
    _, hard = resource.getrlimit(what)
    top = value if hard == resource.RLIM_INFINITY else min(value, hard)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(what, (top, top))


def _mapped() -> int:
    """Address space in use: the limit is on what a check adds to the warm process it was forked from."""
    with open("/proc/self/statm", "rb") as f:
        return int(f.read().split()[0]) * resource.getpagesize()


def _answer(criterion: Json, payload: Json, anchors: Json) -> Json:
    """What one check says, as {"score", "reason"} or {"error"}."""
    evidence = Evidence(
        message=payload.get("message", ""),
        paths=tuple(criterion.get("paths", ())),
        criterion=criterion["id"],
        anchors=anchors,
        irregular=payload.get("irregular", {}),
    )
    try:
        value = _function(criterion["check"])(evidence)
    except Unreadable as reason:
        return {"score": 0.0, "reason": _words(reason)}
    except BaseException as error:
        return {"error": f"the check raised {type(error).__name__}: {_words(error)}{_where(error)}"}
    return _scored(value)


def _function(check: str) -> Callable[[Evidence], Any]:
    m = _CHECK.fullmatch(check)
    if m is None or ".." in m[1]:
        raise ValueError(f"{check!r} does not name a function of a file in checks/")
    source = Path("verifier", m[1])
    names: Json = {"__name__": "rover_check", "__file__": str(source)}
    exec(_CODE.get(m[1]) or compile(source.read_bytes(), str(source), "exec"), names)
    function = names.get(m[2])
    if not callable(function):
        raise ValueError(f"{m[1]} defines no function {m[2]}")
    return function  # type: ignore[no-any-return]


def _scored(value: Any) -> Json:
    """A check's value as a score, or as an error where it is none."""
    score, reason = value if isinstance(value, tuple) and len(value) == 2 else (value, "")
    if isinstance(score, bool):
        score = float(score)
    if not isinstance(score, int | float):
        return {"error": f"the check returned {type(score).__name__}, not a score in [0, 1]"}
    if not isinstance(reason, str):
        return {"error": f"the check gave {type(reason).__name__} as its reason, not text"}
    if not math.isfinite(score) or not 0 <= score <= 1:
        return {"error": f"the check returned {score}, which is not in [0, 1]"}
    return {"score": float(score), "reason": _words(reason) or ("as asked" if score == 1 else "not as asked")}


def _words(value: object) -> str:
    try:
        return " ".join(str(value).encode("utf-8", "replace").decode().split())[:REASON_CHARS]
    except Exception:
        return "(no text)"


def _where(error: BaseException) -> str:
    """The line of the check file that raised, for the author."""
    trace, line = error.__traceback__, 0
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__") == "rover_check":
            line = trace.tb_lineno
        trace = trace.tb_next
    return f" (line {line})" if line else ""


# --- the parent's side ---------------------------------------------------------------------------------------
def _drain(pid: int, result: int, prints: int, deadline: float) -> tuple[bytes, str]:
    """Read the result until its pipe closes or the check has ended (what it left running may hold the pipe).

    Returns it with the reason the check has to be killed, if any.
    """
    data, printed, ended = b"", 0, os.pidfd_open(pid)
    watched = {result, prints, ended}
    try:
        while True:
            ready, _, _ = select.select(list(watched), [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return data, "the check did not end in time"
            for fd in set(ready) - {ended}:
                chunk = os.read(fd, 65536)
                if not chunk:
                    watched.discard(fd)
                elif fd == result:
                    data += chunk
                else:
                    printed += len(chunk)
            if len(data) > RESULT_BYTES:
                return b"", "the check gave a result that is too large"
            if printed > PRINT_BYTES:
                return b"", f"the check printed more than {PRINT_BYTES >> 10} KB"
            if result not in watched or set(ready) == {ended}:
                return data, ""
    finally:
        os.close(ended)


def _read(data: bytes, why: str, status: int) -> Json:
    if why:
        return {"error": why}
    try:
        found = json.loads(data)
        if isinstance(found, dict) and set(found) == {"error"}:
            return {"error": _words(found["error"])}
        return _scored((found["score"], found["reason"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    if os.WIFSIGNALED(status):
        return {"error": f"the check was killed by {signal.Signals(os.WTERMSIG(status)).name}"}
    return {"error": "the check ended without a result"}


def _end(pid: int, grace_s: float) -> int:
    """Kill a check with all it started, and return its wait status. A check that is done may end by itself."""
    ended = os.pidfd_open(pid)
    select.select([ended], [], [], grace_s)
    os.close(ended)
    for target in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            target(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    for _ in range(200):  # orphans come to this process: it is their reaper
        children = _children()
        for child in children:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not children:
            break
    return status


def _children() -> list[int]:
    out = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as f:
                if int(f.read().rpartition(b")")[2].split()[1]) == os.getpid():
                    out.append(int(name))
    return out


def _become_reaper() -> None:
    """Orphans of a check become children of this process, wherever they hide."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


# --- the workspace ---------------------------------------------------------------------------------------------
def _stats() -> Mapping[str, tuple[int, ...]]:
    out = {}
    for path in _files():
        with contextlib.suppress(OSError):
            s = os.lstat(path)
            out[path] = (s.st_ino, s.st_mode, s.st_size, s.st_mtime_ns, s.st_ctime_ns)
    return out


def _contents() -> str:
    """One digest of every file."""
    total = hashlib.sha1(usedforsecurity=False)
    for path in _files():
        total.update(os.fsencode(path) + b"\0")
        with contextlib.suppress(OSError, Unreadable):
            total.update(hashlib.sha1(checklib.read.raw(path, 1 << 31), usedforsecurity=False).digest())
    return total.hexdigest()


def _files() -> list[str]:
    out = []
    for folder, folders, names in os.walk("."):
        folders.sort()
        out += [os.path.join(folder, n) for n in sorted(names)]
        out += [os.path.join(folder, n) for n in folders if not os.listdir(os.path.join(folder, n))]
    return out
