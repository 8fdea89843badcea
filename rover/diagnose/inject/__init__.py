"""Defects made on purpose: known kinds, each in a seeded variety, so that diagnosis and repair can be measured.

An injector is a pure function of a package's files and a seed. What it did is told to whoever asked, and stands
nowhere in the package: probes and proposers see a package that somebody edited, no more.
"""
