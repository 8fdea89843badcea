"""The tools of servers as a policy sees them: names that every model's interface takes, bounded, in a fixed order.

A tool is called `server__tool`. What a name may not hold becomes `_`, and a name that had to change, or that is there
already, ends in eight digits of its digest, so that names stay apart. What is over a bound is the server's fault.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rover.harness.mcp import schema
from rover.policy.protocol import ToolSpec
from rover_store.errors import HarnessError
from rover_store.ids import digest

#: what the interfaces of models take: so many tools, and names so long
MAX_TOOLS, MAX_NAME = 128, 64
#: characters of a description, bytes of all schemas together
DESCRIPTION, SCHEMAS = 4000, 1 << 20
_ODD = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool of a server. `name` is what the server calls it."""

    server: str
    name: str
    spec: ToolSpec


def tools_of(listed: Mapping[str, Any], taken: tuple[str, ...] = ()) -> tuple[Tool, ...]:
    """The tools that servers list, by server: those of one server sorted by name. HarnessError names what is wrong."""
    found: list[Tool] = []
    names = set(taken)
    for server, tools in listed.items():
        for tool in _sorted(server, tools):
            name = called(server, tool["name"], names)
            names.add(name)
            found.append(Tool(server, tool["name"], ToolSpec(name, _about(tool), _schema(server, tool))))
    if len(found) > MAX_TOOLS:
        raise HarnessError(f"the tool servers offer {len(found)} tools, more than {MAX_TOOLS}")
    if sum(len(json.dumps(tool.spec.parameters)) for tool in found) > SCHEMAS:
        raise HarnessError(f"the schemas of the tool servers hold more than {SCHEMAS} bytes")
    return tuple(found)


def called(server: str, tool: str, taken: set[str]) -> str:
    """The name that a policy calls a tool by."""
    full = f"{server}__{tool}"
    name = _ODD.sub("_", full)
    if name == full and len(name) <= MAX_NAME and name not in taken:
        return name
    # servers `a` and `a__b` can have tools that are called alike in full, so that the second digest tells them apart
    for said in ([full], [server, tool]):
        text = [word.encode("utf-8", "replace").decode() for word in said]
        found = f"{name[: MAX_NAME - 9]}_{digest(text if len(text) > 1 else text[0])[:8]}"
        if found not in taken:
            return found
    raise HarnessError(f"tool server {server}: no name is left for {tool[:100]!r}")


def _sorted(server: str, tools: Any) -> list[dict[str, Any]]:
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise HarnessError(f"tool server {server}: its list of tools is none")
    names = [tool.get("name") for tool in tools]
    for name in names:
        if not isinstance(name, str) or not name:
            raise HarnessError(f"tool server {server}: a tool has no name")
        if names.count(name) > 1:
            raise HarnessError(f"tool server {server}: it lists {name[:100]!r} twice")
    return sorted(tools, key=lambda tool: str(tool["name"]))


def _about(tool: dict[str, Any]) -> str:
    words = [tool.get("description"), tool.get("title"), tool["name"]]
    text = next(word for word in words if isinstance(word, str) and word.strip())
    text = text.encode("utf-8", "replace").decode().strip()
    return text if len(text) <= DESCRIPTION else f"{text[:DESCRIPTION]} [cut]"


def _schema(server: str, tool: dict[str, Any]) -> dict[str, Any]:
    found = tool.get("inputSchema")
    problem = schema.problem(found)
    if problem:
        raise HarnessError(f"tool server {server}: the schema of {tool['name'][:100]!r} {problem}")
    assert isinstance(found, dict)
    return {"type": "object", **found}
