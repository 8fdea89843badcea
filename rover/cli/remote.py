"""`rover remote`: names of the places that a store is shared with."""

from __future__ import annotations

import typer

from rover.cli.output import Json, print_json, say, table
from rover.cli.stores import command_line, open_store

app = typer.Typer(
    help="Name the places that this store is shared with.\n\nExample: rover remote list",
    rich_markup_mode=None, add_completion=False,
)  # fmt: skip


@app.callback()
def group() -> None:
    """Name the places that this store is shared with.

    Example: rover remote list
    """


@app.command("list")
def list_remotes(as_json: bool = Json) -> None:
    """List the remotes. They are git's own, in store.git/config.

    Example: rover remote list
    """
    from rover_store.transfer.remotes import remotes, without_secrets

    found = [r._replace(url=without_secrets(r.url)) for r in remotes(open_store()).values()]
    if as_json:
        print_json([r._asdict() for r in found])
        return
    print(table([(r.name, ", ".join(r.packages) or "all", r.url) for r in found], ("remote", "packages", "place")))


@app.command("add")
def add_remote(
    name: str = typer.Argument(..., help="Name to give it."),
    url: str = typer.Argument(..., metavar="URL|FOLDER", help="A project folder with a store, or a git URL."),
    as_json: bool = Json,
) -> None:
    """Remember a place by a name.

    Example: rover remote add origin ../copy
    """
    from rover_store.transfer.remotes import add, without_secrets

    done = add(open_store(), name, url)
    shown = without_secrets(done.url)
    print_json({"name": done.name, "url": shown}) if as_json else say(f"{done.name} is {shown}")


@app.command("remove")
def remove_remote(name: str = typer.Argument(..., help="Remote to forget."), as_json: bool = Json) -> None:
    """Forget a remote, and the branches that were fetched from it.

    Example: rover remote remove origin
    """
    from rover_store.transfer.remotes import remove, without_secrets

    done = remove(open_store(), name, command=command_line())
    shown = without_secrets(done.url)
    print_json({"name": done.name, "url": shown}) if as_json else say(f"forgot {done.name} ({shown})")
