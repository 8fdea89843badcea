"""Many small workspaces in one: `rover.sandbox.inside.lanes:perform` does one piece of work in each of some lanes.

A lane is a folder of the box's workspace. What is called here must be rover's own tools, which keep to the current
folder: all lanes of a call share a process. Start states lie once in `starts/` and are copied where a lane begins.

Every file that a scan has told of carries the time EPOCH; whoever writes to a file later moves its time, so the next
scan reads what changed and nothing else. Tools write by `write`, never through a mapping, which would move no time.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import os
import shutil
import stat
import traceback
from typing import Any

from rover.sandbox.inside.entry import one_line

WARM = ("rover.harness.inside",)

Json = dict[str, Any]

EPOCH = 946684800  # 2000-01-01
_EPOCH_NS = EPOCH * 1_000_000_000
MAX_PATH = 1024  # as in a snapshot of a whole workspace


def perform(payload: Json) -> list[Json]:
    """payload: starts {id: {path: base64}} to keep, forget (drop all kept before), jobs [{lane, and what to do:
    reset: id of a kept start; calls [{entry, payload}]; scan: whether to tell what changed; bytes, inodes: how much
    a lane may hold}]. Gives for each job {value or error with traceback, of its last call; scan; over}."""
    root = os.getcwd()
    if payload.get("forget"):
        shutil.rmtree("starts", ignore_errors=True)
    for name, files in payload["starts"].items():
        _keep(f"{root}/starts/{name}", files)
    out = []
    for job in payload["jobs"]:
        out.append(_job(root, job))
        os.chdir(root)
    return out


def _job(root: str, job: Json) -> Json:
    folder = f"{root}/lane-{job['lane']}"
    if "reset" in job:
        shutil.rmtree(folder, ignore_errors=True)
        _copy(f"{root}/starts/{job['reset']}", folder)
    os.chdir(folder)
    before = set(_walk({})[0]) if job["scan"] else set()
    answer: Json = {}
    for call in job["calls"]:
        answer = _call(call)
    os.chdir(folder)
    if job["scan"]:
        answer |= _scan(before, job)
    return answer


def _call(call: Json) -> Json:
    """As a call of its own would answer it."""
    try:
        module, _, name = call["entry"].partition(":")
        return {"value": getattr(importlib.import_module(module), name)(call["payload"])}
    except BaseException as error:
        return {"error": one_line(error), "traceback": traceback.format_exc()[-8000:]}


def _scan(before: set[str], job: Json) -> Json:
    """What changed: files with their bytes, paths that are gone, what cannot be kept; whether it is too much."""
    refused: dict[str, str] = {}
    found, inodes = _walk(refused)
    size = sum(-(-status.st_size // 4096) * 4096 for status in found.values())
    if size > job["bytes"] or inodes > job["inodes"]:
        return {"over": True}
    changed: dict[str, list[Any]] = {}
    for path, status in found.items():
        if status.st_mtime_ns == _EPOCH_NS:
            continue
        with open(path, "rb") as file:
            data = file.read()
        os.utime(path, (EPOCH, EPOCH))
        blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
        kind = "executable" if status.st_mode & 0o100 else "file"
        changed[path] = [blob, len(data), kind, base64.b64encode(data).decode()]
    return {"changed": changed, "removed": sorted(before - found.keys()), "refused": refused}


def _walk(refused: dict[str, str]) -> tuple[dict[str, os.stat_result], int]:
    """Every plain file below the current folder, and how many files and folders there are."""
    found: dict[str, os.stat_result] = {}
    inodes, folders = 0, [""]
    while folders:
        prefix = folders.pop()
        with os.scandir(prefix or ".") as items:
            for item in items:
                inodes += 1
                path = prefix + item.name
                reason = _unfit(path)
                status = item.stat(follow_symlinks=False)
                if reason:
                    refused[_text(path)] = reason
                elif stat.S_ISDIR(status.st_mode):
                    folders.append(f"{path}/")
                elif stat.S_ISREG(status.st_mode):
                    found[path] = status
                else:
                    refused[path] = "not a file, folder or link"
    return found, inodes


def _unfit(path: str) -> str:
    raw = os.fsencode(path)
    if len(raw) <= MAX_PATH and path.isprintable():
        return ""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return "its name is not UTF-8"
    return f"its path is longer than {MAX_PATH} bytes" if len(raw) > MAX_PATH else ""


def _text(path: str) -> str:
    shown = os.fsencode(path).decode("utf-8", "backslashreplace")
    return f"{path[:100]}..." if len(os.fsencode(path)) > MAX_PATH and shown == path else shown


def _keep(folder: str, files: dict[str, str]) -> None:
    os.makedirs(folder, exist_ok=True)
    made = {""}
    for path, text in files.items():
        _into(folder, path, made)
        with open(f"{folder}/{path}", "wb") as file:
            file.write(base64.b64decode(text))


def _copy(source: str, target: str) -> None:
    """A start state, every file with the time EPOCH."""
    os.mkdir(target)
    folders = [""]
    while folders:
        prefix = folders.pop()
        with os.scandir(source + prefix) as items:
            for item in items:
                path = f"{prefix}/{item.name}"
                if item.is_dir(follow_symlinks=False):
                    os.mkdir(target + path)
                    folders.append(path)
                    continue
                fd = os.open(source + path, os.O_RDONLY)
                data = os.read(fd, 1 << 30)
                os.close(fd)
                fd = os.open(target + path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
                while data:
                    data = data[os.write(fd, data) :]
                os.utime(fd, (EPOCH, EPOCH))
                os.close(fd)


def _into(folder: str, path: str, made: set[str]) -> None:
    parent = path.rpartition("/")[0]
    if parent not in made:
        os.makedirs(f"{folder}/{parent}", exist_ok=True)
        made.add(parent)
