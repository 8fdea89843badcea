"""What a child inside the box does to itself before it runs anything: its own namespaces, limits, no powers.

Order matters: mounts need capabilities, so they come first; the filter comes last. A child starts in a pid
namespace of its own, so that when its first process ends the kernel kills all the others.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from typing import Any

from rover.sandbox.inside import kernel, seccomp

#: Folders that only the supervisor and calls see.
PRIVATE = "/.rover"
ROVER = "/r"
WORK = "/w"

_FLAGS = kernel.MS_NOSUID | kernel.MS_NODEV


class Powers:
    """What a confined child gives up, worked out once before any fork."""

    def __init__(self) -> None:
        self.filter = seccomp.build()
        self.held = kernel.narrow_capabilities()


def fork_in_pid_namespace() -> tuple[int, int]:
    """Fork into a new pid namespace: (0, -1) in the child (its pid 1), (pid, pidfd) in the parent."""
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        kernel.unshare(kernel.CLONE_NEWPID)
        pid = os.fork()
        if pid == 0:
            return 0, -1
        kernel.setns(own, kernel.CLONE_NEWPID)
        return pid, os.pidfd_open(pid)
    finally:
        os.close(own)


def confine(powers: Powers, limits: dict[str, Any], hide: list[str]) -> None:
    """Confine this process: own mounts and IPC, resource limits, no capabilities, no new ones, the filter.

    `hide` names folders to cover with an empty one. Raises OSError; the caller must then end.
    """
    os.setsid()  # a signal to one's process group crosses pid namespaces
    kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC)
    kernel.mount("proc", "/proc", "proc", _FLAGS | kernel.MS_NOEXEC)
    sizes = f"size={limits['disk_bytes']},nr_inodes={limits['inodes']},mode=1777"
    kernel.mount("tmpfs", "/tmp", "tmpfs", _FLAGS, sizes)
    kernel.mount("tmpfs", "/dev/shm", "tmpfs", _FLAGS | kernel.MS_NOEXEC, "size=64m,nr_inodes=1024,mode=1777")
    kernel.unmount(PRIVATE)  # leaves an empty folder of the read-only root
    for folder in hide:
        kernel.mount(PRIVATE, folder, flags=kernel.MS_BIND)
    os.chdir(WORK)
    limit(limits)
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    kernel.drop_capabilities(powers.held)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    kernel.install_filter(powers.filter)


def limit(limits: dict[str, Any]) -> None:
    """Bound what this process and all it starts may use, as far as the kernel does."""
    cpu = max(1, int(limits["cpu_s"] + 0.999))
    memory = int(limits["memory_bytes"])
    wanted = {
        resource.RLIMIT_NPROC: int(limits["processes"]),
        resource.RLIMIT_NOFILE: int(limits["open_files"]),
        resource.RLIMIT_FSIZE: int(limits["file_bytes"]),
        resource.RLIMIT_AS: max(4 << 30, 2 * memory),
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 64 << 10,
    }
    for kind, value in wanted.items():
        _, hard = resource.getrlimit(kind)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))


def find_program(name: str, path: str) -> str | None:
    """The file that `name` stands for, as a shell would find it; None where there is none."""
    if "/" in name:
        return name
    for folder in path.split(":"):
        candidate = f"{folder or '.'}/{name}"
        with contextlib.suppress(OSError):
            if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
                return candidate
    return None


def execute(argv: list[str], env: dict[str, str]) -> None:
    """Become a command. Where that cannot be, end with what a shell would say and the exit code it would give."""
    name = argv[0] if argv else ""
    try:
        program = find_program(name, env.get("PATH", ""))
        if program is None:
            raise FileNotFoundError(2, "not found")
        os.execve(program, argv, env)
    except (OSError, ValueError) as error:  # ValueError: a null byte, text that no file system can hold
        said = error.strerror if isinstance(error, OSError) else str(error)
        os.write(2, f"{name}: {said}\n".encode("utf-8", "backslashreplace"))
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)
