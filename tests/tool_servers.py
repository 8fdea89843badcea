"""Tool servers that speak MCP, for tests: real ones of the `mcp` library, and ones written by hand that misbehave.

`package(server=source, ...)` is the toy package whose harness names servers and carries their programs.
"""

from __future__ import annotations

import json
from typing import Any

from packages import summary_package, summary_resources

from rover.rollout.env import Env, env_from_files

#: of the mcp library: keeps notes in memory and writes a file of the workspace
REAL = '''
from mcp.server.mcpserver import Image, MCPServer

server = MCPServer("notes")
notes = []

@server.tool()
def add(text: str, times: int = 1) -> int:
    """Add a note."""
    notes.extend([text] * times)
    return len(notes)

@server.tool()
def save(path: str) -> str:
    """Write all notes to a file."""
    with open(path, "w") as stream:
        stream.write("\\n".join(notes))
    return f"{len(notes)} notes saved"

@server.tool()
def picture() -> Image:
    """A picture."""
    return Image(data=b"12345", format="png")

@server.tool()
def refuse() -> str:
    raise ValueError("this never works")

server.run()
'''

#: of the mcp library, low level: pages of tools, structured content, a question to the client before the answer
LOW = '''
import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

TOOLS = [
    types.Tool(name=f"t{n}", description=f"tool {n}", input_schema={"type": "object", "required": ["n"],
               "properties": {"n": {"type": "integer", "maximum": 9}}, "additionalProperties": False})
    for n in range(5)
]

async def list_tools(ctx, params):
    at = int(params.cursor) if params and params.cursor else 0
    more = str(at + 2) if at + 2 < len(TOOLS) else None
    return types.ListToolsResult(tools=TOOLS[at:at + 2], next_cursor=more)

async def call_tool(ctx, params):
    roots = await ctx.session.list_roots()
    value = {"tool": params.name, "n": params.arguments["n"], "roots": [r.name for r in roots.roots]}
    return types.CallToolResult(content=[], structured_content=value)

server = Server("low", on_list_tools=list_tools, on_call_tool=call_tool)

async def main():
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())

anyio.run(main)
'''

#: by hand; what stands behind it is run with these names, and may put another function in place of one
HAND = '''
import json, os, sys, time

def say(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")
    sys.stdout.flush()

def initialize(id, params):
    say(id=id, result={"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                       "serverInfo": {"name": "hand", "version": "1"}})

def tools():
    return [{"name": "go", "description": "Go.", "inputSchema": {"type": "object"}}]

def list_tools(id, params):
    say(id=id, result={"tools": tools()})

def text(id, words, **more):
    say(id=id, result={"content": [{"type": "text", "text": words}], **more})

def call(id, params):
    text(id, "gone")

def closing():
    pass

def main():
    for line in sys.stdin:
        message = json.loads(line)
        do = {"initialize": initialize, "tools/list": list_tools, "tools/call": call}.get(message.get("method"))
        if do is not None:
            do(message["id"], message.get("params", {}))
        elif "method" not in message:
            answered(message)
    closing()

def answered(message):
    pass
'''


def hand(more: str = "") -> str:
    """A server by hand, with some of its functions replaced."""
    return f"{HAND}\n{more}\nmain()\n"


def package(harness: dict[str, Any] | None = None, **sources: str) -> Env:
    """The toy package with a server for each source, in this order."""
    return env_from_files(files(harness, **sources), summary_resources())


def files(harness: dict[str, Any] | None = None, **sources: str) -> dict[str, bytes]:
    """The same, as files."""
    found = summary_package()
    record = json.loads(found["harness/harness.json"])
    record["mcp_servers"] = [{"name": name, "command": ["python3", f"{{mcp}}/{name}.py"]} for name in sources]
    for key, value in (harness or {}).items():
        record[key] = {**record[key], **value} if isinstance(value, dict) else value
    found["harness/harness.json"] = json.dumps(record).encode()
    for name, source in sources.items():
        found[f"harness/mcp/{name}.py"] = source.encode()
    return found
