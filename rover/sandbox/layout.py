"""What a box is made of: which folders of the host appear in it, where, and bubblewrap's arguments.

Of the host a box shows /usr with its links, the Python that rover runs on (at its own path, since an interpreter
finds its library there) and the installed libraries, read-only. They appear as a virtual environment at /v, so
that no path of the host's projects is seen. Rover's own code lies at /r, which commands do not see.
"""

from __future__ import annotations

import os
import py_compile
import sys
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

from rover_store.errors import SandboxError

SYSTEM = ("/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32")
DEVICES = ("null", "zero", "full", "random", "urandom")
CAPABILITIES = ("SYS_ADMIN", "SETPCAP", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "SYS_PTRACE")
USER = 1000
#: Folders below rover/ of which much runs inside.
INSIDE = ("sandbox/inside", "sandbox/docker/inside", "harness", "verify", "construct/query", "ops/extract")
PATH = "/v/bin:/usr/local/bin:/usr/bin:/bin"

#: What every command and call finds in its environment. One thread each: libraries would else start one a core
#: and break the limit on processes. A fixed hash seed, and no compiled files among the deliverables.
ENVIRONMENT = {
    "PATH": PATH,
    "HOME": "/tmp",
    "USER": "agent",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "ROVER_W": "/w",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


@dataclass(frozen=True, slots=True)
class Layout:
    """`sources` are paths of the host; the nth stands as `@n` in `arguments`, also at the start of a path.

    `config` is what the supervisor is told.
    """

    sources: tuple[str, ...]
    arguments: tuple[str, ...]
    config: dict[str, Any]


def layout(bwrap: str, shows: tuple[tuple[str, str], ...] = (), away: tuple[str, ...] = ()) -> Layout:
    """The layout for this interpreter and installation, with these folders of the host shown beside. `away`: see
    `visible`."""
    shown, config = visible(away)
    shown += shows
    program = bwrap
    for number, (source, _) in enumerate(shown):
        if bwrap.startswith(f"{source}/"):  # the wheel's program finds its libraries beside itself
            program = f"@{number}{bwrap.removeprefix(source)}"
    binds = [word for number, (_, target) in enumerate(shown) for word in ("--ro-bind", f"@{number}", target)]
    told = [w for n, value in config["env"].items() if n == "LD_LIBRARY_PATH" for w in ("--setenv", n, value)]
    return Layout(tuple(source for source, _ in shown), (program, *_flags(), *told, *_system(), *binds), config)


def visible(away: tuple[str, ...] = ()) -> tuple[tuple[tuple[str, str], ...], dict[str, Any]]:
    """What every box shows of this installation, as (folder of the host, path in the box), and its configuration.

    The folders of Python that `away` names stand below /v, since something else stands where they lie.
    """
    python = interpreter()
    shown: list[tuple[str, str]] = []
    for number, prefix in enumerate(prefixes()):
        shown.append((prefix, f"/v/python{number}" if prefix in away else prefix))
        if prefix in away and python.startswith(f"{prefix}/"):
            python = shown[-1][1] + python.removeprefix(prefix)
    site = [f"/v/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"]
    hide = ["/r"]
    for number, folder in enumerate(site_folders()):
        if number:
            site.append(f"/v/site{number}")
        shown.append((folder, site[-1]))
        hide += [f"{site[-1]}/{name}" for name in ("rover", "rover_store") if os.path.isdir(f"{folder}/{name}")]
    shown += [(package_folder(name), f"/r/{name}") for name in ("rover", "rover_store")]
    environment = dict(ENVIRONMENT)
    if python != interpreter() and is_rooted():
        environment["LD_LIBRARY_PATH"] = f"{os.path.dirname(os.path.dirname(python))}/lib"
    if site[1:]:
        environment["PYTHONPATH"] = ":".join(site[1:])
    config = {
        "python": python,
        "site": site,
        "hide": hide,
        "env": environment,
        "files": {
            "/v/pyvenv.cfg": f"home = {os.path.dirname(python)}\ninclude-system-site-packages = false\n",
            "/etc/passwd": f"agent:x:{USER}:{USER}::/tmp:/bin/sh\n",
            "/etc/group": f"agent:x:{USER}:\n",
        },
        "links": {f"/v/bin/{n}": python for n in ("python", "python3", os.path.basename(python))},
    }
    return tuple(shown), config


def interpreter() -> str:
    """The Python that rover runs on, behind all links and environments."""
    return os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)


def prefixes() -> list[str]:
    """Where that Python lies, beside /usr."""
    found = sorted({os.path.realpath(p) for p in (sys.base_prefix, sys.base_exec_prefix)})
    return [p for p in found if p not in ("/", "/usr") and not p.startswith("/usr/")]


@lru_cache(maxsize=1)
def is_rooted() -> bool:
    """Whether that Python finds its own library by an absolute path: moved, it has to be told."""
    data = Path(interpreter()).read_bytes()
    shared = f"libpython{sys.version_info[0]}.{sys.version_info[1]}".encode() + b".so"
    return shared in data and b"$ORIGIN" not in data


def site_folders() -> list[str]:
    """Folders of installed libraries on this interpreter's path, in order."""
    found = [os.path.realpath(p) for p in sys.path if os.path.basename(p) in ("site-packages", "dist-packages")]
    return [p for p in dict.fromkeys(found) if os.path.isdir(p)]


def package_folder(name: str) -> str:
    module = sys.modules.get(name) or __import__(name)
    if not module.__file__:
        raise SandboxError(f"cannot find the code of {name}", hint="install rover as a wheel or from a clone")
    return os.path.dirname(os.path.realpath(module.__file__))


def supervisor_command(python: str) -> list[str]:
    """What runs as the first process of a box."""
    code = "import sys; sys.path.insert(0, '/r'); from rover.sandbox.inside.supervisor import main; main()"
    return ["--", python, "-I", "-S", "-c", code, "@channel"]


def compile_inside() -> None:
    """Have bytecode ready of what runs inside: in the box nothing can be written, so each start would compile."""
    if sys.dont_write_bytecode:
        return
    root = Path(__file__).parent.parent
    for source in (file for folder in INSIDE for file in sorted((root / folder).rglob("*.py"))):
        compiled = Path(cache_from_source(str(source)))
        try:
            if not compiled.exists() or compiled.stat().st_mtime < source.stat().st_mtime:
                py_compile.compile(str(source), doraise=True)
        except (OSError, py_compile.PyCompileError):
            return  # a read-only installation only starts slower


def _flags() -> list[str]:
    flags = ["--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--as-pid-1"]
    flags += ["--uid", str(USER), "--gid", str(USER), "--hostname", "box", "--cap-drop", "ALL"]
    for capability in CAPABILITIES:
        flags += ["--cap-add", f"CAP_{capability}"]
    return flags


def _system() -> list[str]:
    """System folders, devices, and empty places for the rest. No folder of /etc but two that linking needs."""
    flags = ["--ro-bind", "/usr", "/usr"]
    for path in SYSTEM:
        if os.path.islink(path):
            flags += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            flags += ["--ro-bind", path, path]
    for path in ("/etc/alternatives", "/etc/ld.so.cache", "/nix/store"):
        flags += ["--ro-bind-try", path, path]
    flags += ["--proc", "/proc", "--tmpfs", "/dev", "--tmpfs", "/tmp"]
    for name in DEVICES:
        flags += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        flags += ["--symlink", f"/proc/self/fd{target}", f"/dev/{name}"]
    for folder in ("/dev/shm", "/w", "/.rover", "/v", "/etc"):
        flags += ["--dir", folder]
    return [*flags, "--chdir", "/"]
