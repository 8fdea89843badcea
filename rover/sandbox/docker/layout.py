"""What a container is made of: what it shows of the host and where, its limits, and how its first process starts."""

from __future__ import annotations

import os
import struct
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from rover.sandbox import layout as layouts
from rover.sandbox.docker.inside.jail import AGENT, CALLS
from rover.sandbox.inside.workspace import KEEP
from rover_store.errors import SandboxError
from rover_store.records import Limits

#: What the first process may: become the user of commands, signal and read what that user left, put files back.
CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETPCAP", "SETUID")
#: Folders that are the box's own, each a file system of its own in memory.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
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
    def of(cls, limits: Limits, sizes: Mapping[str, int]) -> Shape:
        """The shape for these limits and a start state: path -> size."""
        room = step(sum(-(-size // 4096) * 4096 for size in sizes.values()), LEAST_ROOM)
        inodes = set(sizes)
        for path in sizes:
            while (path := path.rpartition("/")[0]) and path not in inodes:
                inodes.add(path)
        return cls(limits.memory_bytes, limits.disk_bytes, limits.inodes, room, step(len(inodes), LEAST_FILES))


def step(need: int, least: int) -> int:
    """The least power of two times `least` that holds so much."""
    while least < need:
        least *= 2
    return least


@dataclass(frozen=True, slots=True)
class Layout:
    """`shown`: (folder of the host, path in the box). `files` and `links` stand in the image. `start`: arguments of
    the first process. `config`: what it is told. `hidden`: folders to cover. `unset`: variables of the image."""

    shown: tuple[tuple[str, str], ...]
    files: dict[str, str]
    links: dict[str, str]
    start: tuple[str, ...]
    config: dict[str, Any]
    env: dict[str, str]
    hidden: tuple[str, ...] = ()
    unset: tuple[str, ...] = ()


def bare(away: tuple[str, ...] = ()) -> Layout:
    """A box without an image: what a bubblewrap box shows, at the same paths; `away` as there."""
    shown, config = layouts.visible(away)
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


def around(image: dict[str, Any]) -> Layout:
    """A box of an image: commands see the image alone. Rover's interpreter lies where only calls may look, and is
    started by its own loader with its own libraries, so that it does not matter what the image has of these."""
    python = os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)
    prefix = os.path.realpath(sys.base_prefix)
    moved = {"/usr": "/r/usr"} | {p: f"/r{p}" for p in ("/lib", "/lib64") if not os.path.islink(p) and os.path.isdir(p)}
    if not prefix.startswith("/usr"):
        moved[prefix] = "/r/python"
    site = {folder: f"/r/site{number}" for number, folder in enumerate(layouts.site_folders())}
    own = {layouts.package_folder(name): f"/r/{name}" for name in ("rover", "rover_store")}
    shown = [*moved.items(), *site.items(), *own.items()]
    shown += [(p, p) for p in ("/nix/store",) if os.path.isdir(p)]
    shown.append((os.devnull, "/etc/ld.so.preload"))  # the loader would run the image's code as the first process

    def inside(path: str) -> str:
        real = os.path.realpath(path)
        found = [source for source in moved if real == source or real.startswith(f"{source}/")]
        return moved[found[0]] + real.removeprefix(found[0]) if found else real

    libraries = dict.fromkeys(inside(path) for path in (f"{prefix}/lib", *_library_folders()) if os.path.isdir(path))
    start = (inside(_loader(python)), "--library-path", ":".join(libraries), inside(python))
    # in the C locale nothing of the image is read to make text of bytes
    own_env = {**layouts.ENVIRONMENT, "LC_ALL": "C"}
    config = {"python": start, "site": list(site.values()), "rover": "/r", "env": own_env}
    of_image = dict(item.partition("=")[::2] for item in image["Config"].get("Env") or ())
    env = {**layouts.ENVIRONMENT, "PATH": PATH, **of_image, "ROVER_W": "/w"}
    hidden = tuple(image["Config"].get("Volumes") or ())
    return Layout(tuple(shown), {}, {}, start, config, env, hidden, tuple(of_image))


def carried() -> Layout:
    """A box of an image that has rover installed, for engines that do not see this machine's files."""
    env = {**layouts.ENVIRONMENT, "PATH": PATH}
    config = {"python": ("python3",), "site": [], "rover": "", "env": {**env, "PYTHONSAFEPATH": "1"}}
    return Layout((), {}, {}, ("python3",), config, env)


def _loader(python: str) -> str:
    """The program that the kernel starts to start this one: an ELF file names it."""
    with open(python, "rb") as stream:
        head = stream.read(64)
        start, size, count = struct.unpack_from("<Q", head, 32)[0], *struct.unpack_from("<HH", head, 54)
        for number in range(count):
            stream.seek(start + number * size)
            kind, _, place, _, _, length = struct.unpack("<IIQQQQ", stream.read(40))
            if kind == 3:  # PT_INTERP
                stream.seek(place)
                return os.fsdecode(stream.read(length).rstrip(b"\0"))
    raise SandboxError(f"{python} has no loader: it cannot be started in an image")


def _library_folders() -> list[str]:
    many = sysconfig.get_config_var("MULTIARCH") or f"{os.uname().machine}-linux-gnu"
    return [f"/lib/{many}", f"/usr/lib/{many}", "/lib64", "/usr/lib64", "/lib", "/usr/lib", f"/usr/local/lib/{many}"]


def first_process(layout: Layout) -> list[str]:
    code = "from rover.sandbox.docker.inside.supervisor import main; main()"
    if rover := layout.config["rover"]:
        return [*layout.start, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {rover!r}); {code}"]
    return [*layout.start, "-I", "-c", code]


def file_systems(shape: Shape, hidden: tuple[str, ...]) -> dict[str, str]:
    """Path -> options of each file system in memory."""
    most, inodes = shape.disk, shape.inodes
    own = 2  # inodes: the root, and what keeps the room that is not needed
    work = f"size={shape.disk + shape.room},nr_inodes={shape.inodes + shape.files + own}"
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
