"""Tool servers as records: names and schemas of their tools, the configuration for agents, what a check says."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from mcp.client.stdio import StdioServerParameters
from tool_servers import files, hand, package

from rover.construct.references import problems
from rover.harness import mcp
from rover.harness.manifest import is_script
from rover.harness.mcp import records, schema
from rover.harness.mcp.offer import MAX_NAME, tools_of
from rover.rollout.env import env_from_files
from rover_store.errors import HarnessError
from rover_store.records import Harness, McpServer

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def listed(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "inputSchema": {}} for name in names]


# --- names -----------------------------------------------------------------------------------------------
def test_names_are_valid_unique_and_depend_on_the_lists_alone() -> None:
    lists = {"a": listed("b__c", "x" * 80, "x" * 81, "tool.one", "tool_one", "é"), "a__b": listed("c", "ok")}
    tools = tools_of(lists, ("read_file",))
    names = [tool.spec.name for tool in tools]
    assert len(set(names)) == len(names) == 8
    assert all(len(name) <= MAX_NAME and name.replace("_", "").replace("-", "").isalnum() for name in names)
    assert all(name.isascii() for name in names)
    called = {(tool.server, tool.name): tool.spec.name for tool in tools}
    assert called["a", "b__c"] == "a__b__c"
    assert called["a__b", "c"].startswith("a__b__c_")
    assert called["a", "tool_one"] == "a__tool_one"
    assert called["a", "tool.one"].startswith("a__tool_one_")
    assert tools_of({"a": list(reversed(lists["a"])), "a__b": lists["a__b"]}, ("read_file",)) == tools


def test_names_stay_apart_at_three_servers() -> None:
    listed = {"x": ["y__z__w"], "x__y": ["z__w"], "x__y__z": ["w"]}
    schema = {"type": "object"}
    tools = tools_of({who: [{"name": n, "inputSchema": schema} for n in own] for who, own in listed.items()})
    names = [tool.spec.name for tool in tools]
    assert len(set(names)) == 3
    assert names[0] == "x__y__z__w"
    assert all(name.startswith("x__y__z__w_") for name in names[1:])


def test_what_is_offered_is_bounded() -> None:
    (tool,) = tools_of({"a": [{"name": "t", "description": "d" * 9000, "inputSchema": NUMBER, "odd": 1}]})
    assert tool.spec.description == "d" * 4000 + " [cut]"
    with pytest.raises(HarnessError, match="offer 200 tools, more than 128"):
        tools_of({"a": listed(*map(str, range(100))), "b": listed(*map(str, range(100)))})
    with pytest.raises(HarnessError, match="hold more than 1048576 bytes"):
        tools_of({"a": [{"name": str(n), "inputSchema": {"enum": ["x" * 100_000]}} for n in range(11)]})


# --- arguments -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("found", "arguments", "said"),
    [
        (NUMBER, {"n": 1}, ""),
        (NUMBER, {}, "'n' is a required property"),
        (NUMBER, {"n": "1"}, "n: '1' is not of type 'integer'"),
        ({"$defs": {"x": {"type": "null"}}, "properties": {"a": {"$ref": "#/$defs/x"}}}, {"a": 1},
         "a: 1 is not of type 'null'"),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"items": [{"type": "null"}]}}},
         {"a": [1]}, "a.0: 1 is not of type 'null'"),
        ({"additionalProperties": False, "properties": {"a": {}}}, {"b": 1},
         "Additional properties are not allowed ('b' was unexpected)"),
        ({"patternProperties": {"^x": {}}, "additionalProperties": False}, {"b": 1}, ""),  # left to the server
        ({"properties": {"a": {"pattern": "^x"}}}, {"a": "b"}, ""),
        ({"properties": 7}, {"a": 1}, ""),
        ({"properties": {"a": {"type": "nonsense"}}}, {"a": 1}, ""),
    ],
)  # fmt: skip
def test_arguments_are_checked_as_far_as_that_is_safe(found: Any, arguments: Any, said: str) -> None:
    assert schema.argument_error(found, arguments) == said


def _laughs() -> dict[str, Any]:
    """A schema of a few lines that takes 9 ** 9 steps."""
    steps = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 9} for n in range(9)}
    return {"$defs": {**steps, "a9": {"type": "object"}}, "$ref": "#/$defs/a0"}


@pytest.mark.parametrize(
    ("found", "arguments"),
    [
        (_laughs(), {}),
        ({"$ref": "#"}, {}),
        ({"allOf": [{"$ref": "#"}, {"$ref": "#"}]}, {}),
        ({"$dynamicRef": "#"}, {}),
        ({"$ref": "http://127.0.0.1:9/schema"}, {}),
        ({"$ref": "file:///etc/passwd"}, {}),
        ({"properties": {"a": {"pattern": "^(a+)+$"}}}, {"a": "a" * 50 + "!"}),
        ({"propertyNames": {"pattern": "^(a+)+$"}}, {"a" * 50 + "!": 1}),
        ({"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False}, {"a" * 50 + "!": 1}),
        ({"patternProperties": {"^(a+)+$": {}}, "unevaluatedProperties": False}, {"a" * 50 + "!": 1}),
        ({"properties": {"a": {"uniqueItems": True}}}, {"a": [{"x": [n]} for n in range(20_000)]}),
        ({"properties": {"a": {"contains": {"const": 1}}}}, {"a": [2] * 200_000}),
    ],
)
def test_a_hostile_schema_takes_no_time_and_no_network(found: Any, arguments: Any) -> None:
    began = time.process_time()
    assert schema.argument_error(found, arguments) == ""
    assert time.process_time() - began < 3


# --- packages --------------------------------------------------------------------------------------------
def test_the_configuration_for_agents() -> None:
    harness = Harness(
        tools=(),
        mcp_servers=(
            McpServer(name="notes", command=("python3", "{mcp}/notes.py", "-v"), env={"DB": "{mcp}/n.db"}),
            McpServer(name="far", url="https://example.org/mcp"),
        ),
    )
    entry: Any = {"command": "python3", "args": ["/tmp/mcp/notes.py", "-v"], "env": {"DB": "/tmp/mcp/n.db"}}
    assert StdioServerParameters(**entry).args == entry["args"]  # as the library's own client takes it
    assert json.loads(mcp.config(mcp.started(harness))) == {"mcpServers": {"notes": entry}}
    assert json.loads(mcp.config(harness.mcp_servers or (), "/x"))["mcpServers"]["notes"]["args"][0] == "/x/notes.py"
    assert records.waiting(harness) == (
        "tool server far needs network (https://example.org/mcp): not offered",
    )


def test_what_a_package_carries_for_its_servers_is_part_of_its_harness() -> None:
    one, other = package(a=hand()), package(a=hand("# changed"))
    assert mcp.carried(one.files) == {"a.py": hand().encode()}
    assert one.harness == other.harness
    assert one.harness_id != other.harness_id
    assert one.start == other.start
    assert is_script(b"#!/bin/sh\n")
    assert not is_script(b"print()")


def test_a_sound_package_with_servers_has_no_problems() -> None:
    assert problems(package(a=hand(), b=hand())) == problems(package())


@pytest.mark.parametrize(
    ("servers", "field", "reason"),
    [
        ([{"name": "a", "url": "https://x"}] * 2, "mcp_servers", "'a' is there 2 times"),
        ([{"name": "a"}], "mcp_servers.0.command", "is empty, and there is no url"),
        ([{"name": "a", "command": ["x"], "url": "https://x"}], "mcp_servers.0.url",
         "stands beside a command; a server has one of them"),
        ([{"name": "a", "command": [" "]}], "mcp_servers.0.command.0", "names no program"),
        ([{"name": "a", "command": ["x", "a\0b"]}], "mcp_servers.0.command.1", "holds a NUL byte"),
        ([{"name": "a", "command": ["{mcp}/no"]}], "mcp_servers.0.command.0", "harness/mcp/no is not in the package"),
        ([{"name": "a", "command": ["x"], "env": {"A=B": "c"}}], "mcp_servers.0.env", "'A=B' is no variable"),
    ],
)  # fmt: skip
def test_a_check_names_what_cannot_start(servers: list[dict[str, Any]], field: str, reason: str) -> None:
    env = env_from_files(files({"mcp_servers": servers}), package().resources)
    found = [problem for problem in problems(env) if problem not in problems(package())]
    assert found == [("harness/harness.json", field, reason)]
