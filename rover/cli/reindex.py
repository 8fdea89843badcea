"""`rover reindex`: build the index again, or bring a second database up to date."""

from __future__ import annotations

import typer

from rover.cli.output import Json, counted, note, print_json, say
from rover.cli.stores import IN_MEMORY, open_store


def command(
    to: str = typer.Option("", "--to", metavar="URL", help="Bring this database up to date instead."),
    as_json: bool = Json,
) -> None:
    """Build the index again from git alone. Any command does this by itself when the index is gone or broken.

    With --to, or `database` in config.toml, a second database (PostgreSQL, or any of SQLAlchemy) gets what is new.

    Example: rover reindex
    """
    store = open_store()
    said: dict[str, object] = {}
    if not to:
        store.reindex()
        said["packages"] = len(store.packages())
    if store.index.in_memory:
        note(IN_MEMORY)
    if to or store.config.database:
        from rover_store.index.mirror import sync

        found = sync(store, to or store.config.database)
        said |= {"database": found.database, "rows": found.rows, "fresh": found.fresh}
    if as_json:
        print_json(said)
        return
    if "packages" in said:
        say(f"indexed {counted(int(str(said['packages'])), 'package')}")
    if "database" in said:
        say(f"{found.database} shows {counted(found.rows['history'], 'commit')}")
