"""Sockets between processes of one box: the supervisor binds, listens and connects for them.

TCP stays on the loopback: what is bound to any address is bound there, and only an address and port that the box
itself listens at can be connected to: the host may have the same port at another address of the loopback. A UNIX
socket is a file of the workspace or of the temporary folder; abstract names are the whole host's, and refused. A
listening socket is kept by the supervisor while the box's job runs, so that its port is nobody else's meanwhile.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import ipaddress
import os
import select
import socket
import struct
from collections.abc import Callable

from rover.sandbox.inside.watch import TICK
from rover.sandbox.landlock.notices import Listener, Notice, Refused, Service, memory, signed

_PIDFD_GETFD = 438
#: sockets of one box that are kept; each is a descriptor of the supervisor, which must be left some for its own work
MOST = 1024
_libc = ctypes.CDLL(None, use_errno=True)


class Sockets:
    """Those of one box. `inside` says whether a real path belongs to it."""

    def __init__(self, inside: Callable[[str], bool]) -> None:
        self._inside = inside
        self._kept: dict[tuple[int, int], socket.socket] = {}  # device and inode -> a bound socket
        self._ports: dict[tuple[str, int], tuple[int, int]] = {}  # what is listened at -> which socket

    def services(self) -> dict[str, Service]:
        return {"bind": self._bind, "connect": self._connect, "listen": self._listen}

    def forget(self) -> None:
        """Let go of everything: the job has ended."""
        for sock in self._kept.values():
            sock.close()
        self._kept.clear()
        self._ports.clear()

    def _bind(self, on: Listener, notice: Notice) -> int:
        number, family, address = _arguments(notice)
        if len(self._kept) >= MOST:
            raise Refused(errno.ENOBUFS)
        sock, own = _socket(on, notice, number, family)
        try:
            if family == socket.AF_UNIX:
                self._bind_file(notice, sock, address)
            else:
                self._bind_port(sock, _loopback(family, address, sock))
            self._keep(on, notice, number, sock, own)
        except BaseException:
            sock.close()
            raise
        return 0

    def _bind_port(self, sock: socket.socket, address: tuple[str, int]) -> None:
        try:
            sock.bind(address)
        except OSError as error:
            before = self._ports.pop(_place(*address), None)
            if error.errno != errno.EADDRINUSE or before is None:
                raise
            self._kept.pop(before).close()  # its process may have closed it long ago
            sock.bind(address)

    def _bind_file(self, notice: Notice, sock: socket.socket, address: bytes) -> None:
        path = _path(address)
        folder, _, name = path.rpartition(b"/")
        fd = _look(notice, (folder or b"/") if b"/" in path else b".", os.O_DIRECTORY)
        try:
            if not self._inside(os.readlink(f"/proc/self/fd/{fd}")) or name in (b"", b".", b".."):
                raise Refused(errno.EACCES)
            os.fchdir(fd)  # so that the socket bears the name it was given
            sock.bind(name)
        finally:
            os.chdir("/")
            os.close(fd)

    def _listen(self, on: Listener, notice: Notice) -> int:
        number, backlog = signed(notice.args[0]), signed(notice.args[1])
        key = _key(notice, number)
        sock = self._kept.get(key)
        if sock is None:
            raise Refused(errno.EINVAL)  # bound to nothing, it would listen everywhere
        on.valid(notice)
        sock.listen(backlog)
        if sock.family != socket.AF_UNIX:
            self._ports[_place(*sock.getsockname()[:2])] = key
        return 0

    def _connect(self, on: Listener, notice: Notice) -> int:
        number, family, address = _arguments(notice)
        if family == socket.AF_UNIX:
            if address[:1] in (b"", b"\0"):
                raise Refused(errno.ECONNREFUSED)
            fd = _look(notice, _path(address))
            try:
                if not self._inside(os.readlink(f"/proc/self/fd/{fd}")):
                    raise Refused(errno.ENOENT)
                return self._reach(on, notice, number, family, f"/proc/self/fd/{fd}")
            finally:
                os.close(fd)
        host, port = _address(family, address)
        if host.is_unspecified:
            host = ipaddress.ip_address("127.0.0.1" if family == socket.AF_INET else "::1")
        if not (getattr(host, "ipv4_mapped", None) or host).is_loopback:
            raise Refused(errno.ENETUNREACH)
        if _place(str(host), port) not in self._ports:
            raise Refused(errno.ECONNREFUSED)
        return self._reach(on, notice, number, family, (str(host), port))

    def _reach(
        self, on: Listener, notice: Notice, number: int, family: int, address: str | tuple[str, int]
    ) -> int:
        sock, own = _socket(on, notice, number, family)
        with sock:
            flags = fcntl.fcntl(sock, fcntl.F_GETFL) if own else _flags(notice, number)
            fcntl.fcntl(sock, fcntl.F_SETFL, flags | os.O_NONBLOCK)
            try:
                code = sock.connect_ex(address)
                if code == errno.EINPROGRESS and not flags & os.O_NONBLOCK:
                    ready = select.select([], [sock], [], TICK)[1]  # of a listener that is full: no longer
                    code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) if ready else errno.ETIMEDOUT
            finally:
                fcntl.fcntl(sock, fcntl.F_SETFL, flags)
            if code not in (0, errno.EINPROGRESS):
                raise Refused(code)
            if not own:
                on.give(notice, sock.fileno(), number, flags & os.O_CLOEXEC)
        if code:
            raise Refused(code)
        return 0

    def _keep(self, on: Listener, notice: Notice, number: int, sock: socket.socket, own: bool) -> None:
        if not own:
            on.give(notice, sock.fileno(), number, _flags(notice, number) & os.O_CLOEXEC)
        info = os.fstat(sock.fileno())
        self._kept[info.st_dev, info.st_ino] = sock


def _arguments(notice: Notice) -> tuple[int, int, bytes]:
    """Descriptor, family and the rest of the address."""
    raw = memory(notice, notice.args[1], min(notice.args[2] & 0xFFFFFFFF, 128))
    if len(raw) < 2:
        raise Refused(errno.EINVAL)
    family = struct.unpack_from("H", raw)[0]
    if family not in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6):
        raise Refused(errno.EAFNOSUPPORT)
    return signed(notice.args[0]), family, raw[2:]


def _socket(on: Listener, notice: Notice, number: int, family: int) -> tuple[socket.socket, bool]:
    """The caller's own socket; where a container forbids that (False), a new one to be put in its place."""
    _key(notice, number)
    pidfd = os.pidfd_open(_process(notice.pid))
    try:
        on.valid(notice)
        fd = _libc.syscall(_PIDFD_GETFD, pidfd, number, 0)
    finally:
        os.close(pidfd)
    if fd < 0:
        return socket.socket(family, socket.SOCK_STREAM), False
    sock = socket.socket(fileno=fd)
    if sock.family != family:
        sock.close()
        raise Refused(errno.EINVAL)
    return sock, True


