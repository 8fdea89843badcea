"""Words of the command line without pydantic: what is text stays as it is, what was not given keeps its default.

Newer Typer builds a pydantic validator for every parameter of a command, which costs more than all else that a read
verb does. For a word that needs no conversion there is nothing to validate; anything else goes Typer's way.
"""

from __future__ import annotations

from typing import Any


def spare(command: Any) -> Any:
    """The command, with parameters that convert only what needs it. One of an older Typer is returned as it is."""
    for param in getattr(command, "params", ()):
        _spare(param)
    for below in getattr(command, "commands", {}).values():
        spare(below)
    made = getattr(command, "get_help_option", None)
    if made is not None:
        command.get_help_option = lambda ctx: _spare(made(ctx))
    return command


def _spare(param: Any) -> Any:
    if getattr(param, "_runtime_param", 0) is None and hasattr(param, "type_descriptor"):
        param._runtime_param = _Plain()
    return param


class _Plain:
    """Stands where Typer keeps a validator, until one is needed."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        kind, info = param.type_descriptor.annotation, param.type_descriptor.parameter_info
        if getattr(info, "parser", None) is None:
            several = param.multiple or param.nargs == -1
            if value is None:
                return () if several else None
            if kind == list[str] and isinstance(value, list | tuple) and all(isinstance(v, str) for v in value):
                return list(value)
            if not several and type(value) is kind and (kind is str or value == param.default):
                return value
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)
