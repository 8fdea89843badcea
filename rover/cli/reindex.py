"""`rover reindex`: build the index again."""

from __future__ import annotations

from rover.cli.output import Json, counted, print_json
from rover.cli.stores import open_store


def command(as_json: bool = Json) -> None:
    """Build the index again from git alone. Any command does this by itself when the index is gone or broken.

    Example: rover reindex
    """
    store = open_store()
    store.reindex()
    count = len(store.packages())
    print_json({"packages": count}) if as_json else print(f"indexed {counted(count, 'package')}")
