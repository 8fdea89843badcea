"""The relay: the first process of an agent's box. Starts the agent, serves it a model, tells the host how it ended.

It listens on the box's own 127.0.0.1 and carries each request over the channel; what a request means is decided on
the host. One thread, nothing blocks: a client that stalls, floods or breaks off costs a descriptor for a while. The
agent's output is read here and its end kept, so that a talkative agent breaks no limit.

From the host:  {"id", "status", "type"} + body   the answer to a request
                {"stop": true}                    end the agent
To the host:    {"ready": port}, {"unready": reason}, {"id", "method", "path"} + body, {"exit": {...}}
"""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import os
import resource  # noqa: F401  # what wait4 imports otherwise when files can no longer be opened
import selectors
import signal
import socket
import time
from typing import Any

from . import frames, guard, http

HOST, PORT = "127.0.0.1", 8123
MAX_LINKS, MAX_REFUSED, MAX_WAITING, MAX_HELD = 64, 64, 32, 24 << 20
#: seconds that a client may take for a request, and that an idle connection stays
REQUEST_S, IDLE_S = 30.0, 300.0
#: seconds after the word to end, which the agent heard as an error, until SIGTERM, and from then until SIGKILL
TERM_S, KILL_S = 1.0, 2.0
#: the agent's own folder, in that for temporary files
FOLDER = "rover"
#: bytes of the agent's output that are kept, and how much is read at a time
TAIL, PIECE = 32 << 10, 1 << 16
TICK = 0.25
#: what is still read of a client that was refused, and for how many seconds
LEAVING, LEAVING_S = 16 << 20, 5.0


