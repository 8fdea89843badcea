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
import hashlib
import math
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType
from typing import Any

from rover.verify import checklib, conditions
from rover.verify.checklib import Evidence, Unreadable
from rover.verify.checklib.bounds import TooSlow, within_time
from rover.verify.checklib.read import read_ahead
from rover.verify.process import NO_TIME, become_reaper, isolated

Json = dict[str, Any]

WARM_FOR = {".xlsx": "openpyxl", ".xlsm": "openpyxl"}
REASON_CHARS = 500
#: processor time for reading all evidence, of what a grading has
READ_SECONDS = 8.0

_CHECK = re.compile(r"(checks/[\w./-]+\.py):([A-Za-z_]\w*)")


def grade(payload: Json) -> list[Json]:
    """Scores of the criteria in `payload`, in their order: [{"criterion", "score", "reason"} or {.., "error"}].

    payload: parts [{criteria [{id, check, paths, anchors}], irregular {path: reason}, start, end}], message, clock
    and seed (see conditions), check_wall_s, wall_s. `start` and `end` are the paths that a part is shown: of the
    second part on, all others are removed before its checks run.
    """
    become_reaper()
    prepare(float(payload.get("clock", 0.0)), int(payload.get("seed", 0)))
    deadline = time.monotonic() + float(payload.get("wall_s", 25.0))
    refused = read_once([c for part in payload["parts"] for c in part["criteria"]])
    out: list[Json] = []
    spoilt = ""
    for number, part in enumerate(payload["parts"]):
        if number and not spoilt:
            _show_only(part)
        shown = {**payload, "irregular": {**refused, **part.get("irregular", {})}}
        found, spoilt = _part(part["criteria"], shown, deadline, spoilt)
        out += found
    return out


def prepare(clock: float, seed: int) -> None:
    """Before any check is forked: who may read what is written, which names answer, what time it is."""
    os.umask(0o077)
    _own_names()
    conditions.apply(clock, seed)


def _part(criteria: list[Json], payload: Json, deadline: float, spoilt: str) -> tuple[list[Json], str]:
    """What the checks of one part say, and why the rest cannot be run any more."""
    before, seen = _contents(), stats()
    out: list[Json] = []
    for criterion in criteria:
        left = min(float(payload.get("check_wall_s", 10.0)), deadline - time.monotonic())
        if spoilt or left <= 0:
            found = {"error": spoilt or NO_TIME}
        else:
            found = irregular(criterion, payload) or _checked(criterion, payload, left)
            if stats() != seen:
                found = {"error": "the check changed the workspace"}
                spoilt = f"not run: {criterion['id']} changed the workspace"
        out.append({"criterion": criterion["id"], **found})
    if not spoilt and _contents() != before:  # a mapped write may change no time stamp
        out = [o if "error" in o else {**o, "error": "a check changed the workspace"} for o in out]
        spoilt = "not run: a check changed the workspace"
    return out, spoilt


def _show_only(part: Json) -> None:
    """Remove what this part is not shown, and empty folders with it."""
    for state in ("start", "end"):
        keep = {os.path.join(".", state, path) for path in part[state]}
        for folder, _, names in os.walk(os.path.join(".", state), topdown=False):
            for name in names:
                path = os.path.join(folder, name)
                if path not in keep:
                    os.unlink(path)
            if folder != os.path.join(".", state) and not os.listdir(folder):
                os.rmdir(folder)


def irregular(criterion: Json, payload: Json) -> Json | None:
    """Infrastructure first: evidence that is no regular file fails the criterion before any check runs."""
    for path in criterion.get("paths", ()):
        for known, reason in payload.get("irregular", {}).items():
            if path == known or path.startswith(known + "/"):
                return {"score": 0.0, "reason": f"{path}: {reason}"}
    return None


def _own_names() -> None:
    """Only rover's own library answers to the name that checks import; the workspace is never searched."""
    sys.modules[checklib.IMPORT_NAME] = checklib
    here = os.getcwd()
    sys.path[:] = [p for p in sys.path if p and not os.path.abspath(p).startswith(here)]
    sys.dont_write_bytecode = True


#: check files with their source, compiled; compiling runs nothing of them
_CODE: dict[str, tuple[bytes, CodeType]] = {}


def compile_checks(verifier: str) -> None:
    """Compile all check files of a verifier ahead of the processes that grade by them."""
    for folder, _, names in os.walk(os.path.join(verifier, "checks")):
        for name in names:
            with contextlib.suppress(Exception):  # said by the check that needs it
                _code(os.path.relpath(os.path.join(folder, name), verifier))


def _code(name: str) -> CodeType:
    """A check file's code, compiled once for the same bytes."""
    source = Path("verifier", name).read_bytes()
    known = _CODE.get(name)
    if known is None or known[0] != source:
        known = _CODE[name] = (source, compile(source, f"verifier/{name}", "exec"))
    return known[1]


def read_once(criteria: list[Json]) -> dict[str, str]:
    """Parse tables and compile checks before forking, so that the checks of one grading share the work.

    Returns deliverables that take too long to read, with the reason: they are not the verifier's fault.
    """
    for name in dict.fromkeys(m[1] for c in criteria if (m := _CHECK.fullmatch(c["check"])) and ".." not in m[1]):
        with contextlib.suppress(Exception):  # whatever is wrong with it is said by the check that needs it
            _code(name)
    refused = {}
    ends = time.process_time() + READ_SECONDS
    for path in dict.fromkeys(p for c in criteria for p in c.get("paths", ())):
        if _read_ahead(Path("start", path), ends) and not _read_ahead(Path("end", path), ends):
            refused[path] = "takes too long to read"
    return refused


def _read_ahead(path: Path, ends: float) -> bool:
    """False where reading the file was not done when the time for it was over."""
    try:
        with within_time(ends - time.process_time()):
            read_ahead(path)
    except TooSlow:
        return False
    except (Unreadable, ValueError, MemoryError):
        pass  # said by the check that needs it
    return True


# --- one check -------------------------------------------------------------------------------------------------
def _checked(criterion: Json, payload: Json, wall_s: float) -> Json:
    """What one check says, run in a process of its own."""
    found, why = isolated(lambda: answer(criterion, payload), wall_s)
    return {"error": why} if why else taken(found)


def taken(found: Any) -> Json:
    """What comes out of a check's process is as untrusted as the check."""
    if isinstance(found, dict) and set(found) == {"error"}:
        return {"error": _words(found["error"])}
    if isinstance(found, dict) and set(found) == {"score", "reason"}:
        return _scored((found["score"], found["reason"]))
    return {"error": "the check ended without a result"}


def answer(criterion: Json, payload: Json) -> Json:
    """What one check says, as {"score", "reason"} or {"error"}."""
    evidence = Evidence(
        message=payload.get("message", ""),
        paths=tuple(criterion.get("paths", ())),
        criterion=criterion["id"],
        anchors=criterion.get("anchors", {}),
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
    names: Json = {"__name__": "rover_check", "__file__": str(Path("verifier", m[1]))}
    exec(_code(m[1]), names)
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


# --- the workspace ---------------------------------------------------------------------------------------------
def stats() -> Mapping[str, tuple[int, ...]]:
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
