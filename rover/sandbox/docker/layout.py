"""What a container is made of: what it shows of the host and where, its limits, and how its first process starts."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, NamedTuple

from rover.sandbox import layout as layouts
from rover.sandbox.docker.inside.jail import AGENT, CALLS
from rover.sandbox.inside.workspace import KEEP
from rover_store.records import Limits

#: What the first process may: become the user of commands, signal and read what that user left, put files back.
CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETPCAP", "SETUID")
#: Folders that are the box's own, each a file system of its own in memory.
_OWN = "rw,nosuid,nodev"
#: Memory beyond what commands may have: the first process, the warm ones, what the kernel keeps for them.
SPARE_MEMORY = 768 << 20
SHARED_MEMORY = 64 << 20
#: A start state takes room of the workspace's file system; how much is set aside for it grows in steps.
LEAST_ROOM, LEAST_FILES = 4 << 20, 1024


class Shape(NamedTuple):
    """What a container is started with and cannot change. `room` and `files` are for the start state."""

    memory: int
    disk: int
    inodes: int
    room: int
    files: int

    @classmethod
    def of(cls, limits: Limits, sizes: list[int]) -> Shape:
        """The shape for these limits and a start state of files of these sizes."""
        room = step(sum(-(-size // 4096) * 4096 for size in sizes), LEAST_ROOM)
        return cls(limits.memory_bytes, limits.disk_bytes, limits.inodes, room, step(2 * len(sizes), LEAST_FILES))


def step(need: int, least: int) -> int:
    """The least power of two times `least` that holds so much."""
    while least < need:
        least *= 2
    return least


@dataclass(frozen=True, slots=True)
class Layout:
    """`shown`: (folder of the host, path in the box). `files` and `links` stand in the image. `start`: arguments of
    the first process. `config`: what it is told. `hidden`: folders to cover."""

    shown: tuple[tuple[str, str], ...]
    files: dict[str, str]
    links: dict[str, str]
    start: tuple[str, ...]
    config: dict[str, Any]
    env: dict[str, str]
    hidden: tuple[str, ...] = ()


def bare() -> Layout:
    """A box without an image: what a bubblewrap box shows, at the same paths."""
    shown, config = layouts.visible()
    links = dict(config["links"])
    system = [("/usr", "/usr")]
    for path in layouts.SYSTEM:
        if os.path.islink(path):
            links[path] = os.readlink(path)
        elif os.path.isdir(path):
            system.append((path, path))
    system += [(p, p) for p in ("/etc/alternatives", "/etc/ld.so.cache", "/nix/store") if os.path.exists(p)]
    hidden = tuple(path for path in config["hide"] if path != "/r")
    python = (config["python"],)
    told = {"python": python, "site": config["site"], "rover": "/r", "env": config["env"]}
    return Layout((*system, *shown), config["files"], links, python, told, config["env"], hidden)


def first_process(layout: Layout) -> list[str]:
    code = f"import sys; sys.path.insert(0, {layout.config['rover']!r}); "
    code += "from rover.sandbox.docker.inside.supervisor import main; main()"
    return [*layout.start, "-I", "-S", "-c", code]


def file_systems(shape: Shape, hidden: tuple[str, ...]) -> dict[str, str]:
    """Path -> options of each file system in memory."""
    most, inodes = shape.disk, shape.inodes
    work = f"size={shape.disk + shape.room},nr_inodes={shape.inodes + shape.files}"
    found = {
        "/w": f"{_OWN},exec,{work},mode=755,uid={AGENT},gid={AGENT}",
        "/tmp": f"{_OWN},exec,size={most},nr_inodes={inodes},mode=1777",
        "/dev": "rw,nosuid,noexec,dev,size=64k,mode=755",
        "/dev/shm": f"{_OWN},noexec,size={SHARED_MEMORY},nr_inodes=1024,mode=1777",
        "/sys": "ro,nosuid,nodev,noexec,size=4k,mode=700",
        "/.rover": f"{_OWN},noexec,size={KEEP + 2 * shape.room},mode=700",
        "/r": f"{_OWN},noexec,size=64k,mode=750,gid={CALLS}",
    }
    return found | dict.fromkeys(hidden, "ro,nosuid,nodev,noexec,size=4k,mode=700")


def memory(shape: Shape) -> int:
    """The kernel's ceiling for the whole container: its files in memory count."""
    files = 2 * shape.disk + 2 * shape.room + SHARED_MEMORY + KEEP
    return shape.memory + files + SPARE_MEMORY