def _process(thread: int) -> int:
    """The process that a thread belongs to."""
    with open(f"/proc/{thread}/status", "rb") as stream:
        return int(next(line for line in stream if line.startswith(b"Tgid:")).split()[1])


def _key(notice: Notice, number: int) -> tuple[int, int]:
    """Which socket a descriptor of the caller is."""
    try:
        info = os.stat(f"/proc/{notice.pid}/fd/{number}")
    except OSError:
        raise Refused(errno.EBADF) from None
    if info.st_mode & 0o170000 != 0o140000:
        raise Refused(errno.ENOTSOCK)
    return info.st_dev, info.st_ino


def _flags(notice: Notice, number: int) -> int:
    with open(f"/proc/{notice.pid}/fdinfo/{number}", "rb") as stream:
        return int(next(line for line in stream if line.startswith(b"flags:")).split()[1], 8)


def _address(family: int, raw: bytes) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]:
    if len(raw) < (6 if family == socket.AF_INET else 22):
        raise Refused(errno.EINVAL)
    port = struct.unpack_from(">H", raw)[0]
    if family == socket.AF_INET:
        return ipaddress.IPv4Address(raw[2:6]), port
    return ipaddress.IPv6Address(raw[6:22]), port


def _place(host: str, port: int) -> tuple[str, int]:
    """An address and port, spelled in one way."""
    address = ipaddress.ip_address(host)
    return str(getattr(address, "ipv4_mapped", None) or address), port


def _loopback(family: int, raw: bytes, sock: socket.socket) -> tuple[str, int]:
    """Where a socket is bound instead of everywhere. One that takes both versions of IP takes the older one: its
    clients say 127.0.0.1."""
    host, port = _address(family, raw)
    if host.is_unspecified:
        both = family == socket.AF_INET6 and not sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
        return ("::ffff:127.0.0.1" if both else "127.0.0.1" if family == socket.AF_INET else "::1"), port
    mapped = getattr(host, "ipv4_mapped", None)
    if not (mapped or host).is_loopback:
        raise Refused(errno.EADDRNOTAVAIL)
    return str(host), port


def _path(raw: bytes) -> bytes:
    """The path of a UNIX address. Without one, or with an abstract one, it is refused."""
    path = raw.partition(b"\0")[0]
    if not path:
        raise Refused(errno.EPERM)
    return path


def _look(notice: Notice, path: bytes, flags: int = 0) -> int:
    """A path as the caller sees it, held open for nothing but its place."""
    base = os.open("/" if path.startswith(b"/") else f"/proc/{notice.pid}/cwd", os.O_PATH | os.O_CLOEXEC)
    try:
        return os.open(path, os.O_PATH | os.O_CLOEXEC | flags, dir_fd=base)
    finally:
        os.close(base)
