"""Arguments against the schema of somebody else's tool: bounded, since a schema can be written to take for ever.

Nothing is fetched. `pattern` and what depends on it are left to the server, since a pattern alone can take for ever;
so is whatever takes more than STEPS steps, or refers to itself without end. A server checks its arguments too; this
check gives an agent the same kind of answer that it gets for our own tools.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import Any

#: bytes and depth of one schema
BYTES, DEPTH = 128 << 10, 40
#: keywords that one check may look at, and items that are compared with each other
STEPS, UNIQUE = 20_000, 200
#: errors of which the first, by its place, is told
ERRORS = 50
_LEFT_OUT = ("pattern", "patternProperties", "format", "$dynamicRef", "$recursiveRef", "unevaluatedItems",
             "unevaluatedProperties")  # fmt: skip

Keyword = Callable[[Any, Any, Any, Any], Any]


class _Exhausted(Exception):
    """A check took more steps than it may."""


class _Steps(threading.local):
    left = 0


_steps = _Steps()


def problem(schema: Any) -> str:
    """Why a tool may not have this schema; empty where it may."""
    if not isinstance(schema, dict):
        return "is no object"
    if schema.get("type", "object") != "object":
        return "is not of type object"
    if _deep(schema):
        return f"is nested deeper than {DEPTH}"
    try:
        size = len(json.dumps(schema, allow_nan=False))
    except ValueError:
        return "holds a number that is none"
    return f"holds more than {BYTES} bytes" if size > BYTES else ""


def argument_error(schema: dict[str, Any], arguments: dict[str, Any]) -> str:
    """Why these arguments do not fit, in one line; empty where they do, or where that was not to be found out."""
    from referencing import Registry

    _steps.left = STEPS
    checker = _checker("draft-0" in str(schema.get("$schema", "")))(schema, registry=Registry())
    try:
        errors = list(islice(checker.iter_errors(arguments), ERRORS))
    except Exception:  # exhausted, endless, unresolvable or no schema at all: the server will say
        return ""
    if not errors:
        return ""
    first = min(errors, key=lambda error: list(map(str, error.absolute_path)))
    where = ".".join(str(part) for part in first.absolute_path)
    return (f"{where}: {first.message}" if where else first.message)[:300]


@cache
def _checker(old: bool) -> Any:
    """A validator in which every keyword counts."""
    from jsonschema import Draft7Validator, Draft202012Validator, validators

    base: Any = Draft7Validator if old else Draft202012Validator
    extend: Any = validators.extend
    counted = {name: _counted(check) for name, check in base.VALIDATORS.items() if name not in _LEFT_OUT}
    counted["additionalProperties"] = _without_patterns(counted["additionalProperties"])
    counted["uniqueItems"] = _few(counted["uniqueItems"])
    left_out = dict.fromkeys(_LEFT_OUT, _nothing)
    return extend(base, {**counted, **left_out})


def _counted(check: Keyword) -> Keyword:
    def counting(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        _steps.left -= 1
        if _steps.left < 0:
            raise _Exhausted
        yield from check(validator, value, instance, schema) or ()

    return counting


def _without_patterns(check: Keyword) -> Keyword:
    """Which properties are additional depends on the patterns."""

    def checking(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if "patternProperties" not in schema:
            yield from check(validator, value, instance, schema)

    return checking


def _few(check: Keyword) -> Keyword:
    """Every item is compared with every other one."""

    def checking(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if isinstance(instance, list) and len(instance) <= UNIQUE:
            yield from check(validator, value, instance, schema)

    return checking


def _nothing(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
    yield from ()


def _deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEPTH):
        level = [item for one in level for item in (one.values() if isinstance(one, dict) else one)
                 if isinstance(item, dict | list)]  # fmt: skip
        if not level:
            return False
    return True
