"""Making several files or folders durable at once.

A disk that takes milliseconds to confirm one file confirms several in the same time when it is asked together.
"""

from __future__ import annotations

import _thread
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path

#: seconds that the disk took last; where it is quicker than a thread starts, none is started
_took = 0.0
_SLOW_S = 0.001
#: threads and descriptors at a time
_TOGETHER = 32


def sync(descriptors: Sequence[int]) -> None:
    """fsync all; the first error is raised when all have ended."""
    global _took
    errors: list[OSError] = []
    waiting = []
    for descriptor in descriptors[1:]:
        if _took > _SLOW_S:
            with suppress(RuntimeError):  # no more threads here
                done = _thread.allocate_lock()
                done.acquire()
                _thread.start_new_thread(_one, (descriptor, errors, done))
                waiting.append(done)
                continue
        _one(descriptor, errors)
    began = time.monotonic()
    for descriptor in descriptors[:1]:
        _one(descriptor, errors)
    _took = time.monotonic() - began
    for done in waiting:
        done.acquire()
    if errors:
        raise errors[0]


def _one(descriptor: int, errors: list[OSError], done: _thread.LockType | None = None) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        errors.append(error)
    finally:
        if done is not None:
            done.release()


def sync_folders(paths: Iterable[Path]) -> None:
    """Make renames in folders durable."""
    waiting = iter(dict.fromkeys(paths))
    while batch := list(islice(waiting, _TOGETHER)):
        with ExitStack() as stack:
            descriptors = []
            for path in batch:
                descriptors.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
                stack.callback(os.close, descriptors[-1])
            sync(descriptors)


def write_files(texts: Iterable[tuple[Path, str]]) -> None:
    """Fill files that are there, and make their content durable."""
    waiting = iter(texts)
    while batch := list(islice(waiting, _TOGETHER)):
        with ExitStack() as stack:
            descriptors = []
            for path, text in batch:
                descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
                stack.callback(os.close, descriptor)
                descriptors.append(descriptor)
                data = memoryview(text.encode("utf-8", "surrogateescape"))
                while data:
                    data = data[os.write(descriptor, data) :]
            sync(descriptors)
