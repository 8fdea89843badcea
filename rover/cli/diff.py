"""`rover diff`: what differs between two revisions, packages, files, or a folder and the store."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import typer

from rover.cli.columns import Colours, shown
from rover.cli.output import Json, Sandbox, counted, note, table, width
from rover.cli.stores import open_store
from rover_store.errors import UsageError

if TYPE_CHECKING:
    from rover.cli.diff_look import Look
    from rover.ops.diff import Comparison
    from rover.ops.extract.box import Extractor
    from rover_store.diffs.content import Content, Counts
    from rover_store.diffs.diff import FileDiff

MARK = {"added": "A", "removed": "D", "changed": "M"}
STYLE = {"added": "new", "removed": "old", "changed": "head"}
WIDE = 120
_WORDS = "A..B, A B or a package folder, then paths that narrow it; HEAD~1 HEAD if empty."


def command(
    words: list[str] = typer.Argument(None, metavar="REV|DIR|PATH", help=_WORDS),
    package: str = typer.Option("*", "--package", "-p", metavar="GLOB", help="Only these packages."),
    component: list[str] = typer.Option([], "--component", "-c", metavar="NAME", help="Only this component."),
    stat: bool = typer.Option(False, "--stat", help="Count by component."),
    name_only: bool = typer.Option(False, "--name-only", help="Paths alone, one a line."),
    side_by_side: bool = typer.Option(False, "--side-by-side", "-y", help="Text in two columns, 120 wide or more."),
    word: bool = typer.Option(False, "--word", help="Changed lines as one, [-old-]{+new+}."),
    unified: int = typer.Option(3, "--unified", "-U", min=0, max=100_000, metavar="N", help="Lines of context."),
    full: bool = typer.Option(False, "--full", help="All lines, also of packages that came or went."),
    columns: int = typer.Option(0, "--width", min=0, max=1000, help="Columns to fill, instead of the terminal's."),
    exit_code: bool = typer.Option(False, "--exit-code", help="Exit 1 where something differs."),
    sandbox: str = Sandbox,
    as_json: bool = Json,
) -> None:
    """Compare by field, cell and line: two revisions, or a package folder with the store.

    Read on with `rover help diff`.

    Example: rover diff HEAD~1 HEAD --stat
    """
    from rover.ops.diff_words import compare
    from rover.ops.extract.box import Extractor

    store = open_store()
    comparison = compare(store, words or [], package, component)
    with Extractor(sandbox or None) as extract:
        view = _View(comparison, extract, unified, _look(columns, full, side_by_side, word))
        if as_json:
            differs = _json(view, stat, name_only)
        elif name_only:
            differs = _names(view)
        elif stat:
            differs = _stat(view)
        else:
            differs = _text(view)
        if extract.trouble:
            note(f"documents and images were compared by their bytes: {extract.trouble}")
    if comparison.skipped:
        note("left out: " + ", ".join(comparison.skipped[:5]))
    if not differs:
        _nothing(view, package)
    if differs and exit_code:
        raise typer.Exit(1)


def _look(columns: int, full: bool, side_by_side: bool, words: bool) -> Look:
    from rover.cli.diff_look import Look

    wrapped = bool(columns) or sys.stdout.isatty()
    columns = columns or width()
    if side_by_side and columns < WIDE:
        note(f"side by side needs {WIDE} columns; --width sets them")
    return Look(max(columns, 40), 0 if full else 60, side_by_side and columns >= WIDE, words, wrapped, Colours())


class _View:
    """A comparison with what rendering it needs."""

    def __init__(self, comparison: Comparison, extract: Extractor, context: int, look: Look) -> None:
        self.comparison = comparison
        self.extract = extract
        self.context = context
        self.look = look

    def content(self, place: str, file: FileDiff) -> Content:
        return self.comparison.content(place, file, self.context, self.extract)

    def paint(self, text: str, style: str) -> str:
        return self.look.paint(text, style)

    @property
    def whole(self) -> bool:
        """Whether to show the content of packages that came or went: asked for, or few."""
        return self.look.limit == 0 or bool(self.comparison.narrow.paths)


def _nothing(view: _View, package: str) -> None:
    comparison = view.comparison
    old, new = comparison.old, comparison.new
    if package != "*" and old.kind == new.kind == "commit":
        from rover_store.layout import package_trees

        if not any(package_trees(comparison.objects, side.tree, package) for side in (old, new)):
            names = " or ".join(dict.fromkeys((old.word, new.word)))
            raise UsageError(f"no package of {names} matches {package!r}", hint="`rover list` shows all names")
    where = f" in {package}" if package != "*" else " in what was asked for" if comparison.narrow else ""
    note(f"no difference between {_called(old.word, old.id)} and {_called(new.word, new.id)}{where}")


def _called(word: str, object_hex: str) -> str:
    return object_hex[:12] if word in ("nothing", object_hex) else f"{word} ({object_hex[:12]})"


# --- text ------------------------------------------------------------------------------------------------
def _text(view: _View) -> bool:
    out = sys.stdout
    differs = False
    for line in _lines(view):
        differs = True
        out.write(line + "\n")
    return differs


def _lines(view: _View) -> Iterator[str]:
    from rover_store.diffs.walk import moves

    for p in view.comparison.packages():
        yield view.paint(f"{MARK[p.status]} {shown(p.name)}", STYLE[p.status])
        moved = moves(p)
        for c in p.components:
            yield f"  {c.name:<9} {_span(c.old, c.new)}".rstrip()
            inside = "" if c.name == "package" else f"{c.name}/"
            names = p.status != "changed" and not view.whole
            yield from _files(view, ((inside + f.path, f) for f in c.files), names, moved)
    for r in view.comparison.resources():
        yield view.paint(f"{MARK[r.status]} resources/{shown(r.name)}", STYLE[r.status])
        yield from _files(view, ((f.path, f) for f in r.files), r.status != "changed" and not view.whole)
    yield from _files(view, ((f.path, f) for f in view.comparison.others()), False)


def _span(old: str | None, new: str | None) -> str:
    return f"{old[:7] if old else '-'} -> {new[:7] if new else '-'}" if old or new else ""


def _files(
    view: _View, files: Iterable[tuple[str, FileDiff]], names: bool, moved: Mapping[str, str] | None = None
) -> Iterator[str]:
    """`names`: without content, as for a package that came or went as a whole, and for a file that only moved."""
    from rover.cli import diff_text

    for place, f in files:
        head = view.paint(f"    {MARK[f.status]} {shown(f.path)}", STYLE[f.status])
        other = (moved or {}).get(place)
        if names or other:
            way = "from" if f.status == "added" else "to"
            yield head + (view.paint(f"  moved {way} {shown(other)}", "dim") if other else "")
            continue
        found = view.content(place, f)
        said = diff_text.summary(found)
        yield head + (f"  {view.paint(said, 'dim')}" if said else "")
        yield from diff_text.lines(found, view.look, " " * 6)


# --- names and counts ------------------------------------------------------------------------------------
def _names(view: _View) -> bool:
    differs = False
    for path, _, _ in _all(view):
        print(shown(path))
        differs = True
    return differs


def _all(view: _View) -> Iterator[tuple[str, tuple[str, str], tuple[str, FileDiff]]]:
    """(whole path, (owner, component), (place, file)) of every file."""
    for p in view.comparison.packages():
        name = p.name.rpartition(" -> ")[2]
        for c in p.components:
            inside = "" if c.name == "package" else f"{c.name}/"
            for f in c.files:
                yield f"{name}/{inside}{f.path}", (p.name, c.name), (inside + f.path, f)
    for r in view.comparison.resources():
        for f in r.files:
            yield f"resources/{r.name}/{f.path}", (f"resources/{r.name}", ""), (f.path, f)
    for f in view.comparison.others():
        yield f.path, ("", ""), (f.path, f)


def _counted(view: _View) -> dict[tuple[str, str], Counts]:
    from rover_store.diffs.content import Counts

    out: dict[tuple[str, str], Counts] = {}
    for _, key, (place, f) in _all(view):
        out[key] = out.get(key, Counts()).plus(view.content(place, f).counts._replace(files=1))
    return out


def _stat(view: _View) -> bool:
    from rover.cli import diff_text
    from rover_store.diffs.content import Counts

    found = _counted(view)
    if not found:
        return False
    total = Counts()
    for counts in found.values():
        total = total.plus(counts)
    rows: list[list[object]] = []
    before = ""
    for (owner, component), counts in found.items():
        rows.append(["" if owner == before else owner, component, counts.files, diff_text.counted_parts(counts)])
        before = owner
    packages = len({owner for owner, component in found if component})
    rows.append([f"in all {counted(packages, 'package')}", "", total.files, diff_text.counted_parts(total)])
    print(table(rows, ("what", "component", "files", "differences"), right=(2,)))
    return True


# --- JSON ------------------------------------------------------------------------------------------------
def _json(view: _View, stat: bool, names: bool) -> bool:
    """One document, written as it is found: a package a line, so that memory stays that of one."""
    from rover_store.diffs import plain
    from rover_store.diffs.content import Counts

    totals = Counts()

    def read(place: str, file: FileDiff) -> Content | None:
        nonlocal totals
        if names:
            totals = totals.plus(Counts(files=1))
            return None
        found = view.content(place, file)
        totals = totals.plus(found.counts._replace(files=1))
        return found._replace(parts=(), fields=(), tables=(), members=()) if stat else found

    comparison = view.comparison
    print(f'{{"schema_version": 1, "old": {json.dumps(comparison.old.id)}, "new": {json.dumps(comparison.new.id)},')
    _list("packages", (plain.package(p, read) for p in comparison.packages()))
    _list("resources", (plain.resource(r, read) for r in comparison.resources()))
    _list("other", (plain.file(f, read(f.path, f)) for f in comparison.others()))
    print(f' "totals": {json.dumps(plain.counts(totals))}}}')
    return bool(totals.files)


def _list(name: str, rows: Iterable[object]) -> None:
    sys.stdout.write(f' "{name}": [')
    mark = "\n  "
    for row in rows:
        sys.stdout.write(mark + json.dumps(row, ensure_ascii=False))
        mark = ",\n  "
    sys.stdout.write("],\n")
