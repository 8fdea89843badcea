"""`rover help [TOPIC]`: the pages below rover/docs, and the help of a command by its name."""

from __future__ import annotations

from importlib.resources import files

import typer

from rover.cli.commands import COMMANDS
from rover.cli.output import Json, print_json
from rover_store.errors import UsageError

TOPICS = ("package", "store", "fcr", "policies", "sandbox", "glossary")


def command(
    topic: str = typer.Argument("", help="A topic or a command; empty for the list."),
    as_json: bool = Json,
) -> None:
    """Read about a topic: package, store, fcr, policies, sandbox, glossary.

    Example: rover help package
    """
    if not topic:
        first = {t: page(t).splitlines()[0].lstrip("# ") for t in TOPICS}
        if as_json:
            print_json(first)
        else:
            print("\n".join(["Topics:", *(f"  {t:<10}{line}" for t, line in first.items())]))
            print("\nRead one with `rover help TOPIC`. For a command: `rover COMMAND --help`.")
    elif topic in TOPICS:
        print_json({"topic": topic, "text": page(topic)}) if as_json else print(page(topic), end="")
    elif topic in COMMANDS:
        from rover.cli.main import run

        raise typer.Exit(run([topic, "--help"]))
    else:
        raise UsageError(f"no such topic: {topic}", hint="topics: " + ", ".join(TOPICS))


def page(topic: str) -> str:
    """The text of one topic."""
    return (files("rover") / "docs" / f"{topic}.md").read_text(encoding="utf-8")