class Link:
    """One connection of a client."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.parser = http.Parser()
        self.out = b""
        self.waiting = 0  # the id of the request that is with the host
        self.keep = True
        self.leaving = 0  # bytes that are still read, and thrown away, after the last answer
        self.head_only = False
        self.since = time.monotonic()


class Relay:
    """The state of one run."""

    def __init__(self, channel: socket.socket, config: dict[str, Any]) -> None:
        self.channel = channel
        self.config = config
        self.incoming = frames.Incoming(frames.MAX_IN)
        self.out = bytearray()  # for the host
        self.links: dict[int, Link] = {}
        self.waiting: dict[int, Link] = {}
        self.ready: list[Link] = []  # with more in hand than the request that was just answered
        self.number = 0
        self.tails = {"stdout": bytearray(), "stderr": bytearray()}
        self.pid = 0
        self.end_at: list[tuple[float, int]] = []  # when to send which signal
        self.stopped = False
        self.select = selectors.DefaultSelector()

    # --- starting --------------------------------------------------------------------------------------------
    def run(self) -> dict[str, Any]:
        """Until the agent has ended: how it did."""
        self.listener = self._listen()
        port = self.listener.getsockname()[1]
        self._tell({"ready": port})
        wake, wake_end = os.pipe()
        os.set_blocking(wake_end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_end)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)
        pipes, failed = self._start(port)
        if failed:
            return failed
        self.channel.setblocking(False)
        self.select.register(self.listener, selectors.EVENT_READ, self._accept)
        self.select.register(wake, selectors.EVENT_READ, lambda: os.read(wake, 4096))
        self.select.register(self.channel, selectors.EVENT_READ, self._channel)
        for name, fd in pipes.items():
            os.set_blocking(fd, False)
            self.select.register(fd, selectors.EVENT_READ, lambda n=name, f=fd: self._drain(n, f))
        while True:
            for key, events in self.select.select(0 if self.ready else TICK):
                self._dispatch(key, events)
            ready, self.ready = self.ready, []
            for link in ready:
                if link.sock.fileno() >= 0 and not link.waiting:
                    self._next(link)
            self._expire()
            pid, status, used = os.wait4(self.pid, os.WNOHANG)
            if pid:
                for name, fd in pipes.items():
                    self._drain(name, fd, 1 << 20)
                return self._ended(status, used)

    def _listen(self) -> socket.socket:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.bind((HOST, PORT))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:  # taken: by another one where a box has no network of its own
                raise
            listener.bind((HOST, 0))
        listener.listen(MAX_LINKS)
        listener.setblocking(False)
        return listener

    def _start(self, port: int) -> tuple[dict[str, int], dict[str, Any] | None]:
        """Start the agent: the read ends of its output, and the end of a run that could not even begin."""
        config = self.config
        url = f"http://{HOST}:{port}/v1"
        scratch = os.path.join(os.environ.get("TMPDIR") or "/tmp", FOLDER)
        here = {"{base_url}": url, "{scratch}": scratch}
        for name, (data, program) in config["files"].items():
            _lay(os.path.join(scratch, name), data, program, here)
        fill = {**here, **{mark: _filled(text, here) for mark, text in config["paths"].items()}, **config["fill"]}
        argv = [_filled(word, fill) for word in config["argv"]]
        env = {k: v for k, v in os.environ.items() if k != "ROVER_CHANNEL"}
        env.update((name, _filled(value, fill)) for name, value in config["env"].items())
        env["PATH"] = ":".join([env.get("PATH", os.defpath), *config["path"]])
        stdin = os.open(os.path.join(scratch, config["stdin"]) if config["stdin"] else os.devnull, os.O_RDONLY)
        (out, out_end), (err, err_end), (said, said_end) = os.pipe(), os.pipe(), os.pipe()
        # by its path: under another name a Python would look for its libraries where PATH has one of that name
        program = argv[0] = _found(argv[0], config["path"])
        guard.hide()  # only now: some sandboxes look into a process that opens files and sockets
        self.pid = os.fork()
        if self.pid == 0:
            _become(program, argv, env, (stdin, out_end, err_end), said_end)
        for fd in (stdin, out_end, err_end, said_end):
            os.close(fd)
        with open(said, "rb") as stream:
            reason = stream.read(4096).decode("utf-8", "replace")
        if reason:
            os.waitpid(self.pid, 0)
            return {}, {"failed": reason}
        return {"stdout": out, "stderr": err}, None

    def _ended(self, status: int, used: Any) -> dict[str, Any]:
        cpu = used.ru_utime + used.ru_stime
        end: dict[str, Any] = {"cpu_s": cpu, "stopped": self.stopped}
        if os.WIFSIGNALED(status):
            end["signal"] = os.WTERMSIG(status)
        else:
            end["code"] = os.WEXITSTATUS(status)
        return end

    # --- events ----------------------------------------------------------------------------------------------
    def _dispatch(self, key: Any, events: int) -> None:
        if not isinstance(key.data, Link):
            if key.fileobj is self.channel and events & selectors.EVENT_WRITE:
                self._flush()
            if events & selectors.EVENT_READ:
                key.data()
            return
        link = key.data
        try:
            if events & selectors.EVENT_WRITE:
                self._write(link)
            if events & selectors.EVENT_READ and link.sock.fileno() >= 0:
                self._read(link)
        except OSError:
            self._close(link)

    def _accept(self) -> None:
        try:
            sock, _ = self.listener.accept()
        except BlockingIOError:
            return
        except OSError:
            time.sleep(0.05)  # no descriptor left: those who wait may go on waiting
            return
        sock.setblocking(False)
        if len(self.links) >= MAX_LINKS + MAX_REFUSED:
            sock.close()
            return
        self.links[sock.fileno()] = link = Link(sock)
        self.select.register(sock, selectors.EVENT_READ, link)
        if len(self.links) > MAX_LINKS:
            link.keep = False
            self._send(link, _refusal(503, "too many connections"))

    def _read(self, link: Link) -> None:
        data = link.sock.recv(PIECE)
        if link.leaving:
            link.leaving -= len(data)
        if not data or link.leaving < 0:
            self._close(link)
            return
        if link.leaving:
            return
        if not link.parser.begun:
            link.since = time.monotonic()
        link.parser.feed(data)
        self._next(link)

    def _next(self, link: Link) -> None:
        """Carry the next request of a connection, where it is whole."""
        try:
            expected = link.parser.expects
            request = link.parser.next()
            if request is None:
                if link.parser.expects and not expected:
                    self._send(link, http.CONTINUE)
                elif sum(other.parser.held for other in self.links.values()) > MAX_HELD:
                    raise http.Bad(429, "too much at once")
                return
            link.keep, link.head_only = request.keep, request.method == "HEAD"
            if len(self.waiting) >= MAX_WAITING or len(self.out) + len(request.body) > MAX_HELD:
                self._send(link, _refusal(429, "too many requests at once", link.keep))
                return
        except http.Bad as bad:
            link.keep = False
            self._send(link, _refusal(bad.status, bad.reason))
            return
        self.number += 1
        link.waiting = self.number
        self.waiting[self.number] = link
        self.select.unregister(link.sock)  # nothing more is read before the answer
        self._tell({"id": self.number, "method": request.method, "path": request.path[:2000]}, request.body)

    def _channel(self) -> None:
        """What the host says. Where it is gone the agent has to go too."""
        try:
            data = self.channel.recv(PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._signal(signal.SIGKILL)
            os._exit(1)
        for head, body in self.incoming.feed(data):
            if head.get("stop"):
                self._stop()
            link = self.waiting.pop(head.get("id", 0), None)
            if link is not None and link.sock.fileno() >= 0:
                link.waiting = 0
                self.select.register(link.sock, selectors.EVENT_READ, link)
                self._send(link, http.answer(head["status"], head["type"], body, link.keep, link.head_only))

    def _send(self, link: Link, data: bytes) -> None:
        link.out += data
        try:
            self._write(link)
        except OSError:
            self._close(link)

    def _write(self, link: Link) -> None:
        if link.out:
            with contextlib.suppress(BlockingIOError):
                link.out = link.out[link.sock.send(link.out) :]
        if not link.out and not link.keep and not link.leaving:
            # closed at once, what the client still sends would make the kernel drop our answer
            link.sock.shutdown(socket.SHUT_WR)
            link.leaving = LEAVING
            link.since = time.monotonic()
            self.select.modify(link.sock, selectors.EVENT_READ, link)
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if link.out else 0)
        self.select.modify(link.sock, wanted, link)
        link.since = time.monotonic()
        if not link.out and link.parser.begun:
            self.ready.append(link)

    def _close(self, link: Link) -> None:
        fd = link.sock.fileno()
        if fd < 0:
            return
        self.waiting.pop(link.waiting, None)
        with contextlib.suppress(KeyError):
            self.select.unregister(link.sock)
        self.links.pop(fd, None)
        link.sock.close()

    def _drain(self, name: str, fd: int, most: int = PIECE) -> None:
        """Read the agent's output and keep its end."""
        while most > 0:
            try:
                data = os.read(fd, PIECE)
            except BlockingIOError:
                return
            if not data:
                if fd in self.select.get_map():
                    self.select.unregister(fd)
                return
            most -= len(data)
            self.tails[name] += data
            del self.tails[name][:-TAIL]

    # --- time and the host -----------------------------------------------------------------------------------
    def _expire(self) -> None:
        now = time.monotonic()
        for link in list(self.links.values()):
            if link.waiting:
                continue
            if link.leaving and now - link.since > LEAVING_S:
                self._close(link)
            elif now - link.since > (REQUEST_S if link.parser.begun or link.out else IDLE_S):
                if link.parser.begun and not link.out:
                    link.keep = False
                    self._send(link, _refusal(408, "the request took too long"))
                self._close(link)
        if self.end_at and now >= self.end_at[0][0]:
            self._signal(self.end_at.pop(0)[1])

    def _stop(self) -> None:
        if not self.stopped:
            self.stopped, now = True, time.monotonic()
            self.end_at = [(now + TERM_S, signal.SIGTERM), (now + TERM_S + KILL_S, signal.SIGKILL)]

    def _signal(self, number: int) -> None:
        for target in (-self.pid, self.pid):  # its group, and itself where it left that
            with contextlib.suppress(OSError):
                os.kill(target, number)

    def _tell(self, head: dict[str, Any], body: bytes = b"") -> None:
        self.out += frames.pack(head, body)
        self._flush()

    def _flush(self) -> None:
        try:
            while self.out:
                del self.out[: self.channel.send(self.out[:PIECE])]
        except BlockingIOError:
            pass
        except OSError:
            self.out.clear()
        if self.channel in self.select.get_map():
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self.out else 0)
            self.select.modify(self.channel, wanted, self._channel)


