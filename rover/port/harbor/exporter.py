"""`rover export harbor`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rover.port.protocol import Export, Exported


class HarborExporter:
    """Writes task folders and a dataset."""

    kind = "harbor"

    def write(self, job: Export, folder: Path) -> Iterable[Exported]:
        raise NotImplementedError
