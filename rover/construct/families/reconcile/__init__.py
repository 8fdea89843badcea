"""Reconcile detail rows with recorded totals and write the findings."""

from rover.construct.families.built_in import BuiltIn

FAMILY = BuiltIn("reconcile", version="1")