def _lay(path: str, data: str, program: bool, fill: dict[str, str]) -> None:
    """Write a file for the agent: bytes as base64, or with `{...` a text with marks."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    raw = _filled(data, fill).encode() if data.startswith("{") else base64.b64decode(data)
    with open(path, "wb") as stream:
        stream.write(raw)
    os.chmod(path, 0o755 if program else 0o644)


def _filled(word: str, fill: dict[str, str]) -> str:
    """A word with its marks replaced, in one pass: what is put in is not looked at again."""
    parts, at = [], 0
    while at < len(word):
        mark = next((m for m in fill if word.startswith(m, at)), None) if word[at] == "{" else None
        parts.append(word[at] if mark is None else fill[mark])
        at += 1 if mark is None else len(mark)
    return "".join(parts)


def _found(program: str, path: list[str]) -> str:
    """The agent's own programs come first, for its own command alone: what it starts finds the box's Python."""
    for folder in path if "/" not in program else ():
        if os.access(os.path.join(folder, program), os.X_OK) or not os.access(folder, os.X_OK):  # then nobody can know
            return os.path.join(folder, program)
    return program


def _become(program: str, argv: list[str], env: dict[str, str], fds: tuple[int, int, int], said: int) -> None:
    """In the forked child: be the agent, or say why not."""
    try:
        parent = os.getppid()
        os.setsid()
        for number, fd in enumerate(fds):
            os.dup2(fd, number, inheritable=True)
        for number in range(1, signal.NSIG):
            if signal.getsignal(number) == signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        guard.install(sorted({os.getpid(), parent, os.getpgid(parent)}))
        os.execvpe(program, argv, env)
    except BaseException as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        os.write(said, f"{argv[0] if argv else ''}: {reason}".encode("utf-8", "replace")[:4000])
    finally:
        os._exit(127)


def _refusal(status: int, reason: str, keep: bool = False) -> bytes:
    said = {"error": {"message": reason, "type": "invalid_request_error", "param": None, "code": None}}
    return http.answer(status, "application/json", json.dumps(said).encode(), keep)


def main(channel: socket.socket, config: dict[str, Any]) -> None:
    """Run one agent; then pass on what it printed last, tell the host, and end."""
    relay = Relay(channel, config)
    try:
        end = relay.run()
    except OSError as error:
        end = {"failed": f"the relay: {error}", "relay": True}
    for number, name in ((1, "stdout"), (2, "stderr")):
        rest = bytes(relay.tails[name])
        while rest:
            rest = rest[os.write(number, rest) :]
    channel.setblocking(True)
    channel.settimeout(10)
    with contextlib.suppress(OSError):
        channel.sendall(bytes(relay.out) + frames.pack({"exit": end}))
    os._exit(0)
