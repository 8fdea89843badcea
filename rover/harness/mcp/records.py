"""What is wrong with the tool servers of a harness, as far as its record and its files show. Nothing is started."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from rover.harness import mcp
from rover_store.records import Harness, McpServer

#: field and reason
Problem = tuple[str, str]


def problems(harness: Harness, carried: Collection[str] = ()) -> Iterator[Problem]:
    """Everything that would keep a server from starting, or tools apart. `carried` are paths below harness/mcp/."""
    servers = harness.mcp_servers or ()
    for name, count in Counter(server.name for server in servers).items():
        if count > 1:
            yield "mcp_servers", f"{name!r} is there {count} times"
    for number, server in enumerate(servers):
        for field, reason in _of_one(server, carried):
            yield f"mcp_servers.{number}.{field}", reason


def _of_one(server: McpServer, carried: Collection[str]) -> Iterator[Problem]:
    if not server.command and not server.url:
        yield "command", "is empty, and there is no url"
    if server.command and server.url:
        yield "url", "stands beside a command; a server has one of them"
    if server.command and not server.command[0].strip():
        yield "command.0", "names no program"
    for number, word in enumerate(server.command):
        path = word.removeprefix(f"{mcp.FOLDER_MARK}/")
        if "\0" in word:
            yield f"command.{number}", "holds a NUL byte"
        elif path != word and path not in carried:
            yield f"command.{number}", f"{mcp.CARRIED}{path} is not in the package"
    for name, value in server.env.items():
        if not name or "=" in name or "\0" in name + value:
            yield "env", f"{name!r} is no variable"


def waiting(harness: Harness) -> tuple[str, ...]:
    """One line for each server that is kept and not offered."""
    return tuple(f"tool server {s.name} needs network ({s.url}): not offered" for s in mcp.remote(harness))
