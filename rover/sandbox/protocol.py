"""What a sandbox is: a living box with a workspace, in which commands and functions run apart from the host.

A `Runtime` opens boxes of one kind. A `Sandbox` is one living box: many commands, each in milliseconds.
Nothing that runs there sees the network or a file of the host other than the system's libraries, the Python
that rover runs on, and what the box was given.

The current folder of every command and call is the root of the workspace, and `ROVER_W` names it. In a real
sandbox that is `/w`; the local runtime has no `/w`, so code that runs inside uses relative paths.

Errors: SandboxError where the box itself fails or the machine cannot run it. What the command does wrong
(exit code, limit broken, hostile files) is data in the result, never an exception.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from rover_store.records import Limits

#: Files of a workspace: path with `/` -> bytes. Folders are implied; an empty folder does not exist.
Files = Mapping[str, bytes]

Breach = Literal["wall", "cpu", "memory", "output", "disk", "cancelled"]


#: What a runtime may be unable to give. A name in `unmet` of a runtime is one of these.
GUARANTEES = (
    "hard memory ceiling",  # the kernel refuses memory beyond the limit; else it is polled every 20 ms
    "processor share",  # a box cannot take more than its share of the processors
    "disk limit",  # bytes and files of the workspace are bounded while a command runs
    "hidden host files",  # names, sizes and times of the host's files cannot be seen
    "host metadata",  # modes and times of the caller's own files outside the box cannot be changed
    "process limit",  # a fork bomb is bounded by the kernel
    "private processes",  # processes of the host cannot be seen
    "tool servers apart",  # a command can neither end a living command of its box, nor see it or read its memory
    "fixed paths",  # the workspace lies at /w; /tmp and /dev/shm are the box's own; else ROVER_W and TMPDIR tell
)

#: What a package may need beyond a plain box; a runtime names those it can give in `offers`.
FEATURES = (
    "workdir",  # the workspace at an absolute path of the package's choice
    "image",  # the package's own container image
    "root",  # commands that run as root
    "network",  # no runtime gives it
    "steps",  # a task of several steps, each graded by itself
)


@dataclass(frozen=True, slots=True)
class Place:
    """What a box shows beside a plain workspace. Boxes of one place can take each other's work.

    `links`: absolute path -> folder of the workspace (empty: its root) that also appears there.
    `shows`: folder of the host -> absolute path where it appears, read-only; for programs, never for content.
    `image`: the image to run in, by id or digest; empty where none is needed. `build`: instead, the files of a
    folder with a Dockerfile. `env`: variables of every command.
    """

    links: tuple[tuple[str, str], ...] = ()
    shows: tuple[tuple[str, str], ...] = ()
    image: str = ""
    build: tuple[tuple[str, bytes], ...] = ()
    dockerfile: str = "Dockerfile"
    env: tuple[tuple[str, str], ...] = ()


def lacking(requires: tuple[str, ...], runtime: object) -> tuple[str, ...]:
    """Which of these a runtime does not give: guarantees that it names as unmet, features that it does not offer."""
    unmet, offers = getattr(runtime, "unmet", ()), getattr(runtime, "offers", ())
    return tuple(name for name in requires if name in unmet or (name not in GUARANTEES and name not in offers))


@dataclass(frozen=True, slots=True)
class Completed:
    """What a command left: its streams (cut at the output limit) and how it ended."""

    exit_code: int | None
    stdout: bytes
    stderr: bytes
    breach: Breach | None = None  # the limit that killed it, None where it ended by itself
    cpu_s: float = 0.0
    wall_s: float = 0.0


@dataclass(frozen=True, slots=True)
class CallResult:
    """What a function that ran inside returned. `value` is JSON; `error` is its exception in one line."""

    value: Any = None
    error: str = ""
    traceback: str = ""
    breach: Breach | None = None
    stdout: bytes = b""
    stderr: bytes = b""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of a snapshot. `blob` is the git id of its bytes (of the target's text for a link)."""

    blob: str
    size: int
    kind: Literal["file", "executable", "link"] = "file"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole workspace as a manifest, and the bytes of what is new since the last snapshot or reset.

    `refused` names what cannot be kept (FIFO, device, a name that is not UTF-8, over a limit), with the reason.
    Links are recorded, never followed.
    """

    entries: Mapping[str, Entry]
    new: Mapping[str, bytes] = field(default_factory=dict)  # blob id -> bytes
    refused: Mapping[str, str] = field(default_factory=dict)  # path -> reason


@runtime_checkable
class Sandbox(Protocol):
    """One living box."""

    def run(
        self,
        argv: list[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        channel: socket.socket | None = None,
    ) -> Completed:
        """Run a command; its current folder is the workspace. When it returns, all its processes are dead.

        `channel` is one end of a stream socket pair: the command has it as descriptor 3 (ROVER_CHANNEL=3 says so),
        the caller talks over the other end. While such a command runs, other threads may ask the box for
        snapshots, calls and commands without a channel: its processes are held still meanwhile. A reset ends it.

        A command that does not exist gives exit code 127, one that may not be executed 126, one that a signal
        ended 128 + the signal. `output_bytes` bounds both streams together; beyond it the command is killed.
        """

    def call(self, entry: str, payload: Any, *, limits: Limits | None = None) -> CallResult:
        """Call `module:function(payload)` inside, in a warm child forked for this call alone.

        The payload and the value are JSON. The function uses relative paths: its current folder is the
        workspace, which it may change. No call sees or touches another one's memory. A module that wants
        libraries imported before the fork says so in a literal: `WARM = ("pandas", "openpyxl")`.
        """

    def snapshot(self) -> Snapshot:
        """The workspace as it stands."""

    def reset(self, files: Files | None = None, *, limits: Limits | None = None) -> None:
        """Put the workspace back exactly to its start, or make `files` the new start.

        `limits` replaces the limits that the box was opened with.
        """

    def close(self) -> None:
        """End the box and everything in it."""


@dataclass(frozen=True, slots=True)
class Probe:
    """What a runtime can do on this machine. `unmet` names guarantees it cannot give here."""

    kind: str
    works: bool
    reason: str = ""  # one line: why not, and what to do
    tier: int = 1
    unmet: tuple[str, ...] = ()
    offers: tuple[str, ...] = ()


@runtime_checkable
class Images(Protocol):
    """What a runtime that offers `image` has beside."""

    def image_id(self, place: Place) -> str:
        """What the image of a place really is, built where it has to be: an id that names these very bytes, and that
        `Place.image` takes. SandboxError where it is not to be had."""


@runtime_checkable
class Runtime(Protocol):
    """A kind of sandbox. It may also name what it cannot give (`unmet`) and what it can beyond a plain box
    (`offers`), as tuples; see `lacking`."""

    kind: str

    def probe(self) -> Probe:
        """Really start one box and say what works."""

    def runtime_id(self) -> str:
        """Hash of sandbox kind, tier, unmet guarantees, interpreter and library versions."""

    def open(self, files: Files, *, limits: Limits | None = None, place: Place | None = None) -> Sandbox:
        """Start a box whose workspace holds `files`. SandboxError where it cannot, or has no such place."""

    def close(self) -> None:
        """End every box that is still open, and what the runtime itself started."""
