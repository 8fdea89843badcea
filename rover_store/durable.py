"""Making several files or folders durable at once.

A disk that takes milliseconds to confirm one file confirms several in the same time when it is asked together.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path


def sync(descriptors: Sequence[int]) -> None:
    """fsync all; the first error is raised when all have ended."""
    errors: list[BaseException] = []

    def one(descriptor: int) -> None:
        try:
            os.fsync(descriptor)
        except OSError as error:
            errors.append(error)

    threads = []
    for descriptor in descriptors[1:]:
        thread = threading.Thread(target=one, args=(descriptor,))
        try:
            thread.start()
        except RuntimeError:  # no more threads here
            one(descriptor)
        else:
            threads.append(thread)
    for descriptor in descriptors[:1]:
        one(descriptor)
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def sync_folders(paths: Iterable[Path]) -> None:
    """Make renames in folders durable."""
    with ExitStack() as stack:
        descriptors = []
        for path in dict.fromkeys(paths):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, descriptor)
            descriptors.append(descriptor)
        sync(descriptors)


def write_files(texts: Iterable[tuple[Path, str]]) -> None:
    """Fill files that are there, and make their content durable."""
    with ExitStack() as stack:
        descriptors = []
        for path, text in texts:
            descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
            stack.callback(os.close, descriptor)
            descriptors.append(descriptor)
            data = memoryview(text.encode("utf-8", "surrogateescape"))
            while data:
                data = data[os.write(descriptor, data) :]
        sync(descriptors)
