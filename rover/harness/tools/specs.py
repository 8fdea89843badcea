"""Names, descriptions and JSON Schemas of the tools, and the check of a call's arguments against them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from rover.policy.protocol import ToolSpec
from rover_store.errors import PackageError

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

READ_LIMIT = 200
READ_MAX = 5000

#: tools whose calls may change the workspace
WRITERS = frozenset(
    {"write_file", "delete_file", "write_table", "append_rows", "edit_table", "edit_workbook", "shell"}
)

_PATH: dict[str, Any] = {"type": "string", "minLength": 1, "description": "path in the workspace, e.g. data/orders.csv"}
_SHEET: dict[str, Any] = {"type": "string", "description": "sheet of a workbook; the first one when absent"}
_SCALAR: dict[str, Any] = {"type": ["string", "number", "boolean", "null"]}
_CELLS: dict[str, Any] = {"type": "object", "minProperties": 1, "additionalProperties": _SCALAR}
_OFFSET: dict[str, Any] = {"type": "integer", "minimum": 0, "description": "how many to skip"}


def _tool(name: str, description: str, required: tuple[str, ...] = (), /, **properties: dict[str, Any]) -> ToolSpec:
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    return ToolSpec(name, description, schema)


TOOLS: dict[str, ToolSpec] = {
    tool.name: tool
    for tool in (
        _tool(
            "list_files",
            'List all files below a folder: {"files": [{"path", "size"}]}.',
            path={"type": "string", "description": "folder; the whole workspace when absent"},
        ),
        _tool(
            "read_file",
            "Read a text file. The output is its text.",
            ("path",),
            path=_PATH,
            offset={**_OFFSET, "description": "how many lines to skip"},
            limit={"type": "integer", "minimum": 1, "description": "how many lines to return"},
        ),
        _tool(
            "write_file",
            "Write a text file, replacing what is there. Folders are made as needed.",
            ("path", "content"),
            path=_PATH,
            content={"type": "string"},
        ),
        _tool("delete_file", "Delete a file.", ("path",), path=_PATH),
        _tool(
            "read_table",
            "Read rows of a table (csv, tsv, xlsx, json or jsonl): "
            '{"columns": [...], "rows": [[...]], "total": N, "offset": n}. '
            "Values of csv and tsv are text, as they stand.",
            ("path",),
            path=_PATH,
            sheet=_SHEET,
            columns={"type": "array", "items": {"type": "string"}, "description": "only these columns, in this order"},
            where={**_CELLS, "description": "only rows in which each of these columns has this value"},
            offset=_OFFSET,
            limit={
                "type": "integer",
                "minimum": 1,
                "maximum": READ_MAX,
                "description": f"at most so many rows; {READ_LIMIT} when absent",
            },
        ),
        _tool(
            "write_table",
            "Write a table as csv, tsv, xlsx, json (a list of objects) or jsonl, by the path's ending. "
            "In a workbook that exists the named sheet is replaced, the others stay.",
            ("path", "columns", "rows"),
            path=_PATH,
            columns={"type": "array", "items": {"type": "string"}, "minItems": 1, "uniqueItems": True},
            rows={"type": "array", "items": {"type": "array", "items": _SCALAR}},
            sheet=_SHEET,
        ),
        _tool(
            "append_rows",
            "Add rows to the end of a csv or tsv file; a file that is not there is made, with `columns` as its header. "
            'What the file holds stays as it is, byte for byte. Output: {"appended": rows}.',
            ("path", "columns", "rows"),
            path=_PATH,
            columns={
                "type": "array",
                "items": {"type": "string"},
                "minItems": 1,
                "uniqueItems": True,
                "description": "the columns that each row gives, all those of the file, in any order",
            },
            rows={"type": "array", "items": {"type": "array", "items": _SCALAR}},
        ),
        _tool(
            "edit_table",
            "Change cells of a table in place: in every row that matches `where`, set the columns of `set`. "
            'Everything else stays as it is, byte for byte in text files. Output: {"changed": rows}.',
            ("path", "where", "set"),
            path=_PATH,
            where={**_CELLS, "description": "column -> value that a row must have"},
            set={**_CELLS, "description": "column -> new value"},
            sheet=_SHEET,
        ),
        _tool(
            "read_workbook",
            'Say which sheets a workbook has: {"sheets": [{"name", "rows", "columns", "header"}]}.',
            ("path",),
            path=_PATH,
        ),
        _tool(
            "edit_workbook",
            'Set single cells of a sheet, by address. Everything else stays. Output: {"changed": cells}.',
            ("path", "sheet", "cells"),
            path=_PATH,
            sheet=_SHEET,
            cells={
                "type": "object",
                "minProperties": 1,
                "propertyNames": {"pattern": "^[A-Za-z]{1,3}[1-9][0-9]{0,6}$"},
                "additionalProperties": _SCALAR,
                "description": 'address -> new value, e.g. {"B2": 12.5}',
            },
        ),
        _tool(
            "shell",
            'Run a command with sh in the workspace: {"exit_code", "stdout", "stderr"}. No network.',
            ("command",),
            command={"type": "string", "minLength": 1},
        ),
    )
}


def offered(names: tuple[str, ...]) -> tuple[ToolSpec, ...]:
    """The specs of the tools that a harness names. PackageError for a name that no tool has."""
    for number, name in enumerate(names):
        if name not in TOOLS:
            raise PackageError("harness/harness.json", f"tools.{number}", f"no tool is called {name!r}")
    return tuple(TOOLS[name] for name in names)


def argument_error(tool: str, arguments: dict[str, Any]) -> str:
    """Why these arguments do not fit the tool's schema, in one line; empty where they do."""
    error = next(iter(sorted(_validator(tool).iter_errors(arguments), key=lambda e: list(map(str, e.path)))), None)
    if error is None:
        return ""
    where = ".".join(str(part) for part in error.absolute_path)
    return f"{where}: {error.message}"[:300] if where else error.message[:300]


@cache
def _validator(tool: str) -> Validator:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(TOOLS[tool].parameters)
