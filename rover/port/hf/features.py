"""The columns of each configuration, and how a card declares them: without that an empty column has no type.

A type is a name of `datasets`; a list of one; or a list of a record, which is a list with a dict.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Kind = str | list[Any]
Columns = dict[str, Kind]

_IDS: Columns = {"context": "string", "task": "string", "harness": "string", "verifier": "string"}
_FILE: Columns = {"path": "string", "blob": "string", "size": "int64"}

PACKAGES: Columns = {
    "name": "string", "title": "string", "family": "string", "workspace": "string", "tags": ["string"],
    "instruction": "string", "contract": "string", "tools": ["string"], "harness_record": "string",
    "requires": ["string"], "workdir": "string", "image": "string",
    "files": [{**_FILE, "access": "string", "role": "string"}], "package_files": [_FILE],
    **_IDS, "tree": "string", "license": "string", "revision": "string",
}  # fmt: skip
FILES: Columns = {
    "blob": "string", "sha256": "string", "size": "int64", "encoding": "string", "content": "string",
}  # fmt: skip
DEMONSTRATIONS: Columns = {
    "package": "string", "rollout": "string", "policy": "string", "seed": "int64", "turns": "int32",
    "messages": [{
        "role": "string", "content": "string",
        "tool_calls": [{"id": "string", "type": "string", "function": {"name": "string", "arguments": "string"}}],
        "tool_call_id": "string", "name": "string",
    }],
    "tools": "string", "atif": "string", "outcome": "string", "score": "float64", **_IDS,
}  # fmt: skip
VERDICTS: Columns = {
    "rollout": "string", "package": "string", "policy": "string", "seed": "int64", "runtime": "string",
    "outcome": "string", "passed": "bool", "score": "float64", "gate": "int32",
    "criteria": [{"criterion": "string", "requirement": "string", "score": "float64", "weight": "float64",
                  "critical": "bool", "status": "string", "reason": "string"}],
    "reason": "string", "end": "string", "turns": "int32", "prompt_tokens": "int64", "completion_tokens": "int64",
    **_IDS,
}  # fmt: skip
VERIFIERS: Columns = {
    "package": "string", "verifier": "string", "record": "string", "files": [_FILE], "revision": "string",
}  # fmt: skip

CONFIGS: dict[str, Columns] = {
    "packages": PACKAGES,
    "files": FILES,
    "demonstrations": DEMONSTRATIONS,
    "verdicts": VERDICTS,
}
#: only where somebody asked for them: they hold the answers
SECRET: dict[str, Columns] = {"verifiers": VERIFIERS, "verifier_files": FILES}


def yaml(columns: Columns, indent: int = 0) -> Iterator[str]:
    """The lines that declare some columns in a card's head."""
    pad = " " * indent
    for name, kind in columns.items():
        yield f"{pad}- name: {name}"
        yield from _kind(kind, indent + 2)


def _kind(kind: Any, indent: int) -> Iterator[str]:
    pad = " " * indent
    if isinstance(kind, str):
        yield f"{pad}dtype: {kind}"
    elif isinstance(kind, dict):
        yield f"{pad}struct:"
        yield from yaml(kind, indent)
    elif isinstance(kind[0], str):
        yield f"{pad}list: {kind[0]}"
    else:
        yield f"{pad}list:"
        yield from yaml(kind[0], indent)
