"""Suites of broken packages that measure diagnosis and repair: how they are made, what their manifest knows."""
