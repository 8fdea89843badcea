"""What a call's module wants imported before the fork: a literal `WARM = ("pandas",)` in its source.

`WARM_FOR = {".xlsx": "openpyxl"}` wants a library only where the workspace starts with such a file. Both are read
without importing the module, since the host need not load what runs inside.
"""

from __future__ import annotations

import ast
import threading
from collections.abc import Iterable
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

#: These make a warm process large, and a fork of it slow; they get one of their own.
HEAVY = frozenset({"duckdb", "pandas"})
BOOKS = frozenset({"openpyxl"})

#: Python counts the depth of its parser once for all threads: two that make a tree at a time are a SystemError
_PARSING = threading.Lock()


def warm(module: str, files: Iterable[str] = ()) -> tuple[str, ...]:
    """The module itself, after what its WARM names, and what its WARM_FOR names for these files."""
    always, sometimes = _declared(module)
    wanted = [library for ending, library in sometimes if any(path.endswith(ending) for path in files)]
    return (*always, *dict.fromkeys(wanted), module)


def kind(modules: tuple[str, ...]) -> str:
    """Which warm process a call is forked from: the smaller it is, the cheaper its forks are."""
    if not HEAVY.isdisjoint(modules):
        return "heavy"
    return "light" if BOOKS.isdisjoint(modules) else "books"


@lru_cache(maxsize=256)
def _declared(module: str) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return (), ()
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        return (), ()
    with _PARSING:
        tree = ast.parse(Path(spec.origin).read_bytes())
    found: dict[str, Any] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            names = {t.id for t in node.targets if isinstance(t, ast.Name)} & {"WARM", "WARM_FOR"}
            found.update(dict.fromkeys(names, node.value))
    always = ast.literal_eval(found["WARM"]) if "WARM" in found else ()
    sometimes = ast.literal_eval(found["WARM_FOR"]) if "WARM_FOR" in found else {}
    return tuple(map(str, always)), tuple((str(k), str(v)) for k, v in sometimes.items())
