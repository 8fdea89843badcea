"""`rover graph`: what a package, component or resource depends on, and what depends on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from rover.cli.output import Json, Rev, note, print_json
from rover.cli.stores import open_store
from rover_store.errors import UsageError

if TYPE_CHECKING:
    from rover_store.explain import Part
    from rover_store.store import Store

#: children of one node, and rows of a table, that the text shows
SHOWN = 10


def command(
    what: str = typer.Argument("", metavar="[NAME]", help="Package, NAME/component, or resource (files/orders)."),
    rev: str = Rev,
    up: bool = typer.Option(False, "--up", help="Only what it was built against."),
    down: bool = typer.Option(False, "--down", help="Only what was built against it."),
    both: bool = typer.Option(False, "--both", help="Either direction; so without --up and --down."),
    depth: int = typer.Option(0, "--depth", min=0, help="At most so many steps; 0 for all."),
    stale: bool = typer.Option(False, "--stale", help="Only edges whose target moved on; all of them without NAME."),
    why: str = typer.Option("", "--explain", metavar="OTHER", help="Why one is affected by the other: shortest paths."),
    limit: int = typer.Option(-1, "--limit", min=-1, help="At most so many; 0 for all. Text shows 10 by default."),
    dot: bool = typer.Option(False, "--dot", help="Print a graph for Graphviz."),
    as_json: bool = Json,
) -> None:
    """Show dependencies: versions, stale edges, order of rebuild. An edge goes from what was built to what it was
    built against. --explain exits with 1 where neither depends on the other.

    Example: rover graph my-task --down
    """
    if dot and as_json:
        raise UsageError("--dot and --json exclude each other")
    if both and up != down:
        up = down = True
    store = open_store()
    if why:
        _explain(store, what, why, rev, limit if limit > 0 else SHOWN, dot, as_json)
        return
    found = _part(store, what, rev, not down or up, not up or down, depth or None, stale)
    from rover.cli import graph_render as render
    from rover_store.explain import narrow

    if as_json:
        print_json(render.to_json(narrow(found, limit)[0] if limit > 0 else found))
    elif dot:
        print(render.to_dot(*narrow(found, limit)) if limit > 0 else render.to_dot(found))
    else:
        print(render.to_text(found, what, SHOWN if limit < 0 else limit or None, stale=stale, up=not down or up,
                             down=not up or down))  # fmt: skip


def _part(store: Store, what: str, rev: str, up: bool, down: bool, depth: int | None, stale: bool) -> Part:
    from rover_store.explain import only_stale, part, stale_part

    if not what:
        if not stale:
            raise UsageError("name a package, component or resource", hint="`rover graph --stale` takes none")
        return stale_part(store, rev)
    found = part(store, [what], rev, dependencies=up, dependents=down, depth=depth)
    return only_stale(found) if stale else found


def _explain(store: Store, what: str, why: str, rev: str, limit: int, dot: bool, as_json: bool) -> None:
    from rover.cli import graph_render as render
    from rover_store.explain import explain, part_of

    if not what:
        raise UsageError("--explain needs a NAME to explain")
    one, other = what, why
    paths = explain(store, one, other, rev, limit)
    if not paths:
        one, other = why, what
        paths = explain(store, one, other, rev, limit)
    if as_json:
        print_json({"of": one if paths else what, "by": other if paths else why,
                    "paths": [[render.link_json(link) for link in path] for path in paths]})  # fmt: skip
    elif dot:
        print(render.to_dot(part_of(store, paths, rev)))
    elif paths:
        print(render.paths_text(one, other, paths))
    if not paths:
        note(f"neither of {what} and {why} depends on the other")
        raise typer.Exit(1)
