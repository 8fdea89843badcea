"""Merging branches."""

from __future__ import annotations

from rover_store.merge_trees import merge_trees

__all__ = ["merge_trees"]
