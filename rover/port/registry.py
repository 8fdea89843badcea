"""Importers and exporters by name: the built-in ones, and those of other distributions (`rover.importers`,
`rover.exporters`). Only the named one is loaded. An entry point names an instance, or a class without arguments."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points

from rover.port.protocol import Exporter, Importer
from rover_store.errors import UsageError

IMPORTERS: dict[str, str] = {
    "harbor": "rover.port.harbor.importer:HarborImporter",
    "atif": "rover.port.atif.importer:AtifImporter",
}
EXPORTERS: dict[str, str] = {
    "harbor": "rover.port.harbor.exporter:HarborExporter",
    "atif": "rover.port.atif.exporter:AtifExporter",
    "hf": "rover.port.hf.exporter:HfExporter",
    "verifiers": "rover.port.verifiers.exporter:VerifiersExporter",
}
IN, OUT = "rover.importers", "rover.exporters"


def importer(kind: str) -> Importer:
    """The importer of that name. UsageError lists the known ones."""
    found = _load(kind, IMPORTERS, IN, "importer")
    if not isinstance(found, Importer):
        raise UsageError(f"the entry point {IN}:{kind} gives no importer")
    return found


def exporter(kind: str) -> Exporter:
    """The exporter of that name. UsageError lists the known ones."""
    found = _load(kind, EXPORTERS, OUT, "exporter")
    if not isinstance(found, Exporter):
        raise UsageError(f"the entry point {OUT}:{kind} gives no exporter")
    return found


def kinds(group: str) -> tuple[str, ...]:
    """All names of a group: built-in ones first."""
    own = IMPORTERS if group == IN else EXPORTERS
    return (*own, *sorted({p.name for p in entry_points(group=group)} - set(own)))


def _load(kind: str, own: dict[str, str], group: str, noun: str) -> object:
    if kind in own:
        module, _, name = own[kind].partition(":")
        made = getattr(importlib.import_module(module), name)
    else:
        points = list(entry_points(group=group, name=kind))
        if not points:
            raise UsageError(f"no {noun} is called {kind!r}", hint=f"known: {', '.join(kinds(group))}")
        made = points[0].load()
    return made() if isinstance(made, type) else made
