"""How commands open the store: --store, ROVER_STORE or the nearest folder above, with the clock of the caller."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from rover.cli.output import now

if TYPE_CHECKING:
    from rover_store.store import Store

#: what a command says whose index could be kept nowhere
IN_MEMORY = "the index cannot be written here, and was built for this command alone"


def open_store() -> Store:
    """The store of this call."""
    from rover_store.store import Store

    return _signed(Store.open(None, clock=now))


def open_store_at(folder: Path) -> Store:
    """The store of a folder that this call made."""
    from rover_store.store import Store

    return _signed(Store.open(folder, clock=now))


def _signed(store: Store) -> Store:
    """Commits carry the name of ROVER_AUTHOR, else that of config.toml."""
    from rover_store.commits import check_person

    if author := os.environ.get("ROVER_AUTHOR"):
        store.author = check_person(author)
    return store


def command_line() -> str:
    """The command as typed, for the operation log. A line break in a word becomes a space, no text an escape."""
    import shlex
    import sys

    typed = shlex.join(["rover", *sys.argv[1:]]).encode("utf-8", "backslashreplace").decode()
    return " ".join(typed.split())[:500]
