"""The state that a mutation reads, and what it says it changes."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from rover.verify.checklib.read import raw

#: path -> new bytes, or None where the file goes
Change = dict[str, bytes | None]


class Nothing(Exception):
    """The rule can change nothing in this state: no such file, row, column or figure."""


class State:
    """Files below a folder, and what they were at the start."""

    def __init__(self, root: Path = Path("end"), start: Path | None = Path("start")) -> None:
        self._root = root
        self.start = State(start, None) if start is not None else None

    def at(self, path: str) -> Path:
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or ".." in parts:
            raise Nothing(f"{path!r} is no path inside the state")
        return self._root / path

    def read(self, path: str) -> bytes:
        if not self.at(path).is_file():
            raise Nothing(f"{path} does not exist")
        return raw(self.at(path))

    def exists(self, path: str) -> bool:
        return self.at(path).exists()
