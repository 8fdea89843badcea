"""Sizes for people: three digits and a unit of 1000."""

from __future__ import annotations


def size(count: float) -> str:
    """`12.3 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 999.5:
            return f"{count:.0f} B" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
