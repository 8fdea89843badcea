"""`rover stats`: what the store holds and what takes the space."""

from __future__ import annotations

from typing import Any

import typer

from rover.cli.output import Json, counted, print_json, progress, table, wrapped
from rover.cli.sizes import size
from rover.cli.stores import open_store

_ONE = {"families": "family"}


def command(
    biggest: int = typer.Option(10, "--biggest", min=0, max=1000, help="How many of the biggest files to list."),
    as_json: bool = Json,
) -> None:
    """Say what the store holds and what takes the space: objects by kind, the biggest files, evidence, the index.

    Example: rover stats
    """
    from rover.ops.care import measure

    with progress("measuring") as bar:
        found = measure(open_store(), biggest, lambda what, done, total: bar(done, total, what))
    if as_json:
        print_json(_plain({**found._asdict(), "sharing": round(found.sharing, 4)}))
        return
    counts = [f"{n} {_ONE.get(name, name[:-1]) if n == 1 else name}" for name, n in found.counts.items()]
    print(wrapped(", ".join(counts)))
    print()
    rows = [(k.repository, f"{k.kind}s", k.objects, size(k.stored)) for k in found.kinds]
    lost = [r for r in found.repositories if r.unreachable]
    rows += [(r.name, "unreachable", r.unreachable, size(r.unreachable_size)) for r in lost]
    print(table(rows, ("repository", "what", "objects", "stored"), right=(2, 3)))
    print()
    for part in found.repositories:
        print(f"{part.name}: {counted(part.packs, 'pack')}, {part.loose} loose, {counted(part.refs, 'ref')}, "
              f"{size(part.size)}")  # fmt: skip
    print(f"index.db: {size(found.index_size)}")
    once = f"stored once each {size(found.distinct)} (sharing {found.sharing:.2f})"
    print(wrapped(f"in all: {size(found.total)}; the head's files are {size(found.logical)}, {once}", "  "))
    if found.biggest:
        print()
        big = [(size(b.stored), size(b.size), b.id[:12], b.path or "(evidence or history)") for b in found.biggest]
        print(table(big, ("stored", "size", "blob", "used as"), right=(0, 1)))


def _plain(value: Any) -> Any:
    """Named tuples as objects."""
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value
