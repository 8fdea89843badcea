"""A call that needs pandas, for probes and benchmarks of the warm process that has it imported."""

from __future__ import annotations

WARM = ("pandas",)


def total(path: str) -> int:
    """Sum of the column `n` of a csv file."""
    import pandas as pd

    return int(pd.read_csv(path)["n"].sum())
