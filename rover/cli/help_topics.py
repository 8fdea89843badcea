"""`rover help [TOPIC]`: the pages below rover/docs, and the help of a command by its name."""

from __future__ import annotations

import re
from importlib.resources import files

import typer

from rover.cli.commands import COMMANDS
from rover.cli.output import Json, print_json, width
from rover_store.errors import UsageError

TOPICS = (
    "package", "check", "store", "revisions", "care", "diff", "merge", "sharding", "sql", "fcr", "evolve", "suites",
    "natural", "policies", "agents", "training", "data", "credit", "chores", "settings", "sandbox", "mcp", "library",
    "harbor", "exports", "releases", "glossary",
)  # fmt: skip


def command(
    topic: str = typer.Argument("", help="A topic or a command; empty for the list."),
    as_json: bool = Json,
) -> None:
    """Read about a topic; without one, list them.

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
        print_json({"topic": topic, "text": page(topic)}) if as_json else print(laid_out(page(topic), width()))
    elif topic in COMMANDS:
        from rover.cli.main import run

        raise typer.Exit(run([topic, "--help"]))
    else:
        import difflib

        near = difflib.get_close_matches(topic, [*TOPICS, *COMMANDS], 1)
        raise UsageError(f"no such topic: {topic}", hint="".join(f"{n}? " for n in near) + "`rover help` lists all")


def page(topic: str) -> str:
    """The text of one topic."""
    return (files("rover") / "docs" / f"{topic}.md").read_text(encoding="utf-8")


#: an entry of the glossary
_ENTRY = r"\*\*[^*]+\*\* — "
#: a line that begins a paragraph of its own: an item of a list, an entry; what merely begins in bold is none
_ITEM = re.compile(rf" *(- |\d+\. |{_ENTRY})")
_BOLD = re.compile(r"\*\*([^*]+)\*\*")


def laid_out(text: str, columns: int) -> str:
    """A page in lines that fit, without the marks of bold. Headings, code between fences and what is indented by four
    keep their lines."""
    import textwrap

    out: list[str] = []
    paragraph: list[str] = []

    def close() -> None:
        if paragraph:
            first = paragraph[0]
            item = re.match(r" *(- |\d+\. )?", first)
            rest = " " * (len(item[0]) if item else 0)
            rest = rest or ("  " if re.match(_ENTRY, first) else "")
            said = _BOLD.sub(r"\1", " ".join([first.rstrip(), *(line.strip() for line in paragraph[1:])]))
            out.append(textwrap.fill(said, columns, subsequent_indent=rest,
                                     break_long_words=False, break_on_hyphens=False))  # fmt: skip
            paragraph.clear()

    fenced = False
    for line in text.splitlines():
        if line.startswith("```"):
            close()
            fenced = not fenced
            continue
        if fenced:
            out.append(f"    {line}".rstrip())
            continue
        item = re.match(r" *(- |\d+\. )", paragraph[0]) if paragraph else None
        goes_on = item is not None and len(line) - len(line.lstrip()) == len(item[0])
        if not line.strip() or (line.startswith(("#", "    ")) and not goes_on):
            close()
            out += _columns(line, columns)
        else:
            if _ITEM.match(line):
                close()
            paragraph.append(line)
    close()
    return "\n".join(out)


#: what stands in the first column of a list, and what is said of it
_TWO = re.compile(r"( {4,}\S.* {2,})(\S.*)")


def _columns(line: str, columns: int) -> list[str]:
    """A line of a list in two columns; a second one that is too long goes on below itself."""
    import textwrap

    parts = _TWO.fullmatch(line)
    if len(line) <= columns or parts is None or columns - len(parts[1]) < 24:
        return [line]
    return textwrap.wrap(parts[2], columns, initial_indent=parts[1], subsequent_indent=" " * len(parts[1]),
                         break_long_words=False, break_on_hyphens=False)  # fmt: skip
