"""schemas/v1/<record>.schema.json, generated from the records.

    python -m rover_store.records.jsonschema schemas/v1           write
    python -m rover_store.records.jsonschema schemas/v1 --check   exit 1 where a file differs

Docstrings and field descriptions become descriptions. A released folder only gains files and optional fields.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from rover_store.records import ALL, Record, to_json
from rover_store.records.diff import DiffDocument

#: printed by a command, never stored
PRINTED: dict[str, type[Record]] = {r.kind: r for r in (DiffDocument,)}


def schema(record: type[Record]) -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of one record."""
    body = record.model_json_schema(mode="validation")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:workrover:v1:{record.kind}",
        **body,
    }


def files() -> dict[str, bytes]:
    """File name -> bytes of every schema."""
    return {f"{kind}.schema.json": to_json(schema(record)) for kind, record in (ALL | PRINTED).items()}


def drift(folder: Path) -> list[str]:
    """Names of files in `folder` that differ from what the records give, are missing, or are extra."""
    want = files()
    have = {p.name: p.read_bytes() for p in folder.glob("*.json")}
    return sorted(name for name in want.keys() | have.keys() if want.get(name) != have.get(name))


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0])
    if "--check" in arguments:
        changed = drift(folder)
        for name in changed:
            print(f"{folder / name}: differs from the records; write it again", file=sys.stderr)
        return 1 if changed else 0
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files().items():
        (folder / name).write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
