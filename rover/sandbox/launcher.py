"""A small process between rover and bubblewrap, run as a script of its own (standard library only).

It exists for three reasons. A box must die with rover, and the kernel's parent-death signal follows the thread
that spawned it, so one long-lived thread spawns them all. As root, bubblewrap would keep every capability, so
this process first becomes an ordinary user. And that user may not be able to reach the interpreter (below a
home of mode 0700), so before that it mounts what the box needs at a place of its own, in a mount namespace that
vanishes with it. It ends when rover ends, in whatever way.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import sys
from typing import Any

CLONE_NEWNS = 0x00020000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
#: Users to become, the first that this machine maps. Not `nobody`: other services run as that one.
USERS = (64917, 65534, 1)
STAGES = ("/mnt", "/media", "/srv", "/opt", "/tmp")


def prepare(sources: list[str], fixed: list[str] | None = None) -> list[str]:
    """Give up root, and return where each source is to be found afterwards. What is `fixed` stays at its path."""
    if os.geteuid() != 0:
        return sources
    try:
        reachable = _stage(sources, fixed or [])
    except OSError:
        reachable = sources  # root without the power to mount: the paths must be open to all
    for user in USERS:
        try:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            return reachable
        except OSError:
            continue
    raise OSError("no ordinary user to become: none of them is mapped here")


def _stage(sources: list[str], fixed: list[str]) -> list[str]:
    """Bind the sources below a fresh tmpfs that only this process and its children see."""
    libc = ctypes.CDLL(None, use_errno=True)

    def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
        text = [t.encode() if t is not None else None for t in (source, target, kind)]
        if libc.mount(*text, ctypes.c_ulong(flags), data.encode() if data else None) < 0:
            raise OSError(ctypes.get_errno(), f"mount on {target}")

    if libc.unshare(CLONE_NEWNS) < 0:
        raise OSError(ctypes.get_errno(), "unshare")
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    opened = [os.open(source, os.O_PATH | os.O_CLOEXEC) for source in sources]
    staying = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in fixed]
    stage = next(folder for folder in STAGES if os.path.isdir(folder))
    mount("tmpfs", stage, "tmpfs", 0, "mode=755")
    places = []
    for number, fd in enumerate(opened):
        place = f"{stage}/{number}"
        if os.path.isdir(f"/proc/self/fd/{fd}"):
            os.mkdir(place)
        else:
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY))
        mount(f"/proc/self/fd/{fd}", place, None, MS_BIND | MS_REC)
        places.append(place)
        os.close(fd)
    for path, fd in staying:
        for folder in _closed_above(path)[:1]:
            mount("tmpfs", folder, "tmpfs", 0, "mode=755")  # what else it holds is not seen in any box
        if not os.path.exists(path) or not os.path.samestat(os.stat(path), os.fstat(fd)):
            _make_folders(path)
            mount(f"/proc/self/fd/{fd}", path, None, MS_BIND | MS_REC)
        os.close(fd)
    return places


def _closed_above(path: str) -> list[str]:
    """Folders above this one that an ordinary user cannot enter, from the top."""
    parts = path.strip("/").split("/")
    above = ["/" + "/".join(parts[:number]) for number in range(1, len(parts))]
    return [folder for folder in above if os.path.isdir(folder) and not os.stat(folder).st_mode & 0o001]


def _make_folders(path: str) -> None:
    before = os.umask(0o022)
    try:
        os.makedirs(path, exist_ok=True)
    finally:
        os.umask(before)


def launch(places: list[str], argv: list[str], channel: int, errors: int) -> int:
    """Start one bubblewrap. `@3` and `@3/a` in argv stand for the place number 3, `@channel` for the socket."""
    named = {f"@{number}": place for number, place in enumerate(places)}
    named["@channel"] = str(channel)
    split = [word.partition("/") for word in argv]
    argv = [named.get(head, head) + slash + rest for head, slash, rest in split]
    os.set_inheritable(channel, True)
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    actions = [(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, errors, 2)]
    defaults = [signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ]
    try:
        return os.posix_spawn(argv[0], argv, {}, file_actions=actions, setsigdef=defaults)
    finally:
        os.close(null)


def serve(sock: socket.socket, parent: int, places: list[str]) -> None:
    """Start what is asked for until rover hangs up or is gone."""
    wake, wake_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_end)
    poll = select.poll()
    for fd in (sock.fileno(), parent, wake):
        poll.register(fd, select.POLLIN)
    while True:
        ready = dict(poll.poll())
        if parent in ready:
            return
        if wake in ready:
            os.read(wake, 4096)
            _reap()
        if sock.fileno() in ready and not _answer(sock, places):
            return


def _answer(sock: socket.socket, places: list[str]) -> bool:
    data, fds, _, _ = socket.recv_fds(sock, 1 << 20, 2)
    if not data:
        return False
    answer: dict[str, Any]
    try:
        answer = {"pid": launch(places, json.loads(data)["argv"], fds[0], fds[1])}
    except OSError as error:
        answer = {"error": f"{error.filename or 'bwrap'}: {error.strerror or error}"}
    finally:
        for fd in fds:
            os.close(fd)
    sock.send(json.dumps(answer).encode())
    return True


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def main() -> None:
    """Arguments: the socket's number, rover's process, the sources as JSON."""
    sock = socket.socket(fileno=int(sys.argv[1]))
    sock.set_inheritable(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        parent = os.pidfd_open(int(sys.argv[2]))
        places = prepare(json.loads(sys.argv[3]))
    except OSError as error:
        sock.send(json.dumps({"error": f"{error.filename or 'launcher'}: {error.strerror or error}"}).encode())
        return
    try:
        sock.send(b"{}")
        serve(sock, parent, places)
    except (BrokenPipeError, ConnectionError):
        return


if __name__ == "__main__":
    main()
