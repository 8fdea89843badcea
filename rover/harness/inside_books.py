"""The same tools for calls on workbooks: `WARM` has openpyxl imported before the call's process is forked."""

from __future__ import annotations

from rover.harness.inside import tool

__all__ = ["tool"]

WARM = ("openpyxl", "rover.harness.tools.workbooks")
