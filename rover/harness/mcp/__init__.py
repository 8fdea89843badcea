"""Tool servers that speak the Model Context Protocol: what a harness names in `mcp_servers`, and where it stands.

A server is a program that runs in the box of a rollout, confined like any command, for the whole rollout. Its code
comes from the harness component itself (harness/mcp/**, laid at FOLDER in the private /tmp of the servers, so that it
is neither in the workspace nor in the end state), from the box's Python, or from the workspace. `{mcp}` in a command
or a variable stands for that folder.

`config` writes the servers as agents know them, for those that start servers themselves.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from rover_store.records import Harness, McpServer

#: Where the files of harness/mcp/ lie in the box; the variable that names it, and what stands for it in a command.
FOLDER, FOLDER_VARIABLE, FOLDER_MARK = "/tmp/mcp", "ROVER_MCP", "{mcp}"
#: Where the configuration for agents lies, the variable that names it, and what stands for it in an agent's command.
CONFIG, CONFIG_VARIABLE, CONFIG_MARK = "/tmp/mcp.json", "ROVER_MCP_CONFIG", "{mcp_config}"
#: Where a package keeps them.
CARRIED = "harness/mcp/"


def started(harness: Harness) -> tuple[McpServer, ...]:
    """The servers that a box can start; one that has only a url needs a network, which no box gives."""
    return tuple(server for server in harness.mcp_servers or () if server.command)


def remote(harness: Harness) -> tuple[McpServer, ...]:
    """The servers that are kept and not offered, since they need a network."""
    return tuple(server for server in harness.mcp_servers or () if not server.command)


def carried(package: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of servers that a package carries, by their paths below FOLDER."""
    return {path[len(CARRIED) :]: data for path, data in sorted(package.items()) if path.startswith(CARRIED)}


def filled(server: McpServer, folder: str = FOLDER) -> tuple[list[str], dict[str, str]]:
    """The command and variables of a server whose carried files lie in `folder`."""
    command = [word.replace(FOLDER_MARK, folder) for word in server.command]
    return command, {name: value.replace(FOLDER_MARK, folder) for name, value in server.env.items()}


def config(servers: Iterable[McpServer], folder: str = FOLDER) -> bytes:
    """The servers in the file format of MCP clients: {"mcpServers": {name: {"command", "args", "env"}}}.

    One with only a url is left out: an agent in a box could not reach it.
    """
    entries = {}
    for server in servers:
        if server.command:
            command, env = filled(server, folder)
            entries[server.name] = {"command": command[0], "args": command[1:], "env": env}
    return (json.dumps({"mcpServers": entries}, indent=2, ensure_ascii=False) + "\n").encode()
