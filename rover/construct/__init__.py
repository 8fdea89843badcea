"""Packages from real files: profile, relations, anchors, families of tasks, calibration, admission."""
