"""The entry that derives answers inside the sandbox: queries in, tables out, errors as data.

The files are those of the workspace the call runs in (its root is the current folder unless `root` is given).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rover_store.errors import PackageError
from rover_store.records.query import Query, Table

#: imported once in the process that calls are forked from, not in each call
WARM = ("duckdb", "pandas", "rover.construct.query.duck", "rover.construct.query.frames")


def derive(payload: dict[str, Any]) -> dict[str, Any]:
    """`{"queries": {id: query}, "givens": {...}, "engine": "duckdb"|"pandas", "root"?}` -> `{id: table|{"error"}}`.

    A query that fails never takes the others with it: its error is one line that names file, field and reason.
    """
    givens = payload.get("givens", {})
    root = Path(payload.get("root", "."))
    evaluate: Callable[[Query], Table]
    if payload.get("engine", "duckdb") == "duckdb":
        from rover.construct.query import duck

        evaluate = duck.Session(root, givens).evaluate
    else:
        from rover.construct.query import frames

        evaluate = frames.Session(root, givens).evaluate
    found: dict[str, Any] = {}
    for name, query in payload["queries"].items():
        try:
            found[name] = evaluate(Query.model_validate(query)).model_dump(mode="json")
        except PackageError as error:
            found[name] = {"error": error.message}
        except Exception as error:  # the files are hostile: whatever a library raises is this query's result
            found[name] = {"error": " ".join(f"{type(error).__name__}: {error}".split())[:200]}
    return found
