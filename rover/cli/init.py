"""`rover init`: make a store."""

from __future__ import annotations

from pathlib import Path

import typer

from rover.cli.output import Json, now, print_json, say


def command(
    folder: Path = typer.Argument(Path("."), help="Project folder; made if it is not there."),
    as_json: bool = Json,
) -> None:
    """Make a store in a folder.

    Example: rover init work
    """
    from rover_store.store import Store

    store = Store.init(folder, clock=now)
    if as_json:
        print_json({"store": str(store.folder)})
    else:
        say(f"made {store.folder}")
        print("next: `rover build --from FOLDER --count 10 --seed 1`")
        print("  or: `rover new DIR`, to write one by hand")
