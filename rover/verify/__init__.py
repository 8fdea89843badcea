"""Grading: criteria as checks in a fresh sandbox, the verdict, mutation rules."""
