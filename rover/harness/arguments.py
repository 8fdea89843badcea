"""Arguments of calls as a model wrote them: whether a record can carry them."""

from __future__ import annotations

import json
from typing import Any

from rover.policy.completion import deeper

#: no tool takes arguments nested half as deep, and a record that is stored has a bound of its own
MAX_DEPTH = 50


def unstorable(arguments: dict[str, Any]) -> str:
    """Why these arguments cannot be stored; empty where they can."""
    try:
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError):
        return "the arguments hold a value that JSON cannot carry"
    return f"the arguments are nested deeper than {MAX_DEPTH}" if deeper(arguments, MAX_DEPTH) else ""
