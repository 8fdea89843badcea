"""Where something may be written: refused at once, before work is done for it. Needs no torch."""

from __future__ import annotations

from pathlib import Path

from rover_store import config as stores
from rover_store.errors import UsageError


def refuse(place: Path) -> None:
    """UsageError where a name is no text (a page, a card or a library could not name it), or lies within a store."""
    try:
        str(place).encode()
    except UnicodeEncodeError:
        raise UsageError(f"{place}: the name is not UTF-8", hint="take a name that is") from None
    store = stores.above(place)
    if store is not None:
        raise UsageError(f"{place}: within the store {store}, where only rover's own lies", hint="take another place")
