"""The dialects by name."""

from __future__ import annotations

from rover_store.errors import UsageError
from rover_train.render.plain import PlainDialect
from rover_train.render.protocol import Dialect
from rover_train.render.tagged import TaggedDialect

DIALECTS: dict[str, Dialect] = {d.name: d for d in (TaggedDialect(), PlainDialect())}


def dialect(name: str) -> Dialect:
    """UsageError for a name that no dialect has."""
    if name not in DIALECTS:
        raise UsageError(f"no dialect is called {name!r}", hint=f"there are {', '.join(sorted(DIALECTS))}")
    return DIALECTS[name]
