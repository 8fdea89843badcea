"""What a check found, and what was mended."""

from __future__ import annotations

from typing import Literal, NamedTuple

Severity = Literal["error", "warning", "info"]


class Problem(NamedTuple):
    """One thing that is wrong.

    `where` is a repository, pack, ref, package or the index. `kind` is a stable id: git's own (`git help fsck-msgids`)
    for what git knows, rover's for the rest. `remedy` is what to do about it, empty where nothing is known.
    An info is no fault: it is told on request.
    """

    where: str
    what: str
    severity: str = "error"
    kind: str = "damaged"
    remedy: str = ""


class Repaired(NamedTuple):
    """One thing that was mended, and how."""

    where: str
    what: str
