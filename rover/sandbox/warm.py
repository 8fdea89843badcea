"""What a call's module wants imported before the fork: a literal `WARM = ("pandas",)` in its source.

Read without importing the module, since the host need not load what runs inside.
"""

from __future__ import annotations

import ast
import threading
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

#: These make a warm process large, and a fork of it slow; they get one of their own.
HEAVY = frozenset({"duckdb", "pandas"})

#: Python counts the depth of its parser once for all threads: two that make a tree at a time are a SystemError
_PARSING = threading.Lock()


@lru_cache(maxsize=256)
def warm(module: str) -> tuple[str, ...]:
    """The module itself, after what its WARM names."""
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return (module,)
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        return (module,)
    return (*_declared(Path(spec.origin)), module)


def heavy(modules: tuple[str, ...]) -> bool:
    return not HEAVY.isdisjoint(modules)


def _declared(file: Path) -> tuple[str, ...]:
    with _PARSING:
        tree = ast.parse(file.read_bytes())
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "WARM" for t in node.targets):
            return tuple(str(name) for name in ast.literal_eval(node.value))
    return ()
