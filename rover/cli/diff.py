"""`rover diff`: what differs between two revisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from rover.cli.output import Json, note, plain, print_json
from rover.cli.stores import open_store
from rover_store.errors import UsageError

if TYPE_CHECKING:
    from rover_store.diff import Diff, FileDiff
    from rover_store.store import Store

MARK = {"added": "A", "removed": "D", "changed": "M"}


def command(
    old: str = typer.Argument("HEAD~1", help="Revision to compare from."),
    new: str = typer.Argument("HEAD", help="Revision to compare with."),
    package: str = typer.Option("*", "--package", "-p", metavar="GLOB", help="Only these packages."),
    name_only: bool = typer.Option(False, "--name-only", help="Names of what differs, no text."),
    stat: bool = typer.Option(False, "--stat", help="Packages and components, no files."),
    as_json: bool = Json,
) -> None:
    """Compare two revisions by package, component and file. Text files show their lines.

    Example: rover diff HEAD~1 HEAD --stat
    """
    store = open_store()
    found = store.diff(old, new, package)
    if package != "*" and not (found.packages or store.packages(old, package) or store.packages(new, package)):
        raise UsageError(f"no package of {old} or {new} matches {package!r}", hint="`rover list` shows all names")
    if as_json:
        print_json(_plain(found))
        return
    if not (found.packages or found.resources or found.other):
        note(f"no difference between {found.old[:12]} and {found.new[:12]}" + _only(package))
        return
    for p in found.packages:
        print(f"{MARK[p.status]} {p.name}")
        for c in p.components:
            print(f"  {MARK[c.status]} {c.name:<9} {_span(c.old, c.new)}".rstrip())
            if stat:
                continue
            for item in c.items:
                print(f"    {MARK[item.status]} {item.kind} {item.id}")
            _files(store, c.files, name_only or p.status != "changed")
    for r in found.resources:
        print(f"{MARK[r.status]} resources/{r.name}")
        if not stat:
            _files(store, r.files, name_only or r.status != "changed")
    if not stat:
        _files(store, found.other, name_only)


def _only(package: str) -> str:
    return "" if package == "*" else f" in {package}"


def _span(old: str | None, new: str | None) -> str:
    return f"{old[:7] if old else '-'} -> {new[:7] if new else '-'}" if old or new else ""


def _files(store: Store, files: tuple[FileDiff, ...], names_only: bool) -> None:
    for f in files:
        print(f"    {MARK[f.status]} {_safe(f.path)}" + (f"  mode {f.mode}" if f.mode else ""))
        if not names_only:
            for line in _lines(store, f):
                print(f"      {line}")


def _lines(store: Store, f: FileDiff, limit: int = 40) -> list[str]:
    """Changed lines of a text file, without context; sizes for anything else."""
    import difflib

    from rover.ops.show import text_of

    sides = [store.objects.read(i) if i else b"" for i in (f.old, f.new)]
    if max(map(len, sides)) > 200_000:
        return [f"{len(sides[0])} -> {len(sides[1])} bytes"]
    texts = [text_of(s) for s in sides]
    if texts[0] is None or texts[1] is None:
        return [f"{len(sides[0])} -> {len(sides[1])} bytes, not text"]
    lines = list(difflib.unified_diff(texts[0].splitlines(), texts[1].splitlines(), lineterm="", n=0))[2:]
    shown = [_safe(line) for line in lines if not line.startswith("@@")]
    return shown[:limit] + ([f"... {len(shown) - limit} more lines"] if len(shown) > limit else [])


def _safe(text: str) -> str:
    return plain(text, keep="\t")


def _plain(found: Diff) -> dict[str, object]:
    return {
        "old": found.old,
        "new": found.new,
        "packages": [
            {**p._asdict(), "components": [
                {**c._asdict(), "files": [f._asdict() for f in c.files], "items": [i._asdict() for i in c.items]}
                for c in p.components
            ]}
            for p in found.packages
        ],
        "resources": [{**r._asdict(), "files": [f._asdict() for f in r.files]} for r in found.resources],
        "other": [f._asdict() for f in found.other],
    }  # fmt: skip
