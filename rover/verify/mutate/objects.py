"""Mutations of JSON objects: fields, and the way they are written."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

from rover.verify.checklib.read import json_object, json_value
from rover.verify.mutate.grids import to_json
from rover.verify.mutate.state import Change, Nothing, State
from rover.verify.mutate.values import other

Arguments = Mapping[str, Any]


def _field(state: State, path: str, arguments: Arguments, rng: random.Random) -> tuple[dict[str, Any], str]:
    state.read(path)
    obj = json_object(state.at(path))
    name = arguments.get("field") or rng.choice(sorted(obj) or [""])
    if name not in obj:
        raise Nothing(f"{path} has no field {name!r}")
    return obj, name


def change_field(state: State, path: str, arguments: Arguments, rng: random.Random) -> Change:
    """A field holds another value; a list loses a member."""
    obj, name = _field(state, path, arguments, rng)
    value = obj[name]
    if "value" in arguments:
        new: Any = arguments["value"]
    elif isinstance(value, list):
        if not value:
            raise Nothing(f"{name} is an empty list")
        gone = rng.randrange(len(value))
        new = [v for i, v in enumerate(value) if i != gone]
    elif isinstance(value, dict):
        new = {}
    else:
        new = other(value, float(arguments["delta"]) if "delta" in arguments else None)
    if new == value:
        raise Nothing(f"{name} holds that value already")
    return {path: to_json({**obj, name: new})}


def drop_field(state: State, path: str, arguments: Arguments, rng: random.Random) -> Change:
    obj, name = _field(state, path, arguments, rng)
    return {path: to_json({k: v for k, v in obj.items() if k != name})}


def reindent_json(state: State, path: str, arguments: Arguments, rng: random.Random) -> Change:
    """The same value with other white space."""
    before = state.read(path)
    value = json_value(state.at(path))
    for text in (json.dumps(value, indent=4, ensure_ascii=False) + "\n", json.dumps(value, ensure_ascii=False)):
        if text.encode() != before:
            return {path: text.encode()}
    raise Nothing("the file can be written in one way alone")
