"""Families of tasks: each proposes drafts from a profile, and brings two solvers that know the text alone."""
