"""What of the host a box sees: the system, the interpreter, the libraries; for calls rover's own code too.

The libraries appear as a virtual environment of links in the box's folder. Rover's code is not among them: where it
lies in the same folder as they do, each of the others is granted by itself.
"""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from rover.sandbox.landlock.confine import Grants

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32")
MORE = ("/etc/alternatives", "/etc/ld.so.cache", "/nix/store", "/dev/zero", "/dev/random", "/dev/urandom")
#: facts of the machine that every box tells
FACTS = (
    *(f"/proc/{name}" for name in ("cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "uptime", "version")),
    "/sys/devices/system/cpu",
)
#: what a control group says of processors and memory
BOUNDS = (
    "cpu.max", "memory.max", "memory.high", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.shares",
    "memory.limit_in_bytes",
)  # fmt: skip
#: what packages of the system put into /etc and programs insist on reading where they see it
SETTINGS = ("/etc/mime.types", "/etc/ssl/openssl.cnf", "/etc/localtime", "/etc/fonts", "/etc/magic", "/etc/inputrc")
DEVICES = ("/dev/null", "/dev/full")
OWN = ("rover", "rover_store", "rover_train")
PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True)
class Sources:
    """Paths of the host: the interpreter, its prefixes outside /usr, folders of libraries, folders of our packages."""

    python: str
    prefixes: tuple[str, ...]
    sites: tuple[str, ...]
    rover: str
    rover_store: str
    sandlock: str

    def all(self) -> list[str]:
        """Every folder, in one order: what can be put elsewhere, see `moved`."""
        return [*self.prefixes, *self.sites, self.rover, self.rover_store]

    def moved(self, places: list[str]) -> Sources:
        """The same with each folder at another place."""
        to = dict(zip(self.all(), places, strict=True))
        python = self.python
        for prefix in self.prefixes:
            if python.startswith(f"{prefix}/"):
                python = to[prefix] + python.removeprefix(prefix)
                break
        return Sources(
            python,
            tuple(to[p] for p in self.prefixes),
            tuple(to[p] for p in self.sites),
            to[self.rover],
            to[self.rover_store],
            self.sandlock,
        )

    def record(self) -> dict[str, Any]:
        return asdict(self)


def make(folder: str, sources: Sources) -> list[str]:
    """Build the environment at `folder`/v and the home of our code at `folder`/r; returns the folders of libraries."""
    os.makedirs(f"{folder}/v/bin")
    os.mkdir(f"{folder}/r")
    for name in {"python", "python3", os.path.basename(sources.python)}:
        os.symlink(sources.python, f"{folder}/v/bin/{name}")
    with open(f"{folder}/v/pyvenv.cfg", "w") as stream:
        stream.write(f"home = {os.path.dirname(sources.python)}\ninclude-system-site-packages = false\n")
    # an interpreter that was put elsewhere finds its shared library at its old place alone, or takes the system's
    os.mkdir(f"{folder}/v/so")
    for library in (path for prefix in sources.prefixes for path in glob.glob(f"{prefix}/lib/libpython*.so*")):
        os.symlink(library, f"{folder}/v/so/{os.path.basename(library)}")
    found = []
    for number, site in enumerate(sources.sites):
        version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        target = f"{folder}/v/site{number}" if number else f"{folder}/v/lib/{version}/site-packages"
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if holds_own(site):
            os.mkdir(target)
            for name in libraries(site):
                os.symlink(f"{site}/{name}", f"{target}/{name}")
        else:
            os.symlink(site, target)
        found.append(target)
    os.symlink(sources.rover, f"{folder}/r/rover")
    os.symlink(sources.rover_store, f"{folder}/r/rover_store")
    return found


def grants(folder: str, sources: Sources, shows: tuple[str, ...] = ()) -> Grants:
    """What commands and calls of a box may see beside its own folders."""
    wanted = (*SYSTEM, *MORE, *SETTINGS, *FACTS, *bounds(), *sources.prefixes, *shows)
    read: list[str] = []
    for path in wanted:  # each costs every command a little; most of /bin, /lib, ... lie in /usr by now
        real = os.path.realpath(path)
        if os.path.exists(real) and not any(real == one or real.startswith(f"{one}/") for one in read):
            read.append(real)
    for site in sources.sites:
        read += [f"{site}/{name}" for name in libraries(site)] if holds_own(site) else [site]
    read.append(f"{folder}/v")
    code = (f"{folder}/r", sources.rover, sources.rover_store)
    return Grants(tuple(read), code, tuple(path for path in DEVICES if os.path.exists(path)))


def check(shows: Iterable[str]) -> None:
    """PermissionError, with the folder and what to do, where this user cannot enter one that is to be shown."""
    for path in shows:
        parts = path.strip("/").split("/")
        for number in range(1, len(parts) + 1):
            folder = "/" + "/".join(parts[:number])
            last = number == len(parts)
            if not os.access(folder, os.X_OK | (os.R_OK if last else 0)):
                said = f"the ordinary user of the sandbox cannot enter {folder}"
                advice = f"chmod a+rx {folder}" if last else f"install {path} elsewhere, or use --sandbox docker"
                raise PermissionError(f"{said}; {advice}")


def bounds() -> list[str]:
    """Files that tell the limits of this process's control groups: libraries choose their threads by them."""
    found = ["/sys/fs/cgroup"]
    with open("/proc/self/cgroup") as stream:
        for line in stream:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            root = "/".join(["/sys/fs/cgroup", *([controllers] if controllers else [])])
            parts = path.strip("/").split("/")
            found += ["/".join([root, *parts[:n]]).rstrip("/") for n in range(len(parts) + 1)]
    return [f"{folder}/{name}" for folder in dict.fromkeys(found) for name in BOUNDS]


def holds_own(site: str) -> bool:
    return any(os.path.isdir(f"{site}/{name}") for name in OWN)


def libraries(site: str) -> list[str]:
    """What a folder of libraries holds but our own packages, and their metadata, which name their place."""
    return [name for name in sorted(os.listdir(site)) if not name.startswith((*OWN, "workrover", "__pycache__"))]


def environment(folder: str, sites: list[str]) -> dict[str, str]:
    """Variables of commands and calls that tell where things lie."""
    found = {
        "PATH": f"{folder}/v/bin:{PATH}",
        "HOME": f"{folder}/tmp",
        "TMPDIR": f"{folder}/tmp",
        "ROVER_W": f"{folder}/w",
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    if os.listdir(f"{folder}/v/so"):
        found["LD_LIBRARY_PATH"] = f"{folder}/v/so"
    if sites[1:]:
        found["PYTHONPATH"] = ":".join(sites[1:])
    return found
