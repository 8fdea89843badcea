"""Join and summarise into a new table."""

from rover.construct.families.built_in import BuiltIn

FAMILY = BuiltIn("summarise", version="1")
