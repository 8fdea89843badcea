"""Benchmarks as commands: a table, and JSON with ratios measured side by side."""
