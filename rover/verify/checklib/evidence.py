"""What a check may look at: what its criterion declares of end state, start state, anchors and final message.

A criterion of layer `state`, or one without paths, has both states whole; another one has the files under its
`paths`. Anchors are those that it names (of layer `state`: all), and the message is there where its evidence is
`message`. The rest is absent.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from rover.verify.checklib.bounds import Unreadable
from rover.verify.checklib.read import Table, name_of


@dataclass(frozen=True)
class Evidence:
    """The evidence of one criterion. States lie in the folders end/ and start/ below `root`."""

    root: Path = Path()
    message: str = ""
    paths: tuple[str, ...] = ()
    criterion: str = ""
    #: anchors by id: {"columns": [...], "rows": [[...]]}
    anchors: Mapping[str, Any] = field(default_factory=dict)
    #: files of the end state that are no regular files, with the reason
    irregular: Mapping[str, str] = field(default_factory=dict)

    def end(self, path: str) -> Path:
        """A file of the end state. Unreadable where the policy left something else than a file there."""
        safe = _inside(path)
        for known, reason in self.irregular.items():
            if safe == known or safe.startswith(known + "/"):
                raise Unreadable(f"{path}: {reason}")
        return self.root / "end" / safe

    def start(self, path: str) -> Path:
        return self.root / "start" / _inside(path)

    def files(self) -> tuple[str, ...]:
        """Paths of the end state, irregular ones included."""
        return tuple(sorted({*_walk(self.root / "end"), *self.irregular}))

    def start_files(self) -> tuple[str, ...]:
        return _walk(self.root / "start")

    def anchor(self, name: str) -> Table:
        """The expected value of an anchor. KeyError, a fault of the verifier, where its criterion names none such."""
        if name not in self.anchors:
            raise KeyError(f"{name}: the criterion {self.criterion} names no such anchor")
        value = self.anchors[name]
        return Table(tuple(value["columns"]), tuple(tuple(row) for row in value["rows"]), name)

    def value(self, name: str) -> Any:
        """The only cell of an anchor."""
        return self.anchor(name).rows[0][0]


def _inside(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts:
        raise ValueError(f"{path!r} is no path inside the workspace")
    return "/".join(parts)


def _walk(root: Path) -> tuple[str, ...]:
    out = []
    for folder, _, names in os.walk(root):
        out += [os.path.relpath(os.path.join(folder, n), root).replace(os.sep, "/") for n in names]
    return tuple(sorted(out))


__all__ = ["Evidence", "name_of"]
