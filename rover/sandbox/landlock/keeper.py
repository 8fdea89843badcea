"""The process between rover and its boxes without namespaces, run as a script of its own; it ends when rover does.

As root it first becomes an ordinary user, like the launcher of bubblewrap. It forks one supervisor a box, which has
all it needs loaded, ends what a supervisor that was killed has left, and removes folders that nobody owns any more.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from typing import Any

PR_SET_DUMPABLE, PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 4, 1, 36
#: seconds that supervisors get to end their boxes
END_S = 8.0


class Keeper:
    def __init__(self, sock: socket.socket, parent: int, sources: Any) -> None:
        self._sock = sock
        self._parent = parent
        self._sources = sources
        self._boxes: set[int] = set()
        self._wake, self._wake_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def serve(self) -> None:
        """Start what is asked for until rover hangs up or is gone; then end all boxes."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_end)
        poll = select.poll()
        for fd in (self._sock.fileno(), self._parent, self._wake):
            poll.register(fd, select.POLLIN)
        while True:
            ready = dict(poll.poll())
            if self._parent in ready:
                break
            if self._wake in ready:
                os.read(self._wake, 4096)
                self._reap()
            if self._sock.fileno() in ready and not self._answer():
                break
        self._end()

    def _answer(self) -> bool:
        data, fds, _, _ = socket.recv_fds(self._sock, 1 << 20, 2)
        if not data:
            return False
        answer: dict[str, Any]
        try:
            pid = os.fork()
            if pid == 0:
                self._become(json.loads(data), fds)
            self._boxes.add(pid)
            answer = {"pid": pid}
        except OSError as error:
            answer = {"error": f"fork: {error.strerror}"}
        finally:
            for fd in fds:
                os.close(fd)
        self._sock.send(json.dumps(answer).encode())
        return True

    def _become(self, config: dict[str, Any], fds: list[int]) -> None:
        """In the forked child: be the supervisor of a box until it is closed."""
        from rover.sandbox.inside import frames, kernel
        from rover.sandbox.inside.entry import one_line
        from rover.sandbox.inside.supervisor import raise_file_limit
        from rover.sandbox.landlock import folders
        from rover.sandbox.landlock.supervisor import LandlockSupervisor

        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            channel = socket.socket(fileno=os.dup(fds[0]))
            null = os.open("/dev/null", os.O_RDWR)
            for number, fd in enumerate((null, null, fds[1])):
                os.dup2(fd, number)
            for fd in (*fds, null, self._sock.fileno(), self._parent, self._wake, self._wake_end):
                os.close(fd)
            os.setsid()
            kernel.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
            kernel.prctl(PR_SET_CHILD_SUBREAPER, 1)
            raise_file_limit()
            folder = folders.claim()
            try:
                box = LandlockSupervisor(channel, folder, self._sources, config)
            except BaseException:
                folders.remove(folder)
                raise
            signal.signal(signal.SIGTERM, lambda *_: box.quit())
            with contextlib.suppress(frames.Closed):
                box.serve()
            box.quit()
        except BaseException as error:
            os.write(2, one_line(error).encode())
        finally:
            os._exit(1)

    def _reap(self) -> None:
        """Take note of the dead. What a supervisor left that ended before its box is now a child of this process."""
        from rover.sandbox.landlock import folders, processes

        gone = False
        with contextlib.suppress(ChildProcessError):
            while found := os.waitpid(-1, os.WNOHANG)[0]:
                gone |= found in self._boxes
                self._boxes.discard(found)
        if gone and set(processes.children("self")) - self._boxes:
            processes.sweep({os.getpid(), *self._boxes})
        if gone:
            folders.reap()

    def _end(self) -> None:
        signal.set_wakeup_fd(-1)
        for pid in self._boxes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + END_S
        while self._boxes and time.monotonic() < end:
            self._reap()
            time.sleep(0.005)
        for pid in self._boxes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        from rover.sandbox.landlock import folders, processes

        processes.sweep({os.getpid()})
        folders.reap()


def main() -> None:
    """Arguments: the socket's number, rover's process, the sources and what boxes show beside them as JSON."""
    sock = socket.socket(fileno=int(sys.argv[1]))
    sock.set_inheritable(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        parent = os.pidfd_open(int(sys.argv[2]))
        given = json.loads(sys.argv[3])
        sys.path += [given["home"], given["sources"]["sandlock"]]
        keeper = Keeper(sock, parent, _prepare(given["sources"], given["shows"]))
    except (OSError, ImportError) as error:
        said = f"{getattr(error, 'filename', None) or 'keeper'}: {getattr(error, 'strerror', None) or error}"
        if isinstance(error, PermissionError) and error.errno is None:  # see view.check
            said = str(error)
        sock.send(json.dumps({"error": said}).encode())
        return
    try:
        sock.send(b"{}")
        keeper.serve()
    except (BrokenPipeError, ConnectionError):
        keeper._end()


def _prepare(given: dict[str, Any], shows: list[str]) -> Any:
    """Load what boxes need, give up root, and return the sources as they are to be found from then on.
    PermissionError where a folder that boxes are to show is closed to the user that this became."""
    import sandlock  # noqa: F401

    from rover.sandbox.inside import kernel
    from rover.sandbox.landlock import folders, metadata, signals, supervisor, view  # noqa: F401
    from rover.sandbox.launcher import prepare

    known: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
    sources = view.Sources(**known)
    sources = sources.moved(prepare(sources.all(), shows))
    view.check(shows)
    kernel.prctl(PR_SET_DUMPABLE, 1)  # becoming another user had cleared it
    kernel.prctl(PR_SET_CHILD_SUBREAPER, 1)
    folders.reap()
    return sources


if __name__ == "__main__":
    main()
