"""Licences as other tools name them. A package names its own in words; known ones have an identifier."""

from __future__ import annotations

from collections.abc import Iterable

#: identifiers of SPDX that are in use for data
SPDX = (
    "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC-BY-4.0", "CC-BY-NC-4.0", "CC-BY-SA-3.0", "CC-BY-SA-4.0",
    "CC0-1.0", "GPL-2.0-only", "GPL-3.0-only", "ISC", "MIT", "MPL-2.0", "ODbL-1.0", "PDDL-1.0", "Unlicense", "Zlib",
)  # fmt: skip
_BY_NAME = {name.lower(): name for name in SPDX}


def identifier(name: str) -> str:
    """The SPDX identifier of a licence that is named so; empty where there is none."""
    return _BY_NAME.get(name.strip().lower(), "")


def named(licenses: Iterable[str]) -> list[str]:
    """The different names, sorted, without the empty one."""
    return sorted({name.strip() for name in licenses} - {""})
