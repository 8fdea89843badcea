"""`rover import harbor`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rover.port.protocol import Found, Wanted


class HarborImporter:
    """Reads task folders, folders of them, datasets and archives."""

    kind = "harbor"

    def read(self, path: Path, wanted: Wanted) -> Iterable[Found]:
        raise NotImplementedError
