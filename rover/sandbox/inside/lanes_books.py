"""The same work, from a process that has openpyxl imported: for batches in which a call concerns a workbook."""

from __future__ import annotations

from rover.sandbox.inside.lanes import perform

__all__ = ["perform"]

WARM = ("openpyxl", "rover.harness.tools.workbooks", "rover.harness.inside_books", "rover.harness.inside")
