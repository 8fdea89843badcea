"""Packages as a taskset for `verifiers`: a Python package with start states, instructions and standalone verifiers."""
